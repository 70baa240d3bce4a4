// SPDX-License-Identifier: GPL-2.0-or-later
//! Real boots: the same bytes every time, and every way a boot can go wrong.

use crate::machine::{base_image, board_binary};
use kernmark::runners::{
    Boot, Fault, FinishedPoint, Input, Outcome, QemuRunner, ReplayRunner, Runner, RunnerError, Schedule,
    Watchdog, broken_repeats, initramfs,
};
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const MEASURE: &str = "run kernfs.rmdir control.getppid --arm scx-off --arm bare --samples 1 --operations 64 \
                       --warmups 4 --clock tsc --single-operations --waiting";

/// A boot of the base kernel with this /init, its files below `place`.
pub fn boot(place: &Path, index: usize, init: &[u8], arguments: &str) -> Boot {
    let archive = initramfs(init, &[]);
    let path = place.join(format!("initramfs-{index}"));
    std::fs::write(&path, &archive).expect("writable");
    Boot {
        index,
        name: "base-seed7".into(),
        image: base_image(),
        initramfs: Input { path, sha256: hex(&Sha256::digest(&archive)) },
        seed: 7,
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
        protocol: "ab".repeat(32),
        watchdog: Watchdog::for_operations(1000),
    }
}

/// Runs these boots to their ends.
pub fn run(runner: &dyn Runner, points: &Path, boots: &[Boot]) -> Vec<FinishedPoint> {
    Schedule { runner, points, interrupt: &AtomicBool::new(false) }
        .run(boots, &mut |_| {})
        .expect("the host does its part")
}

/// Boots `init` once and says what became of it.
fn outcome_of(init: &[u8], watchdog: Watchdog) -> FinishedPoint {
    let place = tempfile::tempdir().expect("temporary directory");
    let boot = Boot { watchdog, ..boot(place.path(), 1, init, "run") };
    let runner = QemuRunner::new().expect("the emulator is installed");
    let mut points = run(&runner, &place.path().join("points"), &[boot]);
    points.pop().expect("one boot was made")
}

/// A static x86-64 program: an ELF header, one segment, and this code.
fn program(code: &[u8]) -> Vec<u8> {
    let base: u64 = 0x40_0000;
    let (header, segment) = (64_u64, 56_u64);
    let size = header + segment + code.len() as u64;
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for field in [base + header + segment, header, 0] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    bytes.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for field in [0, base, base, size, size, 0x1000] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(code);
    bytes
}

/// write(1, text, length); then `after`.
fn print_then(text: &[u8], after: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("short").to_le_bytes();
    // mov eax, 1; mov edi, 1; lea rsi, [rip + after]; mov edx, length; syscall
    let mut code = vec![0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0x48, 0x8d, 0x35];
    code.extend(u32::try_from(7 + after.len()).expect("short").to_le_bytes());
    code.push(0xba);
    code.extend(length);
    code.extend([0x0f, 0x05]);
    code.extend(after);
    code.extend(text);
    program(&code)
}

/// jmp to itself.
const SPIN: &[u8] = &[0xeb, 0xfe];
/// pause(2): mov eax, 34; syscall.
const SLEEP: &[u8] = &[0xb8, 34, 0, 0, 0, 0x0f, 0x05];
/// exit(2): mov eax, 60; syscall.
const EXIT: &[u8] = &[0xb8, 60, 0, 0, 0, 0x0f, 0x05];
/// ioperm(0xf4, 4, 1), then 0x10 to that port.
const END_WELL: &[u8] = &[
    0xb8, 173, 0, 0, 0, 0xbf, 0xf4, 0, 0, 0, 0xbe, 4, 0, 0, 0, 0xba, 1, 0, 0, 0, 0x0f, 0x05, // ioperm
    0xba, 0xf4, 0, 0, 0, 0xb8, 0x10, 0, 0, 0, 0xef, // out dx, eax
];
/// reboot(0xfee1dead, 0x28121969, RB_AUTOBOOT, 0).
const REBOOT: &[u8] = &[
    0xb8, 169, 0, 0, 0, 0xbf, 0xad, 0xde, 0xe1, 0xfe, 0xbe, 0x69, 0x19, 0x12, 0x28, 0xba, 0x67, 0x45, 0x23,
    0x01, 0x0f, 0x05,
];

