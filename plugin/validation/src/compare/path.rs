// SPDX-License-Identifier: GPL-2.0-or-later
//! The verdict view of `path` evidence (statistics.md 3.10): exact
//! instruction counts of single operations, paired by seed.

use super::gates::{default_gates, gates_named};
use super::labels::labelled;
use super::reason::Reason;
use super::report_view::{MetricSeries, compare_pair, contrasts, metric_series};
use super::summary::{change, mean, median, quantile, range};
use super::waiting::waiting;
use super::{Comparison, Measurement, MetricVerdict, PathDetail, PathSide, Point, Values, VerdictName};
use crate::plan::{Evidence, Plan};

/// Fewer single operations than this make a weak median (statistics.md 3.10).
const ENOUGH_OPERATIONS: usize = 500;
/// A mean that moves by more than this while the median stays is named, percent.
const DEFERRED_PERCENT: f64 = 1.0;

/// Smallest bound for SAME, percent (statistics.md 3.10).
const SMALLEST_BOUND_PERCENT: f64 = 0.1;

/// Compares the boots of a `path` experiment: each build with its predecessor
/// in the plan, and the last with the base. Builds without any boot are left
/// out of the chain; a boot that is missing elsewhere makes INCONCLUSIVE.
pub fn compare_path(plan: &Plan, points: &[Point]) -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> = Vec::new();
    for series in metric_series(points) {
        let measured = |label: &&str| series.boots.iter().any(|(point, _)| point.build == *label);
        let builds: Vec<&str> = plan.builds.iter().map(|b| b.label.as_str()).filter(measured).collect();
        let pairs = contrasts(&builds);
        comparisons.extend(pairs.into_iter().map(|pair| compare_builds(plan, &series, pair)));
    }
    labelled(&comparisons)
}

/// Compares two builds of a `path` experiment in every metric, whatever stands between them.
pub fn compare_path_between(plan: &Plan, points: &[Point], (new, old): (&str, &str)) -> Vec<Comparison> {
    metric_series(points).iter().map(|series| compare_builds(plan, series, (new, old))).collect()
}

fn compare_builds(plan: &Plan, series: &MetricSeries<'_>, (new, old): (&str, &str)) -> Comparison {
    let asked = plan.gates.as_deref().and_then(gates_named);
    let gates = asked.unwrap_or_else(|| default_gates(&series.example.workload));
    let (claim, path) = claim(plan, series, new, old);
    Comparison { path, ..compare_pair(series, (new, old), gates, claim) }
}

/// The claim about counted instructions of a bare table, which names no seeds:
/// the interval is the range over all endpoints, against the smallest bound.
pub(super) fn from_endpoints(comparison: Comparison) -> Comparison {
    let changes: Vec<f64> = comparison.endpoints.iter().map(|e| e.change_percent).collect();
    let Some((low, high)) = range(changes.iter().copied()) else {
        return Comparison { verdict: inconclusive(vec![Reason::NothingCounted]), ..comparison };
    };
    let name = name((low, high), SMALLEST_BOUND_PERCENT);
    let mut reasons = vec![Reason::NoSeeds];
    reasons.extend(bound_reason(name, (low, high), SMALLEST_BOUND_PERCENT));
    let verdict = MetricVerdict {
        evidence: Evidence::Path,
        name,
        change_percent: median(&changes),
        interval_percent: Some([low, high]),
        confidence: None,
        reasons: reasons.iter().map(Reason::to_string).collect(),
        next: None,
    };
    Comparison { verdict, ..comparison }
}

/// The boots of one build and seed, which must be identical.
struct Repeats<'a> {
    seed: u64,
    values: &'a [f64],
    waiting: &'a [f64],
}

/// The repeats of `build`, one for each seed of the plan.
///
/// # Errors
/// A boot is missing, holds no operations, or differs from its repeat.
fn repeats<'a>(plan: &Plan, series: &MetricSeries<'a>, build: &str) -> Result<Vec<Repeats<'a>>, Reason> {
    let index = plan.builds.iter().position(|b| b.label == build);
    let planned = plan.order.iter().filter(|at| Some(**at) == index).count();
    plan.seeds.iter().map(|&seed| one_seed(series, build, seed, planned)).collect()
}

fn one_seed<'a>(
    series: &MetricSeries<'a>,
    build: &str,
    seed: u64,
    planned: usize,
) -> Result<Repeats<'a>, Reason> {
    let boots: Vec<&Measurement> = series
        .boots
        .iter()
        .filter(|(point, _)| point.build == build && point.seed == Some(seed))
        .map(|(_, measurement)| *measurement)
        .collect();
    let missing = || Reason::MissingBoots { build: build.into(), seed, found: boots.len(), planned };
    let first = boots.first().filter(|_| boots.len() >= planned).ok_or_else(missing)?;
    if boots.iter().any(|boot| boot.values != first.values || boot.waiting != first.waiting) {
        return Err(Reason::RunnerBroken { build: build.into(), seed });
    }
    match &first.values {
        Values::Samples(values) if !values.is_empty() => {
            Ok(Repeats { seed, values, waiting: &first.waiting })
        }
        Values::Samples(_) | Values::Summary { .. } => {
            Err(Reason::NoOperations { build: build.into(), seed })
        }
    }
}

