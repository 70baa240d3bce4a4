// SPDX-License-Identifier: GPL-2.0-or-later
//! The mail stage over whole mailboxes: the sample series, and arbitrary bytes.

use kernmark_validation::mail::{NoSeries, Series, read_series};
use proptest::prelude::*;

const EXAMPLES: &[(&str, u32, &[&str])] = &[
    ("kernfs-removal", 2, &["fs/kernfs/dir.c"]),
    ("fsnotify-connector-list", 2, &["fs/notify/mark.c", "include/linux/fsnotify_backend.h"]),
    ("shrinker-grace-period", 1, &["mm/shrinker.c"]),
    ("null", 2, &["fs/kernfs/dir.c", "fs/namei.c"]),
    ("xfs-only", 1, &["fs/xfs/xfs_inode.c"]),
];

fn example(name: &str) -> Vec<u8> {
    let path = format!("{}/../../examples/series/{name}.mbox", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("sample series")
}

fn one(bytes: &[u8]) -> Series {
    let file = read_series(bytes).expect("a series");
    assert_eq!(file.series.len(), 1);
    file.series.into_iter().next().expect("one")
}

#[test]
fn the_sample_series_are_complete() {
    for (name, total, files) in EXAMPLES {
        let series = one(&example(name));
        assert!(series.complete, "{name}: {:?} {:?}", series.problems, series.refused);
        assert_eq!(series.total, *total, "{name}");
        let mut touched: Vec<&str> =
            series.patches.iter().flat_map(|p| &p.files).map(String::as_str).collect();
        touched.sort_unstable();
        touched.dedup();
        assert_eq!(touched, *files, "{name}");
        assert!(series.cover.is_some() && series.problems.is_empty(), "{name}: {:?}", series.problems);
    }
}

#[test]
fn carriage_returns_change_nothing() {
    for (name, ..) in EXAMPLES {
        let bytes = example(name);
        let text = String::from_utf8(bytes.clone()).expect("ascii");
        assert_eq!(one(text.replace('\n', "\r\n").as_bytes()), one(&bytes), "{name}");
    }
}

#[test]
fn what_is_no_series_says_why() {
    let huge = vec![b'x'; kernmark_validation::mail::MAX_BYTES + 1];
    let many = "From a Thu Jan  1 00:00:00 1970\nSubject: x\n\nx\n\n".repeat(3000);
    for (bytes, expected) in [
        (b"".as_slice(), NoSeries::NotAMail),
        (b"#!/bin/sh\necho hello\n", NoSeries::NotAMail),
        (b"From: a@example.org\nSubject: hello\n\nText.\n", NoSeries::NoPatch),
        (&huge, NoSeries::TooLarge),
        (many.as_bytes(), NoSeries::TooMany),
    ] {
        assert_eq!(read_series(bytes), Err(expected));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        let _ = read_series(&bytes);
    }

    #[test]
    fn a_damaged_mailbox_never_panics(at in 0_usize..4000, byte in any::<u8>(), cut in 0_usize..4000) {
        let mut bytes = example("kernfs-removal");
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes.truncate(length - cut % length);
        if let Ok(file) = read_series(&bytes) {
            for series in file.series {
                prop_assert!(series.patches.iter().all(|p| !p.files.iter().any(|f| f.contains(".."))));
            }
        }
    }
}
