// SPDX-License-Identifier: GPL-2.0-or-later
//! A umount that is quicker because others do its work is no win (protocol.md 7).

use crate::path::{boots, plan};
use kernmark_validation::compare::{Comparison, compare_path};
use kernmark_validation::plan::Plan;
use kernmark_validation::verdict::{Verdict, decide};

/// (instructions, waiting) of umount, instructions of the deferred work and of all work, and the drain in us.
type Build = ((f64, f64), f64, f64, f64);

fn umounts(builds: &[Build]) -> (Vec<Comparison>, Verdict) {
    let labels = ["base", "1/2", "2/2"];
    let mut plan: Plan = plan(&labels[3 - builds.len()..], &[1, 2]);
    plan.policy.primaries = vec!["shrinker.umount umount".into()];
    let mut points = boots(&plan, |build, _| {
        let ((path, waiting), deferred, total, drain) = builds[build];
        vec![
            ("umount", path, waiting),
            ("alone_deferred_cpu_per_sb", deferred, 0.0),
            ("alone_total_cpu_per_sb", total, 0.0),
            ("alone_drain", drain, 0.0),
        ]
    });
    for measurement in points.iter_mut().flat_map(|p| &mut p.measurements) {
        measurement.workload = "shrinker.umount".into();
    }
    let comparisons = compare_path(&plan, &points);
    let verdict = decide(&plan, &comparisons, &[], &[], None);
    (comparisons, verdict)
}

const SLEEPS: (f64, f64) = (15_000.0, 9_000_000.0);
const RETURNS: (f64, f64) = (15_000.0, 0.0);
const SHORT: (f64, f64) = (12_000.0, 0.0);

fn label_of_umount(comparisons: &[Comparison], new: &str, old: &str) -> Option<String> {
    let found = comparisons
        .iter()
        .find(|c| c.metric == "umount" && (c.new_build.as_str(), c.old_build.as_str()) == (new, old));
    found.expect("compared").label.clone()
}

#[test]
fn a_win_is_a_moved_cost_when_all_work_or_the_drain_grows() {
    let moved = Some("MOVED_COST".to_owned());
    for (what, old, new, expected) in [
        ("the wait went into a worker", (SLEEPS, 20e3, 40e3, 9e3), (RETURNS, 30e3, 45e3, 9e3), moved.clone()),
        ("as much work, but later", (SLEEPS, 20e3, 40e3, 9e3), (RETURNS, 20e3, 40e3, 18e3), moved.clone()),
        ("a shorter path, more work", (RETURNS, 20e3, 40e3, 9e3), (SHORT, 25e3, 42e3, 9e3), moved),
        ("less work in all, more of it deferred", (RETURNS, 20e3, 40e3, 9e3), (SHORT, 21e3, 38e3, 9e3), None),
        ("a true win", (SLEEPS, 20e3, 40e3, 9e3), (RETURNS, 20e3, 40e3, 9e3), None),
        ("no win", (RETURNS, 20e3, 40e3, 9e3), (RETURNS, 30e3, 50e3, 18e3), None),
        ("within the bound", (SLEEPS, 20e3, 40e3, 9e3), (RETURNS, 20e3, 40_030.0, 9e3), None),
    ] {
        let (comparisons, _) = umounts(&[old, new]);
        assert_eq!(label_of_umount(&comparisons, "2/2", "1/2"), expected, "{what}");
        let others = comparisons.iter().filter(|c| c.metric != "umount");
        assert!(others.clone().count() == 3 && others.into_iter().all(|c| c.label.is_none()), "{what}");
    }
}

#[test]
fn the_verdict_says_who_pays() {
    let base = (RETURNS, 20e3, 40e3, 9e3);
    let (comparisons, verdict) = umounts(&[base, (SLEEPS, 21e3, 42e3, 9e3), (RETURNS, 32e3, 50e3, 18e3)]);
    assert_eq!(label_of_umount(&comparisons, "2/2", "1/2").as_deref(), Some("MOVED_COST"));
    assert_eq!(label_of_umount(&comparisons, "2/2", "base"), None, "against the base nothing is won");
    let said: Vec<&String> = verdict.reasons.iter().filter(|r| r.contains("MOVED_COST")).collect();
    let [reason] = said[..] else { panic!("{:?}", verdict.reasons) };
    for part in [
        "shrinker.umount umount of 2/2",
        "alone_total_cpu_per_sb +19.05 %",
        "alone_drain +100.00 %",
        "work left to kernel threads and interrupts +52.38 %",
    ] {
        assert!(reason.contains(part), "{part:?} is missing in {reason}");
    }
    let umount = comparisons.iter().find(|c| c.label.is_some()).expect("one is labelled");
    assert!(umount.verdict.reasons.iter().any(|r| r.starts_with("MOVED_COST")));
}
