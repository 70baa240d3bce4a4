// SPDX-License-Identifier: GPL-2.0-or-later
//! The mail stage over whole mailboxes: the sample series, hostile mails, and arbitrary bytes.

use kernmark_validation::mail::{NoSeries, Series, read_files, read_series};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const EXAMPLES: &[(&str, u32, &[&str])] = &[
    ("kernfs-merge-locks", 1, &["fs/kernfs/dir.c", "fs/kernfs/inode.c", "fs/kernfs/kernfs-internal.h"]),
    ("kernfs-removal", 2, &["fs/kernfs/dir.c"]),
    ("fsnotify-connector-list", 2, &["fs/notify/mark.c", "include/linux/fsnotify_backend.h"]),
    ("shrinker-expedited", 2, &["mm/shrinker.c"]),
    ("shrinker-grace-period", 1, &["mm/shrinker.c"]),
    ("shrinker-workqueue", 2, &["mm/shrinker.c"]),
    ("null", 2, &["fs/kernfs/dir.c", "fs/namei.c"]),
    ("xfs-only", 1, &["fs/xfs/xfs_inode.c"]),
];

/// A whole diff of one file.
const DIFF: &str = "diff --git a/x.c b/x.c\n--- a/x.c\n+++ b/x.c\n@@ -1,3 +1,3 @@\n \tint a;\n-\tint b; \n+\tint c;\n \tint d;\n";

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn example(name: &str) -> Vec<u8> {
    std::fs::read(directory("examples/series").join(format!("{name}.mbox"))).expect("sample series")
}

fn one(bytes: &[u8]) -> Series {
    let file = read_series(bytes).expect("a series");
    assert_eq!(file.series.len(), 1, "{file:?}");
    file.series.into_iter().next().expect("one")
}

/// A patch mail with more headers and `body` as it is.
fn mail(headers: &str, body: &str) -> Series {
    one(format!("From: A <a@example.org>\nSubject: [PATCH] x\nMessage-ID: <1@x>\n{headers}\n{body}")
        .as_bytes())
}

#[test]
fn the_sample_series_are_complete() {
    let there = std::fs::read_dir(directory("examples/series")).expect("samples");
    let mailboxes =
        there.filter(|e| e.as_ref().is_ok_and(|e| e.path().extension().is_some_and(|x| x == "mbox")));
    assert_eq!(mailboxes.count(), EXAMPLES.len(), "a sample series is not in this test");
    for (name, total, files) in EXAMPLES {
        let series = one(&example(name));
        assert!(series.complete, "{name}: {:?} {:?}", series.problems, series.refused);
        assert_eq!(series.total, *total, "{name}");
        let mut touched: Vec<&str> =
            series.patches.iter().flat_map(|p| &p.files).map(String::as_str).collect();
        touched.sort_unstable();
        touched.dedup();
        assert_eq!(touched, *files, "{name}");
        assert!(
            (series.cover.is_some() || *total == 1) && series.problems.is_empty(),
            "{name}: {:?}",
            series.problems
        );
        for patch in &series.patches {
            assert!(
                patch.message.ends_with('>') && patch.message.contains("Signed-off-by: "),
                "{}",
                patch.message
            );
            assert!(
                patch.diff.starts_with("diff --git ") && !patch.diff.contains("\n-- \n"),
                "{}",
                patch.diff
            );
        }
    }
}

