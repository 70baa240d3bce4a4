// SPDX-License-Identifier: GPL-2.0-or-later
//! The workloads. One file each; everything else derives from the list.

mod cgroup;
mod control_getppid;
mod fsnotify_churn;
mod fsnotify_watch;
mod kernfs_open;
mod kernfs_rmdir;
mod session;
mod setting;
mod shrinker_umount;

pub use cgroup::{flat_key, mount_points as cgroup_mount_points};
pub use control_getppid::CONTROL_GETPPID;
pub use fsnotify_churn::FSNOTIFY_CHURN;
pub use fsnotify_watch::FSNOTIFY_WATCH;
pub use kernfs_open::KERNFS_OPEN;
pub use kernfs_rmdir::KERNFS_RMDIR;
pub use session::{Condition, Edge, Operations, Prepared, Rounds, Session, Value};
pub use setting::{Parameter, Parameters, Setting};
pub use shrinker_umount::SHRINKER_UMOUNT;

use crate::measure::Amount;
use crate::stop::Stop;

/// Every workload, by id.
pub const WORKLOADS: &[&Workload] =
    &[&CONTROL_GETPPID, &FSNOTIFY_CHURN, &FSNOTIFY_WATCH, &KERNFS_OPEN, &KERNFS_RMDIR, &SHRINKER_UMOUNT];

/// What a workload is and how it starts.
#[derive(Debug, Clone)]
pub struct Workload {
    /// `kernfs.rmdir`.
    pub id: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Variants; the first is the default, whose metrics carry no arm in their names.
    pub arms: &'static [Arm],
    /// How much the deterministic emulator measures of each arm that it runs.
    pub emulator: Amount,
    /// What `--set` changes.
    pub parameters: &'static [Parameter],
    /// What it needs, for people.
    pub needs: &'static [&'static str],
    /// Preemption of the published numbers, taken where the kernel has a choice.
    pub preemption: Option<&'static str>,
    /// Sets one arm up.
    pub prepare: fn(&Setting<'_>) -> Result<Prepared, Stop>,
}

/// A variant of a workload inside one boot.
#[derive(Debug, Clone, Copy)]
pub struct Arm {
    /// `scx-off`.
    pub id: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What it yields, in the order in which a session fills its numbers in.
    pub metrics: &'static [Metric],
    /// How much a run without options measures.
    pub amount: Amount,
    /// About how long that takes on a board, seconds.
    pub seconds: u64,
    /// Whether a run without options measures it.
    pub on_boards: bool,
    /// Whether the deterministic emulator measures it by default.
    pub in_emulator: bool,
    /// Whether several workers compete. The deterministic emulator does not model that: its
    /// virtual CPUs take turns, so such a number never decides there.
    pub many_workers: bool,
}

/// One number an arm yields.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Without the arm.
    pub id: &'static str,
    /// `ns`.
    pub unit: &'static str,
    /// `lower` or `higher`.
    pub better: &'static str,
    /// Whether it may decide a verdict.
    pub primary: bool,
}

/// The workload with this id.
///
/// # Errors
/// There is none; the error names those there are.
pub fn find(id: &str) -> Result<&'static Workload, Stop> {
    WORKLOADS.iter().find(|w| w.id == id).copied().ok_or_else(|| {
        let all: Vec<&str> = WORKLOADS.iter().map(|w| w.id).collect();
        Stop::Usage(format!("no workload {id:?}; there are {}", all.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of this directory that are not one workload each.
    const SHARED: [&str; 4] = ["cgroup.rs", "mod.rs", "session.rs", "setting.rs"];

    #[test]
    fn the_list_is_sorted_and_complete() {
        let ids: Vec<&str> = WORKLOADS.iter().map(|w| w.id).collect();
        assert!(ids.is_sorted());
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/workloads"))
            .expect("source directory")
            .map(|f| f.expect("entry").file_name().into_string().expect("utf-8"))
            .filter(|f| f.ends_with(".rs") && !SHARED.contains(&f.as_str()))
            .count();
        assert_eq!(files, WORKLOADS.len(), "a file in workloads/ is not in the list");
    }

    #[test]
    fn every_arm_can_be_measured_and_told_apart() {
        for workload in WORKLOADS {
            let mut ids: Vec<&str> = workload.arms.iter().map(|a| a.id).collect();
            ids.sort_unstable();
            assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{}", workload.id);
            assert!(!ids.is_empty(), "{}", workload.id);
            for arm in workload.arms {
                assert!(!arm.metrics.is_empty() && arm.amount.samples > 0, "{} {}", workload.id, arm.id);
                assert!(arm.metrics.iter().all(|m| ["lower", "higher"].contains(&m.better)));
            }
            for parameter in workload.parameters {
                parameter.check(parameter.default).expect("a default is a value");
            }
        }
    }
}
