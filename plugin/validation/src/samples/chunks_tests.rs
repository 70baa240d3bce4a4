// SPDX-License-Identifier: GPL-2.0-or-later
//! Damage done to the chunks of a log is seen and named, and never makes another result.

use super::*;
use crate::samples::{Expected, LogProblem, parse_log, results_in_log};
use flate2::Compression;
use flate2::write::GzEncoder;
use kernmark_wire::{CHUNK_CHARACTERS, End, Fact, Record, Start, chunk_line, frame};
use proptest::prelude::*;
use std::io::Write;
use std::sync::LazyLock;

/// The JSON lines of a run with `facts` numbers, which do not compress well.
fn json_lines(facts: u64) -> Vec<u8> {
    let mut records = vec![Record::Start(Start {
        format: kernmark_wire::FORMAT,
        pass: "run".into(),
        protocol: "f00d".into(),
        point: "base-A".into(),
        boot_id: "3a88e88b".into(),
        clock: "monotonic_raw".into(),
        version: "0.1.0".into(),
        default_arms: [("kernfs.rmdir".into(), "scx-off".into())].into(),
    })];
    records.extend((0..facts).map(|n| {
        Record::Fact(Fact {
            workload: "kernfs.rmdir".into(),
            arm: "scx-off".into(),
            name: format!("n{n}"),
            value: (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        })
    }));
    records.push(Record::End(End { records: records.len() as u64, status: "ok".into() }));
    records.iter().zip(0..).map(|(r, n)| frame(n, r) + "\n").collect::<String>().into_bytes()
}

fn name_of(lines: &[u8]) -> String {
    let digits: String = Sha256::digest(lines).iter().map(|byte| format!("{byte:02x}")).collect();
    digits[..RESULT_NAME_DIGITS].to_owned()
}

/// Chunks as the board binary prints them.
fn chunks(lines: &[u8]) -> Vec<String> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(lines).expect("memory");
    let payload = STANDARD.encode(packer.finish().expect("memory"));
    let parts: Vec<&[u8]> = payload.as_bytes().chunks(CHUNK_CHARACTERS).collect();
    let total = parts.len() as u32;
    let text = |part: &[u8]| String::from_utf8(part.into()).expect("base64");
    parts.iter().zip(1..).map(|(part, n)| chunk_line(&name_of(lines), n, total, &text(part))).collect()
}

fn search(lines: &[String]) -> InBand {
    results_in_log(lines.join("\r\n").as_bytes())
}

/// Eight chunks or more.
fn good() -> (Vec<u8>, Vec<String>) {
    static GOOD: LazyLock<(Vec<u8>, Vec<String>)> = LazyLock::new(|| {
        let lines = json_lines(200);
        let chunks = chunks(&lines);
        assert!(chunks.len() >= 8, "{} chunks", chunks.len());
        (lines, chunks)
    });
    GOOD.clone()
}

fn whole(found: &InBand) -> Vec<&[u8]> {
    found.results.iter().map(|result| &result.lines[..]).collect()
}

#[test]
fn a_whole_result_is_the_lines_that_were_written() {
    let (lines, chunks) = good();
    let found = search(&chunks);
    assert_eq!(found.problems, []);
    assert_eq!(whole(&found), [&lines[..]]);
    let log = parse_log(&found.results[0].lines, b"", Expected { point: "base-A", protocol: "f00d" });
    assert_eq!((log.problems, log.facts.len()), (Vec::<LogProblem>::new(), 200));
}

#[test]
fn other_lines_and_timestamps_do_no_harm() {
    let (lines, chunks) = good();
    let mut log = vec!["[    0.000000] Linux version 6.12.117".to_owned(), "\u{1b}[2J".into(), String::new()];
    for (n, chunk) in chunks.iter().enumerate() {
        log.push(match n % 4 {
            0 => format!("[   10.{n:06}] {chunk}"),
            1 => format!("{chunk}[   11.{n:06}] usb 1-1: new device"),
            2 => format!("/ # {chunk}"),
            _ => chunk.clone(),
        });
        log.push(format!("[   12.{n:06}] audit: type=2000"));
    }
    let found = search(&log);
    assert_eq!(found.problems, []);
    assert_eq!(whole(&found), [&lines[..]]);
    // Without the line end between them.
    assert_eq!(whole(&search(&[chunks.concat()])), [&lines[..]]);
}

