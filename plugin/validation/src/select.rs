// SPDX-License-Identifier: GPL-2.0-or-later
//! Touched paths to workloads: what is worth measuring for a series.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A workload to run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selected {
    /// Workload id.
    pub workload: String,
    /// Why.
    pub reason: Reason,
}

/// Why a workload is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The series touches code that the workload executes.
    Touches {
        /// The first such file.
        file: String,
        /// What it belongs to.
        area: String,
    },
    /// It must not change: the check that nothing else did.
    Control,
    /// No touched file belongs to a workload, so all are run.
    NothingMatches,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Touches { file, area } => write!(f, "{file} belongs to {area}"),
            Self::Control => f.write_str("control: a change here would be a fault of the measurement"),
            Self::NothingMatches => {
                f.write_str("no touched file belongs to a workload, so all are run; choose with --workload")
            }
        }
    }
}

/// Files whose path starts with `prefix` belong to `area`, which `workload` executes.
struct Rule {
    prefix: &'static str,
    area: &'static str,
    workload: &'static str,
}

/// The workload every experiment runs: a system call that no series should move.
const CONTROL: &str = "control.getppid";

/// In alphabetical order of prefix. Shared infrastructure (fs/namei.c,
/// fs/dcache.c, mm/slub.c) is left to the last resort of [`select`]: every
/// workload executes it.
const RULES: &[Rule] = &[
    Rule { prefix: "fs/ext4/super.c", area: "superblocks", workload: "shrinker.umount" },
    Rule { prefix: "fs/fsopen.c", area: "mounting", workload: "shrinker.umount" },
    Rule { prefix: "fs/kernfs/", area: "kernfs", workload: "kernfs.open" },
    Rule { prefix: "fs/kernfs/", area: "kernfs", workload: "kernfs.rmdir" },
    Rule { prefix: "fs/namespace.c", area: "mounting", workload: "shrinker.umount" },
    Rule { prefix: "fs/notify/", area: "fsnotify", workload: "fsnotify.churn" },
    Rule { prefix: "fs/notify/", area: "fsnotify", workload: "fsnotify.watch" },
    Rule { prefix: "fs/ramfs/", area: "ramfs", workload: "shrinker.umount" },
    Rule { prefix: "fs/super.c", area: "superblocks", workload: "shrinker.umount" },
    Rule { prefix: "fs/sysfs/", area: "kernfs", workload: "kernfs.open" },
    Rule { prefix: "fs/sysfs/", area: "kernfs", workload: "kernfs.rmdir" },
    Rule { prefix: "fs/xfs/xfs_super.c", area: "superblocks", workload: "shrinker.umount" },
    Rule { prefix: "include/linux/cgroup", area: "cgroups", workload: "kernfs.rmdir" },
    Rule { prefix: "include/linux/fsnotify", area: "fsnotify", workload: "fsnotify.churn" },
    Rule { prefix: "include/linux/fsnotify", area: "fsnotify", workload: "fsnotify.watch" },
    Rule { prefix: "include/linux/kernfs.h", area: "kernfs", workload: "kernfs.open" },
    Rule { prefix: "include/linux/kernfs.h", area: "kernfs", workload: "kernfs.rmdir" },
    Rule { prefix: "include/linux/list_lru.h", area: "shrinkers", workload: "shrinker.umount" },
    Rule { prefix: "include/linux/rwsem.h", area: "read-write semaphores", workload: "kernfs.open" },
    Rule { prefix: "include/linux/shrinker.h", area: "shrinkers", workload: "shrinker.umount" },
    Rule { prefix: "include/linux/sysfs.h", area: "kernfs", workload: "kernfs.open" },
    Rule { prefix: "include/linux/sysfs.h", area: "kernfs", workload: "kernfs.rmdir" },
    Rule { prefix: "kernel/cgroup/", area: "cgroups", workload: "kernfs.rmdir" },
    Rule { prefix: "kernel/locking/rwsem.c", area: "read-write semaphores", workload: "kernfs.open" },
    Rule { prefix: "kernel/rcu/", area: "grace periods", workload: "shrinker.umount" },
    Rule { prefix: "mm/list_lru.c", area: "shrinkers", workload: "shrinker.umount" },
    Rule { prefix: "mm/shmem.c", area: "tmpfs", workload: "shrinker.umount" },
    Rule { prefix: "mm/shrinker", area: "shrinkers", workload: "shrinker.umount" },
    Rule { prefix: "mm/vmscan.c", area: "shrinkers", workload: "shrinker.umount" },
];

