// SPDX-License-Identifier: GPL-2.0-or-later
//! A log as the comparison takes it.

use super::PointLog;
use crate::compare::{Measurement, Point, Values};
use crate::plan::Evidence;

/// Which place of which experiment a log belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointIdentity {
    /// Experiment name.
    pub experiment: String,
    /// Point name (`base-A`).
    pub point: String,
    /// Build label.
    pub build: String,
    /// 1-based place in the order.
    pub boot: u64,
    /// Seed of the palindrome; `None` for `time` evidence.
    pub seed: Option<u64>,
}

/// The measurements of a boot.
///
/// `path` evidence takes single operations, in instructions: the time stamp
/// counter of the deterministic runner advances by one with each instruction
/// and jumps over idle time (qemu.md 5), so the time off the CPU is taken off
/// and stands apart as waiting (statistics.md 3.10). Operations timed with any
/// other clock are no path evidence and are left out. `time` evidence takes
/// samples: mean of the operations of a sample, in the unit reported.
pub fn to_point(log: &PointLog, identity: &PointIdentity, evidence: Evidence) -> Point {
    let measurements = match evidence {
        Evidence::Path => path_measurements(log),
        Evidence::Time => time_measurements(log),
    };
    Point {
        experiment: identity.experiment.clone(),
        point: identity.point.clone(),
        build: identity.build.clone(),
        boot: identity.boot,
        seed: identity.seed,
        measurements,
    }
}

/// Metric with its arm as prefix; the default arm of a workload has none. In
/// a log that does not name the default arm it is the first one reported.
pub fn metric_with_arm(log: &PointLog, workload: &str, arm: &str, metric: &str) -> String {
    let named = log.start.as_ref().and_then(|start| start.default_arms.get(workload)).map(String::as_str);
    let first = || {
        let operations = log.operations.iter().map(|o| (o.workload.as_str(), o.arm.as_str()));
        let samples = log.samples.iter().map(|s| (s.workload.as_str(), s.arm.as_str()));
        operations.chain(samples).find(|(id, _)| *id == workload).map(|(_, arm)| arm)
    };
    if named.or_else(first) == Some(arm) { metric.to_owned() } else { format!("{arm}_{metric}") }
}

fn path_measurements(log: &PointLog) -> Vec<Measurement> {
    if log.start.as_ref().is_none_or(|start| start.clock != "tsc") {
        return Vec::new();
    }
    log.operations
        .iter()
        .map(|series| Measurement {
            workload: series.workload.clone(),
            metric: metric_with_arm(log, &series.workload, &series.arm, &series.metric),
            // Only time is counted in instructions; a drain in us, for instance, stays what it is.
            unit: if series.unit == "ns" { "instructions".into() } else { series.unit.clone() },
            better: series.better.clone(),
            values: Values::Samples(
                series
                    .values
                    .iter()
                    .enumerate()
                    .map(|(n, value)| {
                        value.saturating_sub(series.waiting.get(n).copied().unwrap_or(0)) as f64
                    })
                    .collect(),
            ),
            waiting: series.waiting.iter().map(|&waiting| waiting as f64).collect(),
        })
        .collect()
}

fn time_measurements(log: &PointLog) -> Vec<Measurement> {
    let mut measurements: Vec<Measurement> = Vec::new();
    for sample in &log.samples {
        let metric = metric_with_arm(log, &sample.workload, &sample.arm, &sample.metric);
        let value = sample.sum as f64 / sample.operations.max(1) as f64;
        let known = measurements.iter_mut().find(|m| m.workload == sample.workload && m.metric == metric);
        match known.map(|m| &mut m.values) {
            Some(Values::Samples(values)) => values.push(value),
            Some(Values::Summary { .. }) => unreachable!("only samples are made here"),
            None => measurements.push(Measurement {
                workload: sample.workload.clone(),
                metric,
                unit: sample.unit.clone(),
                better: sample.better.clone(),
                values: Values::Samples(vec![value]),
                waiting: waiting_of(log, sample),
            }),
        }
    }
    measurements
}

fn waiting_of(log: &PointLog, sample: &kernmark_wire::Sample) -> Vec<f64> {
    log.operations
        .iter()
        .find(|o| (&o.workload, &o.arm, &o.metric) == (&sample.workload, &sample.arm, &sample.metric))
        .map(|o| o.waiting.iter().map(|&waiting| waiting as f64).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::OperationSeries;
    use kernmark_wire::{Sample, Start};

    fn start(clock: &str, default: Option<&str>) -> Start {
        Start {
            format: 1,
            pass: "run".into(),
            protocol: String::new(),
            point: String::new(),
            boot_id: String::new(),
            clock: clock.into(),
            version: String::new(),
            default_arms: default.map(|arm| ("w".to_owned(), arm.to_owned())).into_iter().collect(),
        }
    }

    fn series(arm: &str, values: &[u64], waiting: &[u64]) -> OperationSeries {
        OperationSeries {
            workload: "w".into(),
            arm: arm.into(),
            metric: "remove".into(),
            unit: "ns".into(),
            better: "lower".into(),
            values: values.into(),
            waiting: waiting.into(),
        }
    }

    fn identity() -> PointIdentity {
        PointIdentity {
            experiment: "x".into(),
            point: "base-seed1".into(),
            build: "base".into(),
            boot: 1,
            seed: Some(1),
        }
    }

    #[test]
    fn path_takes_instructions_without_waiting() {
        let log = PointLog {
            start: Some(start("tsc", Some("scx-off"))),
            operations: vec![series("bare", &[10, 12], &[]), series("scx-off", &[100, 5000], &[0, 4900])],
            ..PointLog::default()
        };
        let point = to_point(&log, &identity(), Evidence::Path);
        let metrics: Vec<&str> = point.measurements.iter().map(|m| m.metric.as_str()).collect();
        assert_eq!(metrics, ["bare_remove", "remove"]);
        assert_eq!(point.measurements[1].values, Values::Samples(vec![100.0, 100.0]));
        assert_eq!(point.measurements[1].waiting, [0.0, 4900.0]);
        assert_eq!(point.measurements[0].unit, "instructions");
        assert_eq!((point.boot, point.seed), (1, Some(1)));
    }

    #[test]
    fn another_clock_counts_no_instructions() {
        let log = PointLog {
            start: Some(start("monotonic_raw", None)),
            operations: vec![series("a", &[10], &[])],
            ..PointLog::default()
        };
        assert!(to_point(&log, &identity(), Evidence::Path).measurements.is_empty());
    }

    #[test]
    fn time_takes_sample_means() {
        let sample = |arm: &str, number, sum| Sample {
            workload: "w".into(),
            arm: arm.into(),
            metric: "remove".into(),
            unit: "ns".into(),
            better: "lower".into(),
            sample: number,
            operations: 4,
            sum,
        };
        let log = PointLog {
            start: Some(start("monotonic_raw", None)),
            samples: vec![sample("a", 1, 10), sample("a", 2, 12), sample("b", 1, 8)],
            operations: vec![series("a", &[2], &[1])],
            ..PointLog::default()
        };
        let point = to_point(&log, &identity(), Evidence::Time);
        assert_eq!(point.measurements[0].values, Values::Samples(vec![2.5, 3.0]));
        assert_eq!(point.measurements[0].waiting, [1.0]);
        assert_eq!(point.measurements[1].metric, "b_remove");
        assert_eq!(point.measurements[1].unit, "ns");
    }
}
