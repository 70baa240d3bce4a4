// SPDX-License-Identifier: GPL-2.0-or-later
//! Plans of a person's own, and series that are hard to attribute: the program, real kernels, real boots.

use crate::experiment::{case, check, command, sample};
use kernmark::cache::Cache;
use kernmark::interrupt::Interrupt;
use kernmark::kernel::{Build, Builder, Configuration, Fragment, TreeSource};
use kernmark_validation::compare::VerdictName;
use kernmark_validation::findings::Findings;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The base kernel of the user's own cache, as an image that is there.
fn base() -> &'static Build {
    static BASE: OnceLock<Build> = OnceLock::new();
    BASE.get_or_init(|| {
        let cache = Cache::open(None, |name| std::env::var_os(name).map(Into::into)).expect("a cache");
        let interrupt = Interrupt::default();
        let source = TreeSource::find(None, None, None).expect("Debian's source is installed");
        let tree = source.unpack(&cache, &interrupt).expect("unpacked");
        let logs = tempfile::tempdir().expect("temporary directory");
        let configuration = Configuration::new(Fragment::Minimal, &[]);
        let builder = Builder::new(&cache, &tree, configuration, &interrupt, logs.path()).expect("tools");
        builder.base(&mut |_| {}).expect("compiles")
    })
}

fn findings(bundle: &Path) -> Findings {
    let text = std::fs::read_to_string(bundle.join("findings.json")).expect("finished");
    serde_json::from_str(&text).expect("findings")
}

/// Runs the plan of `text` in `place`, where it is PLAN.yaml.
fn run(place: &Path, text: &str) -> Output {
    std::fs::write(place.join("PLAN.yaml"), text).expect("writable");
    command(place, &["experiment", "run", "PLAN.yaml", "--out", "bundle", "--quiet"])
        .output()
        .expect("starts")
}

fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// Every number follows from the boots that were asked for.
fn verify(bundle: &Path) {
    let out =
        Command::new(env!("CARGO_BIN_EXE_kernmark")).arg("verify").arg(bundle).output().expect("starts");
    assert!(out.status.success(), "{}", said(&out));
}

/// Three kinds of builds in the nested order: an image that is there, patches, one patch of them.
#[test]
fn images_and_patches_in_the_nested_order() {
    let place = tempfile::tempdir().expect("temporary directory");
    std::fs::copy(sample("kernfs-removal"), place.path().join("both.mbox")).expect("writable");
    std::fs::copy(case("one-lock"), place.path().join("lock.mbox")).expect("writable");
    let image = base().image.display();
    let config = base().image.with_file_name("config");
    let plan = format!(
        "version: 1\nexperiment: what a removal costs\nbuilds:\n  - {{label: parent, image: {image}, image_config: {}}}\n  \
         - {{label: child, patches: [both.mbox]}}\n  - {{label: probe, patches: [lock.mbox]}}\norder: nested\nrepeats: 1\n\
         workloads: [{{id: kernfs.rmdir}}]\n",
        config.display()
    );
    let out = run(place.path(), &plan);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let bundle = place.path().join("bundle");
    let found = findings(&bundle);
    let booted: Vec<&str> =
        found.medians.iter().filter(|m| m.metric == "remove").map(|m| m.build.as_str()).collect();
    assert_eq!(booted, ["parent", "child", "probe", "child", "parent"]);
    assert_eq!(
        found.plan.builds[0].source.as_ref().expect("an image").image_sha256,
        Some(base().record.image_sha256.clone())
    );
    assert_eq!(found.builds[0].identity.release, base().record.identity.release);
    assert!(found.builds.iter().all(|b| b.allowed_differences.is_empty()), "{:?}", found.builds);
    let recovery = found.comparison.recovery.iter().find(|r| r.metric == "remove").expect("a nested order");
    assert_eq!(
        (recovery.parent.as_str(), recovery.child.as_str(), recovery.build.as_str()),
        ("parent", "child", "probe")
    );
    assert!((80.0..100.0).contains(&recovery.recovery_percent), "{recovery:?}");
    verify(&bundle);
}