#[test]
fn results_of_several_boots_are_told_apart() {
    let all = [json_lines(3), json_lines(100), json_lines(7)];
    let log: Vec<String> = all.iter().flat_map(|lines| chunks(lines)).collect();
    let found = search(&log);
    assert_eq!(found.problems, []);
    assert_eq!(whole(&found), [&all[0][..], &all[1][..], &all[2][..]]);
}

#[test]
fn a_lost_line_is_missing() {
    let (lines, chunks) = good();
    let total = chunks.len() as u32;
    for lost in 0..chunks.len() {
        let rest: Vec<String> = [&chunks[..lost], &chunks[lost + 1..]].concat();
        let found = search(&rest);
        let missing = vec![(lost as u32 + 1, lost as u32 + 1)];
        assert_eq!(found.problems, [ChunkProblem::Missing { result: name_of(&lines), missing, total }]);
        assert_eq!(found.results, []);
    }
    let ends = search(&chunks[2..5]);
    let missing = vec![(1, 2), (6, total)];
    assert_eq!(ends.problems, [ChunkProblem::Missing { result: name_of(&lines), missing, total }]);
    let said = ends.problems[0].to_string();
    assert!(said.ends_with(&format!("did not come whole: 1-2, 6-{total}; run the point again")), "{said}");
}

#[test]
fn repeated_and_reordered_lines_are_named_and_do_no_harm() {
    let (lines, chunks) = good();
    for at in 1..chunks.len() {
        let twice: Vec<String> = [&chunks[..=at], &chunks[at..]].concat();
        let found = search(&twice);
        assert_eq!(found.problems, [ChunkProblem::Repeated { line: at as u64 + 2, index: at as u32 + 1 }]);
        assert_eq!(whole(&found), [&lines[..]]);
        let mut swapped = chunks.clone();
        swapped.swap(at - 1, at);
        let found = search(&swapped);
        let (line, index) = (at as u64 + 1, at as u32);
        assert_eq!(found.problems, [ChunkProblem::Reordered { line, index, after: index + 1 }]);
        assert_eq!(whole(&found), [&lines[..]]);
    }
}

#[test]
fn a_kernel_message_in_a_chunk_is_named_and_mended_where_its_end_is_found() {
    let (lines, chunks) = good();
    let header = chunks[3].len() - CHUNK_CHARACTERS;
    let messages = "[   12.345678] usb 1-1: device descriptor read/64, error -71";
    for cut in [header, header + 1, header + 200, chunks[3].len() - 1] {
        let (start, end) = chunks[3].split_at(cut);
        for (between, after) in [
            (vec![format!("{start}{messages}")], ""),
            (vec![format!("{start}{messages}"), messages.into(), String::new()], ""),
            (vec![format!("{start}{messages}")], messages),
        ] {
            let mut log = chunks.clone();
            let tail = format!("{end}{after}");
            log.splice(3..4, between.into_iter().chain([tail]));
            let found = search(&log);
            assert_eq!(found.problems, [ChunkProblem::Split { line: 4, mended: true }], "cut at {cut}");
            assert_eq!(whole(&found), [&lines[..]]);
        }
        // The end never comes.
        let mut log = chunks.clone();
        log[3] = format!("{start}{messages}");
        let found = search(&log);
        assert_eq!(found.problems[0], ChunkProblem::Split { line: 4, mended: false }, "cut at {cut}");
        assert!(
            matches!(&found.problems[1..], [ChunkProblem::Missing { missing, .. }] if *missing == [(4, 4)])
        );
        assert_eq!(found.results, []);
    }
}

#[test]
fn chunks_that_hold_but_are_not_what_was_sent_are_refused() {
    let (lines, chunks) = good();
    let name = name_of(&lines);
    let forged = [chunk_line(&name, 1, 1, "H4sIAAAA")];
    assert_eq!(search(&forged).problems, [ChunkProblem::WrongHash { result: name.clone() }]);
    let mut log = chunks.clone();
    log.push(chunk_line(&name, 2, chunks.len() as u32, "AAAA"));
    log.push(chunk_line(&name, 3, 9999, "AAAA"));
    let found = search(&log);
    let line = chunks.len() as u64 + 1;
    assert_eq!(
        found.problems,
        [
            ChunkProblem::Contradicting { line, index: 2 },
            ChunkProblem::Contradicting { line: line + 1, index: 3 }
        ]
    );
    assert_eq!(whole(&found), [&lines[..]], "what came first is what the name proves");
}

