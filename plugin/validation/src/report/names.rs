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
];

/// (workload, arm, words behind the metric), in alphabetical order.
const ARMS: &[(&str, &str, &str)] = &[("kernfs.rmdir", "bare", "without controllers")];

/// Names of a metric, its arm as prefix.
pub fn metric_name(workload: &str, metric: &str) -> MetricName {
    let (arm, bare) = metric.rsplit_once('_').map_or((None, metric), |(arm, bare)| (Some(arm), bare));
    let found = NAMES.iter().find(|(w, m, ..)| *w == workload && (*m == metric || *m == bare));
    let Some((_, own, long, short, operation)) = found else {
        let name = format!("{workload} {metric}");
        return MetricName { long: name.clone(), short: name, operation: "" };
    };
    let words = arm.filter(|_| *own != metric).map_or_else(String::new, |arm| {
        let known = ARMS.iter().find(|(w, a, _)| *w == workload && *a == arm);
        known.map_or_else(|| format!(" (arm {arm})"), |(.., words)| format!(" {words}"))
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
        ] {
            assert_eq!(metric_name("kernfs.rmdir", metric).long, long);
        }
    }
}
