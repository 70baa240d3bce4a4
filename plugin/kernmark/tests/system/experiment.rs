// SPDX-License-Identifier: GPL-2.0-or-later
//! The main job as a user runs it: the program, real kernels, real boots.

use kernmark_validation::compare::{Comparison, VerdictName};
use kernmark_validation::findings::Findings;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// What one run left.
pub struct Run {
    pub place: tempfile::TempDir,
    out: Output,
}

impl Run {
    pub fn code(&self) -> i32 {
        self.out.status.code().expect("ended by itself")
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.out.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.out.stderr).into_owned()
    }

    pub fn first_line(&self) -> String {
        self.stdout().lines().next().unwrap_or_default().to_owned()
    }

    pub fn findings(&self) -> Findings {
        let text = std::fs::read_to_string(self.place.path().join("bundle/findings.json"))
            .unwrap_or_else(|e| panic!("no findings ({e}):\n{}{}", self.stdout(), self.stderr()));
        serde_json::from_str(&text).expect("findings")
    }

    /// The comparison of the whole series with the base.
    pub fn comparison(&self, metric: &str) -> Comparison {
        let findings = self.findings();
        let last = findings.plan.builds.last().expect("builds").label.clone();
        let found = findings
            .comparison
            .comparisons
            .iter()
            .find(|c| c.metric == metric && c.new_build == last && c.old_build == "base");
        found.expect("compared").clone()
    }
}

pub fn command(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kernmark"));
    command.args(arguments).current_dir(place);
    if let Some(board) = std::env::var_os("KERNMARK_BOARD_BINARY") {
        command.arg("--board-binary").arg(board);
    }
    command
}

pub fn check(series: &Path, more: &[&str]) -> Run {
    let place = tempfile::tempdir().expect("temporary directory");
    let series = series.display().to_string();
    let arguments: Vec<&str> =
        ["check", &series, "--out", "bundle", "--quiet"].iter().chain(more).copied().collect();
    let out = command(place.path(), &arguments).output().expect("starts");
    Run { place, out }
}

/// The null series, one build for each patch; several tests look at it.
pub fn null() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let run = check(&sample("null"), &["--each-patch"]);
        assert_eq!(run.code(), 0, "{}{}", run.stdout(), run.stderr());
        run
    })
}

pub fn sample(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/../../examples/series/{name}.mbox", env!("CARGO_MANIFEST_DIR")))
}

pub fn case(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/data/series/{name}.mbox", env!("CARGO_MANIFEST_DIR")))
}

#[test]
fn the_sample_series_is_longer_and_the_patch_is_named() {
    let run = check(&sample("kernfs-removal"), &["--each-patch", "--format", "mail"]);
    assert_eq!(run.code(), 1, "{}", run.stderr());
    // Paragraphs are filled, so words may stand on either side of a line end.
    let mail = run.stdout().split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "In-Reply-To: <20261005-kernfs-removal-2@example.org>",
        "LONGER: rmdir() of an empty cgroup executes",
        "with this patch (2/2)",
        "each of its 26 kernfs nodes",
        "the same in all 18 boots",
        "ilookup 0 -> 26, 25 of them return NULL",
    ] {
        assert!(mail.contains(expected), "{expected:?} is missing in\n{mail}");
    }
    let findings = run.findings();
    assert_eq!(findings.facts["kernfs.rmdir nodes"], 26);
    let calls = |function: &str| {
        let found = findings
            .call_changes
            .iter()
            .find(|c| c.function == function && c.operation == "rmdir" && c.caller.is_none());
        found.unwrap_or_else(|| panic!("{function} is not among the changed calls")).per_operation.clone()
    };
    let [base, first, second] = calls("down_write")[..] else { panic!("three builds") };
    assert_eq!((first - base, second - first), (26.0, 0.0), "write locks come from the first patch");
    assert_eq!(calls("ilookup"), [0.0, 0.0, 26.0]);
    let path = run.comparison("remove").path.expect("path evidence");
    assert!(path.exact, "all seeds agree");
    let growth =
        findings.growth.iter().find(|g| g.build == "2/2" && g.metric == "remove").expect("two leaf sizes");
    assert_eq!(growth.object, "kernfs node");
    assert!(growth.per_object >= 1.0, "{growth:?}");
    assert_eq!(findings.executed.executed(), findings.executed.changed());
}

#[test]
fn a_null_series_is_the_same_and_nothing_of_it_ran() {
    let run = null();
    assert!(run.first_line().starts_with("SAME: "), "{}", run.stdout());
    assert!(run.first_line().ends_with("executed: 0 of 1 changed functions"), "{}", run.stdout());
    let findings = run.findings();
    assert_eq!(findings.builds[1].same_image_as.as_deref(), Some("base"), "a comment changes no image");
    assert_ne!(findings.builds[2].image_sha256, findings.builds[0].image_sha256);
    for metric in ["remove", "call"] {
        let comparison = run.comparison(metric);
        assert_eq!(comparison.verdict.name, VerdictName::Same, "{metric}");
        assert_eq!(comparison.verdict.change_percent, Some(0.0), "{metric}");
        assert!(comparison.path.expect("path evidence").exact, "{metric}: the same for every seed");
    }
}

#[test]
fn one_lock_pair_per_node_is_found_to_the_instruction() {
    let run = check(&case("one-lock"), &[]);
    let comparison = run.comparison("remove");
    assert_eq!(comparison.verdict.name, VerdictName::Longer);
    let path = comparison.path.expect("path evidence");
    assert!(path.exact && path.seeds.len() == 3, "{path:?}");
    assert_eq!(path.difference % 26.0, 0.0, "the same for each of the 26 nodes");
    let change = comparison.verdict.change_percent.expect("a change");
    assert!((0.3..1.0).contains(&change), "{change}");
    // Below the threshold of 5 %, but it grows with the number of nodes.
    assert_eq!(run.code(), 1, "{}", run.stdout());
}

