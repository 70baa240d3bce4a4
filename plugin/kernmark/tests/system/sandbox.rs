// SPDX-License-Identifier: GPL-2.0-or-later
//! The sandbox holds: network, system, other directories, limits, interrupts.

use kernmark::sandbox::{Ending, Finished, Limits, Overlay, Sandbox, SandboxError, give_to_sandbox};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A directory that the sandbox user may write to.
fn writable(parent: &Path, name: &str) -> PathBuf {
    let path = parent.join(name);
    std::fs::create_dir(&path).expect("directory made");
    give_to_sandbox(&path).expect("given away");
    path
}

fn shell(script: &str) -> Sandbox {
    Sandbox::command("sh").args(["-c", script])
}

fn run(sandbox: Sandbox) -> Finished {
    sandbox.run(TIMEOUT, &AtomicBool::new(false)).expect("sandbox starts")
}

#[test]
fn output_and_exit_code_come_back() {
    let finished = run(shell("echo out; echo err >&2; exit 7"));
    assert_eq!(finished.ending, Ending::Exited(7));
    assert_eq!((&*finished.stdout.text(), &*finished.stderr.text()), ("out\n", "err\n"));
    assert!(run(shell("kill -9 $$")).ending == Ending::Exited(128 + 9));
}

#[test]
fn there_is_no_network_no_home_and_no_other_process() {
    let scratch = tempfile::tempdir().expect("temporary directory");
    std::fs::write(scratch.path().join("secret"), "x").expect("written");
    let script = format!(
        "cat /proc/net/dev | grep -c : ; ls -d {} /root /home /etc/passwd /srv 2>/dev/null; echo /proc/[0-9]* | wc -w; env | cut -d= -f1 | sort | tr '\\n' ' '; id -u; hostname",
        scratch.path().display()
    );
    let finished = run(shell(&script));
    let text = finished.stdout.text().into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "1", "only the loopback interface: {text}");
    let processes: u32 = lines[1].trim().parse().expect("a number, so none of the paths exists");
    assert!(processes < 8, "{text}");
    assert_eq!(lines[2], "HOME LC_ALL PATH PWD TMPDIR 65534", "{text}");
    assert_eq!(lines[3], "kernmark");
}

#[test]
fn only_what_is_writable_changes() {
    let scratch = tempfile::tempdir().expect("temporary directory");
    let mine = writable(scratch.path(), "mine");
    let given = writable(scratch.path(), "given");
    std::fs::write(given.join("file"), "as it was").expect("written");
    give_to_sandbox(&given.join("file")).expect("given away");
    let script = "echo x >/mine/new
        for path in /given/file /given/new /usr/new /etc/new /new /dev/shm/new /proc/sys/kernel/hostname; do
            (echo x >$path) 2>/dev/null && echo wrote $path
        done; rm -f /given/file; unshare -U true 2>/dev/null && echo namespace; exit 0";
    let finished = run(shell(script).read_only(&given, "/given").writable(&mine, "/mine"));
    assert!(finished.success(), "{}", finished.stderr.text());
    assert_eq!(finished.stdout.text(), "");
    assert_eq!(std::fs::read_to_string(given.join("file")).expect("is there"), "as it was");
    assert_eq!(std::fs::read_dir(&given).expect("is there").count(), 1);
    assert_eq!(std::fs::read_to_string(mine.join("new")).expect("is there"), "x\n");
}

#[test]
fn an_overlay_takes_the_changes_and_leaves_the_lower_layers() {
    let scratch = tempfile::tempdir().expect("temporary directory");
    // Separators of overlay options in a path must do no harm.
    let lower = writable(scratch.path(), "lower,with:separators");
    std::fs::write(lower.join("file"), "lower").expect("written");
    std::fs::write(lower.join("gone"), "lower").expect("written");
    for name in ["file", "gone"] {
        give_to_sandbox(&lower.join(name)).expect("given away");
    }
    let overlay = || Overlay {
        lower: vec![lower.clone()],
        upper: scratch.path().join("upper"),
        work: scratch.path().join("work"),
    };
    writable(scratch.path(), "upper");
    std::fs::create_dir(scratch.path().join("work")).expect("made");
    let finished = run(shell("echo upper >/tree/file; rm /tree/gone; echo x >/tree/new").overlay(
        overlay(),
        "/tree",
        true,
    ));
    assert!(finished.success(), "{}", finished.stderr.text());
    let again =
        run(shell("cat /tree/file; ls /tree; echo no >/tree/file").overlay(overlay(), "/tree", false));
    assert_eq!(again.stdout.text(), "upper\nfile\nnew\n");
    assert!(!again.success());
    for name in ["file", "gone"] {
        assert_eq!(std::fs::read_to_string(lower.join(name)).expect("is there"), "lower");
    }
}

