// SPDX-License-Identifier: GPL-2.0-or-later
//! The experiment that `kernmark check` makes of a series.

use super::{Experiment, ExperimentBuild, ExperimentWorkload, NamedOrder, VERSION};
use crate::mail::Series;
use crate::plan::Attribution;

/// With one build for each patch, series of more patches than this are bisected: a palindrome of
/// all builds would take longer than anybody waits.
const MOST_IN_ONE_PALINDROME: u32 = 6;

/// What a person chooses about a check.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// The tree as given.
    pub tree: Option<String>,
    /// Its commit.
    pub base: Option<String>,
    /// Name of the kernel configuration.
    pub kernel_config: String,
    /// One build for each patch.
    pub each_patch: bool,
    /// How often the palindrome is run.
    pub repeats: u32,
    /// Workload ids; empty means those that the patched files select.
    pub workloads: Vec<String>,
    /// A change of at least this many percent is a regression.
    pub threshold_percent: f64,
}

/// Where a patch of a series stands in a bundle: `patches/0001.patch`.
pub fn patch_file(index: u32) -> String {
    format!("patches/{index:04}.patch")
}

/// The experiment on `series`, which stands beside it as `series.json`.
pub fn draft(choice: &Draft, series: &Series) -> Experiment {
    let total = series.total;
    let build = |label: String, patches: u32| ExperimentBuild {
        label,
        patches: (1..=patches).map(patch_file).collect(),
        ..ExperimentBuild::default()
    };
    let mut builds = vec![build("base".into(), 0)];
    let each = choice.each_patch && total > 1;
    if each {
        builds.extend((1..=total).map(|n| build(format!("{n}/{total}"), n)));
    } else {
        builds.push(build("patched".into(), total));
    }
    let workloads = choice.workloads.iter().map(|id| ExperimentWorkload { id: id.clone(), arms: None });
    Experiment {
        version: VERSION,
        experiment: series.title.clone(),
        series: Some("series.json".into()),
        tree: choice.tree.clone(),
        base: choice.base.clone(),
        kernel_config: choice.kernel_config.clone(),
        options: None,
        builds,
        order: Some(NamedOrder::Palindrome),
        sequence: None,
        repeats: choice.repeats,
        workloads: (!choice.workloads.is_empty()).then(|| workloads.collect()),
        gates: None,
        threshold_percent: choice.threshold_percent,
        bounds_percent: None,
        primaries: None,
        attribution: if each && total > MOST_IN_ONE_PALINDROME {
            Attribution::Bisection
        } else {
            Attribution::EveryBuild
        },
    }
}
