// SPDX-License-Identifier: GPL-2.0-or-later
//! The test definition from end to end on this machine: the real program is fetched, measures, and
//! its result comes back out of the log. Steps run as in a test shell of LAVA; LAVA's own helper
//! is replaced by one that notes how it was called, because there is no LAVA here.

use crate::machine::board_binary;
use kernmark_validation::samples::{ChunkProblem, Expected, InBand, parse_log, results_in_log};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../test-definitions");
const HELPER: &str = "#!/bin/sh\necho \"$*\" >>\"$CASES\"\necho \"<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=$1>\"\n";

#[derive(Deserialize)]
struct Definition {
    params: BTreeMap<String, String>,
    run: Run,
}

#[derive(Deserialize)]
struct Run {
    steps: Vec<String>,
}

/// Answers one GET with `file` and takes one PUT; gives back what was PUT, with its head.
fn serve(file: Vec<u8>) -> (String, JoinHandle<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let thread = std::thread::spawn(move || {
        let (_, _, get) = request(&listener);
        answer(get, &file);
        let (head, body, put) = request(&listener);
        answer(put, b"");
        (head, body)
    });
    (format!("http://{address}"), thread)
}

fn request(listener: &TcpListener) -> (String, Vec<u8>, TcpStream) {
    let (stream, _) = listener.accept().expect("a client");
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).expect("readable"), 0, "{head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |text| text.parse().expect("a number"))];
    if head.contains("Expect: 100-continue") {
        (&stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n").expect("writable");
    }
    reader.read_exact(&mut body).expect("readable");
    (head, body, stream)
}

fn answer(mut stream: TcpStream, body: &[u8]) {
    write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len())
        .and_then(|()| stream.write_all(body))
        .expect("writable");
}

/// Runs the steps of the definition at `root` and gives back the console.
fn run_steps(root: &Path, parameters: &[(&str, &str)]) -> Vec<u8> {
    let text =
        std::fs::read_to_string(root.join("automated/linux/kernmark/kernmark.yaml")).expect("readable");
    let definition: Definition = serde_yaml::from_str(&text).expect("a definition");
    let steps = definition.run.steps.join("\n");
    let path = format!("{}:{}", root.join("bin").display(), std::env::var("PATH").expect("a PATH"));
    let mut shell = Command::new("/bin/sh");
    shell.current_dir(root).args(["-c", &format!("set -e\nset -x\n{steps}\n")]).envs(definition.params);
    shell.env("PATH", path).env("CASES", root.join("cases")).env_remove("KMSG");
    shell.env("UPLOAD_TOKEN", "secret-of-a-test").envs(parameters.iter().copied());
    let out = shell.output().expect("a POSIX shell");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let console = [out.stdout, out.stderr].concat();
    assert!(!String::from_utf8_lossy(&console).contains("secret-of-a-test"));
    console
}

/// A copy of the layout with a stand-in for LAVA's helper.
fn layout() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("temporary directory");
    let copied =
        Command::new("cp").args(["-r", &format!("{DEFINITIONS}/automated")]).arg(root.path()).status();
    assert!(copied.expect("cp").success());
    std::fs::create_dir(root.path().join("bin")).expect("writable");
    let helper = root.path().join("bin/lava-test-case");
    std::fs::write(&helper, HELPER).expect("writable");
    std::fs::set_permissions(&helper, PermissionsExt::from_mode(0o755)).expect("ours");
    root
}

/// A console as LAVA's server hands it out.
fn as_lava_log(console: &[u8]) -> String {
    let text = String::from_utf8_lossy(console);
    let record = |line: &str| {
        let text = serde_json::to_string(line).expect("text");
        format!("- {{\"dt\": \"2026-11-30T21:20:57.293509\", \"lvl\": \"target\", \"msg\": {text}}}\n")
    };
    text.lines().map(record).collect()
}

