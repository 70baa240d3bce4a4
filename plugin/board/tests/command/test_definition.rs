// SPDX-License-Identifier: GPL-2.0-or-later
//! `test-definitions/` in the layout of Linaro's repository of that name: the definition keeps its
//! rules, every parameter reaches this program, and the script leaves what it should.

use super::{SHORT_RUN, board, is_ordinary, output};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DIRECTORY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../test-definitions/automated/linux/kernmark");

/// Parameters that the script itself takes, by its option.
const OF_THE_SCRIPT: &[(&str, &str)] = &[("BOARD", "-b"), ("BOARD_SHA256", "-s"), ("UPLOAD_URL", "-u")];
/// The parameter that becomes arguments without an option.
const WORKLOADS: &str = "WORKLOADS";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    metadata: BTreeMap<String, OneOrMore>,
    params: BTreeMap<String, String>,
    run: Run,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    steps: Vec<String>,
}

fn definition() -> Definition {
    serde_yaml::from_str(&text("kernmark.yaml")).expect("a definition of strings")
}

fn text(file: &str) -> String {
    std::fs::read_to_string(Path::new(DIRECTORY).join(file)).expect("readable")
}

/// What `validate.py` of Linaro's test-definitions checks of a definition (its checks of shell
/// scripts are shellcheck's, which `scripts/test` runs): the mandatory keys are there and not
/// empty, the name has no blank, the format is a known one, there are steps.
#[test]
fn the_definition_keeps_the_rules_of_its_repository() {
    let Definition { metadata, run, .. } = definition();
    for key in ["name", "format", "description", "maintainer", "os", "devices"] {
        let filled = match metadata.get(key) {
            Some(OneOrMore::One(text)) => !text.is_empty(),
            Some(OneOrMore::More(list)) => !list.is_empty() && list.iter().all(|text| !text.is_empty()),
            None => false,
        };
        assert!(filled, "{key}");
    }
    assert!(matches!(&metadata["name"], OneOrMore::One(name) if name == "kernmark"));
    assert!(
        matches!(&metadata["format"], OneOrMore::One(format) if format == "Lava-Test Test Definition 1.0")
    );
    assert!(!run.steps.is_empty());
    // The layout: the steps start at the root of the repository.
    assert_eq!(run.steps[0], "cd ./automated/linux/kernmark/");
    assert!(run.steps.iter().any(|step| step.contains("../../utils/send-to-lava.sh ./output/result.txt")));
    // A step is echoed to the log before it runs: a signal in it would count twice.
    assert!(run.steps.iter().all(|step| !step.contains("LAVA_SIGNAL")));
}

#[test]
fn every_parameter_exists_as_a_flag_and_is_passed_on() {
    let Definition { params, run, .. } = definition();
    let help = String::from_utf8(output(&["run", "--help"]).stdout).expect("UTF-8");
    let flags: BTreeSet<&str> = help
        .split_whitespace()
        .map(|word| word.trim_end_matches(','))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .collect();
    let step = run.steps.iter().find(|step| step.contains("kernmark.sh")).expect("it is started");
    assert!(params.len() > 10, "{params:?}");
    for name in params.keys() {
        let flag = format!("--{}", name.to_lowercase().replace('_', "-"));
        let passed = if name == WORKLOADS {
            assert!(help.contains(&format!("[{WORKLOADS}]...")), "{help}");
            " ${WORKLOADS} ".to_owned()
        } else if let Some((_, option)) = OF_THE_SCRIPT.iter().find(|(own, _)| own == name) {
            format!(" {option} \"${{{name}}}\" ")
        } else {
            assert!(flags.contains(flag.as_str()), "{name}: there is no {flag} among {flags:?}");
            format!("${{{name}:+{flag}")
        };
        assert!(step.contains(&passed), "{name}: {passed:?} is not in {step}");
    }
    // And the other way round: no flag or parameter in the step that does not exist.
    for word in step.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')) {
        if word.starts_with("--") && word.len() > 2 {
            assert!(flags.contains(word), "there is no {word}");
        }
    }
    for used in step.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next()) {
        assert!(params.contains_key(used), "{used} is no parameter");
    }
}

#[test]
fn the_script_knows_nothing_of_lava() {
    assert!(!text("kernmark.sh").to_lowercase().contains("lava"));
    assert!(text("kernmark.sh").starts_with("#!/bin/sh\n# SPDX-License-Identifier: GPL-2.0-or-later\n"));
    assert!(text("kernmark.yaml").starts_with("# SPDX-License-Identifier: GPL-2.0-or-later\n"));
}

