// SPDX-License-Identifier: GPL-2.0-or-later
//! The program as a person or a test runner calls it: output formats, exit
//! codes, signals. Nothing here changes a setting of this machine or needs root.

#[path = "command/left_behind.rs"]
mod left_behind;
#[path = "command/unprivileged.rs"]
mod unprivileged;

#[path = "command/test_definition.rs"]
mod test_definition;

use kernmark_wire::{Record, unframe};
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

fn board(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kernmark-board"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    board(arguments).output().expect("the program starts")
}

/// The records of checksummed lines; each must hold and count up.
fn records(text: &[u8]) -> Vec<Record> {
    let text = std::str::from_utf8(text).expect("UTF-8");
    let lines = text.lines().map(|line| unframe(line).unwrap_or_else(|problem| panic!("{problem}: {line}")));
    let (numbers, records): (Vec<u64>, Vec<Record>) = lines.unzip();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    records
}

fn status(records: &[Record]) -> &str {
    let Some(Record::End(end)) = records.last() else { panic!("no end in {records:?}") };
    assert_eq!(end.records as usize, records.len() - 1);
    &end.status
}

/// Whether this process has the ordinary priority that a measurement demands.
fn is_ordinary() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let (_, after_name) = stat.rsplit_once(')').expect("a name in parentheses");
    // nice is field 19; the fields after the name start at 3.
    after_name.split_whitespace().nth(16) == Some("0")
}

const SHORT_RUN: &[&str] =
    &["run", "control.getppid", "--keep-settings", "--samples", "2", "--operations", "8", "--warmups", "1"];

fn short_run(more: &[&str]) -> Output {
    output(&[SHORT_RUN, more].concat())
}

#[test]
fn the_list_is_complete_as_json() {
    let found = output(&["list", "--format", "json"]);
    assert_eq!(found.status.code(), Some(0));
    let list: Vec<kernmark_wire::catalogue::Workload> = serde_json::from_slice(&found.stdout).expect("JSON");
    assert!(list.iter().any(|w| w.id == "control.getppid"));
    let rmdir = list.iter().find(|w| w.id == "kernfs.rmdir").expect("listed");
    assert_eq!(rmdir.arms[0].metrics[1].id, "remove");
    assert_eq!((rmdir.emulator.operations, rmdir.arms[0].amount.samples), (128, 99));
    assert_eq!(rmdir.metric_name(&rmdir.arms[1], &rmdir.arms[1].metrics[1]), "bare_remove");
}

/// The page comes from the list and from nowhere else.
#[test]
fn the_page_of_workloads_is_current() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workloads.md");
    let found = output(&["list", "--format", "markdown"]);
    assert_eq!(found.status.code(), Some(0));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(page, &found.stdout).expect("writable");
    }
    let committed = std::fs::read_to_string(page).expect("docs/workloads.md is there");
    assert_eq!(
        committed,
        String::from_utf8_lossy(&found.stdout),
        "docs/workloads.md is old; UPDATE_GOLDEN=1 cargo test -p kernmark-board writes it anew"
    );
}

#[test]
fn a_run_reports_every_operation_between_start_and_end() {
    let found =
        short_run(&["--format", "jsonl", "--single-operations", "--waiting", "--point", "base-seed1"]);
    let records = records(&found.stdout);
    let Some(Record::Start(start)) = records.first() else { panic!("no start") };
    assert_eq!((start.pass.as_str(), start.point.as_str()), ("run", "base-seed1"));
    assert_eq!(start.default_arms["kernfs.rmdir"], "scx-off");
    if !is_ordinary() {
        assert!(status(&records).contains("nice"), "{}", status(&records));
        assert_eq!(found.status.code(), Some(4));
        return;
    }
    assert_eq!((status(&records), found.status.code()), ("ok", Some(0)));
    let samples = records.iter().filter(|r| matches!(r, Record::Sample(s) if s.operations == 8)).count();
    assert_eq!(samples, 2);
    let operations: Vec<_> =
        records.iter().filter_map(|r| if let Record::Operations(o) = r { Some(o) } else { None }).collect();
    assert_eq!((operations[0].values.len(), operations[0].waiting.len()), (16, 16));
    assert!(records.iter().any(|r| matches!(r, Record::Histogram(h) if h.min > 0)));
    assert!(records.iter().any(|r| matches!(r, Record::Check(c) if c.name == "affinity" && c.pass)));
    for when in ["before", "after"] {
        let known =
            |r: &Record| matches!(r, Record::Environment(e) if e.when == when && e.key == "kernel.release");
        assert!(records.iter().any(known), "{when}");
    }
}

#[test]
fn the_samples_table_goes_to_a_file() {
    let place = tempfile::tempdir().expect("temporary directory");
    let file = place.path().join("samples.tsv");
    let found = short_run(&["--format", "tsv", "--output", file.to_str().expect("UTF-8")]);
    assert_eq!(found.stdout, b"");
    let text = std::fs::read_to_string(file).expect("written");
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("experiment\tpoint\tbuild\tboot\tworkload\tmetric\tunit\tbetter\tsample\tvalue")
    );
    if is_ordinary() {
        assert_eq!(lines.clone().count(), 2);
        assert!(lines.all(|line| line.split('\t').nth(5) == Some("call")), "{text}");
    }
}

