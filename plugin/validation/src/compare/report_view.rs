// SPDX-License-Identifier: GPL-2.0-or-later
//! The report view: change against every endpoint, CV and drift gates, as the
//! published reports compute them (protocol.md 7).

use super::gates::{Gates, default_gates};
use super::labels::labelled;
use super::summary::{change, median, range};
use super::time::Calibration;
use super::{Comparison, ComparisonFile, Endpoint, Measurement, MetricVerdict, Point, Values};

/// Unit of `path` evidence.
const INSTRUCTIONS: &str = "instructions";

/// One metric of one boot, as the report view needs it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BootFigures {
    /// 1-based place in the order.
    pub(super) boot: u64,
    /// Seed of the palindrome, if any: only boots of one seed are paired.
    pub(super) seed: Option<u64>,
    /// Median of the samples.
    pub(super) median: f64,
    /// Median without the first sample.
    pub(super) drop_first: Option<f64>,
    /// CV, percent.
    pub(super) cv_percent: Option<f64>,
}

impl BootFigures {
    fn new(point: &Point, measurement: &Measurement, gates: &Gates) -> Option<Self> {
        let (middle, drop_first, cv_percent) = match &measurement.values {
            Values::Samples(samples) => {
                // A sample of path evidence is one operation: its spread is no noise of the point.
                let single = point.seed.is_some() || measurement.unit == INSTRUCTIONS;
                let cv = if single { None } else { gates.cv.of(samples) };
                (median(samples)?, samples.get(1..).and_then(median), cv)
            }
            Values::Summary { median, cv_percent } => (*median, None, *cv_percent),
        };
        Some(Self { boot: point.boot, seed: point.seed, median: middle, drop_first, cv_percent })
    }
}

/// One metric of one experiment over all its boots.
#[derive(Debug, Clone)]
pub(super) struct MetricSeries<'a> {
    pub(super) experiment: &'a str,
    pub(super) example: &'a Measurement,
    pub(super) boots: Vec<(&'a Point, &'a Measurement)>,
}

impl MetricSeries<'_> {
    /// Figures of the boots of one build, in boot order.
    pub(super) fn figures(&self, build: &str, gates: &Gates) -> Vec<BootFigures> {
        let mut figures: Vec<BootFigures> = self
            .boots
            .iter()
            .filter(|(point, _)| point.build == build)
            .filter_map(|(point, measurement)| BootFigures::new(point, measurement, gates))
            .collect();
        figures.sort_by_key(|f| f.boot);
        figures
    }
}

/// All metrics of all experiments, in the order of first appearance; never
/// one series over two experiments.
pub(super) fn metric_series(points: &[Point]) -> Vec<MetricSeries<'_>> {
    let mut all: Vec<MetricSeries> = Vec::new();
    for point in points {
        for measurement in &point.measurements {
            let known = all.iter_mut().find(|s| {
                s.experiment == point.experiment
                    && s.example.workload == measurement.workload
                    && s.example.metric == measurement.metric
            });
            match known {
                Some(series) => series.boots.push((point, measurement)),
                None => all.push(MetricSeries {
                    experiment: &point.experiment,
                    example: measurement,
                    boots: vec![(point, measurement)],
                }),
            }
        }
    }
    all
}

/// Pairs (new, old) to be contrasted: each build with its predecessor, and the
/// last with the first where that is another pair.
pub fn contrasts<'a>(builds: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let mut pairs: Vec<(&str, &str)> = builds.windows(2).map(|pair| (pair[1], pair[0])).collect();
    if builds.len() > 2 {
        pairs.push((builds[builds.len() - 1], builds[0]));
    }
    pairs
}

/// Builds of an experiment in the order of first appearance.
fn builds_of<'a>(all: &[&MetricSeries<'a>]) -> Vec<&'a str> {
    let mut builds: Vec<&str> = Vec::new();
    for (point, _) in all.iter().flat_map(|series| &series.boots) {
        if !builds.contains(&point.build.as_str()) {
            builds.push(&point.build);
        }
    }
    builds
}

