// SPDX-License-Identifier: GPL-2.0-or-later
//! Everything a report can say, gathered from the files of a bundle.

use crate::builds::BuildRecord;
use crate::changed::Executed;
use crate::compare::{ComparisonFile, Measurement, Values};
use crate::mail::Series;
use crate::plan::Plan;
use crate::verdict::{Incident, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything a report can say. Each report format is a pure function of this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// `series.json`.
    pub series: Series,
    /// `plan.json`.
    pub plan: Plan,
    /// `plan.json`'s protocol hash.
    pub protocol_sha256: String,
    /// `builds.json`.
    pub builds: Vec<BuildRecord>,
    /// `comparison.json`.
    pub comparison: ComparisonFile,
    /// `verdict.json`.
    pub verdict: Verdict,
    /// What kept builds or boots from being measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<Incident>,
    /// Changed functions and whether they ran.
    pub executed: Executed,
    /// Calls per operation that differ between neighbouring builds.
    pub call_changes: Vec<CallChange>,
    /// NULL and other returns of functions that were looked at.
    #[serde(default)]
    pub returns: Vec<ReturnCount>,
    /// Work items that operations leave to workqueues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deferred_work: Vec<DeferredWork>,
    /// Instructions per object from two sizes, where a workload has two.
    pub growth: Vec<Growth>,
    /// Median of each metric in each boot, in the order of the boots.
    #[serde(default)]
    pub medians: Vec<BootMedian>,
    /// Distribution of single operations in the first boot of each build.
    #[serde(default)]
    pub distributions: Vec<Distribution>,
    /// The arm of each workload that stands without a prefix, by workload id.
    #[serde(default)]
    pub default_arms: BTreeMap<String, String>,
    /// Facts that all boots agree in: `kernfs.rmdir nodes` -> 26.
    pub facts: BTreeMap<String, u64>,
    /// Workloads and arms that did not run, with reason.
    pub skips: Vec<(String, String)>,
    /// Observations that could not be made: (what, reason).
    #[serde(default)]
    pub not_available: Vec<(String, String)>,
    /// Why the series should be measured on boards whatever its path length, for a person.
    #[serde(default)]
    pub for_boards: Vec<String>,
    /// What builds did that no build should: (build label, what), for a person.
    #[serde(default)]
    pub tampering: Vec<(String, String)>,
    /// The console around trouble, escaped; empty when all went well.
    #[serde(default)]
    pub excerpt: String,
    /// Environment of the base boots.
    pub environment: BTreeMap<String, String>,
    /// Where this came from.
    pub provenance: Provenance,
}

/// Calls of one function per operation, in each build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallChange {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// `rmdir` ...
    pub operation: String,
    /// The function.
    pub function: String,
    /// Its caller; `None` for the sum over all callers.
    pub caller: Option<String>,
    /// Calls per operation, by build in plan order.
    pub per_operation: Vec<f64>,
}

/// Return values of one function in one operation, in each build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReturnCount {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// `rmdir` ...
    pub operation: String,
    /// The function.
    pub function: String,
    /// NULL returns per operation, by build in plan order.
    pub null_per_operation: Vec<f64>,
    /// Other returns per operation, by build in plan order.
    pub other_per_operation: Vec<f64>,
}

/// Work items of one function that an operation leaves to a workqueue, in each build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeferredWork {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// The function that does the work.
    pub function: String,
    /// Items per operation, by build in plan order.
    pub per_operation: Vec<f64>,
    /// Median time from the start of an item to its end, running or blocked, us.
    pub duration_us: Vec<Option<u64>>,
    /// From the return of the last of several operations to the end of the last item, us.
    pub drain_us: Vec<Option<u64>>,
}

impl DeferredWork {
    /// Whether some builds leave more items than others.
    pub fn differs(&self) -> bool {
        self.per_operation.iter().any(|n| Some(n) != self.per_operation.first())
    }
}

/// Median of one metric in one boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BootMedian {
    /// 1-based place over the whole experiment.
    pub boot: u64,
    /// Build label.
    pub build: String,
    /// Seed of the palindrome.
    pub seed: Option<u64>,
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// Unit of the median.
    pub unit: String,
    /// The median.
    pub median: f64,
}

