// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples to a comparison: maths only. The report view keeps the published
//! rule sets (protocol.md 7), the verdict view decides (statistics.md).

mod assemble;
mod blocks;
mod gates;
mod growth;
mod labels;
mod orders;
mod output;
mod path;
mod reason;
mod report_view;
mod summary;
mod table;
mod table_error;
pub mod time;
mod waiting;

pub use blocks::{Block, BlockChange, BlockFigures, block_figures, blocks_text, blocks_tsv, read_blocks};
pub use gates::{
    CvFormula, DriftFormula, FSNOTIFY, GATES, Gates, KERNFS, OPEN, SHRINKER, default_gates, gates_named,
};
pub use growth::{Size, growth, sizes};
pub use labels::moved_cost;
pub use orders::path_orders;
pub use output::{text, tsv};
pub use path::{compare_path, compare_path_between};
pub use reason::Reason;
pub use report_view::{compare_file, compare_tables, compare_time, contrasts};
pub use summary::{
    change, cv_population, cv_sample, drift_absolute, drift_signed, mean, median, quantile, range,
};
pub use table::{Place, read_tables};
pub use table_error::{TableError, TableFault};

use crate::changed::{Executed, Fate, FunctionFate};
use crate::plan::Evidence;
use serde::{Deserialize, Serialize};

/// `comparison.json`, and the JSON of `kernmark compare`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonFile {
    /// 1.
    pub version: u32,
    /// By experiment, workload, metric, then contrast.
    pub comparisons: Vec<Comparison>,
    /// Which changed functions ran; absent for bare tables.
    pub executed: Option<ExecutedCount>,
    /// Diagnostic orders: what each diagnostic build takes off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reductions: Vec<Reduction>,
    /// Diagnostic orders: what the cost is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mechanism: Vec<Mechanism>,
    /// Nested orders: how much of the gap each probe recovers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recovery: Vec<Recovery>,
}

/// One metric compared between two builds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Experiment name; experiments are never pooled.
    pub experiment: String,
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix; the default arm has none.
    pub metric: String,
    /// `new/old`, by build label.
    pub contrast: String,
    /// Label of the build that is judged.
    pub new_build: String,
    /// Label of the build it is judged against.
    pub old_build: String,
    /// Rule set of the report view: `kernfs`, `fsnotify` ...
    pub gates: String,
    /// Unit of the endpoints: `ns`, `instructions`, `ratio` ...
    pub unit: String,
    /// `lower` or `higher`.
    pub better: String,
    /// Every pairing of a new with an old boot.
    pub endpoints: Vec<Endpoint>,
    /// Smallest endpoint change.
    pub min_change_percent: Option<f64>,
    /// Largest endpoint change.
    pub max_change_percent: Option<f64>,
    /// The same without the first sample of each point.
    pub min_drop_first_percent: Option<f64>,
    /// The same without the first sample of each point.
    pub max_drop_first_percent: Option<f64>,
    /// Largest CV of the points involved.
    pub max_cv_percent: Option<f64>,
    /// Drift of the old side (formula by rule set).
    pub old_drift_percent: Option<f64>,
    /// Drift of the new side (formula by rule set).
    pub new_drift_percent: Option<f64>,
    /// CV and drift gates hold.
    pub stability_pass: bool,
    /// `slower`, `faster` or `none`.
    pub signal_direction: String,
    /// Stable, and a direction.
    pub signal_pass: bool,
    /// Label of the fsnotify rule set.
    pub label: Option<String>,
    /// What is claimed.
    pub verdict: MetricVerdict,
    /// What `path` evidence says beside the median; absent for `time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathDetail>,
}

