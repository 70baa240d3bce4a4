// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernels that fail or attack, built from real series: each gets its own
//! message, and nothing they print reaches a terminal.

use crate::machine::{board_binary, patched_image};
use kernmark::runners::{
    Boot, Fault, FinishedPoint, Input, Outcome, QemuRunner, Schedule, Watchdog, initramfs,
};
use kernmark_validation::plan::hex;
use kernmark_validation::samples::LogProblem;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Builds the kernel of `tests/data/series/NAME.mbox` and measures on it once.
fn measured_on(name: &str) -> FinishedPoint {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/series/{name}.mbox"));
    let image = patched_image(&std::fs::read(path).expect("the series is there"));
    let place = tempfile::tempdir().expect("temporary directory");
    let archive = initramfs(&board_binary(), &[]);
    let file = place.path().join("initramfs");
    std::fs::write(&file, &archive).expect("writable");
    let arguments = "run kernfs.rmdir --samples 1 --operations 64 --clock tsc --single-operations --waiting";
    let boot = Boot {
        index: 1,
        name: "patched-seed1".into(),
        image,
        initramfs: Input { path: file, sha256: hex(&Sha256::digest(&archive)) },
        seed: 1,
        arguments: arguments.split(' ').map(str::to_owned).collect(),
        protocol: "ab".repeat(32),
        watchdog: Watchdog { cpu_s: 15, wall_s: 300 },
    };
    let runner = QemuRunner::new().expect("the emulator is installed");
    let schedule = Schedule {
        runner: &runner,
        points: &place.path().join("points"),
        interrupt: &AtomicBool::new(false),
    };
    let mut points = schedule.run(&[boot], &mut |_| {}).expect("the host does its part");
    let point = points.pop().expect("one boot was made");
    let said = format!("{}\n{}", point.record.outcome, point.excerpt);
    assert!(said.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{name}: {said:?}");
    assert_eq!(point.record.outcome.fault(), Fault::Kernel, "{name}: {said}");
    point
}

fn problems(name: &str) -> Vec<LogProblem> {
    match measured_on(name).record.outcome {
        Outcome::Invalid { problems } => problems,
        other => panic!("{name}: {other}"),
    }
}

#[test]
fn a_panic_is_quoted() {
    let point = measured_on("panics");
    let message = point.record.outcome.to_string();
    assert!(message.contains("kernmark test: \\x1b[31mthis kernel cannot boot"), "{message}");
    assert!(point.excerpt.contains("Kernel panic"), "{}", point.excerpt);
}

#[test]
fn a_hang_is_stopped() {
    assert_eq!(
        measured_on("hangs").record.outcome,
        Outcome::Hang { limit: "15 s of CPU time".into(), records: 0 }
    );
}

#[test]
fn an_end_in_the_middle_is_no_success() {
    let outcome = measured_on("ends-early").record.outcome;
    assert!(matches!(outcome, Outcome::Truncated { records: 1.. }), "{outcome}");
}

#[test]
fn a_cut_log_says_where() {
    let outcome = measured_on("truncates").record.outcome;
    assert!(matches!(outcome, Outcome::Truncated { records: 1.. }), "{outcome}");
}

#[test]
fn altered_lines_are_counted_out() {
    let problems = problems("corrupts");
    assert!(problems.iter().any(|problem| matches!(problem, LogProblem::BadLine { .. })), "{problems:?}");
}

#[test]
fn forged_lines_are_named_on_both_ports() {
    let problems = problems("forged-results");
    let forged = |problem: &LogProblem| matches!(problem, LogProblem::ForgedOnConsole { .. });
    assert!(problems.iter().any(forged), "{problems:?}");
    let altered = |problem: &LogProblem| matches!(problem, LogProblem::BadLine { .. });
    assert!(problems.iter().any(altered), "{problems:?}");
    let other = |problem: &LogProblem| matches!(problem, LogProblem::WrongPoint { .. });
    assert!(problems.iter().any(other), "the forged start is of no point: {problems:?}");
}