#[test]
fn a_command_that_does_not_end_is_ended_with_all_its_processes() {
    let scratch = tempfile::tempdir().expect("temporary directory");
    let mine = writable(scratch.path(), "mine");
    let script =
        "setsid sh -c 'while :; do date +%N >/mine/beat; done' & trap '' TERM INT; while :; do :; done";
    let finished = shell(script)
        .writable(&mine, "/mine")
        .run(Duration::from_secs(1), &AtomicBool::new(false))
        .expect("sandbox starts");
    assert_eq!(finished.ending, Ending::TimedOut(1));
    // Whoever still wrote would make this file again.
    std::fs::remove_file(mine.join("beat")).expect("it wrote until it was ended");
    assert!(run(shell("sleep 0.3")).success());
    assert!(!mine.join("beat").exists());
}

#[test]
fn an_interrupt_ends_the_command() {
    let interrupt = AtomicBool::new(false);
    let mut observe = |_: &[u8]| interrupt.store(true, Ordering::SeqCst);
    let result = shell("echo started; sleep 1000").run_observed(TIMEOUT, &interrupt, &mut observe);
    assert!(matches!(result, Err(SandboxError::Interrupted)), "{result:?}");
}

#[test]
fn a_fork_bomb_hits_the_process_limit() {
    let limits = Limits { processes: 40, ..Limits::TOOL };
    let finished = run(shell("while :; do sleep 100 & echo started; done").limits(limits));
    assert!(finished.stderr.text().contains("Cannot fork"), "{finished:?}");
    assert!((20..40).contains(&finished.stdout.text().lines().count()), "{finished:?}");
}

#[test]
fn memory_of_all_processes_together_is_bounded() {
    let limits = Limits { memory: 200 << 20, ..Limits::TOOL };
    let script =
        "for n in 1 2 3 4; do (x=$(head -c 90000000 /dev/zero | tr '\\0' x); sleep 100) & done; wait";
    assert_eq!(
        run(Sandbox::command("bash").args(["-c", script]).limits(limits)).ending,
        Ending::OverMemory(200 << 20)
    );
}

#[test]
fn one_file_and_all_files_are_bounded() {
    let scratch = tempfile::tempdir().expect("temporary directory");
    let mine = writable(scratch.path(), "mine");
    let small = Limits { file: 1 << 20, written: 4 << 20, files: 50, ..Limits::TOOL };
    let one =
        run(shell("head -c 2000000 /dev/zero >/mine/big").writable(&mine, "/mine").limits(small.clone()));
    assert!(!one.success());
    assert_eq!(std::fs::metadata(mine.join("big")).expect("is there").len(), 1 << 20);
    let script = "while :; do n=$((n + 1)); head -c 1000000 /dev/zero >/mine/f$((n % 20)) || exit; done";
    let many = run(shell(script).writable(&mine, "/mine").limits(small.clone()));
    assert_eq!(many.ending, Ending::OverWritten(4 << 20));
    let count = run(shell("while :; do n=$((n + 1)); mkdir /mine/d$n; done")
        .writable(&mine, "/mine")
        .limits(small.clone()));
    assert_eq!(count.ending, Ending::OverFiles(50));
    let script = "exec 5>/mine/gone; rm /mine/gone; head -c 16000000 /dev/zero >&5; sleep 50";
    let gone = run(shell(script).writable(&mine, "/mine").limits(Limits { file: 64 << 20, ..small.clone() }));
    assert_eq!(gone.ending, Ending::OverWritten(4 << 20), "a removed file counts");
    let deep = run(shell(
        "p=$(printf 'ddddddddd/%.0s' $(seq 300)); cd /mine; for i in 1 2; do mkdir -p $p; cd $p; done; sleep 50",
    )
    .writable(&mine, "/mine")
    .limits(Limits { files: 10_000, ..small.clone() }));
    assert_eq!(deep.ending, Ending::OverFiles(10_000), "what is too deep to look at is too much");
    let tmp = run(shell("head -c 1000000000 /dev/zero >/tmp/big"));
    assert!(tmp.stderr.text().contains("No space left"), "{tmp:?}");
}

#[test]
fn endless_output_is_cut_and_counted() {
    let limits = Limits { captured: 1000, ..Limits::TOOL };
    let finished = run(shell("yes | head -c 3000000; echo end").limits(limits));
    assert_eq!((finished.stdout.bytes.len(), finished.stdout.dropped), (1000, 3_000_004 - 1000));
    assert!(finished.stdout.text().ends_with("end\n"));
}

#[test]
fn what_cannot_be_mounted_is_the_hosts_fault() {
    let result = shell("true").read_only("/nonexistent/kernmark", "/x").run(TIMEOUT, &AtomicBool::new(false));
    let Err(SandboxError::Refused { detail }) = result else { panic!("{result:?}") };
    assert!(detail.contains("/nonexistent/kernmark"), "{detail}");
}

#[test]
fn attempts_to_use_a_network_are_counted() {
    let quiet = run(shell("sleep 0.6"));
    assert!(!quiet.network.any(), "{quiet:?}");
    let script = "for to in 192.0.2.1/80 127.0.0.1/22; do echo x >/dev/tcp/$to; done; sleep 0.6";
    let loud = run(Sandbox::command("bash").args(["-c", script]));
    assert!(loud.network.unroutable > 0 && loud.network.loopback > 0, "{loud:?}");
}