#[test]
fn what_cannot_be_built_here_is_not_the_same() {
    let run = check(&case("wrong-arch"), &[]);
    assert_eq!(run.code(), 3);
    assert!(run.first_line().starts_with("NOT BUILT"), "{}", run.stdout());
    assert!(run.stdout().contains("arch/arm64/mm/context.c"), "{}", run.stdout());
}

#[test]
fn a_hostile_build_is_named_in_the_report() {
    let run = check(&case("hostile-makefile"), &["--boots", "2"]);
    let text = run.stdout();
    assert!(text.contains("WARNING: the build of patched") && text.contains("kernmark-was-here"), "{text}");
}

#[test]
fn each_bad_input_has_its_own_message_and_code() {
    let place = tempfile::tempdir().expect("temporary directory");
    let file = |name: &str, content: &[u8]| {
        let path = place.path().join(name);
        std::fs::write(&path, content).expect("writable");
        path
    };
    let evil = String::from_utf8(std::fs::read(case("one-lock")).expect("readable"))
        .expect("ascii")
        .replace("fs/kernfs/dir.c", "../../../etc/passwd");
    for (path, code, expected) in [
        (file("words", b"just words\n"), 2, "not a mail"),
        (file("huge", &vec![b'x'; 100 << 20]), 2, "larger than 64 MiB"),
        (file("evil", evil.as_bytes()), 2, "passwd"),
        (place.path().join("none"), 2, "No such file"),
        (case("missing-patch"), 2, "2/3"),
        (case("does-not-apply"), 2, "fs/kernfs/dir.c hunk #2"),
    ] {
        let run = check(&path, &[]);
        assert_eq!(run.code(), code, "{}: {}", path.display(), run.stderr());
        assert!(run.stderr().contains(expected), "{}: {}", path.display(), run.stderr());
        assert!(!run.stderr().contains('\u{1b}'), "{}", run.stderr());
    }
}

#[test]
fn each_bad_kernel_has_its_own_message_and_code() {
    for (name, expected) in [
        ("does-not-compile", "kernfs_removals"),
        ("panics", "the kernel panicked"),
        ("forged-results", "do not hold"),
        ("ends-early", "stop after"),
    ] {
        let run = check(&case(name), &["--boots", "2"]);
        assert_eq!(run.code(), 3, "{name}: {}{}", run.stdout(), run.stderr());
        let text = run.stdout();
        assert!(run.first_line().starts_with("INVALID"), "{name}: {text}");
        assert!(text.contains(expected), "{name}: {text}");
        assert!(text.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)), "{name}: not escaped");
    }
}

#[test]
fn a_full_disk_is_named_and_nothing_is_lost() {
    let small = tempfile::tempdir().expect("temporary directory");
    let place = small.path().display().to_string();
    let series = sample("null").display().to_string();
    let kernmark = env!("CARGO_BIN_EXE_kernmark");
    // A private mount: it is gone with the process.
    let user = if nix::unistd::geteuid().is_root() { &[][..] } else { &["--user", "--map-root-user"][..] };
    let script = "mount -t tmpfs -o size=64m tmpfs \"$1\" && cd \"$1\" && exec \"$2\" check \"$3\" --cache \"$1/cache\" --quiet";
    let out = Command::new("unshare")
        .args(user)
        .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
        .args([&place, kernmark, &series])
        .output()
        .expect("unshare is installed");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(4), "{said}");
    assert!(said.contains("full") && said.contains("make room"), "{said}");
}

#[test]
fn an_interrupted_run_continues_from_what_is_there() {
    let place = tempfile::tempdir().expect("temporary directory");
    let series = sample("null").display().to_string();
    let arguments = ["check", &series, "--out", "bundle", "--quiet"];
    let mut child = command(place.path(), &arguments).spawn().expect("starts");
    let points = place.path().join("bundle/points");
    // Two boots run at once: when a third point is there, some are done and some are not.
    while !points.join("3").is_dir() {
        assert!(child.try_wait().expect("a child").is_none(), "ended before it could be interrupted");
        std::thread::yield_now();
    }
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("our own child");
    assert_eq!(child.wait().expect("a child").code(), Some(3));
    let written = |n: &str| std::fs::metadata(points.join(n).join("point.json")).and_then(|m| m.modified());
    let before = written("1").expect("kept");
    let out = command(place.path(), &arguments).output().expect("starts");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(written("1").expect("still there"), before, "boot 1 was not made again");
    assert!(points.join("12").is_dir());
}

#[test]
fn a_bundle_replays_to_the_same_verdict_and_reports() {
    let first = null();
    let bundle = first.place.path().join("bundle");
    let recorded = bundle.display().to_string();
    let again = check(&sample("null"), &["--each-patch", "--runner", "replay", "--replay", &recorded]);
    assert_eq!(again.code(), 0, "{}{}", again.stdout(), again.stderr());
    assert_eq!(again.findings().medians, first.findings().medians);
    for format in ["text", "mail", "html", "json", "kcidb"] {
        let out = Command::new(env!("CARGO_BIN_EXE_kernmark"))
            .args(["report", &bundle.display().to_string(), "--format", format])
            .output()
            .expect("starts");
        assert!(out.status.success() && !out.stdout.is_empty(), "{format}");
    }
}
