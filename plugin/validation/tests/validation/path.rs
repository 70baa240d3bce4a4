// SPDX-License-Identifier: GPL-2.0-or-later
//! Deterministic boots to comparisons, growth and the verdict on a series.

use kernmark_validation::compare::{
    Comparison, ExecutedCount, Measurement, Point, Size, Values, VerdictName, compare_path, growth,
};
use kernmark_validation::findings::Growth;
use kernmark_validation::plan::{Attribution, Evidence, Plan, PlannedBuild, Policy, palindrome};
use kernmark_validation::verdict::{Incident, Outcome, Verdict, decide};

const RMDIR: &str = "kernfs.rmdir remove";

pub fn plan(labels: &[&str], seeds: &[u64]) -> Plan {
    Plan {
        version: 1,
        experiment: "e".into(),
        evidence: Evidence::Path,
        runner: "qemu".into(),
        builds: (0..)
            .zip(labels)
            .map(|(patches, label)| PlannedBuild { label: (*label).into(), patches, source: None })
            .collect(),
        order: palindrome(labels.len()),
        seeds: seeds.into(),
        workloads: vec![],
        policy: Policy {
            threshold_percent: 5.0,
            bound_percent: 0.1,
            metric_bounds_percent: [("kernfs.rmdir create".to_owned(), 0.27)].into(),
            primaries: vec![RMDIR.into()],
        },
        gates: None,
        attribution: Attribution::EveryBuild,
        time: None,
    }
}

fn measurement(metric: &str, value: f64, waiting: f64) -> Measurement {
    // A few slow operations: the median must not see them.
    let mut values = vec![value; 512];
    values[..8].fill(value * 3.0);
    Measurement {
        workload: "kernfs.rmdir".into(),
        metric: metric.into(),
        unit: "instructions".into(),
        better: "lower".into(),
        values: Values::Samples(values),
        waiting: vec![waiting; 512],
    }
}

