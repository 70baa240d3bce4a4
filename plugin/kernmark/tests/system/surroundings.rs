// SPDX-License-Identifier: GPL-2.0-or-later
//! The program in surroundings that no test of its parts has: closed pipes, a strict umask, odd
//! arguments, devices and pipes for files, another run beside it.

use super::machine;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/series").join(format!("{name}.mbox"))
}

/// `script` with the program as `$1` and `argument` as `$2`.
fn shell(script: &str, argument: &Path) -> Output {
    Command::new("bash")
        .args(["-c", script, "bash", env!("CARGO_BIN_EXE_kernmark")])
        .arg(argument)
        .env("KERNMARK_BOARD", std::env::var_os("KERNMARK_BOARD_BINARY").unwrap_or_default())
        .output()
        .expect("bash is installed")
}

fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let script = "(\"$1\" series \"$2\" 2>&1; echo $? >&3) 3>&1 >&4 4>&- | cat";
    // Nobody reads what goes to descriptor 4.
    let out = shell(&format!("exec 4> >(true); sleep 0.3; {script}"), &sample("does-not-compile"));
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "0", "{}", text(&out));
    let full = shell("\"$1\" series \"$2\" >/dev/full", &sample("does-not-compile"));
    assert_eq!(full.status.code(), Some(4), "{}", text(&full));
}

#[test]
fn a_name_that_is_no_text_is_a_name() {
    let out = shell("\"$1\" check \"$2\"", Path::new(OsStr::from_bytes(b"/nowhere/\xff..")));
    assert_eq!(out.status.code(), Some(2), "{}", text(&out));
    assert!(text(&out).contains("No such file"), "{}", text(&out));
}

#[test]
fn a_series_may_come_through_a_pipe() {
    let out = shell("\"$1\" series <(cat \"$2\")", &sample("does-not-compile"));
    assert!(out.status.success() && text(&out).contains("complete"), "{}", text(&out));
}

#[test]
fn a_strict_umask_changes_nothing_and_closes_the_bundle() {
    let place = tempfile::tempdir().expect("temporary directory");
    let script = format!(
        "umask 077; cd '{}' && \"$1\" check \"$2\" --out bundle --quiet --board-binary \"$KERNMARK_BOARD\"",
        place.path().display()
    );
    let out = shell(&script, &sample("does-not-compile"));
    assert_eq!(out.status.code(), Some(3), "{}", text(&out));
    assert!(text(&out).contains("does not compile: fs/kernfs/dir.c"), "{}", text(&out));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(place.path().join("bundle")).expect("there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_link_in_any_spelling_of_its_mode_is_refused() {
    let place = tempfile::tempdir().expect("temporary directory");
    for mode in ["0120000", "120000", "120000 x", "00120777"] {
        let mail = format!(
            "From: A <a@example.org>\nSubject: [PATCH] kernfs: add a link\n\nText.\n---\n\
             diff --git a/fs/kernfs/etc b/fs/kernfs/etc\nnew file mode {mode}\nindex 0000000..1111111\n\
             --- /dev/null\n+++ b/fs/kernfs/etc\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n"
        );
        let path = place.path().join("link.mbox");
        std::fs::write(&path, mail).expect("writable");
        let out = shell("\"$1\" check \"$2\" --quiet --board-binary \"$KERNMARK_BOARD\"", &path);
        assert_eq!(out.status.code(), Some(2), "{mode}: {}", text(&out));
        let said = text(&out);
        assert!(said.contains("symbolic link") || said.contains("file mode"), "{mode}: {said}");
    }
}

/// Runs the main job until it reports `phase`, asks it to stop a moment later, and gives its exit code
/// and what it said.
fn interrupted_in(phase: &str, cache: &Path, place: &Path) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kernmark"))
        .args(["check", "--out", "bundle", "--cache"])
        .arg(cache)
        .arg("--board-binary")
        .arg(std::env::var_os("KERNMARK_BOARD_BINARY").unwrap_or_default())
        .arg(sample("does-not-compile"))
        .current_dir(place)
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut said = String::new();
    for line in lines.by_ref() {
        let line = line.expect("text");
        said += &(line.clone() + "\n");
        if line.starts_with(&format!("kernmark: {phase}")) {
            break;
        }
    }
    std::thread::sleep(Duration::from_secs(2));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("our own child");
    said.extend(lines.map(|line| line.expect("text") + "\n"));
    (child.wait().expect("a child").code(), said)
}

/// Command lines of processes that work in `place`.
fn working_in(place: &Path) -> Vec<String> {
    let place = place.display().to_string();
    let processes = std::fs::read_dir("/proc").expect("readable").flatten();
    let lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
    lines.map(|l| String::from_utf8_lossy(&l).into_owned()).filter(|l| l.contains(&place)).collect()
}

#[test]
fn an_interrupt_in_each_early_phase_loses_nothing_and_leaves_no_process() {
    let place = tempfile::tempdir().expect("temporary directory");
    // Once the source was unpacked half, the one of the ordinary cache is taken.
    let whole = machine::cache();
    let cache = place.path().join("cache");
    let entries = |kind: &str| std::fs::read_dir(cache.join(kind)).map_or(0, |d| d.flatten().count());
    let whole_trees = std::fs::read_dir(whole.root().join("sources")).expect("readable").count();
    for (phase, trees, configs) in [("kernel source", 0, 0), ("configuration", 1, 0), ("base kernel", 1, 1)] {
        if trees == 1 && entries("sources") == 0 {
            for kind in ["sources", "hashes"] {
                std::fs::create_dir_all(cache.join(kind)).expect("writable");
                for entry in std::fs::read_dir(whole.root().join(kind)).expect("readable").flatten() {
                    let link = cache.join(kind).join(entry.file_name());
                    if !link.exists() {
                        std::os::unix::fs::symlink(entry.path(), link).expect("writable");
                    }
                }
            }
        }
        let trees = trees * whole_trees;
        let (code, said) = interrupted_in(phase, &cache, place.path());
        assert_eq!(code, Some(3), "{phase}: {said}");
        assert!(said.contains("interrupted; the same command continues"), "{phase}: {said}");
        assert!(entries("sources") == trees && entries("configs") == configs, "{phase}: only what is whole");
        assert_eq!((entries("scratch"), entries("bases")), (0, 0), "{phase}");
        assert_eq!(working_in(place.path()), Vec::<String>::new(), "{phase}");
    }
    assert_eq!(entries("unfinished"), 1, "the base build goes on from what is there");
}
