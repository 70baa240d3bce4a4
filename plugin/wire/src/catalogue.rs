// SPDX-License-Identifier: GPL-2.0-or-later
//! What a measuring program can measure: `kernmark-board list --format json`.

use serde::{Deserialize, Serialize};

/// One workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// `kernfs.rmdir`.
    pub id: String,
    /// One sentence.
    pub summary: String,
    /// What it needs, for people.
    pub needs: Vec<String>,
    /// Preemption of the published numbers.
    pub preemption: Option<String>,
    /// How much the deterministic emulator measures of each arm.
    pub emulator: Amount,
    /// Variants; the first is the default, whose metrics carry no arm in their names.
    pub arms: Vec<Arm>,
    /// What can be set.
    pub parameters: Vec<Parameter>,
}

/// A variant of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// `scx-off`.
    pub id: String,
    /// One sentence.
    pub summary: String,
    /// How much a board measures.
    pub amount: Amount,
    /// About how long that takes on a board, seconds.
    pub seconds: u64,
    /// Whether a board measures it by default.
    pub on_boards: bool,
    /// Whether the deterministic emulator measures it by default.
    pub in_emulator: bool,
    /// Whether several workers compete, which the deterministic emulator does not model.
    pub many_workers: bool,
    /// What it yields.
    pub metrics: Vec<Metric>,
}

/// One number an arm yields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Without the arm.
    pub id: String,
    /// `ns`.
    pub unit: String,
    /// `lower` or `higher`.
    pub better: String,
    /// Whether it may decide a verdict.
    pub primary: bool,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Samples, or rounds, for each arm.
    pub samples: u64,
    /// Operations in each sample.
    pub operations: u64,
    /// Untimed operations before each sample, or rounds before the first.
    pub warmups: u64,
}

/// Something that `--set ID=VALUE` changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// `pace_ms`.
    pub id: String,
    /// One sentence.
    pub summary: String,
    /// The value without `--set`.
    pub default: String,
    /// The values there are; none means any whole number.
    pub values: Vec<String>,
}

impl Workload {
    /// Name of a metric of an arm: with the arm in front, unless that is the default one.
    pub fn metric_name(&self, arm: &Arm, metric: &Metric) -> String {
        match self.arms.first() {
            Some(default) if default.id == arm.id => metric.id.clone(),
            Some(_) | None => format!("{}_{}", arm.id, metric.id),
        }
    }
}