/// The workloads of `available` to run for a series that touches `files`: those
/// whose code is touched, else all; always with the control. In the order of
/// `available`.
pub fn select(files: &[String], available: &[&str]) -> Vec<Selected> {
    let touched = |workload: &str| {
        RULES.iter().filter(|rule| rule.workload == workload).find_map(|rule| {
            let file = files.iter().find(|file| file.starts_with(rule.prefix))?;
            Some(Reason::Touches { file: file.clone(), area: rule.area.to_owned() })
        })
    };
    let nothing_matches = !available.iter().any(|workload| touched(workload).is_some());
    available
        .iter()
        .filter_map(|&workload| {
            let reason = match touched(workload) {
                Some(reason) => reason,
                None if workload == CONTROL => Reason::Control,
                None if nothing_matches => Reason::NothingMatches,
                None => return None,
            };
            Some(Selected { workload: workload.to_owned(), reason })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(files: &[&str], available: &[&str]) -> Vec<String> {
        let files: Vec<String> = files.iter().map(|f| (*f).to_owned()).collect();
        select(&files, available).into_iter().map(|s| format!("{}: {}", s.workload, s.reason)).collect()
    }

    #[test]
    fn touched_code_chooses_and_the_control_stays() {
        let control = "control.getppid: control: a change here would be a fault of the measurement";
        let all = ["control.getppid", "kernfs.rmdir", "shrinker.umount"];
        assert_eq!(
            chosen(&["MAINTAINERS", "fs/kernfs/dir.c"], &all),
            [control, "kernfs.rmdir: fs/kernfs/dir.c belongs to kernfs"]
        );
        let both = ["control.getppid", "kernfs.open", "kernfs.rmdir", "shrinker.umount"];
        assert_eq!(
            chosen(&["fs/kernfs/inode.c"], &both)[1..],
            [
                "kernfs.open: fs/kernfs/inode.c belongs to kernfs",
                "kernfs.rmdir: fs/kernfs/inode.c belongs to kernfs"
            ]
        );
        assert_eq!(
            chosen(&["kernel/locking/rwsem.c"], &both),
            [control, "kernfs.open: kernel/locking/rwsem.c belongs to read-write semaphores"]
        );
        assert_eq!(
            chosen(&["include/linux/cgroup-defs.h"], &all),
            [control, "kernfs.rmdir: include/linux/cgroup-defs.h belongs to cgroups"]
        );
        for (file, area) in [
            ("mm/shrinker.c", "shrinkers"),
            ("mm/shrinker_debug.c", "shrinkers"),
            ("fs/super.c", "superblocks"),
            ("fs/namespace.c", "mounting"),
        ] {
            let umount = format!("shrinker.umount: {file} belongs to {area}");
            assert_eq!(chosen(&[file], &all), [control.to_owned(), umount]);
        }
        assert_eq!(chosen(&["fs/kernfs/dir.c"], &["control.getppid"]), [control]);
    }

    #[test]
    fn when_nothing_matches_everything_runs() {
        let fallback = "no touched file belongs to a workload, so all are run; choose with --workload";
        let workloads = ["control.getppid", "kernfs.rmdir", "shrinker.umount"];
        let lines = chosen(&["fs/xfs/xfs_inode.c"], &workloads);
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], format!("kernfs.rmdir: {fallback}"));
        assert_eq!(lines[2], format!("shrinker.umount: {fallback}"));
    }

    #[test]
    fn rules_are_in_order_and_name_known_shapes() {
        assert!(
            RULES
                .windows(2)
                .all(|pair| (pair[0].prefix, pair[0].workload) < (pair[1].prefix, pair[1].workload))
        );
        assert!(RULES.iter().all(|rule| rule.workload.contains('.') && rule.workload != CONTROL));
    }
}