const SHORT: [(&str, &str); 7] = [
    ("WORKLOADS", "control.getppid"),
    ("SAMPLES", "3"),
    ("OPERATIONS", "16"),
    ("POINT", "base-A"),
    ("PROTOCOL", "f00d"),
    ("KEEP_SETTINGS", "yes"),
    ("SETTLE_S", ""),
];

#[test]
fn a_fetched_program_measures_and_its_result_comes_back_out_of_the_log() {
    let root = layout();
    let program = board_binary();
    let checksum: String = Sha256::digest(&program).iter().map(|byte| format!("{byte:02x}")).collect();
    let (url, server) = serve(program);
    let board = format!("{url}/kernmark-board");
    let upload = format!("{url}/results/base-A.jsonl");
    let place = [("BOARD", board.as_str()), ("BOARD_SHA256", &checksum), ("UPLOAD_URL", &upload)];
    let console = run_steps(root.path(), &[&SHORT[..], &place].concat());

    let written = std::fs::read(root.path().join("automated/linux/kernmark/output/kernmark.jsonl"))
        .expect("left by the script");
    for log in [&console[..], as_lava_log(&console).as_bytes()] {
        let InBand { results, problems } = results_in_log(log);
        assert_eq!(problems, []);
        assert_eq!(results.iter().map(|r| &r.lines).collect::<Vec<_>>(), [&written]);
    }
    let log = parse_log(&written, b"", Expected { point: "base-A", protocol: "f00d" });
    assert_eq!((log.problems, log.samples.len()), (vec![], 3));

    let cases = std::fs::read_to_string(root.path().join("cases")).expect("the helper was called");
    let call = cases.lines().find(|line| line.starts_with("control.getppid.call ")).expect("a metric");
    assert!(call.contains("--result pass --measurement ") && call.ends_with(" --units ns"), "{call}");
    assert!(cases.lines().any(|line| line == "kernmark-board --result pass"), "{cases}");
    assert_eq!(cases.lines().last(), Some("kernmark-upload --result pass"));

    let (head, body) = server.join().expect("served");
    assert!(head.starts_with("PUT /results/base-A.jsonl "), "{head}");
    assert!(head.contains("Authorization: Bearer secret-of-a-test\r\n"), "{head}");
    assert_eq!(body, written);
}

#[test]
fn a_message_in_the_middle_of_a_real_result_is_taken_out() {
    let root = layout();
    let board = root.path().join("bin/kernmark-board");
    std::fs::write(&board, board_binary()).expect("writable");
    std::fs::set_permissions(&board, PermissionsExt::from_mode(0o755)).expect("ours");
    let board = board.to_str().expect("UTF-8");
    let place = [("BOARD", board), ("SINGLE_OPERATIONS", "yes"), ("OPERATIONS", "2000")];
    let console = run_steps(root.path(), &[&SHORT[..2], &SHORT[3..], &place].concat());
    let whole = results_in_log(&console);
    assert_eq!((whole.results.len(), whole.problems.len()), (1, 0), "{:?}", whole.problems);
    let text = String::from_utf8_lossy(&console);
    let at = text.find("@kernmark-chunk ").expect("chunks") + 300;
    let broken = format!("{}[   12.345678] usb 1-1: new device\r\n{}", &text[..at], &text[at..]);
    let mended = results_in_log(broken.as_bytes());
    assert_eq!(mended.results, whole.results);
    assert!(
        matches!(&mended.problems[..], [ChunkProblem::Split { mended: true, .. }]),
        "{:?}",
        mended.problems
    );
}

#[test]
fn a_definition_without_a_program_says_so_and_still_reports() {
    let root = layout();
    let console = run_steps(root.path(), &[("BOARD", "http://127.0.0.1:1/kernmark-board")]);
    assert!(String::from_utf8_lossy(&console).contains("needs its SHA-256"));
    let cases = std::fs::read_to_string(root.path().join("cases")).expect("the helper was called");
    assert_eq!(cases, "kernmark-fetch --result fail\n");
    assert_eq!(results_in_log(&console), InBand::default());
}