#[test]
fn lava_hears_how_it_ended_and_gets_everything() {
    let found = short_run(&["--format", "lava"]);
    let text = String::from_utf8(found.stdout).expect("UTF-8");
    let result = if is_ordinary() { "pass" } else { "fail" };
    let ended = format!("<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernmark-board RESULT={result}>");
    let mut lines = text.lines().skip_while(|line| *line != ended);
    assert!(lines.next().is_some(), "{text}");
    assert!(lines.clone().count() > 1 && lines.all(|line| line.starts_with("@kernmark-chunk ")), "{text}");
}

#[test]
fn results_are_shown_again_with_their_status() {
    let place = tempfile::tempdir().expect("temporary directory");
    let file = place.path().join("results.jsonl");
    let file = file.to_str().expect("UTF-8");
    let ran = short_run(&["--format", "jsonl", "--output", file]);
    let shown = output(&["show", file, "--format", "jsonl"]);
    assert_eq!(shown.stdout, std::fs::read(file).expect("written"));
    assert_eq!(shown.status.code(), ran.status.code());
    let missing = output(&["show", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read /no/such/file"));
}

#[test]
fn an_arm_that_cannot_run_is_skipped_and_missed() {
    let found = output(&["run", "kernfs.rmdir", "--arm", "scx-cb", "--keep-settings", "--format", "jsonl"]);
    let records = records(&found.stdout);
    if is_ordinary() {
        assert_eq!((status(&records), found.status.code()), ("ok", Some(3)));
        let skip = records.iter().find_map(|r| if let Record::Skip(s) = r { Some(s) } else { None });
        assert_eq!(skip.map(|s| s.arm.as_str()), Some("scx-cb"));
    }
    assert!(!records.iter().any(|r| matches!(r, Record::Sample(_))), "never replaced by another");
}

#[test]
fn what_is_not_as_asked_is_refused() {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").expect("sysfs");
    for (arguments, code, text) in [
        (&["run", "no.such"][..], 2, "there are control.getppid, "),
        (&["run", "control.getppid", "--keep-settings", "--samples", "0"], 2, "0 samples"),
        (
            &["run", "control.getppid", "--keep-settings", "--samples", "18446744073709551615"],
            2,
            "not between",
        ),
        (&["run", "--arm", "typo"], 2, "there are plain, "),
        (&["run", "--clock", "sundial"], 2, "monotonic-raw"),
        (&["run", "--output", "/no/such/directory/file"], 2, "cannot write"),
        (&["run", "control.getppid", "--cpus", "8191"], 3, "8191"),
        (&["run", "control.getppid", "--expect-cpus", "5000"], 4, "5000 were expected"),
    ] {
        let found = output(arguments);
        let said = String::from_utf8_lossy(&found.stderr);
        assert_eq!(found.status.code(), Some(code), "{arguments:?} with CPUs {online}: {said}");
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
}

#[test]
fn a_signal_ends_a_run_in_order() {
    if !is_ordinary() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let endless = ["--format", "jsonl", "--warmups", "18446744073709551615"];
        let mut child = board(&["run", "control.getppid", "--keep-settings"])
            .args(endless)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut progress = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        while !progress.contains("sample 1/") {
            assert_ne!(stderr.read_line(&mut progress).expect("readable"), 0, "it ended early: {progress}");
        }
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
        nix::sys::signal::kill(pid, signal).expect("our own child");
        let mut text = Vec::new();
        child.stdout.take().expect("piped").read_to_end(&mut text).expect("readable");
        assert_eq!(child.wait().expect("ends").code(), Some(3), "{signal}");
        assert!(status(&records(&text)).starts_with("failed: interrupted"), "{signal}");
    }
}

#[test]
fn the_environment_is_a_text_for_people_too() {
    let found = output(&["environment"]);
    let text = String::from_utf8(found.stdout).expect("UTF-8");
    assert!(text.lines().any(|line| line.starts_with("kernel.release = ")), "{text}");
    assert_eq!(found.status.code(), Some(0));
}

/// What the program is made of goes to every board and every guest.
#[test]
fn dependencies_are_those_of_the_list() {
    const ALLOWED: &[&str] = &[
        "base64",
        "clap",
        "crc32fast",
        "flate2",
        "hdrhistogram",
        "kernmark-wire",
        "nix",
        "serde",
        "serde_json",
        "sha2",
        "thiserror",
    ];
    let manifest =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).expect("manifest");
    let section = manifest.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next());
    let names: Vec<&str> = section
        .expect("a section of dependencies")
        .lines()
        .filter_map(|line| {
            line.split(['.', '=', ' ']).next().filter(|name| !name.is_empty() && !name.starts_with('#'))
        })
        .collect();
    assert!(names.len() > 3, "{names:?}");
    for name in names {
        assert!(ALLOWED.contains(&name), "{name} is not on the list of what the board binary may depend on");
    }
    let targets = manifest.lines().filter(|line| line.contains("dependencies]")).count();
    assert_eq!(targets, 2, "dependencies and dev-dependencies, no others");
}
