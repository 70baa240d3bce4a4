// SPDX-License-Identifier: GPL-2.0-or-later
//! Series and settings to a plan: which builds, which order, which numbers
//! decide; hashed before the first boot (invariant 3).

use crate::builds::IdentityField;
use crate::compare::time::{History, TimeRules};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// `plan.json`: everything that is fixed before the first boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// 1.
    pub version: u32,
    /// Name of the experiment, in tables.
    pub experiment: String,
    /// What kind of numbers this runner yields.
    pub evidence: Evidence,
    /// `qemu`, `lava`, `local`, `replay`.
    pub runner: String,
    /// The sides, base first.
    pub builds: Vec<PlannedBuild>,
    /// One palindrome of indices into `builds`, e.g. 0 1 2 2 1 0.
    pub order: Vec<usize>,
    /// The palindrome is run once for each seed (deterministic runner), else one seed.
    pub seeds: Vec<u64>,
    /// What each boot measures.
    pub workloads: Vec<PlannedWorkload>,
    /// Thresholds.
    pub policy: Policy,
    /// Rule set of the report view; that of each workload where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<String>,
    /// How the build that costs is found.
    #[serde(default, skip_serializing_if = "Attribution::is_every_build")]
    pub attribution: Attribution,
    /// `time` evidence: rules and what was known of the board before the first boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimePlan>,
}

/// What is frozen of a `time` experiment beside its order (statistics.md 3.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimePlan {
    /// The board.
    pub board: String,
    /// Every limit of the verdict.
    pub rules: TimeRules,
    /// Spread of the board by `workload metric`, from boots before this experiment.
    pub histories: std::collections::BTreeMap<String, History>,
}

/// How the build that costs is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribution {
    /// Every build is booted.
    #[default]
    EveryBuild,
    /// First the ends; then the middle of every part that changes something, until each part is
    /// one build.
    Bisection,
}

impl Attribution {
    /// Whether this is the default.
    pub fn is_every_build(&self) -> bool {
        *self == Self::EveryBuild
    }
}

/// The two kinds of evidence, never mixed (statistics.md 3.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Instructions per operation, exact, from the deterministic runner.
    Path,
    /// Time on hardware.
    Time,
}

/// One side of the comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBuild {
    /// `base`, `1/2`, `2/2`, `patched`.
    pub label: String,
    /// How many patches of the series are applied.
    pub patches: u32,
    /// What it is made of, where that is not so many patches of the series on the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PlannedSource>,
}

/// What a build is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedSource {
    /// Commit it starts from, 40 hex digits; the base of the experiment where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// SHA-256 of each diff, in the order in which they are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<String>,
    /// Lines of its .config that are its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
    /// SHA-256 of an image that was there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_sha256: Option<String>,
    /// What may differ from the first build beside the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_differ: Vec<IdentityField>,
}

impl std::fmt::Display for PlannedSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(
            self.commit.as_ref().map(|c| format!("commit {}", c.chars().take(12).collect::<String>())),
        );
        parts.extend(
            self.image_sha256.as_ref().map(|i| format!("image {}", i.chars().take(12).collect::<String>())),
        );
        match self.patches.len() {
            0 => {}
            1 => parts.push("1 patch".into()),
            n => parts.push(format!("{n} patches")),
        }
        parts.extend(self.config.iter().cloned());
        if parts.is_empty() { f.write_str("the base") } else { f.write_str(&parts.join(", ")) }
    }
}

/// One workload of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedWorkload {
    /// Workload id, e.g. `kernfs.rmdir`.
    pub id: String,
    /// Arms; empty means the default arm.
    pub arms: Vec<String>,
    /// Samples per arm and boot.
    pub samples: u64,
    /// Operations per sample.
    pub operations: u64,
    /// Warm-up operations before the first sample.
    pub warmups: u64,
}

/// Thresholds and bounds, frozen with the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// A change of at least this many percent is a regression (exit code 1).
    pub threshold_percent: f64,
    /// Smallest bound for SAME, percent (0.1).
    pub bound_percent: f64,
    /// Wider bounds by `workload metric`, from measured seed and layout spread.
    pub metric_bounds_percent: std::collections::BTreeMap<String, f64>,
    /// The metrics that decide, as `workload metric`; all others are secondary.
    pub primaries: Vec<String>,
}