#[test]
fn cpio_reads_the_initramfs() {
    let mut child = Command::new("sh")
        .args(["-c", "gzip -dc | cpio --quiet -tv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    child.stdin.take().expect("piped").write_all(&initramfs(b"#!program", &[])).expect("written");
    let output = child.wait_with_output().expect("ends");
    let text = String::from_utf8(output.stdout).expect("ASCII");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next_back()).collect();
    assert!(output.status.success());
    assert_eq!(names, ["dev", "proc", "run", "sys", "tmp", "dev/console", "init"], "{text}");
    assert!(text.lines().any(|line| line.starts_with("crw-------") && line.contains("5,   1")), "{text}");
}

/// Keeps processors busy until dropped.
struct Load(Vec<std::process::Child>);

impl Load {
    fn new() -> Self {
        let burn = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh starts");
        Self((0..4).map(|_| burn()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn one_image_and_seed_give_the_same_bytes_under_load_too() {
    let place = tempfile::tempdir().expect("temporary directory");
    let board = board_binary();
    let boots: Vec<Boot> = (1..=3).map(|index| boot(place.path(), index, &board, MEASURE)).collect();
    let runner = QemuRunner::new().expect("the emulator is installed");
    let points = place.path().join("points");
    let mut finished = run(&runner, &points, &boots[..2]);
    let load = Load::new();
    finished.extend(run(&runner, &points, &boots[2..]));
    drop(load);
    let read = |index: usize| std::fs::read(points.join(format!("{index}/samples.jsonl"))).expect("kept");
    assert_eq!(finished.len(), 3);
    for point in &finished {
        assert_eq!(point.record.outcome, Outcome::Done, "{}\n{}", point.record.outcome, point.excerpt);
        let values = &point.log.operations.iter().find(|o| o.metric == "remove").expect("measured").values;
        assert_eq!(values.len(), 64);
    }
    assert!(read(1).len() > 1000);
    assert_eq!(read(1), read(2), "two boots side by side");
    assert_eq!(read(1), read(3), "a boot on a busy host");
    assert_eq!(broken_repeats(finished.iter().map(|point| &point.record)), []);
    let other = Boot { seed: 8, index: 4, ..boots[0].clone() };
    run(&runner, &points, &[other]);
    assert_ne!(read(1), read(4), "another seed is another boot");
    let replayed = run(&ReplayRunner::new(&points), &place.path().join("replayed"), &boots);
    let logs = |points: &[FinishedPoint]| points.iter().map(|point| point.log.clone()).collect::<Vec<_>>();
    assert_eq!(logs(&replayed), logs(&finished));
}

#[test]
fn panics_resets_and_silent_ends_are_told_apart() {
    let normal = Watchdog::for_operations(1000);
    for (what, init, fault, message) in [
        ("no program", b"no program".to_vec(), Fault::Kernel, "the kernel panicked: "),
        ("init exits", print_then(b"\x1b[2Jbye\n", EXIT), Fault::Kernel, "Attempted to kill init!"),
        ("reboots", program(REBOOT), Fault::Kernel, "the kernel rebooted without a message"),
        ("ends well", program(END_WELL), Fault::Missing, "no results came"),
        (
            "oops",
            print_then(b"BUG: forged\n", END_WELL),
            Fault::Kernel,
            "went on, so its numbers are void: BUG: forged",
        ),
        (
            "forges",
            print_then(b"@kernmark 0 00000000 {}\n", END_WELL),
            Fault::Kernel,
            "line 1 of the console looks like a result",
        ),
    ] {
        let point = outcome_of(&init, normal);
        let outcome = &point.record.outcome;
        assert_eq!(outcome.fault(), fault, "{what}: {outcome}\n{}", point.excerpt);
        assert!(outcome.to_string().contains(message), "{what}: {outcome}\n{}", point.excerpt);
        assert!(point.excerpt.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
    }
    let escaped = outcome_of(&print_then(b"\x1b[2Jbye\n", EXIT), normal);
    assert!(escaped.excerpt.contains("\\x1b[2Jbye"), "{}", escaped.excerpt);
}

#[test]
fn hangs_are_stopped_by_processor_and_by_wall_time() {
    for (what, code, watchdog, limit) in [
        ("spins", SPIN, Watchdog { cpu_s: 5, wall_s: 120 }, "5 s of CPU time"),
        ("sleeps", SLEEP, Watchdog { cpu_s: 120, wall_s: 10 }, "10 s"),
    ] {
        let point = outcome_of(&print_then(b"last words\n", code), watchdog);
        assert_eq!(point.record.outcome, Outcome::Hang { limit: limit.into(), records: 0 }, "{what}");
        assert!(point.excerpt.ends_with("last words\n"), "{what}: {}", point.excerpt);
    }
}

#[test]
fn a_flood_is_stopped() {
    // The jump goes back to the start: 24 bytes of code and its own two.
    let init = print_then(&[b'x'; 4096], &[0xeb, (-26_i8).cast_unsigned()]);
    let point = outcome_of(&init, Watchdog::for_operations(20_000));
    assert_eq!(point.record.outcome, Outcome::Flood { bytes: 8 << 20 });
    assert!(point.excerpt.len() < 20_000);
}

#[test]
fn an_interrupt_leaves_nothing_and_the_next_run_goes_on() {
    let place = tempfile::tempdir().expect("temporary directory");
    let points = place.path().join("points");
    let board = board_binary();
    let boots: Vec<Boot> = (1..=3).map(|index| boot(place.path(), index, &board, MEASURE)).collect();
    let interrupt = AtomicBool::new(false);
    let runner = QemuRunner::new().expect("the emulator is installed");
    let error = Schedule { runner: &runner, points: &points, interrupt: &interrupt }
        .run(&boots, &mut |step| interrupt.store(step.done > 0, Ordering::SeqCst))
        .expect_err("interrupted after the first boot");
    assert!(matches!(error, RunnerError::Interrupted { done: 1.., total: 3 }), "{error}");
    let left: Vec<_> = std::fs::read_dir(&points)
        .expect("made")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("ASCII"))
        .collect();
    assert!(!left.is_empty() && left.iter().all(|name| name.parse::<usize>().is_ok()), "{left:?}");
    let finished = run(&runner, &points, &boots);
    assert_eq!(finished.iter().filter(|point| point.reused).count(), left.len());
    assert!(finished.iter().all(|point| point.record.outcome == Outcome::Done) && finished.len() == 3);
}
