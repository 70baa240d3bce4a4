// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be wrong with a log.

use serde::{Deserialize, Serialize};

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
    /// The log is larger than any honest one; the rest was not read.
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// A line that is no result, or looks like one but does not hold.
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
    /// Two records that say the same thing, or contradict each other.
    Duplicate {
        /// What is there twice.
        what: String,
    },
    /// A correctness condition of a workload did not hold.
    CheckFailed {
        /// `workload arm: condition`.
        check: String,
        /// What was seen.
        detail: String,
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
    /// More is wrong than is listed here.
    More,
}

impl std::fmt::Display for LogProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => {
                write!(f, "no results came: look at the console why the kernel did not get that far")
            }
            Self::Truncated { records } => {
                write!(
                    f,
                    "the results stop after {records} records: look at the console for what ended the boot"
                )
            }
            Self::TooLarge { bytes } => {
                write!(
                    f,
                    "{bytes} bytes of results are more than a run prints: the kernel writes to the port"
                )
            }
            Self::BadLine { line, reason } => {
                write!(
                    f,
                    "line {line} of the results: {reason}; run the point again, and if it stays the kernel writes there"
                )
            }
            Self::Sequence { expected, found } => {
                write!(f, "result {found} came where {expected} was due: lines were lost, repeated or forged")
            }
            Self::ForgedOnConsole { line } => {
                write!(
                    f,
                    "line {line} of the console looks like a result, but results are never printed there: the kernel forges them"
                )
            }
            Self::Gap { series } => write!(f, "the chunks of {series} do not fit together"),
            Self::Duplicate { what } => write!(f, "{what} is reported twice"),
            Self::CheckFailed { check, detail } => write!(f, "condition failed: {check} ({detail})"),
            Self::Failed { reason } => write!(f, "the measuring program gave up: {reason}"),
            Self::WrongPoint { reason } => {
                write!(
                    f,
                    "these are the results of another point: {reason}; remove the point and run it again"
                )
            }
            Self::More => write!(f, "more is wrong than is listed"),
        }
    }
}