#[test]
fn builds_that_differ_elsewhere_are_refused_by_name() {
    let place = tempfile::tempdir().expect("temporary directory");
    std::fs::copy(case("one-lock"), place.path().join("lock.mbox")).expect("writable");
    let image = base().image.display();
    // Nobody says with which configuration the image was made.
    let plan = format!(
        "version: 1\nexperiment: e\nbuilds:\n  - {{label: old, image: {image}}}\n  - {{label: new, patches: [lock.mbox]}}\n\
         order: sandwich\nrepeats: 1\nworkloads: [{{id: kernfs.rmdir}}]\n"
    );
    let out = run(place.path(), &plan);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(
        said(&out).contains("new cannot be compared with old: they differ in compiler, canonical config"),
        "{}",
        said(&out)
    );
    assert!(!place.path().join("bundle/points").exists(), "nothing was booted");
    // Said beforehand, it is allowed, listed, and in the hash.
    std::fs::remove_dir_all(place.path().join("bundle")).expect("writable");
    let allowed = plan.replace("[lock.mbox]}", "[lock.mbox], may_differ: [compiler, config]}");
    let out = run(place.path(), &allowed);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let found = findings(&place.path().join("bundle"));
    let booted: Vec<&str> =
        found.medians.iter().filter(|m| m.metric == "remove").map(|m| m.build.as_str()).collect();
    assert_eq!(booted, ["old", "new", "old"]);
    assert!(
        found.builds[1].allowed_differences[0].starts_with("compiler (unknown in old, gcc"),
        "{:?}",
        found.builds[1]
    );
}

#[test]
fn a_patch_that_does_not_build_leaves_the_others_measured() {
    let run = check(&case("gap"), &["--each-patch", "--boots", "2", "--workload", "kernfs.rmdir"]);
    assert_eq!(run.code(), 1, "{}", run.stdout());
    let text = run.stdout();
    assert!(text.contains("2/4 does not build: 2/4 does not compile: fs/kernfs/dir.c:"), "{text}");
    let found = run.findings();
    let labels: Vec<&str> = found.builds.iter().map(|b| b.label.as_str()).collect();
    assert_eq!(labels, ["base", "1/4", "3/4", "4/4"]);
    let culprits: Vec<&str> = found.verdict.culprits.iter().map(|c| c.build.as_str()).collect();
    assert_eq!(culprits, ["4/4"]);
    assert!(run.first_line().contains("(4/4)"), "{text}");
    verify(&run.place.path().join("bundle"));
}

#[test]
fn seven_patches_are_bisected_and_the_one_is_named() {
    let run = check(&case("seven"), &["--each-patch", "--boots", "2", "--workload", "kernfs.rmdir"]);
    assert_eq!(run.code(), 1, "{}", run.stdout());
    let found = run.findings();
    let labels: Vec<&str> = found.builds.iter().map(|b| b.label.as_str()).collect();
    assert_eq!(labels, ["base", "3/7", "4/7", "5/7", "7/7"], "five of eight kernels were built");
    assert_eq!(found.verdict.culprits[0].build, "5/7");
    assert!(run.first_line().contains("(5/7)"), "{}", run.stdout());
    assert_eq!(run.comparison("remove").verdict.name, VerdictName::Longer);
    verify(&run.place.path().join("bundle"));
}

#[test]
fn a_killed_experiment_is_resumed_from_its_bundle() {
    let place = tempfile::tempdir().expect("temporary directory");
    let series = case("one-lock").display().to_string();
    let arguments = ["check", &series, "--out", "bundle", "--quiet", "--workload", "kernfs.rmdir"];
    let mut child = command(place.path(), &arguments).spawn().expect("starts");
    let points = place.path().join("bundle/points");
    while !points.join("3").is_dir() {
        assert!(child.try_wait().expect("a child").is_none(), "ended before it could be killed");
        std::thread::yield_now();
    }
    child.kill().expect("our own child");
    assert!(child.wait().expect("a child").code().is_none(), "SIGKILL leaves no exit code");
    let written = |n: &str| std::fs::metadata(points.join(n).join("point.json")).and_then(|m| m.modified());
    let before = written("1").expect("kept");
    let resume =
        || command(place.path(), &["experiment", "resume", "bundle", "--quiet"]).output().expect("starts");
    let out = resume();
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    assert_eq!(written("1").expect("still there"), before, "boot 1 was not made again");
    assert!(points.join("12").is_dir());
    // A finished one says once more what it found; another one has nothing to continue.
    assert_eq!(resume().stdout, out.stdout);
    let none = command(place.path(), &["experiment", "resume", "."]).output().expect("starts");
    assert_eq!(none.status.code(), Some(2), "{}", said(&none));
    // The plan was frozen: with another threshold it is another experiment.
    for name in ["findings.json", "manifest.json"] {
        std::fs::remove_file(place.path().join("bundle").join(name)).expect("writable");
    }
    let plan = place.path().join("bundle/experiment.yaml");
    let text = std::fs::read_to_string(&plan).expect("readable");
    assert!(text.contains("threshold_percent: 5"), "{text}");
    std::fs::write(&plan, text.replace("threshold_percent: 5", "threshold_percent: 50")).expect("writable");
    let changed = resume();
    assert_eq!(changed.status.code(), Some(2), "{}", said(&changed));
    assert!(said(&changed).contains("another experiment, not finished"), "{}", said(&changed));
}
