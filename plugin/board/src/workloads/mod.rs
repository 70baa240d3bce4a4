// SPDX-License-Identifier: GPL-2.0-or-later
//! The workloads. One file each; everything else derives from the list.

mod cgroup;
mod control_getppid;
mod kernfs_rmdir;

pub use cgroup::{flat_key, superblocks};
pub use control_getppid::CONTROL_GETPPID;
pub use kernfs_rmdir::KERNFS_RMDIR;

use crate::measure::{Amount, Clock, Timed};
use crate::stop::Stop;
use kernmark_wire::Check;

/// Every workload, by id.
pub const WORKLOADS: &[&Workload] = &[&CONTROL_GETPPID, &KERNFS_RMDIR];

/// What a workload is and how it starts.
#[derive(Debug, Clone)]
pub struct Workload {
    /// `kernfs.rmdir`.
    pub id: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What it yields; the order is that of the times a session fills in.
    pub metrics: &'static [Metric],
    /// Variants; the first is the default.
    pub arms: &'static [Arm],
    /// How much a run without options measures.
    pub amount: Amount,
    /// What it needs, for people.
    pub needs: &'static [&'static str],
    /// Preemption of the published numbers, taken where the kernel has a choice.
    pub preemption: Option<&'static str>,
    /// Sets one arm up.
    pub prepare: fn(arm: &str) -> Prepared,
}

/// A workload set up, or why it cannot be.
pub type Prepared = Result<Box<dyn Session>, Stop>;

/// One number a workload yields.
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

/// A variant of a workload inside one boot.
#[derive(Debug, Clone, Copy)]
pub struct Arm {
    /// `scx-off`.
    pub id: &'static str,
    /// One sentence.
    pub summary: &'static str,
}

/// A workload set up in one arm. Dropping it puts everything back.
pub trait Session {
    /// One whole sequence of operations; `times` has one place for each metric.
    ///
    /// # Errors
    /// An operation failed or did not do what it should.
    fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop>;

    /// Waits until nothing of earlier samples is left to be done.
    ///
    /// # Errors
    /// It did not end in time.
    fn settle(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    /// Whole numbers about the set-up.
    ///
    /// # Errors
    /// The set-up cannot be looked at.
    fn facts(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        Ok(Vec::new())
    }

    /// The operations that an observation tells apart, in the order of one sequence.
    fn operations(&self) -> &'static [&'static str] {
        &[]
    }

    /// One sequence with `mark(Edge)` around each of [`Session::operations`].
    ///
    /// # Errors
    /// An operation failed, or the mark could not be set.
    fn observe(&mut self, _mark: &mut dyn FnMut(Edge) -> Result<(), Stop>) -> Result<(), Stop> {
        Ok(())
    }

    /// Functions to count where all of them are too many for the trace buffer.
    fn functions(&self) -> &'static [&'static str] {
        &[]
    }

    /// Functions whose NULL returns matter.
    fn returns(&self) -> &'static [&'static str] {
        &[]
    }

    /// Puts everything back and says which conditions held.
    ///
    /// # Errors
    /// Something could not be put back.
    fn finish(&mut self) -> Result<Vec<Check>, Stop>;
}

/// Start or end of an observed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The operation of this name starts.
    Begin(&'static str),
    /// It has ended.
    End(&'static str),
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

    #[test]
    fn the_list_is_sorted_and_complete() {
        let ids: Vec<&str> = WORKLOADS.iter().map(|w| w.id).collect();
        assert!(ids.is_sorted());
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/workloads"))
            .expect("source directory")
            .map(|f| f.expect("entry").file_name().into_string().expect("utf-8"))
            .filter(|f| !["mod.rs", "cgroup.rs"].contains(&f.as_str()))
            .count();
        assert_eq!(files, WORKLOADS.len(), "a file in workloads/ is not in the list");
        for workload in WORKLOADS {
            assert!(!workload.arms.is_empty() && !workload.metrics.is_empty(), "{}", workload.id);
        }
    }
}
