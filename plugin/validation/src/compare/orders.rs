// SPDX-License-Identifier: GPL-2.0-or-later
//! Published orders of boots that say more than a contrast: the diagnostic
//! order (what the cost is made of) and the nested order (how much of a gap
//! each probe recovers). protocol.md 6.3, 7 and 9.5.

use super::gates::{CvFormula, Gates};
use super::report_view::{BootFigures, MetricSeries, metric_series};
use super::summary::{change, drift_signed, median, range};
use super::{Measurement, Mechanism, Point, Recovery, Reduction, Values};
use crate::plan::Plan;

/// A reduction or gap of at least this much is a cost of its own, percent and points.
const COST_PERCENT: f64 = 5.0;

/// Gates of the nested order (mprotect report).
const NESTED: Gates = Gates {
    name: "nested",
    cv: CvFormula::Sample,
    max_cv_percent: 5.0,
    drift: super::gates::DriftFormula::Signed,
    max_drift_percent: 3.0,
    effect_percent: 20.0,
    labels: false,
};

/// Everything the orders of `points` allow to say.
pub(super) fn read_orders(points: &[Point]) -> (Vec<Reduction>, Vec<Mechanism>, Vec<Recovery>) {
    let (mut reductions, mut mechanisms, mut recoveries) = (Vec::new(), Vec::new(), Vec::new());
    for series in metric_series(points) {
        match Order::of(&series) {
            Order::Diagnostic { full, lock_only, nolist } => {
                if let Some((both, mechanism)) = diagnostic(&series, full, lock_only, nolist) {
                    reductions.extend(both);
                    mechanisms.push(mechanism);
                }
            }
            Order::Nested(builds) => recoveries.extend(nested(&series, &builds).unwrap_or_default()),
            Order::Other => {}
        }
    }
    (reductions, mechanisms, recoveries)
}

/// What a diagnostic or nested order of a `path` experiment says: the order is run once for each
/// seed, and each place in it has the median over seeds.
pub fn path_orders(plan: &Plan, points: &[Point]) -> (Vec<Reduction>, Vec<Mechanism>, Vec<Recovery>) {
    let planned = plan.points();
    let mut places: Vec<Point> = Vec::new();
    for place in 0..plan.order.len() {
        let at_place: Vec<&Point> = points
            .iter()
            .filter(|p| planned.iter().any(|q| q.index as u64 == p.boot && q.place == place))
            .collect();
        let Some(first) = at_place.first() else { return Default::default() };
        let measurements = first.measurements.iter().filter_map(|m| over_seeds(m, &at_place)).collect();
        places.push(Point { boot: place as u64 + 1, seed: None, measurements, ..(*first).clone() });
    }
    read_orders(&places)
}

/// One metric of one place: the median over seeds of the medians of its boots.
fn over_seeds(example: &Measurement, points: &[&Point]) -> Option<Measurement> {
    let medians: Vec<f64> = points
        .iter()
        .flat_map(|p| &p.measurements)
        .filter(|m| m.workload == example.workload && m.metric == example.metric)
        .filter_map(|m| match &m.values {
            Values::Samples(values) => median(values),
            Values::Summary { median, .. } => Some(*median),
        })
        .collect();
    let values = Values::Summary { median: median(&medians)?, cv_percent: None };
    Some(Measurement { values, waiting: Vec::new(), ..example.clone() })
}

/// The order in which the builds of a series were booted.
enum Order<'a> {
    /// full lock-only full nolist full
    Diagnostic { full: &'a str, lock_only: &'a str, nolist: &'a str },
    /// parent child probe ... probe ... child parent, the last probe once
    Nested(Vec<&'a str>),
    /// Contrasts say all.
    Other,
}

impl<'a> Order<'a> {
    fn of(series: &MetricSeries<'a>) -> Self {
        let mut boots: Vec<(u64, &str)> =
            series.boots.iter().map(|(p, _)| (p.boot, p.build.as_str())).collect();
        boots.sort_by_key(|(boot, _)| *boot);
        let order: Vec<&str> = boots.into_iter().map(|(_, build)| build).collect();
        if let [full, lock_only, second, nolist, third] = order[..]
            && full == second
            && full == third
            && ![lock_only, nolist].contains(&full)
            && lock_only != nolist
        {
            return Self::Diagnostic { full, lock_only, nolist };
        }
        let builds = &order[..order.len().div_ceil(2)];
        let distinct = builds.iter().enumerate().all(|(n, build)| !builds[..n].contains(build));
        let palindrome = order.iter().eq(order.iter().rev());
        if palindrome && distinct && order.len() % 2 == 1 && builds.len() >= 3 {
            Self::Nested(builds.to_vec())
        } else {
            Self::Other
        }
    }
}

/// Cost of a value: the value where lower is better, its inverse where higher is.
fn cost(series: &MetricSeries, value: f64) -> f64 {
    if series.example.better == "higher" { 1.0 / value } else { value }
}

fn diagnostic(
    series: &MetricSeries,
    full: &str,
    lock_only: &str,
    nolist: &str,
) -> Option<([Reduction; 2], Mechanism)> {
    let costs = |build: &str| -> Vec<f64> {
        series.figures(build, &NESTED).iter().map(|f| cost(series, f.median)).collect()
    };
    let [first, second, third] = costs(full)[..] else { return None };
    let reduction = |build: &str, around: [f64; 2]| {
        let value = *costs(build).first()?;
        let endpoints_percent = [100.0 * (1.0 - value / around[0]), 100.0 * (1.0 - value / around[1])];
        Some(Reduction {
            experiment: series.experiment.into(),
            workload: series.example.workload.clone(),
            metric: series.example.metric.clone(),
            full: full.into(),
            build: build.into(),
            reduction_percent: f64::midpoint(endpoints_percent[0], endpoints_percent[1]),
            endpoints_percent,
        })
    };
    let lock_only = reduction(lock_only, [first, second])?;
    let nolist = reduction(nolist, [second, third])?;
    let gap_points = nolist.reduction_percent - lock_only.reduction_percent;
    let mechanism = Mechanism {
        experiment: series.experiment.into(),
        workload: series.example.workload.clone(),
        metric: series.example.metric.clone(),
        lock_only_percent: lock_only.reduction_percent,
        nolist_percent: nolist.reduction_percent,
        gap_points,
        label: mechanism(lock_only.reduction_percent, gap_points).into(),
    };
    Some(([lock_only, nolist], mechanism))
}

/// What is gained by dropping the list and keeping the lock is the list's
/// cost; what dropping both gains beyond that is the lock's.
fn mechanism(lock_only_percent: f64, gap_points: f64) -> &'static str {
    match (lock_only_percent >= COST_PERCENT, gap_points >= COST_PERCENT) {
        (true, true) => "MIXED_LOCK_AND_LIST_COST",
        (true, false) => "LIST",
        (false, true) => "LOCK",
        (false, false) => "NONE",
    }
}

