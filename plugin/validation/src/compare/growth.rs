// SPDX-License-Identifier: GPL-2.0-or-later
//! How a cost grows with the number of objects, from two sizes measured in
//! the same boots: two arms of one workload that differ in nothing else.

use super::summary::median;
use super::{Comparison, Point, Values, VerdictName};
use crate::findings::Growth;
use crate::plan::Plan;
use crate::samples::{PointLog, metric_with_arm};
use std::collections::BTreeMap;

/// Facts that count objects, with the name a reader knows them by.
const COUNTED: [(&str, &str); 1] = [("nodes", "kernfs node")];

/// How many objects an arm of a workload has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// Workload id.
    pub workload: String,
    /// What stands before a metric of this arm: `bare_`; empty for the default arm.
    pub prefix: String,
    /// What is counted: `kernfs node`.
    pub object: String,
    /// How many.
    pub objects: u64,
}

/// The sizes that a boot states about its arms.
pub fn sizes(log: &PointLog) -> Vec<Size> {
    let mut sizes: Vec<Size> = log
        .facts
        .iter()
        .filter_map(|fact| {
            let (_, object) = COUNTED.iter().find(|(name, _)| *name == fact.name)?;
            Some(Size {
                workload: fact.workload.clone(),
                prefix: metric_with_arm(log, &fact.workload, &fact.arm, ""),
                object: (*object).into(),
                objects: fact.value,
            })
        })
        .collect();
    sizes.sort();
    sizes.dedup();
    sizes
}

/// Instructions per object that each build costs more than the base, for every
/// metric that `comparisons` found changed and that was measured at two sizes
/// or more. Where seeds disagree about the growth, or
/// boots disagree about a size, nothing is said.
pub fn growth(plan: &Plan, points: &[Point], comparisons: &[Comparison], sizes: &[Size]) -> Vec<Growth> {
    let Some(base) = plan.builds.first() else { return Vec::new() };
    let mut all = Vec::new();
    for size in sizes.iter().filter(|s| s.prefix.is_empty()) {
        for metric in metrics(points, &size.workload) {
            // A size with two counts has no count.
            let arms: BTreeMap<u64, &str> = sizes
                .iter()
                .filter(|s| (&s.workload, &s.object) == (&size.workload, &size.object))
                .filter(|s| sizes.iter().filter(|t| same_arm(s, t)).count() == 1)
                .map(|s| (s.objects, s.prefix.as_str()))
                .collect();
            for build in
                plan.builds.iter().skip(1).filter(|b| moved(comparisons, size, metric, &b.label, plan))
            {
                let added = |arm: &str, seed| {
                    added(points, size, &format!("{arm}{metric}"), (&base.label, &build.label), seed)
                };
                if let Some(found) = fit(&arms, &plan.seeds, added) {
                    all.push(Growth {
                        workload: size.workload.clone(),
                        metric: metric.into(),
                        object: size.object.clone(),
                        build: build.label.clone(),
                        ..found
                    });
                }
            }
        }
    }
    all
}

fn same_arm(one: &Size, other: &Size) -> bool {
    (&one.workload, &one.prefix, &one.object) == (&other.workload, &other.prefix, &other.object)
}

fn metrics<'a>(points: &'a [Point], workload: &str) -> Vec<&'a str> {
    let first = points.first().map(|p| p.measurements.as_slice()).unwrap_or_default();
    first.iter().filter(|m| m.workload == workload).map(|m| m.metric.as_str()).collect()
}

/// Whether a metric changed with this build or an earlier one, whose cost it
/// still carries: the same difference for several seeds, or one beyond the
/// bound. Layout alone moves some metrics a little, by seed; that is no growth.
fn moved(comparisons: &[Comparison], size: &Size, metric: &str, build: &str, plan: &Plan) -> bool {
    let at = |label: &str| plan.builds.iter().position(|b| b.label == label);
    comparisons.iter().filter(|c| c.workload == size.workload && c.metric == metric).any(|c| {
        let beyond = matches!(c.verdict.name, VerdictName::Longer | VerdictName::Shorter);
        let exact = c.path.as_ref().is_some_and(|p| p.exact && p.seeds.len() > 1 && p.difference != 0.0);
        at(&c.new_build) <= at(build) && (beyond || exact)
    })
}

/// Added cost of a build over the base at one size and seed.
fn added(points: &[Point], size: &Size, metric: &str, (base, build): (&str, &str), seed: u64) -> Option<f64> {
    let of = |label: &str| {
        let point = points.iter().find(|p| p.build == label && p.seed == Some(seed))?;
        let found = point.measurements.iter().find(|m| m.workload == size.workload && m.metric == metric)?;
        match &found.values {
            Values::Samples(values) => median(values),
            Values::Summary { median, .. } => Some(*median),
        }
    };
    Some(of(build)? - of(base)?)
}

/// The line through the smallest and the largest size, the same for every seed.
fn fit<'a>(
    arms: &BTreeMap<u64, &'a str>,
    seeds: &[u64],
    added: impl Fn(&'a str, u64) -> Option<f64>,
) -> Option<Growth> {
    let ((small, small_arm), (large, large_arm)) = (arms.first_key_value()?, arms.last_key_value()?);
    if small == large {
        return None;
    }
    let lines = seeds
        .iter()
        .map(|&seed| {
            let (low, high) = (added(small_arm, seed)?, added(large_arm, seed)?);
            Some(((high - low) / (large - small) as f64, low))
        })
        .collect::<Option<Vec<(f64, f64)>>>()?;
    let &(per_object, low) = lines.first()?;
    if lines.iter().any(|line| *line != (per_object, low)) {
        return None;
    }
    let sizes =
        arms.iter().map(|(n, arm)| Some((*n, added(arm, *seeds.first()?)?))).collect::<Option<_>>()?;
    Some(Growth {
        workload: String::new(),
        metric: String::new(),
        object: String::new(),
        build: String::new(),
        per_object,
        constant: low - per_object * *small as f64,
        sizes,
    })
}