#[test]
fn of_the_series_that_must_fail_only_one_fails_here() {
    let mut count = 0;
    for entry in std::fs::read_dir(directory("plugin/kernmark/tests/data/series")).expect("series") {
        let path = entry.expect("an entry").path();
        let series = one(&std::fs::read(&path).expect("a mailbox"));
        let is_missing = path.ends_with("missing-patch.mbox");
        assert_eq!(series.complete, !is_missing, "{}: {:?}", path.display(), series.problems);
        assert_eq!(
            series.problems.len(),
            usize::from(is_missing),
            "{}: {:?}",
            path.display(),
            series.problems
        );
        count += 1;
    }
    assert!(count >= 14, "{count} series");
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
fn the_order_of_the_mails_changes_nothing() {
    let text = String::from_utf8(example("kernfs-removal")).expect("ascii");
    let mails: Vec<String> = text.split("From 0000").skip(1).map(|m| format!("From 0000{m}")).collect();
    for order in [[2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let shuffled: String = order.iter().map(|n| mails[*n].as_str()).collect();
        assert_eq!(one(shuffled.as_bytes()), one(text.as_bytes()));
        let files: Vec<&str> = order.iter().map(|n| mails[*n].as_str()).collect();
        assert_eq!(read_files(&files).expect("a series").series, [one(text.as_bytes())]);
    }
}

#[test]
fn ways_a_mailer_sends_a_patch_give_the_same_diff() {
    let flowed = "Content-Type: text/plain; format=flowed\n";
    let stuffed: String =
        DIFF.lines().map(|l| format!("{}{l}\n", if l.starts_with(' ') { " " } else { "" })).collect();
    let wrapped = stuffed.replace("+\tint c;", "+\tint \nc;");
    let printable = DIFF.replace('=', "=3D").replace("b; \n", "b;=20\n").replace("int a", "i=\nnt a");
    let attached = format!(
        "--b\n\nText.\n--b\nContent-Type: text/x-patch\nContent-Disposition: attachment\n\n{DIFF}--b--\n"
    );
    for (name, headers, body, problems) in [
        ("plain", "", DIFF.to_owned(), 0),
        (
            "signature and footer",
            "",
            format!("Text.\n---\n x.c | 2 +-\n\n{DIFF}-- \n2.39\n____\nA list\n"),
            0,
        ),
        ("quoted-printable", "Content-Transfer-Encoding: quoted-printable\n", printable, 0),
        ("base64", "Content-Transfer-Encoding: base64\n", base64(DIFF), 0),
        ("attachment", "Content-Type: multipart/mixed; boundary=b\n", attached, 0),
        ("flowed", flowed, stuffed, 1),
        ("flowed in name only", flowed, DIFF.to_owned(), 1),
    ] {
        let series = mail(headers, &body);
        assert_eq!(series.patches[0].diff, DIFF, "{name}");
        assert!(series.complete, "{name}: {:?}", series.refused);
        assert_eq!(series.problems.len(), problems, "{name}: {:?}", series.problems);
    }
    // A soft break cannot be told from a line that ends in a blank: this one has both.
    let series = mail(flowed, &wrapped);
    assert!(!series.complete && series.refused[0].contains("wrapped"), "{series:?}");
}

/// RFC 4648, enough for a test.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]);
            encoded.push(if place > chunk.len() { '=' } else { digit });
        }
    }
    encoded
}

#[test]
fn hostile_mails_are_refused_by_name() {
    for (body, word) in [
        (DIFF.replace("x.c", "../../root/.bashrc"), "out of the tree"),
        (DIFF.replace("a/x.c", "/etc/passwd").replace("b/x.c", "/etc/passwd"), "out of the tree"),
        (DIFF.replace("x.c", "x\u{7}.c"), "odd"),
        (DIFF.replace("a/x.c", "\"a/x\\001.c\"").replace("b/x.c", "\"b/x\\001.c\""), "odd"),
        (
            format!(
                "{DIFF}diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n"
            ),
            "symbolic",
        ),
        (DIFF.replace("@@ -1,3 +1,3 @@", "@@ -1,30 +1,30 @@"), "cut off"),
    ] {
        let series = mail("", &body);
        assert!(!series.complete, "{body}");
        assert!(series.refused.iter().any(|r| r.contains(word)), "{body}: {:?}", series.refused);
        assert!(series.refused.iter().all(|r| !r.contains(char::is_control)), "{:?}", series.refused);
    }
}

#[test]
fn nested_mails_do_not_exhaust_the_stack() {
    let nested = "Content-Type: message/rfc822\n\n".repeat(200_000);
    let digest = "--b\n\nContent-Type: multipart/digest; boundary=b\n\n".repeat(100_000);
    let headers = "From: a@x\nSubject: [PATCH] x\n";
    for raw in [
        format!("{headers}{nested}"),
        format!("{headers}Content-Type: multipart/digest; boundary=b\n\n{digest}"),
    ] {
        assert_eq!(read_series(raw.as_bytes()), Err(NoSeries::NoPatch));
    }
}