fn claim(plan: &Plan, series: &MetricSeries, new: &str, old: &str) -> (MetricVerdict, Option<PathDetail>) {
    let sides = repeats(plan, series, old).and_then(|o| Ok((o, repeats(plan, series, new)?)));
    let (old, new) = match sides {
        Ok(sides) => sides,
        Err(reason) => return (inconclusive(vec![reason]), None),
    };
    let planned_bound = plan.bound_percent(&series.example.workload, &series.example.metric);
    match detail(&old, &new, planned_bound) {
        Some((detail, changes)) => {
            let fewest = old.iter().chain(&new).map(|r| r.values.len()).min().unwrap_or(0);
            (judge(&detail, &changes, &series.example.unit, fewest), Some(detail))
        }
        None => (inconclusive(vec![Reason::NothingCounted]), None),
    }
}

fn inconclusive(reasons: Vec<Reason>) -> MetricVerdict {
    MetricVerdict {
        evidence: Evidence::Path,
        name: VerdictName::Inconclusive,
        change_percent: None,
        interval_percent: None,
        confidence: None,
        reasons: reasons.iter().map(Reason::to_string).collect(),
        next: None,
    }
}

/// Everything known about a pair, and the change of each seed in percent;
/// `None` without seeds or where a median of the old build is 0.
fn detail(old: &[Repeats], new: &[Repeats], planned_bound: f64) -> Option<(PathDetail, Vec<f64>)> {
    let medians = |side: &[Repeats]| side.iter().map(|r| median(r.values)).collect::<Option<Vec<f64>>>();
    let (old_medians, new_medians) = (medians(old)?, medians(new)?);
    let changes =
        new_medians.iter().zip(&old_medians).map(|(n, o)| change(*n, *o)).collect::<Option<Vec<f64>>>()?;
    let differences: Vec<f64> = new_medians.iter().zip(&old_medians).map(|(n, o)| n - o).collect();
    let (low, high) = range(differences.iter().copied())?;
    let (old_side, new_side) = (side(old)?, side(new)?);
    let detail = PathDetail {
        seeds: old.iter().map(|r| r.seed).collect(),
        difference: median(&differences)?,
        difference_range: [low, high],
        exact: low == high,
        bound_percent: planned_bound.max(seed_spread_percent(&old_medians)?),
        mean_change_percent: change(new_side.mean, old_side.mean),
        p99_change_percent: change(new_side.p99, old_side.p99),
        waiting: waiting(old.iter().map(|r| r.waiting), new.iter().map(|r| r.waiting)),
        old: old_side,
        new: new_side,
    };
    Some((detail, changes))
}

/// Figures of one build, each the median over seeds.
fn side(repeats: &[Repeats]) -> Option<PathSide> {
    let over_seeds = |figure: &dyn Fn(&[f64]) -> Option<f64>| {
        median(&repeats.iter().map(|r| figure(r.values)).collect::<Option<Vec<f64>>>()?)
    };
    Some(PathSide {
        median: over_seeds(&median)?,
        mean: over_seeds(&mean)?,
        p99: over_seeds(&|values| quantile(values, 0.99))?,
    })
}

/// How much seeds alone move the median of one build, percent. A change
/// within it is not told from the seed's (statistics.md 3.10).
fn seed_spread_percent(medians: &[f64]) -> Option<f64> {
    let (low, high) = range(medians.iter().copied())?;
    change(high, low)
}

/// The claim of a range over seeds, or over endpoints.
fn name((low, high): (f64, f64), bound_percent: f64) -> VerdictName {
    if low > bound_percent {
        VerdictName::Longer
    } else if high < -bound_percent {
        VerdictName::Shorter
    } else if low >= -bound_percent && high <= bound_percent {
        VerdictName::Same
    } else {
        VerdictName::Inconclusive
    }
}

fn bound_reason(name: VerdictName, (low, high): (f64, f64), bound_percent: f64) -> Option<Reason> {
    match name {
        VerdictName::Same => Some(Reason::WithinBound { bound_percent }),
        VerdictName::Inconclusive => Some(Reason::SeedsDisagree { low, high, bound_percent }),
        VerdictName::Longer
        | VerdictName::Shorter
        | VerdictName::Slower
        | VerdictName::Faster
        | VerdictName::NoChange => None,
    }
}

fn judge(detail: &PathDetail, changes: &[f64], unit: &str, fewest: usize) -> MetricVerdict {
    let (low, high) = range(changes.iter().copied()).unwrap_or((f64::NAN, f64::NAN));
    let bound = detail.bound_percent;
    let name = name((low, high), bound);
    let mut reasons = Vec::new();
    let [smallest, largest] = detail.difference_range;
    if detail.exact {
        let seeds = detail.seeds.len();
        reasons.push(Reason::ExactDifference { difference: detail.difference, unit: unit.into(), seeds });
    } else {
        reasons.push(Reason::DifferenceRange { smallest, largest, unit: unit.into() });
    }
    reasons.extend(bound_reason(name, (low, high), bound));
    let mean_change = detail.mean_change_percent.unwrap_or(0.0);
    if name == VerdictName::Same && mean_change.abs() > DEFERRED_PERCENT.max(bound) {
        reasons.push(Reason::RareOperations { mean_change_percent: mean_change });
    }
    if detail.waiting.is_some_and(|w| w.new_waiting) {
        reasons.push(Reason::NewWaiting);
    }
    if fewest < ENOUGH_OPERATIONS {
        reasons.push(Reason::FewOperations { found: fewest, enough: ENOUGH_OPERATIONS });
    }
    MetricVerdict {
        evidence: Evidence::Path,
        name,
        change_percent: median(changes),
        interval_percent: Some([low, high]),
        confidence: None,
        reasons: reasons.iter().map(Reason::to_string).collect(),
        next: None,
    }
}