/// One fresh boot: a place in the order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedPoint {
    /// 1-based over the whole experiment; the directory name in the bundle.
    pub index: usize,
    /// Index into `Plan::builds`.
    pub build: usize,
    /// Seed of this palindrome.
    pub seed: u64,
    /// 0-based place in the palindrome.
    pub place: usize,
    /// 0-based number of the palindrome.
    pub repeat: usize,
}

impl Plan {
    /// All boots, in the order they are run.
    pub fn points(&self) -> Vec<PlannedPoint> {
        let mut points = Vec::new();
        for (repeat, &seed) in self.seeds.iter().enumerate() {
            for (place, &build) in self.order.iter().enumerate() {
                let index = points.len() + 1;
                points.push(PlannedPoint { index, build, seed, place, repeat });
            }
        }
        points
    }

    /// Whether every build is the base with so many patches of one series.
    pub fn is_of_series(&self) -> bool {
        self.builds.iter().all(|b| b.source.is_none())
    }

    /// SHA-256 over the plan without its experiment name, lower-case hex.
    /// Stored in every point; a point with another hash is refused.
    pub fn protocol_sha256(&self) -> String {
        let frozen = Self { experiment: String::new(), ..self.clone() };
        let text = serde_json::to_string(&frozen).expect("a plan holds finite numbers only");
        hex(&Sha256::digest(text.as_bytes()))
    }

    /// Bound for SAME of one metric, percent.
    pub fn bound_percent(&self, workload: &str, metric: &str) -> f64 {
        self.policy
            .metric_bounds_percent
            .get(&format!("{workload} {metric}"))
            .copied()
            .unwrap_or(self.policy.bound_percent)
            .max(self.policy.bound_percent)
    }
}

/// The palindrome 0 1 .. n-1 n-1 .. 1 0 over `builds` sides.
pub fn palindrome(builds: usize) -> Vec<usize> {
    (0..builds).chain((0..builds).rev()).collect()
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            version: 1,
            experiment: "x".into(),
            evidence: Evidence::Path,
            runner: "qemu".into(),
            builds: ["base", "1/2", "2/2"]
                .iter()
                .enumerate()
                .map(|(n, l)| PlannedBuild { label: (*l).into(), patches: n as u32, source: None })
                .collect(),
            order: palindrome(3),
            seeds: vec![1, 2],
            workloads: vec![],
            policy: Policy {
                threshold_percent: 5.0,
                bound_percent: 0.1,
                metric_bounds_percent: [("kernfs.rmdir create".to_owned(), 0.27)].into(),
                primaries: vec![],
            },
            gates: None,
            attribution: Attribution::EveryBuild,
            time: None,
        }
    }

    #[test]
    fn points_repeat_the_palindrome_for_each_seed() {
        let points = plan().points();
        assert_eq!(points.len(), 12);
        assert_eq!(points.iter().map(|p| p.build).collect::<Vec<_>>(), [0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0]);
        assert_eq!(points[6], PlannedPoint { index: 7, build: 0, seed: 2, place: 0, repeat: 1 });
    }

    #[test]
    fn the_hash_covers_thresholds_but_not_the_name() {
        let a = plan();
        let renamed = Plan { experiment: "y".into(), ..plan() };
        assert_eq!(a.protocol_sha256(), renamed.protocol_sha256());
        let mut relaxed = plan();
        relaxed.policy.threshold_percent = 6.0;
        assert_ne!(a.protocol_sha256(), relaxed.protocol_sha256());
        let mut other = plan();
        other.builds[1].source =
            Some(PlannedSource { config: vec!["CONFIG_HZ=1000".into()], ..Default::default() });
        assert_ne!(a.protocol_sha256(), other.protocol_sha256());
        assert!(a.is_of_series() && !other.is_of_series());
    }

    /// What is not said takes no room: plans written before it could be said keep their hash.
    #[test]
    fn a_plan_of_a_series_has_only_the_fields_it_always_had() {
        let text = serde_json::to_string(&plan()).expect("finite");
        assert!(
            ["\"source\"", "\"gates\"", "\"attribution\"", "\"time\""]
                .iter()
                .all(|field| !text.contains(field)),
            "{text}"
        );
    }

    #[test]
    fn bounds_are_never_below_the_smallest() {
        assert_eq!(plan().bound_percent("kernfs.rmdir", "create"), 0.27);
        assert_eq!(plan().bound_percent("kernfs.rmdir", "remove"), 0.1);
    }
}
