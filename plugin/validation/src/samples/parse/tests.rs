// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use crate::samples::OperationSeries;
use kernmark_wire::{Check, End, Environment, Fact, Operations, Profile, Sample, frame};
use proptest::prelude::*;

const EXPECTED: Expected<'_> = Expected { point: "base-seed1", protocol: "f00d" };

fn start() -> Record {
    Record::Start(Start {
        format: FORMAT,
        pass: "run".into(),
        protocol: "f00d".into(),
        point: "base-seed1".into(),
        boot_id: "3a88e88b".into(),
        clock: "tsc".into(),
        version: "0.1.0".into(),
        default_arms: [("kernfs.rmdir".into(), "scx-off".into())].into(),
    })
}

fn operations(first: u64, values: &[u64], waiting: &[u64]) -> Record {
    Record::Operations(Operations {
        workload: "kernfs.rmdir".into(),
        arm: "scx-off".into(),
        metric: "remove".into(),
        unit: "ns".into(),
        better: "lower".into(),
        first,
        values: values.into(),
        waiting: waiting.into(),
    })
}

fn sample(number: u64, operations: u64) -> Record {
    Record::Sample(Sample {
        workload: "kernfs.rmdir".into(),
        arm: "scx-off".into(),
        metric: "remove".into(),
        unit: "ns".into(),
        better: "lower".into(),
        sample: number,
        operations,
        sum: 80,
    })
}

fn fact(name: &str, value: u64) -> Record {
    let (workload, arm) = ("kernfs.rmdir".into(), "scx-off".into());
    Record::Fact(Fact { workload, arm, name: name.into(), value })
}

fn environment(when: &str, key: &str, value: &str) -> Record {
    Record::Environment(Environment { when: when.into(), key: key.into(), value: value.into() })
}

fn profile(operations: u64, function: &str) -> Record {
    Record::Profile(Profile {
        workload: "kernfs.rmdir".into(),
        arm: "scx-off".into(),
        section: "rmdir".into(),
        operations,
        functions: vec![(function.into(), 4)],
    })
}

fn check(pass: bool) -> Record {
    Record::Check(Check {
        workload: "kernfs.rmdir".into(),
        arm: "scx-off".into(),
        name: "restored".into(),
        pass,
        detail: "a group is left".into(),
    })
}

/// Start, `middle` and end, as the board binary would print them.
fn log_of(middle: &[Record]) -> Vec<u8> {
    let mut records = vec![start()];
    records.extend_from_slice(middle);
    records.push(Record::End(End { records: records.len() as u64, status: "ok".into() }));
    lines(&records)
}

fn lines(records: &[Record]) -> Vec<u8> {
    let text: String = records.iter().enumerate().map(|(n, r)| frame(n as u64, r) + "\n").collect();
    text.into_bytes()
}

fn good() -> Vec<u8> {
    log_of(&[
        environment("before", "kernel.release", "6.12.117"),
        fact("nodes", 26),
        operations(0, &[40, 41], &[0, 0]),
        operations(2, &[42], &[7]),
        sample(1, 2),
        profile(4, "ilookup"),
        profile(4, "iput"),
        check(true),
        environment("after", "kernel.release", "6.12.117"),
    ])
}

fn problems(results: &[u8]) -> Vec<LogProblem> {
    parse_log(results, b"", EXPECTED).problems
}

#[test]
fn a_whole_log_is_joined() {
    let log = parse_log(&good(), b"kernmark-board: sample 1/1\r\n", EXPECTED);
    assert_eq!(log.problems, []);
    assert!(log.is_usable());
    assert_eq!(log.status.as_deref(), Some("ok"));
    let [OperationSeries { values, waiting, .. }] = &log.operations[..] else { panic!("{log:?}") };
    assert_eq!((&values[..], &waiting[..]), (&[40, 41, 42][..], &[0, 0, 7][..]));
    assert_eq!(log.profiles[0].functions.len(), 2);
    assert_eq!(log.environment_before["kernel.release"], "6.12.117");
}

#[test]
fn records_that_do_not_fit_are_named() {
    let gap = || LogProblem::Gap { series: "kernfs.rmdir scx-off remove".into() };
    let duplicate = |what: &str| LogProblem::Duplicate { what: what.into() };
    let other_unit = |record| {
        let Record::Operations(operations) = record else { unreachable!("made above") };
        Record::Operations(Operations { unit: "us".into(), ..operations })
    };
    for (middle, problem) in [
        (vec![operations(1, &[1], &[])], gap()),
        (vec![operations(0, &[1], &[]), operations(2, &[1], &[])], gap()),
        (vec![operations(0, &[1], &[]), operations(0, &[1], &[])], gap()),
        (vec![operations(0, &[1], &[]), operations(1, &[1], &[1])], gap()),
        (vec![operations(0, &[1], &[1, 2])], gap()),
        (vec![operations(0, &[1], &[]), other_unit(operations(1, &[1], &[]))], gap()),
        (vec![sample(1, 2), sample(3, 2)], gap()),
        (vec![sample(1, 2), sample(1, 2)], duplicate("sample 1 of kernfs.rmdir scx-off remove")),
        (vec![fact("nodes", 1), fact("nodes", 2)], duplicate("fact kernfs.rmdir scx-off nodes")),
        (
            vec![environment("after", "a", "1"), environment("after", "a", "1")],
            duplicate("environment after a"),
        ),
        (vec![start()], duplicate("the start of a boot")),
        (
            vec![profile(4, "a"), profile(5, "b")],
            LogProblem::Gap { series: "profile kernfs.rmdir scx-off rmdir".into() },
        ),
        (vec![sample(1, 0)], LogProblem::BadLine { line: 2, reason: "a sample of no operations".into() }),
        (
            vec![check(false)],
            LogProblem::CheckFailed {
                check: "kernfs.rmdir scx-off: restored".into(),
                detail: "a group is left".into(),
            },
        ),
    ] {
        assert_eq!(problems(&log_of(&middle)), [problem]);
    }
}

