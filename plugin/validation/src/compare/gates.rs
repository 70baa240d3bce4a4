// SPDX-License-Identifier: GPL-2.0-or-later
//! The rule sets of the report view: which formulas, which limits (protocol.md 7).

use super::summary::{cv_population, cv_sample, drift_absolute, drift_signed};

/// A rule set of the report view. All limits are inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gates {
    /// `kernfs`, `fsnotify` ...
    pub name: &'static str,
    /// Formula of the CV.
    pub cv: CvFormula,
    /// Largest CV of a point, percent.
    pub max_cv_percent: f64,
    /// Formula of the drift.
    pub drift: DriftFormula,
    /// Largest drift of a repeated build, percent.
    pub max_drift_percent: f64,
    /// Smallest change at every endpoint, percent.
    pub effect_percent: f64,
    /// Whether metrics get the labels of the fsnotify report.
    pub labels: bool,
}

/// The two CV formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CvFormula {
    /// Divides by n - 1.
    Sample,
    /// Divides by n.
    Population,
}

/// The two drift formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftFormula {
    /// 100 (b/a - 1), for each side.
    Signed,
    /// 100 |a - b| / midpoint, for the old side only.
    Absolute,
}

/// The rules of the kernfs report.
pub const KERNFS: Gates = Gates {
    name: "kernfs",
    cv: CvFormula::Population,
    max_cv_percent: 3.0,
    drift: DriftFormula::Signed,
    max_drift_percent: 2.0,
    effect_percent: 5.0,
    labels: false,
};

/// The rules of the fsnotify report.
pub const FSNOTIFY: Gates = Gates {
    name: "fsnotify",
    cv: CvFormula::Sample,
    max_cv_percent: 15.0,
    drift: DriftFormula::Absolute,
    max_drift_percent: 5.0,
    effect_percent: 5.0,
    labels: true,
};

/// Our own rules for `kernfs.open`: its report gives none.
pub const OPEN: Gates = Gates {
    name: "open",
    cv: CvFormula::Sample,
    max_cv_percent: 5.0,
    drift: DriftFormula::Signed,
    max_drift_percent: 3.0,
    effect_percent: 5.0,
    labels: false,
};

/// Our own rules for `shrinker.umount`: its report gives none.
pub const SHRINKER: Gates = Gates {
    name: "shrinker",
    cv: CvFormula::Sample,
    max_cv_percent: 5.0,
    drift: DriftFormula::Signed,
    max_drift_percent: 5.0,
    effect_percent: 10.0,
    labels: false,
};

/// The rule set of a workload when none is asked for.
pub fn default_gates(workload: &str) -> &'static Gates {
    match workload {
        "kernfs.open" => &OPEN,
        _ if workload.starts_with("fsnotify.") => &FSNOTIFY,
        _ if workload.starts_with("shrinker.") => &SHRINKER,
        _ => &KERNFS,
    }
}

/// All rule sets by their names.
pub const GATES: [&Gates; 4] = [&FSNOTIFY, &KERNFS, &OPEN, &SHRINKER];

/// The rule set of this name.
pub fn gates_named(name: &str) -> Option<&'static Gates> {
    GATES.into_iter().find(|gates| gates.name == name)
}

impl CvFormula {
    /// CV of samples, percent.
    pub fn of(self, samples: &[f64]) -> Option<f64> {
        match self {
            Self::Sample => cv_sample(samples),
            Self::Population => cv_population(samples),
        }
    }
}

impl DriftFormula {
    /// Drift between two boots of one build, earlier first, percent. Of more
    /// than two boots the pair with the largest drift counts; one has none.
    pub fn of(self, boots: &[f64]) -> Option<f64> {
        let pairs = boots.iter().enumerate().flat_map(|(n, a)| boots[n + 1..].iter().map(move |b| (*a, *b)));
        pairs
            .filter_map(|(a, b)| match self {
                Self::Signed => drift_signed(a, b),
                Self::Absolute => drift_absolute(a, b),
            })
            .max_by(|x, y| x.abs().total_cmp(&y.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_drift_counts() {
        assert_eq!(DriftFormula::Signed.of(&[100.0]), None);
        assert_eq!(DriftFormula::Signed.of(&[100.0, 50.0, 100.0]), Some(100.0));
        assert_eq!(DriftFormula::Absolute.of(&[50.0, 150.0]), Some(100.0));
    }

    #[test]
    fn every_workload_has_rules() {
        for (workload, name) in [
            ("kernfs.rmdir", "kernfs"),
            ("kernfs.open", "open"),
            ("fsnotify.churn", "fsnotify"),
            ("shrinker.umount", "shrinker"),
            ("control.getppid", "kernfs"),
        ] {
            assert_eq!(default_gates(workload).name, name);
            assert_eq!(gates_named(name), Some(default_gates(workload)));
        }
    }
}