/// Midpoint of one build, full and drop-first, and the larger of its drifts.
struct Role {
    full: f64,
    drop_first: Option<f64>,
    drift_percent: Option<f64>,
    stable: bool,
}

impl Role {
    fn of(series: &MetricSeries, build: &str) -> Option<Self> {
        let boots = series.figures(build, &NESTED);
        let (first, last) = (boots.first()?, boots.last()?);
        let middle = |a: f64, b: f64| f64::midpoint(cost(series, a), cost(series, b));
        let twice = boots.len() > 1;
        let drift = |a: f64, b: f64| if twice { drift_signed(a, b) } else { None };
        let drift_percent = drift(first.median, last.median);
        let later = first.drop_first.zip(last.drop_first);
        let drifts = [drift_percent, later.and_then(|(a, b)| drift(a, b))];
        let within = |f: &BootFigures| f.cv_percent.is_none_or(|cv| cv <= NESTED.max_cv_percent);
        Some(Self {
            full: middle(first.median, last.median),
            drop_first: later.map(|(a, b)| middle(a, b)),
            drift_percent,
            stable: boots.iter().all(within)
                && drifts.iter().flatten().all(|d| d.abs() <= NESTED.max_drift_percent),
        })
    }
}

fn nested(series: &MetricSeries, builds: &[&str]) -> Option<Vec<Recovery>> {
    let roles = builds.iter().map(|build| Role::of(series, build)).collect::<Option<Vec<Role>>>()?;
    let (parent, child) = (&roles[0], &roles[1]);
    let gap = child.full - parent.full;
    if gap == 0.0 {
        return None;
    }
    let share = |from: f64, to: f64| 100.0 * (from - to) / gap;
    let drop_first = |probe: &Role| {
        let (parent, child, probe) = (parent.drop_first?, child.drop_first?, probe.drop_first?);
        (child != parent).then(|| 100.0 * (child - probe) / (child - parent))
    };
    let mut recoveries: Vec<Recovery> = (2..builds.len())
        .map(|at| Recovery {
            experiment: series.experiment.into(),
            workload: series.example.workload.clone(),
            metric: series.example.metric.clone(),
            parent: builds[0].into(),
            child: builds[1].into(),
            build: builds[at].into(),
            recovery_percent: share(child.full, roles[at].full),
            drop_first_percent: drop_first(&roles[at]),
            step_percent: share(roles[at - 1].full, roles[at].full),
            residual_percent: share(roles[at].full, parent.full),
            drift_percent: roles[at].drift_percent,
            label: None,
        })
        .collect();
    let (last, last_role) = (recoveries.last_mut()?, roles.last()?);
    last.label = recovery_label(&roles, last_role, last.recovery_percent, last.drop_first_percent);
    Some(recoveries)
}

/// How much the last probe recovers; `None` when a gate fails or there is no
/// regression of the child to recover from.
fn recovery_label(roles: &[Role], last: &Role, full: f64, drop_first: Option<f64>) -> Option<String> {
    let (parent, child) = (&roles[0], &roles[1]);
    let both = |new: &Role, old: &Role| {
        let later = new.drop_first.zip(old.drop_first).and_then(|(n, o)| change(n, o));
        range(change(new.full, old.full).into_iter().chain(later))
    };
    let regression = both(child, parent)?.0 >= NESTED.effect_percent;
    if !regression || !roles.iter().all(|role| role.stable) {
        return None;
    }
    let recovered = drop_first.map_or(full, |later| full.min(later));
    let (low, high) = both(last, parent)?;
    Some(
        if recovered >= 75.0 && low.abs().max(high.abs()) <= 10.0 {
            "major"
        } else if recovered >= 25.0 {
            "partial"
        } else {
            "minor"
        }
        .into(),
    )
}