#[test]
fn what_unpacks_to_more_than_any_run_prints_is_refused() {
    let bomb = vec![0; MAX_LOG_BYTES + 1];
    assert!(matches!(&search(&chunks(&bomb)).problems[..], [ChunkProblem::WrongHash { .. }]));
}

#[test]
fn a_flood_is_bounded() {
    let many: Vec<String> = (0..10_000).map(|n| chunk_line(&format!("{n:032x}"), 1, 2, "AAAA")).collect();
    assert_eq!(search(&many).problems.len(), MAX_PROBLEMS + 1);
    let many = vec![CHUNK_PREFIX.to_owned(); 10_000];
    let found = search(&many);
    assert_eq!(found.problems.last(), Some(&ChunkProblem::More));
    assert_eq!(found.problems.len(), MAX_PROBLEMS + 1);
}

proptest! {
    #[test]
    fn any_change_of_a_byte_is_named(at in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let (lines, chunks) = good();
        let mut log = chunks.join("\n").into_bytes();
        let at = at.index(log.len());
        log[at] ^= change;
        let found = results_in_log(&log);
        if found.results.is_empty() {
            prop_assert!(!found.problems.is_empty());
        } else {
            // A line end that became a letter, or a letter that became a line end in between.
            prop_assert_eq!(whole(&found), [&lines[..]]);
        }
        let line_end = chunks.join("\n").as_bytes()[at] == b'\n';
        prop_assert!(line_end || !found.problems.is_empty(), "byte {} of the log", at);
    }

    #[test]
    fn any_cut_is_named(end in any::<prop::sample::Index>()) {
        let (lines, chunks) = good();
        let log = chunks.join("\n");
        let end = end.index(log.len());
        let found = results_in_log(&log.as_bytes()[..end]);
        prop_assert!(found.results.is_empty());
        // Nothing at all is known of a result before its first chunk has its prefix.
        prop_assert!(end < CHUNK_PREFIX.len() || !found.problems.is_empty());
        prop_assert!(!lines.is_empty());
    }

    #[test]
    fn any_order_and_repetition_gives_the_same_result(
        order in Just((0..good().1.len()).collect::<Vec<_>>()).prop_shuffle(),
        again in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let (lines, chunks) = good();
        let mut log: Vec<String> = order.iter().map(|n| chunks[*n].clone()).collect();
        log.extend(again.iter().map(|n| chunks[n.index(chunks.len())].clone()));
        let found = search(&log);
        prop_assert_eq!(whole(&found), [&lines[..]]);
        let repeated = found.problems.iter().filter(|p| matches!(p, ChunkProblem::Repeated { .. })).count();
        prop_assert_eq!(repeated, again.len());
        let sorted = order.is_sorted();
        prop_assert_eq!(sorted, !found.problems.iter().any(|p| matches!(p, ChunkProblem::Reordered { .. })));
    }

    #[test]
    fn lost_lines_are_missing_by_number(lost in proptest::collection::btree_set(0..8_usize, 1..8)) {
        let (_, chunks) = good();
        let rest: Vec<String> =
            chunks.iter().enumerate().filter(|(n, _)| !lost.contains(n)).map(|(_, c)| c.clone()).collect();
        let found = search(&rest);
        prop_assert!(found.results.is_empty());
        let [ChunkProblem::Missing { missing, .. }] = &found.problems[..] else {
            return Err(TestCaseError::fail(format!("{:?}", found.problems)));
        };
        let named: Vec<usize> =
            missing.iter().flat_map(|(first, last)| *first..=*last).map(|n| n as usize - 1).collect();
        prop_assert_eq!(named, lost.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn any_result_of_any_size_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        let found = search(&chunks(&bytes));
        prop_assert_eq!(found.problems.clone(), []);
        prop_assert_eq!(whole(&found), [&bytes[..]]);
    }

    #[test]
    fn anything_is_read_without_a_panic(
        log in proptest::collection::vec(any::<u8>(), 0..2000),
        lines in proptest::collection::vec("(- )?\\{\"dt\": \"\\PC*\", \"lvl\": \"target\", \"msg\": \"(@kernmark-chunk )?[0-9a-f]{32} [0-9]{1,3}/[0-9]{1,11} [0-9]{1,3} [0-9a-f]{8} \\PC*\"\\}", 0..5),
    ) {
        prop_assert!(results_in_log(&log).results.is_empty());
        prop_assert!(results_in_log(lines.join("\n").as_bytes()).results.is_empty());
        prop_assert!(results_among(&console_lines(lines.join("\n").as_bytes())).results.is_empty());
    }
}
