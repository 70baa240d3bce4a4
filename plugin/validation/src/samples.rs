// SPDX-License-Identifier: GPL-2.0-or-later
//! The log of one boot to its measurements. The console belongs to the kernel
//! under test: every line is hostile text until its checksum holds.

use kernmark_wire::{Calls, Check, Fact, Histogram, NotAvailable, Profile, Skip, Start};
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

/// What is wrong with a log. Any of these makes the point INVALID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum LogProblem {
    /// No result line at all: nothing came.
    Empty,
    /// The last record is missing: the log was cut.
    Truncated {
        /// Records that arrived.
        records: u64,
    },
    /// A line that starts like a result but does not hold.
    BadLine {
        /// 1-based line number.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Sequence numbers that do not count up by one: lines lost, repeated or forged.
    Sequence {
        /// Number expected.
        expected: u64,
        /// Number found.
        found: u64,
    },
    /// Result lines on the console, where the board binary prints none.
    ForgedOnConsole {
        /// 1-based line number.
        line: u64,
    },
    /// Chunks of one series that do not fit together.
    Gap {
        /// `workload arm metric`.
        series: String,
    },
    /// The board binary gave up.
    Failed {
        /// Its reason.
        reason: String,
    },
    /// A point of another protocol, or named otherwise than asked for.
    WrongPoint {
        /// What differs.
        reason: String,
    },
}
