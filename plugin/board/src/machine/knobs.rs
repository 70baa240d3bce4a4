// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings that make a measurement repeatable: applied, verified, put back
//! (workloads.md 1.4).

use super::{cpus, line};
use std::path::{Path, PathBuf};

/// One setting and the value it had before.
#[derive(Debug)]
struct Knob {
    file: PathBuf,
    before: String,
}

/// What was changed; dropping it puts everything back, last change first.
#[derive(Debug)]
pub struct Knobs {
    changed: Vec<Knob>,
    /// (setting, outcome) for the environment record.
    outcomes: Vec<(String, String)>,
}

impl Knobs {
    /// Governor and energy preference to `performance`, turbo off, under the sysfs at `root`.
    /// What is absent or cannot be written is noted, not failed.
    pub fn apply(root: &Path) -> Self {
        let mut knobs = Self { changed: Vec::new(), outcomes: Vec::new() };
        let cpus = cpus(root);
        // The energy preference is written after the governor, which resets it.
        for file in ["scaling_governor", "energy_performance_preference"] {
            let files = cpus
                .iter()
                .map(|cpu| root.join(format!("devices/system/cpu/cpu{cpu}/cpufreq/{file}")))
                .collect();
            knobs.set(file, files, "performance");
        }
        let intel = root.join("devices/system/cpu/intel_pstate/no_turbo");
        let (file, value) =
            if intel.exists() { (intel, "1") } else { (root.join("devices/system/cpu/cpufreq/boost"), "0") };
        knobs.set("turbo", vec![file], value);
        knobs
    }

    /// Nothing is changed.
    pub fn keep() -> Self {
        Self { changed: Vec::new(), outcomes: vec![("all".into(), "kept as they were".into())] }
    }

    /// (setting, outcome) pairs.
    pub fn outcomes(&self) -> &[(String, String)] {
        &self.outcomes
    }

    fn set(&mut self, name: &str, files: Vec<PathBuf>, value: &str) {
        let mut outcome = "absent".to_owned();
        for file in files.into_iter().filter(|f| f.exists()) {
            let Some(before) = line(&file) else {
                outcome = format!("{} cannot be read", file.display());
                break;
            };
            if before == value {
                outcome = format!("{value} already");
                continue;
            }
            if let Err(error) = std::fs::write(&file, value) {
                outcome = format!("{} stays {before}: {error}", file.display());
                break;
            }
            self.changed.push(Knob { file: file.clone(), before });
            let now = line(&file).unwrap_or_default();
            if now != value {
                outcome = format!("{} is {now} after {value} was written", file.display());
                break;
            }
            outcome = value.to_owned();
        }
        self.outcomes.push((name.to_owned(), outcome));
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        for knob in self.changed.drain(..).rev() {
            if let Err(error) = std::fs::write(&knob.file, &knob.before) {
                eprintln!(
                    "kernmark-board: {} could not be put back ({error}); it was {}",
                    knob.file.display(),
                    knob.before
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("temporary directory");
        for (path, text) in files {
            let path = root.path().join("devices/system/cpu").join(path);
            std::fs::create_dir_all(path.parent().expect("has a parent")).expect("writable");
            std::fs::write(path, text).expect("writable");
        }
        root
    }

    fn value(root: &tempfile::TempDir, path: &str) -> String {
        std::fs::read_to_string(root.path().join("devices/system/cpu").join(path)).expect("readable")
    }

    #[test]
    fn settings_are_applied_and_put_back() {
        let root = sysfs(&[
            ("cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("cpu0/cpufreq/energy_performance_preference", "balance_performance\n"),
            ("cpu1/cpufreq/scaling_governor", "performance\n"),
            ("intel_pstate/no_turbo", "0\n"),
        ]);
        let knobs = Knobs::apply(root.path());
        assert_eq!(value(&root, "cpu0/cpufreq/scaling_governor"), "performance");
        assert_eq!(value(&root, "intel_pstate/no_turbo"), "1");
        assert_eq!(knobs.outcomes().len(), 3);
        drop(knobs);
        assert_eq!(value(&root, "cpu0/cpufreq/scaling_governor"), "powersave");
        assert_eq!(value(&root, "cpu0/cpufreq/energy_performance_preference"), "balance_performance");
        assert_eq!(value(&root, "cpu1/cpufreq/scaling_governor"), "performance\n");
        assert_eq!(value(&root, "intel_pstate/no_turbo"), "0");
    }

    #[test]
    fn a_machine_without_settings_is_named_so() {
        let root = sysfs(&[("cpu0/online", "1")]);
        let knobs = Knobs::apply(root.path());
        assert!(knobs.outcomes().iter().all(|(_, outcome)| outcome == "absent"), "{knobs:?}");
    }

    #[test]
    fn boost_is_the_other_name_of_turbo() {
        let root = sysfs(&[("cpufreq/boost", "1")]);
        let knobs = Knobs::apply(root.path());
        assert_eq!(value(&root, "cpufreq/boost"), "0");
        drop(knobs);
        assert_eq!(value(&root, "cpufreq/boost"), "1");
    }
}
