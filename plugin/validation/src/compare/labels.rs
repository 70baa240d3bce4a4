// SPDX-License-Identifier: GPL-2.0-or-later
//! Labels (protocol.md 7): those of the fsnotify report, where a metric and
//! its ratio partner must pass together, and the one for a cost that only moved.

use super::gates::{FSNOTIFY, Gates, SHRINKER};
use super::reason::Reason;
use super::waiting::waiting_is_gone;
use super::{Comparison, VerdictName};

/// The label of a win that others pay for.
const MOVED_COST: &str = "MOVED_COST";
/// Metrics of `shrinker.umount` that tell a win from work put off until later. What is put off
/// itself (`deferred_cpu_per_sb`) is not among them: less work in all is a win, wherever it is done.
const COSTS: [&str; 3] = ["total_cpu_per_sb", "drain", "drain_s"];
/// Every metric that shows such work.
const DEFERRED: [&str; 4] = ["deferred_cpu_per_sb", "total_cpu_per_sb", "drain", "drain_s"];

/// Suffix by which a ratio metric is named after its absolute partner.
const RATIO_SUFFIX: &str = "_over_shared";
/// A smaller drift than this does not lower the floor of a small slowdown, percent.
const SMALLEST_FLOOR_PERCENT: f64 = 1.0;

/// `all` comparisons of one experiment with their labels, and the reason of a moved cost.
pub(super) fn labelled(all: &[Comparison]) -> Vec<Comparison> {
    let one = |comparison: &Comparison| {
        let mut labelled = Comparison { label: label(comparison, all), ..comparison.clone() };
        labelled.verdict.reasons.extend(moved_cost(comparison, all).map(|reason| reason.to_string()));
        labelled
    };
    all.iter().map(one).collect()
}

/// The label of `comparison`, given all comparisons of its experiment; `None`
/// under a rule set without labels.
fn label(comparison: &Comparison, all: &[Comparison]) -> Option<String> {
    if comparison.gates == SHRINKER.name {
        return (!moved_to(comparison, all).is_empty()).then(|| MOVED_COST.into());
    }
    if comparison.gates != FSNOTIFY.name {
        return None;
    }
    let partner = all.iter().find(|other| is_partner(comparison, other));
    Some(name(comparison, partner, &FSNOTIFY).into())
}

fn same_contrast(one: &Comparison, other: &Comparison) -> bool {
    (&one.workload, &one.new_build, &one.old_build) == (&other.workload, &other.new_build, &other.old_build)
}

/// Why a comparison with the label of a moved cost is no win; `None` where it is one, or none is claimed.
pub fn moved_cost(comparison: &Comparison, all: &[Comparison]) -> Option<Reason> {
    let costs = moved_to(comparison, all);
    let change = |c: &Comparison| c.verdict.change_percent.or(c.min_change_percent).unwrap_or(f64::NAN);
    let told = |c: &Comparison| (c.metric.clone(), change(c));
    (!costs.is_empty()).then(|| Reason::MovedCost {
        costs: costs.into_iter().map(told).collect(),
        deferred_percent: all
            .iter()
            .find(|c| same_contrast(comparison, c) && ends_with(&c.metric, &DEFERRED[..1]))
            .map(change),
    })
}

/// The metrics that are worse where `comparison` is a win; none where it is none, or is a true one.
fn moved_to<'a>(comparison: &Comparison, all: &'a [Comparison]) -> Vec<&'a Comparison> {
    if !is_win(comparison) || ends_with(&comparison.metric, &DEFERRED) {
        return Vec::new();
    }
    let costs = |other: &&Comparison| {
        same_contrast(comparison, other) && ends_with(&other.metric, &COSTS) && is_worse(other)
    };
    all.iter().filter(costs).collect()
}

/// Whether the metric, without its arm, is one of `names`.
fn ends_with(metric: &str, names: &[&str]) -> bool {
    names.iter().any(|name| metric.strip_suffix(name).is_some_and(|arm| arm.is_empty() || arm.ends_with('_')))
}

/// Quicker beyond the gates; of counted instructions also: fewer of them, or no more waiting.
fn is_win(comparison: &Comparison) -> bool {
    match &comparison.path {
        Some(path) => {
            comparison.verdict.name == VerdictName::Shorter
                || path.waiting.as_ref().is_some_and(waiting_is_gone)
        }
        None => comparison.signal_pass && comparison.signal_direction == "faster",
    }
}

/// Worse at every endpoint; of counted instructions beyond the bound.
fn is_worse(comparison: &Comparison) -> bool {
    match &comparison.path {
        Some(_) => comparison.verdict.name == VerdictName::Longer,
        None => slowdown(comparison).is_some_and(|(low, _)| low > 0.0),
    }
}

fn is_partner(one: &Comparison, other: &Comparison) -> bool {
    let named_after = |absolute: &Comparison, ratio: &Comparison| {
        ratio.unit == "ratio" && ratio.metric.strip_suffix(RATIO_SUFFIX) == Some(&absolute.metric)
    };
    same_contrast(one, other) && (named_after(one, other) || named_after(other, one))
}

/// Slowdown at the endpoints, smallest and largest, percent: positive is worse.
fn slowdown(comparison: &Comparison) -> Option<(f64, f64)> {
    let (low, high) = (comparison.min_change_percent?, comparison.max_change_percent?);
    Some(if comparison.better == "higher" { (-high, -low) } else { (low, high) })
}

fn cv_fails(comparison: &Comparison, gates: &Gates) -> bool {
    comparison.max_cv_percent.is_some_and(|cv| cv > gates.max_cv_percent)
}