/// Distribution of single operations of one metric in one boot (3 significant digits).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Build label.
    pub build: String,
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// Unit of the values: `ns`, or `instructions` on the deterministic runner.
    pub unit: String,
    /// (lowest value of the bucket, operations in it), ascending.
    pub buckets: Vec<(u64, u64)>,
    /// Smallest operation.
    pub min: u64,
    /// Largest operation.
    pub max: u64,
}

impl Distribution {
    /// The distribution of one measurement of `build`, without the time an operation waited;
    /// `None` where only a summary is known.
    pub fn of(build: &str, measurement: &Measurement) -> Option<Self> {
        let Values::Samples(values) = &measurement.values else { return None };
        let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
        let mut whole: Vec<u64> = Vec::new();
        for value in values.iter().filter(|v| v.is_finite()) {
            // Saturating: a clock does not run backwards, and no operation takes 500 years.
            let value = value.round() as u64;
            let width = 10_u64.pow(value.checked_ilog10().unwrap_or(0).saturating_sub(2));
            *buckets.entry(value - value % width).or_insert(0) += 1;
            whole.push(value);
        }
        Some(Self {
            build: build.to_owned(),
            workload: measurement.workload.clone(),
            metric: measurement.metric.clone(),
            unit: measurement.unit.clone(),
            buckets: buckets.into_iter().collect(),
            min: *whole.iter().min()?,
            max: *whole.iter().max()?,
        })
    }
}

/// How a cost grows with the number of objects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// Workload id.
    pub workload: String,
    /// Metric without arm.
    pub metric: String,
    /// What is counted: `kernfs node`.
    pub object: String,
    /// Build label whose added cost over the base this is.
    pub build: String,
    /// Added cost per object.
    pub per_object: f64,
    /// Added cost that does not depend on the number.
    pub constant: f64,
    /// The two sizes: (objects, added cost).
    pub sizes: Vec<(u64, f64)>,
}

/// Where the numbers came from and how to get them again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of kernmark.
    pub tool_version: String,
    /// Tree, for a person: `linux-source-6.12 6.12.117-1`.
    pub tree: String,
    /// 40 hex digits where the tree is a git repository.
    pub base_commit: Option<String>,
    /// Name of the configuration that the kernels have in the emulator.
    #[serde(default = "minimal", skip_serializing_if = "is_minimal")]
    pub kernel_config: String,
    /// One command that repeats the experiment.
    pub repeat: String,
    /// RFC 3339 time at which the experiment started.
    pub started: String,
    /// Seconds from start to verdict.
    pub duration_seconds: u64,
    /// Who runs this, for the signature: `NAME <address>`; `None` for a private run.
    pub operator: Option<String>,
    /// Where the bundle can be fetched; `None` for a private run.
    pub bundle_url: Option<String>,
    /// KCIDB origin.
    pub origin: String,
}

/// What findings without a name for it were made with.
fn minimal() -> String {
    "minimal".to_owned()
}

fn is_minimal(name: &str) -> bool {
    name == minimal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(values: Values) -> Measurement {
        Measurement {
            workload: "w".into(),
            metric: "m".into(),
            unit: "instructions".into(),
            better: "lower".into(),
            values,
            waiting: Vec::new(),
        }
    }

    #[test]
    fn buckets_keep_three_digits_and_every_operation() {
        let samples = Values::Samples(vec![41_844.0, 41_899.0, 41_900.0, 7.0, 0.0, 1_234_567.0]);
        let found = Distribution::of("base", &measurement(samples)).expect("samples");
        assert_eq!(found.buckets, [(0, 1), (7, 1), (41_800, 2), (41_900, 1), (1_230_000, 1)]);
        assert_eq!((found.min, found.max), (0, 1_234_567));
    }

    #[test]
    fn a_summary_has_no_distribution() {
        let summary = Values::Summary { median: 1.0, cv_percent: None };
        assert_eq!(Distribution::of("base", &measurement(summary)), None);
        assert_eq!(Distribution::of("base", &measurement(Values::Samples(vec![]))), None);
    }
}
