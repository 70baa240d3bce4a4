// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be wrong with a plan, each with what to do.

use super::{NamedOrder, VERSION};

/// What is wrong with a plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExperimentProblem {
    /// No YAML of this form.
    #[error("{0}")]
    Form(String),
    /// Of another version.
    #[error("version {0}: this kernmark reads version {VERSION}")]
    Version(u32),
    /// Nothing to compare.
    #[error("builds: there must be two at least, or there is nothing to compare")]
    FewBuilds,
    /// A label twice.
    #[error("builds: the label {0} is there twice; each build needs its own")]
    Twice(String),
    /// A label that no file could have.
    #[error("builds: the label \"{}\" is not usable; take up to 40 letters, digits and -_./+", .0.escape_default())]
    Label(String),
    /// Neither order nor sequence, or both.
    #[error("give either order (a published one) or sequence (labels of builds), not both")]
    OneOrder,
    /// A label of nothing.
    #[error("sequence: there is no build {0}")]
    UnknownLabel(String),
    /// A build without a boot.
    #[error("sequence: the build {0} is never booted; take it out of builds, or boot it")]
    NeverBooted(String),
    /// An order for another number of builds.
    #[error("order {order} is for {}, and there are {builds}", order.wants())]
    OrderOf {
        /// The order.
        order: NamedOrder,
        /// Builds there are.
        builds: usize,
    },
    /// An image that is also built.
    #[error(
        "build {0}: an image is booted as it is; commit, patches and config are for builds, image_config and system_map for images"
    )]
    ImageOrSource(String),
    /// No line of a .config.
    #[error("build {build}: \"{}\" is no line of a .config; write CONFIG_NAME=value or # CONFIG_NAME is not set", line.escape_default())]
    ConfigLine {
        /// Its label.
        build: String,
        /// The line.
        line: String,
    },
    /// Too few or too many.
    #[error("repeats {0}: from 1 to 100")]
    Repeats(u32),
    /// No threshold.
    #[error("threshold_percent {0}: a number above 0 is needed")]
    Threshold(f64),
    /// No bound.
    #[error("bounds_percent {metric}: {bound} is no bound")]
    Bound {
        /// `workload metric`.
        metric: String,
        /// What stands there.
        bound: f64,
    },
}