fn has_effect(comparison: &Comparison, gates: &Gates) -> bool {
    slowdown(comparison).is_some_and(|(low, _)| low >= gates.effect_percent)
}

fn drifts(comparison: &Comparison, gates: &Gates) -> bool {
    comparison.old_drift_percent.is_some_and(|drift| drift > gates.max_drift_percent)
}

fn name(comparison: &Comparison, partner: Option<&Comparison>, gates: &Gates) -> &'static str {
    if cv_fails(comparison, gates) {
        return "AUXILIARY_CV_GATE_FAIL";
    }
    if has_effect(comparison, gates) {
        let partner_passes =
            partner.is_none_or(|p| !cv_fails(p, gates) && has_effect(p, gates) && !drifts(p, gates));
        return if drifts(comparison, gates) {
            "UNSTABLE"
        } else if !partner_passes {
            "AUXILIARY_CHILD_SLOWER"
        } else if comparison.unit == "ratio" {
            "EXACT_RELATIVE_SLOWDOWN"
        } else {
            "EXACT_CHILD_SLOWER"
        };
    }
    let floor = comparison.old_drift_percent.unwrap_or(0.0).max(SMALLEST_FLOOR_PERCENT);
    if slowdown(comparison).is_some_and(|(low, _)| low > floor) {
        "BELOW_5_PERCENT_GATE"
    } else {
        "NO_MATERIAL_SIGNAL"
    }
}

#[cfg(test)]
mod tests {
    use crate::compare::{FSNOTIFY, SHRINKER, compare_tables, read_tables};

    #[test]
    fn a_win_that_only_puts_work_off_is_a_moved_cost() {
        for (umount, drain, expected) in
            [(80.0, 1.2, Some("MOVED_COST")), (80.0, 1.0, None), (120.0, 1.2, None), (95.0, 1.2, None)]
        {
            let mut table = String::from(
                "experiment\tpoint\tbuild\tboot\tworkload\tmetric\tunit\tbetter\tmedian\tcv_percent\n",
            );
            for (metric, unit, values) in [("umount", "us", [100.0, umount]), ("drain_s", "s", [1.0, drain])]
            {
                for (boot, value) in values.iter().enumerate() {
                    table += &format!(
                        "e\tp{boot}\tb{boot}\t{}\tshrinker.umount\t{metric}\t{unit}\tlower\t{value}\t\n",
                        boot + 1
                    );
                }
            }
            let points = read_tables(&[("t", &table)]).expect("a good table");
            let labels: Vec<Option<String>> =
                compare_tables(&points, Some(&SHRINKER)).into_iter().map(|c| c.label).collect();
            assert_eq!(labels, [expected.map(str::to_owned), None], "{umount} {drain}");
        }
    }

    /// Labels of `x_distinct` and its ratio partner for given medians (parent A, child, parent B) and CVs.
    fn labels(distinct: [f64; 3], cv: f64, ratio: [f64; 3], ratio_cv: f64) -> Vec<String> {
        let mut table = String::from(
            "experiment\tpoint\tbuild\tboot\tworkload\tmetric\tunit\tbetter\tmedian\tcv_percent\n",
        );
        for (metric, unit, values, cv) in
            [("x_distinct", "ns", distinct, cv), ("x_distinct_over_shared", "ratio", ratio, ratio_cv)]
        {
            for (n, (build, value)) in ["parent", "child", "parent"].iter().zip(values).enumerate() {
                let boot = n + 1;
                table += &format!(
                    "e\tp{boot}\t{build}\t{boot}\tfsnotify.watch\t{metric}\t{unit}\tlower\t{value}\t{cv}\n"
                );
            }
        }
        let points = read_tables(&[("t", &table)]).expect("a good table");
        compare_tables(&points, Some(&FSNOTIFY)).into_iter().filter_map(|c| c.label).collect()
    }

    #[test]
    fn labels_follow_the_gates_of_both_partners() {
        let (flat, up, small) = ([100.0, 100.0, 100.0], [100.0, 117.0, 100.0], [100.0, 103.0, 100.0]);
        for (distinct, cv, ratio, ratio_cv, expected) in [
            (up, 1.0, up, 1.0, ["EXACT_CHILD_SLOWER", "EXACT_RELATIVE_SLOWDOWN"]),
            (up, 15.006954, up, 1.0, ["AUXILIARY_CV_GATE_FAIL", "AUXILIARY_CHILD_SLOWER"]),
            (up, 1.0, up, 16.0, ["AUXILIARY_CHILD_SLOWER", "AUXILIARY_CV_GATE_FAIL"]),
            (up, 15.0, up, 15.0, ["EXACT_CHILD_SLOWER", "EXACT_RELATIVE_SLOWDOWN"]),
            (up, 1.0, flat, 1.0, ["AUXILIARY_CHILD_SLOWER", "NO_MATERIAL_SIGNAL"]),
            (small, 1.0, flat, 1.0, ["BELOW_5_PERCENT_GATE", "NO_MATERIAL_SIGNAL"]),
            ([100.0, 120.0, 106.0], 1.0, up, 1.0, ["UNSTABLE", "AUXILIARY_CHILD_SLOWER"]),
            ([100.0, 80.0, 100.0], 1.0, flat, 1.0, ["NO_MATERIAL_SIGNAL", "NO_MATERIAL_SIGNAL"]),
        ] {
            assert_eq!(labels(distinct, cv, ratio, ratio_cv), expected, "{distinct:?} {ratio:?}");
        }
    }
}
