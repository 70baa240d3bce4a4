// SPDX-License-Identifier: GPL-2.0-or-later
//! What people call a metric: `kernfs.rmdir remove` is rmdir() of an empty cgroup.

/// Names of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricName {
    /// `rmdir() of an empty cgroup`.
    pub long: String,
    /// `rmdir()`.
    pub short: String,
    /// The traced operation whose calls belong to it: `rmdir`.
    pub operation: &'static str,
}

/// (workload, metric, long, short, operation), in alphabetical order.
const NAMES: &[(&str, &str, &str, &str, &str)] = &[
    ("control.getppid", "call", "getppid()", "getppid()", "call"),
    ("kernfs.rmdir", "create", "mkdir() of a cgroup", "mkdir()", "mkdir"),
    ("kernfs.rmdir", "remove", "rmdir() of an empty cgroup", "rmdir()", "rmdir"),
    ("shrinker.umount", "blocked", "time blocked in an operation of many workers", "blocked time", ""),
    (
        "shrinker.umount",
        "deferred_cpu_per_sb",
        "work that a superblock leaves to kernel threads and interrupts",
        "deferred work of umount()",
        "umount",
    ),
    (
        "shrinker.umount",
        "drain",
        "time until the deferred work of umount() is done",
        "drain after umount()",
        "umount",
    ),
    ("shrinker.umount", "fsops", "operations on a new file system", "fs operations", "fsops"),
    ("shrinker.umount", "mount", "mount() of a small file system", "mount()", "mount"),
    (
        "shrinker.umount",
        "ops_per_cpu_s",
        "operations of many workers in a second of CPU time",
        "ramfs operations per CPU second",
        "",
    ),
    (
        "shrinker.umount",
        "ops_per_s",
        "operations of many workers in a second",
        "ramfs operations per second",
        "",
    ),
    (
        "shrinker.umount",
        "total_cpu_per_sb",
        "all work for a superblock, deferred work included",
        "all work of mount() to umount()",
        "umount",
    ),
    ("shrinker.umount", "umount", "umount() of a small file system", "umount()", "umount"),
];

/// (workload, arm, words behind the metric), in alphabetical order.
const ARMS: &[(&str, &str, &str)] = &[
    ("kernfs.rmdir", "bare", "without controllers"),
    // Its metrics have no twin in another arm.
    ("shrinker.umount", "alone", ""),
];

/// Names of a metric, its arm as prefix.
pub fn metric_name(workload: &str, metric: &str) -> MetricName {
    let arm_before = |own: &str| {
        let rest = metric.strip_suffix(own)?;
        if rest.is_empty() { Some(None) } else { rest.strip_suffix('_').map(Some) }
    };
    // A metric may end like another one: the longest is meant.
    let known = NAMES.iter().filter(|(w, ..)| *w == workload);
    let found =
        known.filter_map(|name| Some((name, arm_before(name.1)?))).max_by_key(|(name, _)| name.1.len());
    let Some(((_, _, long, short, operation), arm)) = found else {
        let name = format!("{workload} {metric}");
        return MetricName { long: name.clone(), short: name, operation: "" };
    };
    let words = arm.map_or_else(String::new, |arm| {
        let known = ARMS.iter().find(|(w, a, _)| *w == workload && *a == arm);
        known.map_or_else(
            || format!(" (arm {arm})"),
            |(.., words)| format!("{}{words}", if words.is_empty() { "" } else { " " }),
        )
    });
    MetricName { long: format!("{long}{words}"), short: format!("{short}{words}"), operation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_named_behind() {
        for (metric, long) in [
            ("remove", "rmdir() of an empty cgroup"),
            ("bare_remove", "rmdir() of an empty cgroup without controllers"),
            ("scx-cb_remove", "rmdir() of an empty cgroup (arm scx-cb)"),
            ("other", "kernfs.rmdir other"),
            ("xremove", "kernfs.rmdir xremove"),
        ] {
            assert_eq!(metric_name("kernfs.rmdir", metric).long, long);
        }
        for (metric, short) in [
            ("umount", "umount()"),
            ("mount", "mount()"),
            ("alone_total_cpu_per_sb", "all work of mount() to umount()"),
            ("v015_ops_per_s", "ramfs operations per second (arm v015)"),
        ] {
            assert_eq!(metric_name("shrinker.umount", metric).short, short);
        }
    }
}