/// All boots of a plan, where `measure` gives (metric, instructions, waiting) by build index and seed.
pub fn boots(plan: &Plan, measure: impl Fn(usize, u64) -> Vec<(&'static str, f64, f64)>) -> Vec<Point> {
    plan.points()
        .into_iter()
        .map(|p| Point {
            experiment: plan.experiment.clone(),
            point: format!("{}-seed{}", plan.builds[p.build].label, p.seed),
            build: plan.builds[p.build].label.clone(),
            boot: p.index as u64,
            seed: Some(p.seed),
            measurements: measure(p.build, p.seed).iter().map(|(m, v, w)| measurement(m, *v, *w)).collect(),
        })
        .collect()
}

/// Boots that differ in the instructions of rmdir only.
fn rmdir(plan: &Plan, instructions: &[f64]) -> Vec<Point> {
    boots(plan, |build, _| vec![("remove", instructions[build], 0.0)])
}

fn names(comparisons: &[Comparison]) -> Vec<(&str, VerdictName)> {
    comparisons.iter().map(|c| (c.contrast.as_str(), c.verdict.name)).collect()
}

fn judge(plan: &Plan, points: &[Point]) -> Verdict {
    decide(plan, &compare_path(plan, points), &[], &[], None)
}

fn measured(verdict: VerdictName) -> Outcome {
    Outcome::Measured { verdict, new_waiting: false, grows_per_object: false }
}

#[test]
fn exact_changes_are_named_against_the_bound() {
    let plan = plan(&["base", "patched"], &[1, 2, 3]);
    for (patched, name, change) in [
        (40_000.0, VerdictName::Same, 0.0),
        (40_039.0, VerdictName::Same, 0.0975),
        (40_041.0, VerdictName::Longer, 0.1025),
        (40_190.0, VerdictName::Longer, 0.475),
        (39_961.0, VerdictName::Same, -0.0975),
        (39_900.0, VerdictName::Shorter, -0.25),
    ] {
        let comparisons = compare_path(&plan, &rmdir(&plan, &[40_000.0, patched]));
        assert_eq!(comparisons.len(), 1);
        let (c, path) = (&comparisons[0], comparisons[0].path.as_ref().expect("path"));
        assert_eq!(c.verdict.name, name, "{patched}");
        assert!((c.verdict.change_percent.expect("a change") - change).abs() < 1e-9);
        assert!(path.exact);
        assert_eq!(path.difference, patched - 40_000.0);
        let reason = format!("{:+} instructions per operation, the same for every seed", path.difference);
        assert_eq!(c.verdict.reasons[0], reason);
        // The report view pairs boots of one seed only, and single operations have no CV.
        assert_eq!((c.endpoints.len(), c.max_cv_percent, c.stability_pass), (12, None, true));
    }
}

#[test]
fn mean_and_tail_stand_beside_the_median() {
    let plan = plan(&["base", "patched"], &[1]);
    let mut points = rmdir(&plan, &[100.0, 100.0]);
    for point in points.iter_mut().filter(|p| p.build == "patched") {
        let Values::Samples(values) = &mut point.measurements[0].values else { panic!("samples") };
        values[..8].fill(1000.0);
    }
    let comparison = &compare_path(&plan, &points)[0];
    let path = comparison.path.as_ref().expect("path");
    assert_eq!((comparison.verdict.name, path.old.p99, path.new.p99), (VerdictName::Same, 300.0, 1000.0));
    assert!(path.mean_change_percent.expect("a mean") > 10.0);
    assert!(comparison.verdict.reasons.iter().any(|r| r.contains("few operations carry it")));
}

#[test]
fn seeds_give_the_interval_and_widen_the_bound() {
    let plan = plan(&["base", "patched"], &[1, 2, 3]);
    let run = |patched: [f64; 3]| {
        let points = boots(&plan, |build, seed| {
            let value = if build == 0 { 10_000.0 } else { patched[seed as usize - 1] };
            vec![("remove", value, 0.0)]
        });
        compare_path(&plan, &points).remove(0)
    };
    let longer = run([10_100.0, 10_200.0, 10_300.0]);
    assert_eq!(longer.verdict.name, VerdictName::Longer);
    let [low, high] = longer.verdict.interval_percent.expect("a range");
    assert!((low - 1.0).abs() < 1e-9 && (high - 3.0).abs() < 1e-9);
    assert!(!longer.path.expect("path").exact);
    let mixed = run([10_000.0, 10_005.0, 10_020.0]);
    assert_eq!(mixed.verdict.name, VerdictName::Inconclusive);
    assert!(mixed.verdict.reasons[1].starts_with("seeds disagree"));
    // A base that moves by 1 % with the seed cannot show 0.5 %.
    let points = boots(&plan, |build, seed| {
        vec![("remove", [10_000.0, 10_050.0][build] + 50.0 * (seed - 1) as f64, 0.0)]
    });
    let same = &compare_path(&plan, &points)[0];
    assert_eq!((same.verdict.name, same.path.as_ref().map(|p| p.exact)), (VerdictName::Same, Some(true)));
}

#[test]
fn metrics_have_their_own_bounds() {
    let plan = plan(&["base", "patched"], &[1]);
    let points = boots(&plan, |build, _| {
        vec![("remove", [1000.0, 1002.5][build], 0.0), ("create", [1000.0, 1002.5][build], 0.0)]
    });
    let comparisons = compare_path(&plan, &points);
    let names: Vec<VerdictName> = comparisons.iter().map(|c| c.verdict.name).collect();
    assert_eq!(names, [VerdictName::Longer, VerdictName::Same]);
}

#[test]
fn boots_of_one_image_and_seed_must_be_identical() {
    let plan = plan(&["base", "patched"], &[1, 2]);
    let mut points = rmdir(&plan, &[100.0, 200.0]);
    let Values::Samples(values) = &mut points[7].measurements[0].values else { panic!("samples") };
    values[511] += 1.0;
    let comparison = &compare_path(&plan, &points)[0];
    assert_eq!(comparison.verdict.name, VerdictName::Inconclusive);
    assert!(comparison.verdict.reasons[0].starts_with("runner broken: two boots of base with seed 2 differ"));
    let verdict = judge(&plan, &points);
    assert_eq!((verdict.exit_code, verdict.outcome), (3, measured(VerdictName::Inconclusive)));
}

#[test]
fn a_missing_boot_decides_nothing() {
    let plan = plan(&["base", "patched"], &[1, 2]);
    let mut points = rmdir(&plan, &[100.0, 200.0]);
    points.remove(5);
    let comparison = &compare_path(&plan, &points)[0];
    assert_eq!(comparison.verdict.name, VerdictName::Inconclusive);
    assert!(comparison.verdict.reasons[0].starts_with("1 of 2 boots of patched with seed 2 are usable"));
}

#[test]
fn every_neighbour_and_the_whole_series_are_contrasted() {
    let plan = plan(&["base", "1/3", "2/3", "3/3"], &[1]);
    let comparisons = compare_path(&plan, &rmdir(&plan, &[1000.0, 1000.0, 1060.0, 1060.0]));
    assert_eq!(
        names(&comparisons),
        [
            ("1/3/base", VerdictName::Same),
            ("2/3/1/3", VerdictName::Longer),
            ("3/3/2/3", VerdictName::Same),
            ("3/3/base", VerdictName::Longer)
        ]
    );
    let verdict = decide(&plan, &comparisons, &[], &[], None);
    let headline = verdict.headline.expect("a regression speaks");
    assert_eq!((headline.culprit.as_str(), verdict.exit_code), ("2/3", 1));
    assert_eq!(verdict.culprits.len(), 1);
    assert!(verdict.reasons.iter().any(|r| r.starts_with("2/3 carries +6.000 %")));
}

#[test]
fn experiments_are_never_pooled() {
    let plan = plan(&["base", "patched"], &[1]);
    let mut points = rmdir(&plan, &[100.0, 100.0]);
    points.extend(rmdir(&plan, &[100.0, 150.0]).into_iter().map(|p| Point { experiment: "f".into(), ..p }));
    let comparisons = compare_path(&plan, &points);
    let found: Vec<(&str, VerdictName)> =
        comparisons.iter().map(|c| (c.experiment.as_str(), c.verdict.name)).collect();
    assert_eq!(found, [("e", VerdictName::Same), ("f", VerdictName::Longer)]);
}

#[test]
fn the_threshold_separates_a_regression_from_a_longer_path() {
    let plan = plan(&["base", "patched"], &[1, 2]);
    for (patched, exit_code, name) in [
        (1000.0, 0, VerdictName::Same),
        (1049.0, 0, VerdictName::Longer),
        (1050.0, 1, VerdictName::Longer),
        (900.0, 0, VerdictName::Shorter),
    ] {
        let verdict = judge(&plan, &rmdir(&plan, &[1000.0, patched]));
        assert_eq!((verdict.exit_code, &verdict.outcome), (exit_code, &measured(name)), "{patched}");
        assert_eq!(verdict.headline.is_some(), name != VerdictName::Same);
    }
}

#[test]
fn two_culprits_are_both_named_and_an_undone_cost_is_said() {
    let plan = plan(&["base", "1/3", "2/3", "3/3"], &[1]);
    let two = judge(&plan, &rmdir(&plan, &[1000.0, 1060.0, 1060.0, 1200.0]));
    let culprits: Vec<&str> = two.culprits.iter().map(|c| c.build.as_str()).collect();
    assert_eq!(culprits, ["3/3", "1/3"]);
    assert_eq!(two.headline.map(|h| h.culprit), Some("3/3".into()));
    let undone = judge(&plan, &rmdir(&plan, &[1000.0, 1100.0, 1100.0, 1000.0]));
    assert_eq!((undone.exit_code, undone.outcome), (0, measured(VerdictName::Same)));
    assert!(
        undone
            .reasons
            .iter()
            .any(|r| r.starts_with("1/3 costs +10.000 %") && r.contains("3/3 takes it away"))
    );
    let paid_last = judge(&plan, &rmdir(&plan, &[1000.0, 1000.0, 1000.0, 800.0]));
    assert_eq!(paid_last.headline.map(|h| h.culprit), Some("3/3".into()));
    let crumbs = judge(&plan, &rmdir(&plan, &[1000.0, 1020.0, 1040.0, 1060.0]));
    assert_eq!((crumbs.exit_code, crumbs.culprits.len()), (1, 3));
}

#[test]
fn new_waiting_is_a_regression_whatever_the_path() {
    let plan = plan(&["base", "patched"], &[1, 2]);
    let points = boots(&plan, |build, _| vec![("remove", 1000.0 + build as f64, [0.0, 4_000_000.0][build])]);
    let verdict = judge(&plan, &points);
    assert_eq!(verdict.exit_code, 1);
    assert_eq!(
        verdict.outcome,
        Outcome::Measured { verdict: VerdictName::Same, new_waiting: true, grows_per_object: false }
    );
    assert!(verdict.headline.is_some());
    assert!(verdict.reasons[0].contains("new waiting"));
}

fn size(prefix: &str, objects: u64) -> Size {
    Size { workload: "kernfs.rmdir".into(), prefix: prefix.into(), object: "kernfs node".into(), objects }
}

/// Growth of a series that adds `per_node` instructions for each node and `once` for each operation.
fn grown(plan: &Plan, per_node: f64, once: f64) -> (Vec<Comparison>, Vec<Growth>) {
    let points = boots(plan, |build, seed| {
        let added = |nodes: f64| build as f64 * (once + per_node * nodes);
        // The base of the bare arm differs by seed: growth is a difference of differences.
        let bare = 15_000.0 + 7.0 * seed as f64;
        vec![("remove", 50_000.0 + added(26.0), 0.0), ("bare_remove", bare + added(10.0), 0.0)]
    });
    let comparisons = compare_path(plan, &points);
    let growth = growth(plan, &points, &comparisons, &[size("", 26), size("bare_", 10)]);
    (comparisons, growth)
}

#[test]
fn growth_per_object_comes_from_two_sizes() {
    let plan = plan(&["base", "patched"], &[1, 2, 3]);
    for (per_node, once, exit_code, grows) in
        [(10.0, 0.0, 1, true), (1.0, 0.0, 1, true), (0.0, 500.0, 0, false), (0.5, 300.0, 0, false)]
    {
        let (comparisons, growth) = grown(&plan, per_node, once);
        assert_eq!(growth.len(), 1);
        assert_eq!((growth[0].per_object, growth[0].constant), (per_node, once));
        assert_eq!(growth[0].sizes, [(10, once + per_node * 10.0), (26, once + per_node * 26.0)]);
        let verdict = decide(&plan, &comparisons, &growth, &[], None);
        assert_eq!(verdict.exit_code, exit_code, "{per_node} {once}");
        let Outcome::Measured { grows_per_object, .. } = verdict.outcome else { panic!("measured") };
        assert_eq!(grows_per_object, grows);
        if grows {
            assert_eq!(verdict.culprits.len(), 1);
            assert!(verdict.headline.is_some());
        }
    }
    assert!(grown(&plan, 0.0, 0.0).1.is_empty());
}

#[test]
fn every_patch_that_grows_is_named() {
    let plan = plan(&["base", "1/3", "2/3", "3/3"], &[1, 2]);
    let per_node = [0.0, 10.0, 10.0, 170.0];
    let points = boots(&plan, |build, _| {
        vec![
            ("remove", 50_000.0 + 26.0 * per_node[build], 0.0),
            ("bare_remove", 15_000.0 + 10.0 * per_node[build], 0.0),
        ]
    });
    let comparisons = compare_path(&plan, &points);
    let growth = growth(&plan, &points, &comparisons, &[size("", 26), size("bare_", 10)]);
    let verdict = decide(&plan, &comparisons, &growth, &[], None);
    let culprits: Vec<&str> = verdict.culprits.iter().map(|c| c.build.as_str()).collect();
    assert_eq!((culprits, verdict.headline.map(|h| h.culprit)), (vec!["3/3", "1/3"], Some("3/3".into())));
}

#[test]
fn growth_that_depends_on_the_seed_or_on_an_unclear_size_is_not_claimed() {
    let plan = plan(&["base", "patched"], &[1, 2]);
    let points = boots(&plan, |build, seed| {
        let added = build as f64 * 26.0 * seed as f64;
        vec![("remove", 1000.0 + added, 0.0), ("bare_remove", 1000.0, 0.0)]
    });
    let comparisons = compare_path(&plan, &points);
    assert!(growth(&plan, &points, &comparisons, &[size("", 26), size("bare_", 10)]).is_empty());
    let points = boots(&plan, |build, _| {
        vec![("remove", 1000.0 + 26.0 * build as f64, 0.0), ("bare_remove", 1000.0, 0.0)]
    });
    let comparisons = compare_path(&plan, &points);
    assert_eq!(growth(&plan, &points, &comparisons, &[size("", 26), size("bare_", 10)]).len(), 1);
    let unclear = [size("", 26), size("bare_", 10), size("bare_", 11)];
    assert!(growth(&plan, &points, &comparisons, &unclear).is_empty());
}

#[test]
fn nothing_executed_is_said_first_and_does_not_change_the_exit_code() {
    let plan = plan(&["base", "patched"], &[1]);
    let comparisons = compare_path(&plan, &rmdir(&plan, &[1000.0, 1000.0]));
    let count = |executed, changed| ExecutedCount {
        changed,
        compiled: changed,
        executed,
        not_executed: vec!["foo".into()],
    };
    let verdict = decide(&plan, &comparisons, &[], &[], Some(&count(0, 2)));
    assert_eq!(verdict.exit_code, 0);
    assert!(verdict.reasons[0].starts_with("0 of the 2 changed functions were executed"));
    let partly = decide(&plan, &comparisons, &[], &[], Some(&count(1, 2)));
    assert_eq!(
        partly.reasons.last().map(String::as_str),
        Some("executed: 1 of 2 changed functions; not foo")
    );
    let none = decide(&plan, &comparisons, &[], &[], Some(&count(0, 0)));
    assert!(none.reasons[0].starts_with("the series changes no function body"));
}

#[test]
fn incidents_end_in_3_unless_a_regression_is_found() {
    let plan = plan(&["base", "1/2", "2/2"], &[1]);
    let clean = compare_path(&plan, &rmdir(&plan, &[1000.0, 1000.0, 1000.0]));
    let slower = compare_path(&plan, &rmdir(&plan, &[1000.0, 1000.0, 1100.0]));
    let not_built = Incident::NotBuilt {
        file: "fs/xfs/xfs_super.c".into(),
        option: Some("CONFIG_XFS_FS".into()),
        reason: "needs BLOCK".into(),
    };
    let failed = Incident::BuildFailed { build: "2/2".into(), reason: "error: x".into() };
    let hung = Incident::BootFailed { point: "2/2-seed1".into(), reason: "no output for 60 s".into() };
    for incident in [not_built, failed, hung] {
        let verdict = decide(&plan, &clean, &[], std::slice::from_ref(&incident), None);
        assert_eq!(verdict.exit_code, 3);
        assert!(matches!(verdict.outcome, Outcome::NotBuilt { .. } | Outcome::Invalid { .. }));
        assert_eq!(verdict.reasons.last(), Some(&incident.to_string()));
        assert_eq!(decide(&plan, &slower, &[], &[incident], None).exit_code, 1);
    }
    // A patch in the middle that does not build: the others are still compared.
    let mut points = rmdir(&plan, &[1000.0, 1000.0, 1100.0]);
    points.retain(|p| p.build != "1/2");
    assert_eq!(names(&compare_path(&plan, &points)), [("2/2/base", VerdictName::Longer)]);
}

#[test]
fn identical_images_are_the_same_without_a_boot() {
    let plan = plan(&["base", "1/2", "2/2"], &[1]);
    let twin = |build: &str, same_as: &str| Incident::IdenticalImage {
        build: build.into(),
        same_as: same_as.into(),
    };
    let verdict = decide(&plan, &[], &[], &[twin("1/2", "base"), twin("2/2", "base")], None);
    assert_eq!((verdict.outcome, verdict.exit_code), (Outcome::IdenticalImages, 0));
    let mut points = rmdir(&plan, &[1000.0, 1100.0, 1100.0]);
    points.retain(|p| p.build != "2/2");
    let comparisons = compare_path(&plan, &points);
    let last_does_nothing = decide(&plan, &comparisons, &[], &[twin("2/2", "1/2")], None);
    assert_eq!(last_does_nothing.exit_code, 1);
    assert_eq!(last_does_nothing.headline.map(|h| h.culprit), Some("1/2".into()));
    let undone = decide(&plan, &comparisons, &[], &[twin("2/2", "base")], None);
    assert_eq!((undone.exit_code, undone.outcome), (0, measured(VerdictName::Same)));
    assert!(undone.reasons[0].starts_with("1/2 costs +10.000 %"));
}

#[test]
fn secondary_metrics_are_listed_and_never_decide() {
    let plan = plan(&["base", "patched"], &[1]);
    let points =
        boots(&plan, |build, _| vec![("remove", 1000.0, 0.0), ("create", [1000.0, 1200.0][build], 0.0)]);
    let verdict = judge(&plan, &points);
    assert_eq!((verdict.exit_code, verdict.outcome), (0, measured(VerdictName::Same)));
    assert_eq!(verdict.also_moved.len(), 1);
    assert_eq!(
        (verdict.also_moved[0].metric.as_str(), verdict.also_moved[0].name),
        ("create", VerdictName::Longer)
    );
}

#[test]
fn a_primary_that_was_not_measured_is_inconclusive() {
    let plan = plan(&["base", "patched"], &[1]);
    let points = boots(&plan, |_, _| vec![("create", 1000.0, 0.0)]);
    let verdict = judge(&plan, &points);
    assert_eq!((verdict.exit_code, verdict.outcome), (3, measured(VerdictName::Inconclusive)));
    assert!(verdict.reasons[0].starts_with("kernfs.rmdir remove decides but was not measured"));
    assert_eq!(judge(&plan, &[]).exit_code, 3);
}
