// SPDX-License-Identifier: GPL-2.0-or-later
//! Comparison and policy to the verdict on a series: `verdict.json`.

mod blame;
mod decide;

pub use decide::decide;

use crate::compare::VerdictName;
use serde::{Deserialize, Serialize};

/// The verdict on a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// 1.
    pub version: u32,
    /// What came out.
    pub outcome: Outcome,
    /// 0 nothing slower, 1 regression, 3 missing, inconclusive or not built.
    pub exit_code: u8,
    /// The metric that speaks first, `workload metric`; `None` when none does.
    pub headline: Option<Headline>,
    /// Patches that carry a cost of their own beyond the threshold, largest first.
    #[serde(default)]
    pub culprits: Vec<Culprit>,
    /// Secondary metrics that moved: listed, never deciding.
    #[serde(default)]
    pub also_moved: Vec<AlsoMoved>,
    /// Why, each for a person.
    pub reasons: Vec<String>,
}

/// What kept a build or boot from being measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "incident", rename_all = "snake_case")]
pub enum Incident {
    /// The image is the same as another build's, so it was not booted.
    IdenticalImage {
        /// Label of the build.
        build: String,
        /// Label of the build with the same image.
        same_as: String,
    },
    /// A touched file was not compiled and its option cannot be switched on.
    NotBuilt {
        /// The file.
        file: String,
        /// The option, when one was found.
        option: Option<String>,
        /// Why not.
        reason: String,
    },
    /// The compiler or an identity check refused a build.
    BuildFailed {
        /// Label of the build.
        build: String,
        /// First error.
        reason: String,
    },
    /// A boot panicked, hung or left an unusable log.
    BootFailed {
        /// Name of the point.
        point: String,
        /// What happened.
        reason: String,
    },
}

/// A patch that carries a cost of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// Label of the build that first has the patch.
    pub build: String,
    /// Label of the last build before it that was measured, where that is not the one before: the
    /// patches between are not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// Change against the build before it, percent.
    pub step_percent: f64,
}

/// A secondary metric that moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlsoMoved {
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// The claim.
    pub name: VerdictName,
    /// Whole-series change, percent.
    pub change_percent: f64,
}

/// The metric a reply opens with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// Workload id.
    pub workload: String,
    /// Metric with its arm as prefix.
    pub metric: String,
    /// Label of the build that first shows most of the change: `2/2`, or `patched`.
    pub culprit: String,
    /// Whole-series change, percent.
    pub change_percent: f64,
}

/// What came out for the series as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// The claim of the metric that speaks first.
    Measured {
        /// The claim.
        verdict: VerdictName,
        /// An operation waits (sleeps) that did not before.
        new_waiting: bool,
        /// The change grows with the number of objects.
        grows_per_object: bool,
    },
    /// All images are identical: SAME without a boot.
    IdenticalImages,
    /// A touched file was not compiled and its option cannot be switched on.
    NotBuilt {
        /// The file.
        file: String,
        /// The option, when one was found.
        option: Option<String>,
        /// Why not.
        reason: String,
    },
    /// A build or boot failed, or a log is unusable.
    Invalid {
        /// Which build or point.
        place: String,
        /// What happened.
        reason: String,
    },
}

impl std::fmt::Display for Incident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::IdenticalImage { build, same_as } => {
                write!(f, "the image of {build} is identical to that of {same_as}; nothing to boot")
            }
            Self::NotBuilt { file, option, reason } => {
                write!(f, "NOT BUILT: {file}: {reason}")?;
                match option {
                    Some(option) => write!(f, "; add {option} to the config fragment and run again"),
                    None => {
                        f.write_str("; find the option that compiles it, or test on a config that has it")
                    }
                }
            }
            Self::BuildFailed { build, reason } => {
                write!(f, "{build} does not build: {reason}; fix the patch, the other builds are measured")
            }
            Self::BootFailed { point, reason } => {
                write!(f, "boot {point} gave no result: {reason}; read its console log in the bundle")
            }
        }
    }
}
