// SPDX-License-Identifier: GPL-2.0-or-later
//! `PLAN.yaml`: an experiment as a person writes it. `kernmark check` writes one for a series and
//! runs it like any other.

mod draft;
mod order;
mod problem;

pub use draft::{Draft, draft, patch_file};
pub use order::NamedOrder;
pub use problem::ExperimentProblem;

use crate::builds::IdentityField;
use crate::plan::Attribution;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The version of the file.
pub const VERSION: u32 = 1;
/// Palindromes, each with a seed of its own, where nothing is said.
const REPEATS: u32 = 3;
/// Most palindromes of one experiment.
const MOST_REPEATS: u32 = 100;
/// A change of at least this many percent is a regression where nothing is said (interfaces.md).
const THRESHOLD_PERCENT: f64 = 5.0;
/// Longest label of a build; it is part of file names and table rows.
const LONGEST_LABEL: usize = 40;

/// An experiment: builds, order, workloads, thresholds. Paths are relative to the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// 1.
    pub version: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// Mails of the series under test, where it is about one: the reply goes to its thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Kernel source: a git repository, a directory or an archive; Debian's where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Commit of that repository that builds start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Name of the kernel configuration.
    #[serde(default = "minimal")]
    pub kernel_config: String,
    /// Options switched on in all builds; where nothing is said, those that the patched files need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<String>>,
    /// The builds; the first one is what the others are compared with.
    pub builds: Vec<ExperimentBuild>,
    /// A published order of boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<NamedOrder>,
    /// Or any other, as labels of builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Vec<String>>,
    /// How often the order is run, each time with another seed.
    #[serde(default = "repeats")]
    pub repeats: u32,
    /// Workloads; where nothing is said, those that the patched files select.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Vec<ExperimentWorkload>>,
    /// Rule set of the report view; where nothing is said, that of each workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<String>,
    /// A change of at least this many percent is a regression.
    #[serde(default = "threshold")]
    pub threshold_percent: f64,
    /// Wider bounds for SAME by `workload metric`, percent; where nothing is said, the measured ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds_percent: Option<BTreeMap<String, f64>>,
    /// Metrics that decide, as `workload metric`; where nothing is said, those of the workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primaries: Option<Vec<String>>,
    /// How the patch that costs is found; where nothing is said, every build is booted.
    #[serde(default, skip_serializing_if = "Attribution::is_every_build")]
    pub attribution: Attribution,
}

/// One kernel: a source with a configuration, or an image that is there already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentBuild {
    /// Its name.
    pub label: String,
    /// Commit of the tree to start from; the experiment's base where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Files with patches, mails or bare diffs, applied in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
    /// Lines of .config that this build has otherwise: `CONFIG_HZ=1000`, `# CONFIG_SMP is not set`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
    /// An image to boot as it is, instead of building one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The .config of that image, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_config: Option<String>,
    /// The System.map of that image, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_map: Option<String>,
    /// What may differ from the first build beside the source; everything else must be equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_differ: Vec<IdentityField>,
}

/// A workload to run in every boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentWorkload {
    /// Its id.
    pub id: String,
    /// Arms; all that the runner can measure where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arms: Option<Vec<String>>,
}

fn minimal() -> String {
    "minimal".to_owned()
}

fn repeats() -> u32 {
    REPEATS
}

fn threshold() -> f64 {
    THRESHOLD_PERCENT
}

impl Experiment {
    /// Reads a plan.
    ///
    /// # Errors
    /// It is no YAML of this form, or contradicts itself; the error names the line or the field.
    pub fn read(text: &str) -> Result<Self, ExperimentProblem> {
        let read: Self = serde_yaml::from_str(text).map_err(|e| {
            ExperimentProblem::Form(e.to_string().lines().next().unwrap_or_default().to_owned())
        })?;
        read.check()?;
        Ok(read)
    }

    /// The text that [`Experiment::read`] reads.
    pub fn text(&self) -> String {
        serde_yaml::to_string(self).expect("strings and finite numbers")
    }

    /// The order of one palindrome, as places in `builds`.
    ///
    /// # Errors
    /// The order does not fit the builds.
    pub fn boots(&self) -> Result<Vec<usize>, ExperimentProblem> {
        match (&self.order, &self.sequence) {
            (Some(order), None) => order.places(self.builds.len()),
            (None, Some(labels)) => labels
                .iter()
                .map(|label| {
                    let at = self.builds.iter().position(|b| b.label == *label);
                    at.ok_or_else(|| ExperimentProblem::UnknownLabel(label.clone()))
                })
                .collect(),
            _ => Err(ExperimentProblem::OneOrder),
        }
    }

    fn check(&self) -> Result<(), ExperimentProblem> {
        if self.version != VERSION {
            return Err(ExperimentProblem::Version(self.version));
        }
        if self.builds.len() < 2 {
            return Err(ExperimentProblem::FewBuilds);
        }
        let mut labels = BTreeSet::new();
        for build in &self.builds {
            build.check()?;
            if !labels.insert(build.label.as_str()) {
                return Err(ExperimentProblem::Twice(build.label.clone()));
            }
        }
        let boots = self.boots()?;
        if let Some(never) = (0..self.builds.len()).find(|at| !boots.contains(at)) {
            return Err(ExperimentProblem::NeverBooted(self.builds[never].label.clone()));
        }
        if !(1..=MOST_REPEATS).contains(&self.repeats) {
            return Err(ExperimentProblem::Repeats(self.repeats));
        }
        if !(self.threshold_percent.is_finite() && self.threshold_percent > 0.0) {
            return Err(ExperimentProblem::Threshold(self.threshold_percent));
        }
        let bounds = self.bounds_percent.iter().flatten();
        if let Some((metric, bound)) = bounds.clone().find(|(_, b)| !(b.is_finite() && **b >= 0.0)) {
            return Err(ExperimentProblem::Bound { metric: metric.clone(), bound: *bound });
        }
        Ok(())
    }
}

impl ExperimentBuild {
    fn check(&self) -> Result<(), ExperimentProblem> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
        if self.label.is_empty() || self.label.len() > LONGEST_LABEL || !self.label.chars().all(plain) {
            return Err(ExperimentProblem::Label(self.label.clone()));
        }
        let built = self.commit.is_some() || !self.patches.is_empty() || !self.config.is_empty();
        let of_image = self.image_config.is_some() || self.system_map.is_some();
        if (self.image.is_some() && built) || (self.image.is_none() && of_image) {
            return Err(ExperimentProblem::ImageOrSource(self.label.clone()));
        }
        match self.config.iter().find(|line| !is_config_line(line)) {
            Some(line) => {
                Err(ExperimentProblem::ConfigLine { build: self.label.clone(), line: line.clone() })
            }
            None => Ok(()),
        }
    }
}

/// `CONFIG_NAME=value` or `# CONFIG_NAME is not set`, nothing that could hide a second line.
fn is_config_line(line: &str) -> bool {
    let name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if line.contains(char::is_control) {
        return false;
    }
    match line.strip_prefix("# CONFIG_") {
        Some(rest) => rest.strip_suffix(" is not set").is_some_and(name),
        None => line
            .strip_prefix("CONFIG_")
            .and_then(|rest| rest.split_once('='))
            .is_some_and(|(symbol, value)| name(symbol) && !value.is_empty()),
    }
}

#[cfg(test)]
mod tests;
