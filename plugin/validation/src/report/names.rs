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

const NAMES: &[(&str, &str, &str, &str, &str)] = &[
    ("control.getppid", "call", "getppid()", "getppid()", "call"),
    ("kernfs.rmdir", "create", "mkdir() of a cgroup", "mkdir()", "mkdir"),
    ("kernfs.rmdir", "remove", "rmdir() of an empty cgroup", "rmdir()", "rmdir"),
];

/// Names of a metric, its arm as prefix.
pub fn metric_name(workload: &str, metric: &str) -> MetricName {
    let (arm, bare) = metric.rsplit_once('_').map_or((None, metric), |(arm, bare)| (Some(arm), bare));
    let found = NAMES.iter().find(|(w, m, ..)| *w == workload && (*m == metric || *m == bare));
    let (long, short, operation, arm) = match found {
        Some((_, m, long, short, operation)) => {
            let arm = if *m == metric { None } else { arm };
            ((*long).to_owned(), (*short).to_owned(), *operation, arm)
        }
        None => (format!("{workload} {metric}"), format!("{workload} {metric}"), "", None),
    };
    match arm {
        None => MetricName { long, short, operation },
        Some(arm) => MetricName {
            long: format!("{long} (arm {arm})"),
            short: format!("{short} (arm {arm})"),
            operation,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_named_behind() {
        for (metric, long) in [
            ("remove", "rmdir() of an empty cgroup"),
            ("bare_remove", "rmdir() of an empty cgroup (arm bare)"),
            ("other", "kernfs.rmdir other"),
        ] {
            assert_eq!(metric_name("kernfs.rmdir", metric).long, long);
        }
    }
}
