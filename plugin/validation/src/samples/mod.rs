// SPDX-License-Identifier: GPL-2.0-or-later
//! The log of one boot to its measurements. The console belongs to the kernel
//! under test: every line is hostile text until its checksum holds, and a
//! checksum protects against a lossy line, not against a forging kernel.

mod chunk_problem;
mod chunks;
mod collect;
mod environment;
mod excerpt;
mod lava;
mod parse;
mod point;
mod problem;

pub use chunk_problem::ChunkProblem;
pub use chunks::{ConsoleLine, InBand, InBandResult, console_lines, results_among};
pub use environment::environment_tsv;
pub use excerpt::{EXCERPT_LINES, escape, excerpt, trouble};
pub use lava::{console_of, results_in_log};
pub use parse::{Expected, MAX_LOG_BYTES, parse_log};
pub use point::{PointIdentity, metric_with_arm, to_point};
pub use problem::LogProblem;

use kernmark_wire::{
    CallerSamples, Calls, Check, Fact, Histogram, NotAvailable, Profile, Returns, Sampling, SelfSamples,
    Skip, Start,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything one boot reported, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointLog {
    /// First record.
    pub start: Option<Start>,
    /// Environment before the measurement, by key.
    pub environment_before: BTreeMap<String, String>,
    /// Environment after the measurement, by key.
    pub environment_after: BTreeMap<String, String>,
    /// Single operations, chunks joined.
    pub operations: Vec<OperationSeries>,
    /// Block samples.
    pub samples: Vec<kernmark_wire::Sample>,
    /// Distributions.
    pub histograms: Vec<Histogram>,
    /// Function hits by section, chunks joined.
    pub profiles: Vec<Profile>,
    /// Calls by caller and operation, chunks joined.
    pub calls: Vec<Calls>,
    /// Return values by operation and function.
    #[serde(default)]
    pub returns: Vec<Returns>,
    /// Sampling profiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samplings: Vec<Sampling>,
    /// Their samples by function, chunks joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub self_samples: Vec<SelfSamples>,
    /// Their samples of some functions by caller, chunks joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caller_samples: Vec<CallerSamples>,
    /// Numbers stated by workloads.
    pub facts: Vec<Fact>,
    /// Observations that could not be made.
    pub not_available: Vec<NotAvailable>,
    /// Correctness conditions.
    pub checks: Vec<Check>,
    /// Workloads and arms that could not run.
    pub skips: Vec<Skip>,
    /// Status of the last record; `None` when the log has no end.
    pub status: Option<String>,
    /// What is wrong with the log; empty for a usable point.
    pub problems: Vec<LogProblem>,
}

impl PointLog {
    /// The first condition of validity that did not hold.
    pub fn failed_check(&self) -> Option<&Check> {
        self.checks.iter().find(|check| !check.pass)
    }
}

impl PointLog {
    /// Whether the point may be compared: nothing is wrong with its log.
    pub fn is_usable(&self) -> bool {
        self.problems.is_empty()
    }
}

/// All single operations of one metric in one boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationSeries {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// Metric without the arm.
    pub metric: String,
    /// `ns`.
    pub unit: String,
    /// `lower` or `higher`.
    pub better: String,
    /// Duration of each operation.
    pub values: Vec<u64>,
    /// Of that, time off the CPU; empty when not measured.
    pub waiting: Vec<u64>,
}