/// The report view of one contrast, without the verdict, which `claim` adds.
pub(super) fn compare_pair(
    series: &MetricSeries,
    (new, old): (&str, &str),
    gates: &Gates,
    claim: MetricVerdict,
) -> Comparison {
    let (new_boots, old_boots) = (series.figures(new, gates), series.figures(old, gates));
    let pairs = || {
        new_boots.iter().flat_map(|n| old_boots.iter().map(move |o| (n, o))).filter(|(n, o)| n.seed == o.seed)
    };
    let endpoints: Vec<Endpoint> = pairs()
        .filter_map(|(n, o)| {
            let change_percent = change(n.median, o.median)?;
            Some(Endpoint { new: n.median, old: o.median, change_percent })
        })
        .collect();
    let full = range(endpoints.iter().map(|e| e.change_percent));
    let drop_first = range(pairs().filter_map(|(n, o)| change(n.drop_first?, o.drop_first?)));
    let max_cv = range(new_boots.iter().chain(&old_boots).filter_map(|f| f.cv_percent)).map(|(_, high)| high);
    let (old_drift, new_drift) = drifts(&old_boots, &new_boots, gates);
    let stable = max_cv.is_none_or(|cv| cv <= gates.max_cv_percent)
        && [old_drift, new_drift].iter().flatten().all(|d| d.abs() <= gates.max_drift_percent);
    let direction = direction(full, drop_first, &series.example.better, gates.effect_percent);
    Comparison {
        experiment: series.experiment.into(),
        workload: series.example.workload.clone(),
        metric: series.example.metric.clone(),
        contrast: format!("{new}/{old}"),
        new_build: new.into(),
        old_build: old.into(),
        gates: gates.name.into(),
        unit: series.example.unit.clone(),
        better: series.example.better.clone(),
        endpoints,
        min_change_percent: full.map(|(low, _)| low),
        max_change_percent: full.map(|(_, high)| high),
        min_drop_first_percent: drop_first.map(|(low, _)| low),
        max_drop_first_percent: drop_first.map(|(_, high)| high),
        max_cv_percent: max_cv,
        old_drift_percent: old_drift,
        new_drift_percent: new_drift,
        stability_pass: stable,
        signal_direction: direction.into(),
        signal_pass: stable && direction != "none",
        label: None,
        verdict: claim,
        path: None,
    }
}

/// Drift of both sides; boots of different seeds do not drift.
fn drifts(old: &[BootFigures], new: &[BootFigures], gates: &Gates) -> (Option<f64>, Option<f64>) {
    let of = |side: &[BootFigures]| {
        let mut seeds: Vec<Option<u64>> = side.iter().map(|f| f.seed).collect();
        seeds.dedup();
        seeds
            .into_iter()
            .filter_map(|seed| {
                let medians: Vec<f64> = side.iter().filter(|f| f.seed == seed).map(|f| f.median).collect();
                gates.drift.of(&medians)
            })
            .max_by(|x, y| x.abs().total_cmp(&y.abs()))
    };
    match gates.drift {
        super::gates::DriftFormula::Signed => (of(old), of(new)),
        super::gates::DriftFormula::Absolute => (of(old), None),
    }
}

/// `slower` when every endpoint, full and drop-first, is slower by the effect gate.
fn direction(
    full: Option<(f64, f64)>,
    drop_first: Option<(f64, f64)>,
    better: &str,
    effect_percent: f64,
) -> &'static str {
    let Some(full) = full else { return "none" };
    let ranges = std::iter::once(full).chain(drop_first);
    let (grown, shrunk) = if better == "higher" { ("faster", "slower") } else { ("slower", "faster") };
    if ranges.clone().all(|(low, _)| low >= effect_percent) {
        grown
    } else if ranges.clone().all(|(_, high)| high <= -effect_percent) {
        shrunk
    } else {
        "none"
    }
}

/// Compares bare tables: the report view by `gates`, or by each workload's own
/// rules. A metric counted in instructions is `path` evidence, any other is
/// `time` of a machine without history.
pub fn compare_tables(points: &[Point], gates: Option<&'static Gates>) -> Vec<Comparison> {
    compare_time(points, gates, &Calibration::default())
}

/// Compares boots of a machine whose spread is known, as [`compare_tables`] does.
pub fn compare_time(
    points: &[Point],
    gates: Option<&'static Gates>,
    calibration: &Calibration,
) -> Vec<Comparison> {
    let mut comparisons: Vec<Comparison> = Vec::new();
    let mut experiments: Vec<&str> = Vec::new();
    let all = metric_series(points);
    for series in &all {
        if !experiments.contains(&series.experiment) {
            experiments.push(series.experiment);
        }
    }
    for experiment in experiments {
        let series: Vec<&MetricSeries> = all.iter().filter(|s| s.experiment == experiment).collect();
        let compared = compare_experiment(&series, gates, calibration);
        comparisons.extend(labelled(&compared));
    }
    comparisons
}

/// All contrasts of one experiment, by metric, then contrast.
fn compare_experiment(
    all: &[&MetricSeries],
    gates: Option<&'static Gates>,
    calibration: &Calibration,
) -> Vec<Comparison> {
    let pairs = contrasts(&builds_of(all));
    let claims: Vec<Vec<MetricVerdict>> =
        pairs.iter().map(|pair| super::time::claims(all, *pair, pairs.len(), calibration)).collect();
    let mut comparisons = Vec::new();
    for (n, series) in all.iter().enumerate() {
        let rules = gates.unwrap_or_else(|| default_gates(&series.example.workload));
        for (pair, claims) in pairs.iter().zip(&claims) {
            let compared = compare_pair(series, *pair, rules, claims[n].clone());
            comparisons.push(if compared.unit == INSTRUCTIONS {
                super::path::from_endpoints(compared)
            } else {
                compared
            });
        }
    }
    comparisons
}

/// Everything that bare tables say, with what diagnostic and nested orders add.
pub fn compare_file(points: &[Point], gates: Option<&'static Gates>) -> ComparisonFile {
    let (reductions, mechanism, recovery) = super::orders::read_orders(points);
    ComparisonFile {
        version: 1,
        comparisons: compare_tables(points, gates),
        executed: None,
        reductions,
        mechanism,
        recovery,
    }
}