#[test]
fn what_is_no_series_says_why() {
    let huge = vec![b'x'; kernmark_validation::mail::MAX_BYTES + 1];
    let large = format!("From: a@example.org\nSubject: [PATCH] x\n\n{}", "x".repeat(17 << 20));
    let many = "From a Thu Jan  1 00:00:00 1970\nSubject: x\n\nx\n\n".repeat(3000);
    for (bytes, expected) in [
        (b"".as_slice(), NoSeries::NotAMail),
        (b"#!/bin/sh\necho hello\n", NoSeries::NotAMail),
        (b"From: a@example.org\nSubject: hello\n\nText.\n", NoSeries::NoPatch),
        (&huge, NoSeries::TooLarge),
        (large.as_bytes(), NoSeries::MessageTooLarge),
        (many.as_bytes(), NoSeries::TooMany),
    ] {
        assert_eq!(read_series(bytes), Err(expected));
    }
}

#[test]
fn a_bare_diff_is_a_series_with_a_note() {
    let series = one(DIFF.as_bytes());
    assert!(series.complete && series.problems[0].contains("no mail headers"), "{series:?}");
    assert_eq!((series.patches[0].diff.as_str(), series.title.as_str()), (DIFF, "change of x.c"));
    let beside = format!("From a Thu Jan  1 00:00:00 1970\nSubject: [PATCH] x\n\n{DIFF}");
    let file = read_files(&[beside.as_str(), DIFF]).expect("a series");
    assert_eq!((file.series.len(), file.problems.len()), (1, 1), "{file:?}");
}

#[test]
fn what_is_read_is_read_back() {
    let file = read_series(&example("kernfs-removal")).expect("a series");
    let json = serde_json::to_string(&file).expect("json");
    assert_eq!(
        serde_json::from_str::<kernmark_validation::mail::SeriesFile>(&json).expect("read back"),
        file
    );
}

/// What holds for every series, whatever the bytes were.
fn check(bytes: &[u8]) {
    let Ok(file) = read_series(bytes) else { return };
    for series in file.series {
        assert!(!series.title.is_empty() && !series.title.contains(char::is_control));
        let indices: Vec<u32> = series.patches.iter().map(|p| p.index).collect();
        assert!(!series.complete || indices == (1..=series.total).collect::<Vec<u32>>(), "{indices:?}");
        assert!(!series.complete || (series.refused.is_empty() && !indices.is_empty()));
        for file in series.patches.iter().flat_map(|p| &p.files) {
            let parts: Vec<&str> = file.split('/').collect();
            assert!(parts.iter().all(|p| !matches!(*p, "" | "." | ".." | ".git")), "{file:?}");
            assert!(!file.contains(char::is_control), "{file:?}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        check(&bytes);
    }

    #[test]
    fn arbitrary_lines_never_panic(lines in proptest::collection::vec(proptest::sample::select(LINES), 0..60)) {
        check(lines.join("\n").as_bytes());
        check(lines.join("\r\n").as_bytes());
    }

    #[test]
    fn a_damaged_mailbox_never_panics(
        changes in proptest::collection::vec((0_usize..4000, any::<u8>()), 0..20),
        cut in 0_usize..4000,
    ) {
        let mut bytes = example("kernfs-removal");
        let length = bytes.len();
        for (at, byte) in changes {
            bytes[at % length] = byte;
        }
        bytes.truncate(length - cut % length);
        check(&bytes);
    }
}

/// Lines that mean something to the parser.
const LINES: &[&str] = &[
    "",
    "From a Thu Jan  1 00:00:00 1970",
    "From: A <a@example.org>",
    "Subject: [PATCH 1/2] x",
    "Subject: [PATCH v2 0/1] y",
    "Subject: Re: [PATCH] x",
    "Message-ID: <1@x>",
    "Message-ID: <2@x>",
    "References: <1@x> <2@x>",
    "In-Reply-To: <1@x>",
    "Content-Type: multipart/mixed; boundary=b",
    "Content-Type: message/rfc822",
    "Content-Type: text/plain; format=flowed; delsp=yes",
    "Content-Transfer-Encoding: base64",
    "Content-Transfer-Encoding: quoted-printable",
    "--b",
    "--b--",
    "---",
    "-- ",
    "-- >8 --",
    "base-commit: 1111111111111111111111111111111111111111",
    "diff --git a/x b/x",
    "diff --git a/x b/../y",
    "--- a/x",
    "+++ b/../x",
    "rename to .git/x",
    "GIT binary patch",
    "literal 3",
    "@@ -1 +1 @@",
    "@@ -1,2 +0,0 @@",
    "@@ -18446744073709551615,18446744073709551615 +1 @@",
    "-a",
    "+b",
    " c",
    "\\ No newline at end of file",
];