#[test]
fn hostile_words_and_texts_are_kept_out() {
    let log = parse_log(
        &log_of(&[fact("a\u{1b}[2J", 1), fact("", 1), environment("before", "k", "v\u{1b}]0;x\u{7}")]),
        b"",
        EXPECTED,
    );
    assert_eq!(log.facts, []);
    assert_eq!(log.environment_before["k"], "v\\x1b]0;x\\x07");
    let reasons: Vec<String> = log.problems.iter().map(ToString::to_string).collect();
    assert!(reasons[0].contains("not a name: \"a\\x1b[2J\"") && reasons.len() == 2, "{reasons:?}");
}

#[test]
fn failure_wrong_point_and_forgery_are_named() {
    let failed = lines(&[start(), Record::End(End { records: 1, status: "failed: rmdir: EBUSY".into() })]);
    assert_eq!(problems(&failed), [LogProblem::Failed { reason: "rmdir: EBUSY".into() }]);
    for (expected, part) in [
        (Expected { point: "other", ..EXPECTED }, "point base-seed1, expected other"),
        (Expected { protocol: "beef", ..EXPECTED }, "protocol f00d, expected beef"),
    ] {
        let problems = parse_log(&good(), b"", expected).problems;
        assert!(
            matches!(&problems[..], [LogProblem::WrongPoint { reason }] if reason == part),
            "{problems:?}"
        );
    }
    let console = b"[    0.5] hello\r\n[    0.6] @kernmark 0 00000000 {}\r\n";
    assert_eq!(parse_log(&good(), console, EXPECTED).problems, [LogProblem::ForgedOnConsole { line: 2 }]);
    let forged = [b"@kernmark 0 00000000 {\"record\":\"start\"}\n\x1b[2J\n".as_slice(), &good()].concat();
    let problems = problems(&forged);
    assert!(
        matches!(&problems[..], [LogProblem::BadLine { line: 1, .. }, LogProblem::BadLine { line: 2, .. }]),
        "{problems:?}"
    );
}

#[test]
fn lost_repeated_and_reordered_lines_are_named() {
    let whole = good();
    let parts: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    for skip in 0..parts.len() {
        let cut: Vec<u8> =
            parts.iter().enumerate().filter(|(n, _)| *n != skip).flat_map(|(_, l)| *l).copied().collect();
        assert!(!problems(&cut).is_empty(), "line {skip} was lost unnoticed");
        let twice: Vec<u8> =
            parts.iter().enumerate().flat_map(|(n, l)| l.repeat(if n == skip { 2 } else { 1 })).collect();
        assert!(!problems(&twice).is_empty(), "line {skip} was repeated unnoticed");
        if skip > 0 {
            let mut swapped = parts.clone();
            swapped.swap(skip - 1, skip);
            assert!(!problems(&swapped.concat()).is_empty(), "lines around {skip} changed places unnoticed");
        }
    }
}

#[test]
fn every_cut_is_noticed() {
    let whole = good();
    assert_eq!(problems(b""), [LogProblem::Empty]);
    for end in 1..whole.len() {
        let found = problems(&whole[..end]);
        assert!(
            found.iter().any(|p| matches!(p, LogProblem::Truncated { .. })),
            "cut after {end} bytes: {found:?}"
        );
    }
}

#[test]
fn every_single_byte_change_is_noticed() {
    let whole = good();
    for at in 0..whole.len() {
        let letter_case = 0x20;
        let line_ends = [whole[at] ^ b'\n', whole[at] ^ b'\r'];
        for change in line_ends.into_iter().chain([1, letter_case, 0x80]).filter(|change| *change != 0) {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            assert!(!problems(&bytes).is_empty(), "byte {at} ^ {change} went unnoticed");
        }
    }
}

#[test]
fn a_flood_is_bounded() {
    let long = vec![b'x'; MAX_LOG_BYTES + 1];
    assert_eq!(problems(&long)[0], LogProblem::TooLarge { bytes: long.len() as u64 });
    let many = problems(&b"x\n".repeat(10_000));
    let truncated = LogProblem::Truncated { records: 0 };
    assert_eq!((many.len(), &many[MAX_ALIKE..]), (MAX_ALIKE + 2, &[truncated, LogProblem::More][..]));
}

proptest! {
    #[test]
    fn any_change_of_a_byte_is_noticed(at in any::<prop::sample::Index>(), change in 1..=255_u8) {
        let mut bytes = good();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(!problems(&bytes).is_empty());
    }

    #[test]
    fn anything_gives_problems_and_never_a_panic(
        results in proptest::collection::vec(any::<u8>(), 0..2000),
        console in proptest::collection::vec(any::<u8>(), 0..500),
    ) {
        prop_assert!(!parse_log(&results, &console, EXPECTED).problems.is_empty());
    }

    #[test]
    fn framed_garbage_never_panics(jsons in proptest::collection::vec("\\PC*|\\{\"record\":\"[a-z]{3,9}\",\"value\":[0-9]{1,30}\\}", 0..20)) {
        let text: String = jsons.iter().enumerate().map(|(n, json)| {
            let covered = format!("{n} {json}");
            format!("{PREFIX}{n} {:08x} {json}\n", crc32(covered.as_bytes()))
        }).collect();
        prop_assert!(!problems(text.as_bytes()).is_empty());
    }
}

/// CRC-32 of IEEE 802.3, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1)))
    })
}
