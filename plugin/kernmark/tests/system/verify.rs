// SPDX-License-Identifier: GPL-2.0-or-later
//! A finished bundle in the hands of somebody else: whole, and with one thing changed.

use crate::experiment::null;
use kernmark::bundle::{Bundle, Manifest, Verified, verify};
use kernmark_validation::report::Templates;
use std::path::Path;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("writable");
    for entry in std::fs::read_dir(from).expect("readable") {
        let entry = entry.expect("entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("kind").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Verifies a copy of a good bundle after `change`; with `cover_up` the manifest is made to fit.
fn verified(change: impl FnOnce(&Path), cover_up: bool) -> Verified {
    let place = tempfile::tempdir().expect("temporary directory");
    copy(&null().place.path().join("bundle"), place.path());
    change(place.path());
    if cover_up {
        Manifest::of(place.path()).and_then(|m| m.write(place.path())).expect("writable");
    }
    verify(&Bundle::open(place.path()), &Templates::default()).expect("readable")
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).expect("text");
    assert!(text.contains(from), "{} has no {from}", path.display());
    std::fs::write(path, text.replacen(from, to, 1)).expect("writable");
}

#[test]
fn an_untouched_bundle_gives_every_number_again() {
    let found = verified(|_| {}, false);
    assert_eq!(found.problems, [""; 0]);
    let numbers =
        found.holds.iter().find(|line| line.ends_with("come out of the logs again")).expect("counted");
    let count: usize = numbers.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(count > 500, "{numbers}");
}

#[test]
fn one_changed_byte_is_named_whatever_file_it_is_in() {
    for file in ["points/1/samples.jsonl", "points/3/console.log", "patches/0001.patch", "report.txt"] {
        let found = verified(
            |bundle| {
                let mut bytes = std::fs::read(bundle.join(file)).expect("there");
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                std::fs::write(bundle.join(file), bytes).expect("writable");
            },
            false,
        );
        assert!(found.problems.iter().any(|p| p.starts_with(file)), "{file}: {:?}", found.problems);
    }
}

#[test]
fn a_forged_number_is_found_though_every_digest_fits() {
    let mut was = String::new();
    let found = verified(
        |bundle| {
            let text = std::fs::read_to_string(bundle.join("findings.json")).expect("text");
            let medians = text.find("\"medians\": [").expect("medians");
            let at = medians + text[medians..].find("\"median\": ").expect("one") + "\"median\": ".len();
            was = text[at..].chars().take_while(|c| *c != '\n' && *c != ',').collect();
            let forged = format!("{}12345.0{}", &text[..at], &text[at + was.len()..]);
            std::fs::write(bundle.join("findings.json"), forged).expect("writable");
        },
        true,
    );
    let expected = format!("findings.json: medians[0].median is 12345.0, the logs give {was}");
    assert!(found.problems.contains(&expected), "{:?}", found.problems);
}

#[test]
fn points_out_of_order_or_missing_are_named() {
    let swapped = verified(
        |bundle| {
            // The first build has the image of the base and was not booted.
            let at = |name: &str| bundle.join("points").join(name);
            std::fs::rename(at("1"), at("x")).expect("renamed");
            std::fs::rename(at("3"), at("1")).expect("renamed");
            std::fs::rename(at("x"), at("3")).expect("renamed");
            for (directory, from, to) in [("1", 3, 1), ("3", 1, 3)] {
                let (from, to) = (format!("\"index\": {from}"), format!("\"index\": {to}"));
                edit(&at(directory).join("point.json"), &from, &to);
            }
        },
        true,
    );
    let wanted = "points/1: the order wants build base with seed 1 there";
    assert!(swapped.problems.iter().any(|p| p == wanted), "{:?}", swapped.problems);
    let missing = verified(|bundle| std::fs::remove_dir_all(bundle.join("points/3")).expect("removed"), true);
    assert!(missing.problems.iter().any(|p| p.contains("points/3/point.json")), "{:?}", missing.problems);
}