/// What path evidence says beside the median (statistics.md 3.10).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathDetail {
    /// Seeds of the palindromes that are paired.
    pub seeds: Vec<u64>,
    /// The old build, median over seeds.
    pub old: PathSide,
    /// The new build, median over seeds.
    pub new: PathSide,
    /// New minus old median in the unit of the metric, median over seeds.
    pub difference: f64,
    /// Smallest and largest difference over seeds.
    pub difference_range: [f64; 2],
    /// The difference is the same for every seed.
    pub exact: bool,
    /// Changes within plus/minus this many percent are SAME.
    pub bound_percent: f64,
    /// Change of the mean: deferred work shows only here and in the tail.
    pub mean_change_percent: Option<f64>,
    /// Change of the 99th percentile.
    pub p99_change_percent: Option<f64>,
    /// Time off the CPU; absent when it was not measured.
    pub waiting: Option<Waiting>,
}

/// One build's single operations, in the unit of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathSide {
    /// Median operation.
    pub median: f64,
    /// Mean operation.
    pub mean: f64,
    /// 99th percentile (nearest rank).
    pub p99: f64,
}

/// Time off the CPU for each operation, virtual nanoseconds, median over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Median operation of the old build.
    pub old_median_ns: f64,
    /// Median operation of the new build.
    pub new_median_ns: f64,
    /// Mean operation of the old build.
    pub old_mean_ns: f64,
    /// Mean operation of the new build.
    pub new_mean_ns: f64,
    /// The new build waits where the old one did not, or much longer.
    pub new_waiting: bool,
}

/// Diagnostic order: what one diagnostic build takes off the full build (protocol.md 7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reduction {
    /// Experiment name.
    pub experiment: String,
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// Label of the full build.
    pub full: String,
    /// Label of the diagnostic build.
    pub build: String,
    /// Mean over the two full boots around it of 100 (1 - diagnostic/full).
    pub reduction_percent: f64,
    /// The two values that are averaged.
    pub endpoints_percent: [f64; 2],
}

/// Diagnostic order: what the cost is made of (protocol.md 7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mechanism {
    /// Experiment name.
    pub experiment: String,
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// Reduction of the lock-only build, percent.
    pub lock_only_percent: f64,
    /// Reduction of the build without the list, percent.
    pub nolist_percent: f64,
    /// Reduction without the list minus reduction of lock-only, points.
    pub gap_points: f64,
    /// `MIXED_LOCK_AND_LIST_COST`, `LIST`, `LOCK` or `NONE`.
    pub label: String,
}

/// Nested order: how much of the gap between parent and child a probe recovers (protocol.md 7, 9.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Experiment name.
    pub experiment: String,
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// Label of the parent.
    pub parent: String,
    /// Label of the child.
    pub child: String,
    /// Label of the probe.
    pub build: String,
    /// 100 (child - probe)/(child - parent), midpoints.
    pub recovery_percent: f64,
    /// The same without the first sample of each point; absent for points tables.
    pub drop_first_percent: Option<f64>,
    /// Share of the gap between this probe and its predecessor.
    pub step_percent: f64,
    /// 100 (probe - parent)/(child - parent): what is left.
    pub residual_percent: f64,
    /// Drift of the probe; absent when it has one boot.
    pub drift_percent: Option<f64>,
    /// On the last probe: `major`, `partial` or `minor`.
    pub label: Option<String>,
}

/// One pairing of a new with an old boot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Point value of the new build.
    pub new: f64,
    /// Point value of the old build.
    pub old: f64,
    /// 100 (new/old - 1).
    pub change_percent: f64,
}

/// What is claimed about one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricVerdict {
    /// Kind of evidence; decides which names are possible.
    pub evidence: Evidence,
    /// The claim.
    pub name: VerdictName,
    /// Best estimate.
    pub change_percent: Option<f64>,
    /// `[low, high]`; for `path` the range over seeds.
    pub interval_percent: Option<[f64; 2]>,
    /// Confidence of the interval; absent where the interval is a range.
    pub confidence: Option<f64>,
    /// Why, each for a person, each saying what to do next where there is something to do.
    pub reasons: Vec<String>,
    /// `time`: the boots that would go on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// What goes on with a claim that is not decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum Next {
    /// More boots, until there are so many of both builds together.
    Look {
        /// Boots at the next look.
        boots: usize,
    },
    /// One boot in place of a wild one.
    Replace {
        /// `old` or `new`.
        side: String,
    },
}