/// A copy of the layout, so that results are left in no source directory.
fn layout() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().expect("temporary directory");
    let directory = root.path().join("automated/linux/kernmark");
    std::fs::create_dir_all(&directory).expect("writable");
    std::fs::copy(Path::new(DIRECTORY).join("kernmark.sh"), directory.join("kernmark.sh")).expect("copied");
    (root, directory)
}

fn script(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("./kernmark.sh");
    command.current_dir(directory).args(arguments).env_remove("KMSG").env_remove("UPLOAD_TOKEN");
    command.output().expect("a POSIX shell")
}

fn read(directory: &Path, file: &str) -> String {
    std::fs::read_to_string(directory.join("output").join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// This program's own SHA-256.
fn checksum() -> String {
    let program = std::fs::read(env!("CARGO_BIN_EXE_kernmark-board")).expect("built");
    Sha256::digest(program).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_run_by_hand_leaves_cases_everything_and_chunks() {
    let (_root, directory) = layout();
    let start = ["-b", env!("CARGO_BIN_EXE_kernmark-board"), "-s", &checksum(), "--"];
    let found = script(&directory, &[&start, &SHORT_RUN[1..]].concat());
    let said = String::from_utf8_lossy(&found.stderr);
    assert_eq!(found.status.code(), Some(if is_ordinary() { 0 } else { 4 }), "{said}");
    let cases = read(&directory, "result.txt");
    let last = if is_ordinary() { "kernmark-board pass" } else { "kernmark-board fail" };
    assert_eq!(cases.lines().last(), Some(last));
    for line in cases.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        assert!([2, 4].contains(&words.len()), "{line}");
        assert!(["pass", "fail", "skip"].contains(&words[1]), "{line}");
        assert!(words.get(2).is_none_or(|value| value.parse::<f64>().is_ok()), "{line}");
    }
    assert_eq!(cases.contains("control.getppid.call pass "), is_ordinary(), "{cases}");
    let log = String::from_utf8(found.stdout).expect("UTF-8");
    assert!(log.starts_with(&read(&directory, "kernmark.txt")));
    // The chunks are those of the file, which is as the run wrote it.
    let file = directory.join("output/kernmark.jsonl");
    let shown = |format| board(&["show", "--format", format]).arg(&file).output().expect("starts").stdout;
    let chunks = String::from_utf8(shown("chunks")).expect("UTF-8");
    assert!(chunks.starts_with("@kernmark-chunk ") && log.ends_with(&chunks), "{log}");
    assert_eq!(shown("jsonl"), std::fs::read(&file).expect("written"));
    // A second run keeps what the first one left.
    assert_eq!(script(&directory, &["-b", "/no/such/program"]).status.code(), Some(127));
    let kept = std::fs::read_dir(&directory).expect("readable").count();
    assert_eq!(kept, 3, "the script, output and the earlier output");
}

#[test]
fn what_stands_in_the_way_is_a_case_that_failed() {
    let (_root, directory) = layout();
    let own = env!("CARGO_BIN_EXE_kernmark-board");
    let wrong = "0".repeat(64);
    for (arguments, code, case, reason) in [
        (&["-b", own, "-s", &wrong][..], 4, "kernmark-fetch fail", "is not the program with SHA-256 0000"),
        (&["-b", "http://127.0.0.1/x"], 2, "kernmark-fetch fail", "needs its SHA-256"),
        (&["-b", own, "--", "--no-such-flag"], 2, "kernmark-board fail", "no results"),
        (&["-b", "/no/such/program", "--"], 127, "kernmark-board fail", "no results"),
    ] {
        let found = script(&directory, arguments);
        let said = String::from_utf8_lossy(&found.stderr);
        assert_eq!(found.status.code(), Some(code), "{arguments:?}: {said}");
        assert_eq!(read(&directory, "result.txt"), format!("{case}\n"));
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    assert_eq!(script(&directory, &["-x"]).status.code(), Some(2));
}

#[test]
fn results_that_cannot_be_sent_are_still_in_the_log() {
    let (_root, directory) = layout();
    let start = ["-b", env!("CARGO_BIN_EXE_kernmark-board"), "-u", "http://127.0.0.1:1/results", "--"];
    let found = script(&directory, &[&start, &SHORT_RUN[1..]].concat());
    assert!(String::from_utf8_lossy(&found.stderr).contains("they are in the log"));
    assert_eq!(read(&directory, "result.txt").lines().last(), Some("kernmark-upload fail"));
    assert!(String::from_utf8_lossy(&found.stdout).contains("@kernmark-chunk "));
}