/// The claims. The first four for `time`, the next three for `path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerdictName {
    /// Takes more time.
    #[serde(rename = "SLOWER")]
    Slower,
    /// Takes less time.
    #[serde(rename = "FASTER")]
    Faster,
    /// Equivalent within the stated bound.
    #[serde(rename = "NO CHANGE")]
    NoChange,
    /// Executes more instructions.
    #[serde(rename = "LONGER")]
    Longer,
    /// Executes fewer instructions.
    #[serde(rename = "SHORTER")]
    Shorter,
    /// The same within the stated bound.
    #[serde(rename = "SAME")]
    Same,
    /// Not decided; the reasons say why.
    #[serde(rename = "INCONCLUSIVE")]
    Inconclusive,
}

impl std::fmt::Display for VerdictName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Slower => "SLOWER",
            Self::Faster => "FASTER",
            Self::NoChange => "NO CHANGE",
            Self::Longer => "LONGER",
            Self::Shorter => "SHORTER",
            Self::Same => "SAME",
            Self::Inconclusive => "INCONCLUSIVE",
        })
    }
}

/// "executed: k of n changed functions" in `comparison.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedCount {
    /// Functions the series changes.
    pub changed: usize,
    /// Of them in the image (inlined ones included).
    pub compiled: usize,
    /// Of them run by the workloads.
    pub executed: usize,
    /// Compiled but not seen running, by name.
    pub not_executed: Vec<String>,
}

impl From<&Executed> for ExecutedCount {
    /// A function merged into its callers ran when one of them ran; one that
    /// could not be observed counts as compiled only.
    fn from(executed: &Executed) -> Self {
        let ran = |f: &FunctionFate| match f.fate {
            Fate::Executed => true,
            Fate::Inlined => !f.executed_callers.is_empty(),
            Fate::NotCompiled | Fate::NotExecuted | Fate::Unknown => false,
        };
        let seen_idle = |f: &&FunctionFate| match f.fate {
            Fate::NotExecuted => true,
            Fate::Inlined => !ran(f),
            Fate::NotCompiled | Fate::Executed | Fate::Unknown => false,
        };
        let functions = &executed.functions;
        Self {
            changed: functions.len(),
            compiled: functions.iter().filter(|f| f.fate != Fate::NotCompiled).count(),
            executed: functions.iter().filter(|f| ran(f)).count(),
            not_executed: functions.iter().filter(seen_idle).map(|f| f.changed.function.clone()).collect(),
        }
    }
}

/// The measurements of one boot, as the comparison takes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Experiment name.
    pub experiment: String,
    /// Point name (`base-A`).
    pub point: String,
    /// Build label.
    pub build: String,
    /// 1-based place in the order.
    pub boot: u64,
    /// Seed of the palindrome; `None` for tables and for `time` evidence.
    pub seed: Option<u64>,
    /// One entry for each workload and metric.
    pub measurements: Vec<Measurement>,
}

/// One metric of one boot.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// `ns`, `instructions`, `ratio` ...
    pub unit: String,
    /// `lower` or `higher`.
    pub better: String,
    /// Sample values in order (path: single operations); or one published median.
    pub values: Values,
    /// Per operation time off the CPU, ns; empty when not measured.
    pub waiting: Vec<f64>,
}

/// The numbers behind one measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Samples in order, warm-ups already left out.
    Samples(Vec<f64>),
    /// A points table: median and CV only.
    Summary {
        /// Median of the point.
        median: f64,
        /// CV of the point, percent, where published.
        cv_percent: Option<f64>,
    },
}
