// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings that make a measurement repeatable: applied, verified, put back
//! (workloads.md 1.4).

use super::{cpus, line};
use std::path::{Path, PathBuf};

/// Chooses the preemption model, where the kernel has a choice.
const PREEMPT: &str = "kernel/debug/sched/preempt";

/// One setting and the value it had before.
#[derive(Debug)]
struct Knob {
    name: &'static str,
    file: PathBuf,
    before: String,
}

/// What was changed; dropping it puts everything back, last change first.
#[derive(Debug, Default)]
pub struct Knobs {
    changed: Vec<Knob>,
    /// (setting, outcome) for the environment record.
    outcomes: Vec<(&'static str, String)>,
}

impl Knobs {
    /// Governor and energy preference to `performance`, turbo off, under the sysfs at `root`.
    /// What is absent or cannot be written is noted, not failed.
    pub fn apply(root: &Path) -> Self {
        let mut knobs = Self::default();
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

    /// Preemption to `word`, under the sysfs at `root`.
    pub fn preemption(root: &Path, word: &str) -> Self {
        let mut knobs = Self::default();
        knobs.set("preempt", vec![root.join(PREEMPT)], word);
        knobs
    }

    /// Nothing is changed.
    pub fn keep() -> Self {
        Self { changed: Vec::new(), outcomes: vec![("all", "kept as they were".into())] }
    }

    /// (setting, outcome) pairs.
    pub fn outcomes(&self) -> &[(&'static str, String)] {
        &self.outcomes
    }

    /// Puts everything back; (setting, whether it took, outcome) of each file that was changed.
    pub fn restore(mut self) -> Vec<(&'static str, bool, String)> {
        self.put_back()
    }

    fn put_back(&mut self) -> Vec<(&'static str, bool, String)> {
        self.changed
            .drain(..)
            .rev()
            .map(|knob| {
                let (file, before) = (knob.file.display(), &knob.before);
                let written = std::fs::write(&knob.file, before);
                let now = value(&knob.file).unwrap_or_default();
                match written {
                    Ok(()) if now == *before => (knob.name, true, format!("{file} is {before} again")),
                    Ok(()) => (knob.name, false, format!("{file} is {now}; it was {before}")),
                    Err(error) => (knob.name, false, format!("{file} is {now}, not {before}: {error}")),
                }
            })
            .collect()
    }

    fn set(&mut self, name: &'static str, files: Vec<PathBuf>, wanted: &str) {
        let outcome = self.try_set(name, files, wanted).unwrap_or_else(|reason| reason);
        self.outcomes.push((name, outcome));
    }

    /// The outcome; as an error where a file is not as wanted.
    fn try_set(&mut self, name: &'static str, files: Vec<PathBuf>, wanted: &str) -> Result<String, String> {
        let mut outcome = "absent".to_owned();
        for file in files.into_iter().filter(|f| f.exists()) {
            let show = file.display().to_string();
            let before = value(&file).ok_or_else(|| format!("{show} cannot be read"))?;
            if before == wanted {
                outcome = format!("{wanted} already");
                continue;
            }
            std::fs::write(&file, wanted).map_err(|error| {
                let choice = line(&file).unwrap_or_default();
                format!("{show} stays {before} ({error}); it says {choice}")
            })?;
            self.changed.push(Knob { name, file: file.clone(), before: before.clone() });
            let now = value(&file).unwrap_or_default();
            if now != wanted {
                return Err(format!("{show} is {now} after {wanted} was written"));
            }
            outcome = format!("{wanted}, was {before}");
        }
        Ok(outcome)
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        for (_, done, outcome) in self.put_back() {
            if !done {
                eprintln!("kernmark-board: not put back: {outcome}");
            }
        }
    }
}

/// The value in force: of a choice such as `none voluntary (full)` the word in parentheses.
fn value(file: &Path) -> Option<String> {
    let text = line(file)?;
    let chosen =
        text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(word, _)| word.to_owned());
    Some(chosen.unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("temporary directory");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has a parent")).expect("writable");
            std::fs::write(path, text).expect("writable");
        }
        root
    }

    fn text(root: &tempfile::TempDir, path: &str) -> String {
        std::fs::read_to_string(root.path().join(path)).expect("readable")
    }

    const GOVERNOR: &str = "devices/system/cpu/cpu0/cpufreq/scaling_governor";
    const PREFERENCE: &str = "devices/system/cpu/cpu0/cpufreq/energy_performance_preference";
    const OTHER_GOVERNOR: &str = "devices/system/cpu/cpu1/cpufreq/scaling_governor";
    const NO_TURBO: &str = "devices/system/cpu/intel_pstate/no_turbo";

    #[test]
    fn settings_are_applied_and_put_back() {
        let root = sysfs(&[
            (GOVERNOR, "powersave\n"),
            (PREFERENCE, "balance_performance\n"),
            (OTHER_GOVERNOR, "performance\n"),
            (NO_TURBO, "0\n"),
        ]);
        let knobs = Knobs::apply(root.path());
        assert_eq!((text(&root, GOVERNOR), text(&root, NO_TURBO)), ("performance".into(), "1".into()));
        let outcomes: Vec<&str> = knobs.outcomes().iter().map(|(_, outcome)| outcome.as_str()).collect();
        assert_eq!(outcomes, ["performance already", "performance, was balance_performance", "1, was 0"]);
        let restored = knobs.restore();
        assert!(restored.iter().all(|(_, done, _)| *done), "{restored:?}");
        assert_eq!(
            restored.iter().map(|r| r.0).collect::<Vec<_>>(),
            ["turbo", "energy_performance_preference", "scaling_governor"]
        );
        assert_eq!(
            (text(&root, GOVERNOR), text(&root, PREFERENCE)),
            ("powersave".into(), "balance_performance".into())
        );
        assert_eq!(
            (text(&root, OTHER_GOVERNOR), text(&root, NO_TURBO)),
            ("performance\n".into(), "0".into())
        );
    }

    #[test]
    fn dropping_puts_back_too() {
        let root = sysfs(&[("devices/system/cpu/cpufreq/boost", "1")]);
        drop(Knobs::apply(root.path()));
        assert_eq!(text(&root, "devices/system/cpu/cpufreq/boost"), "1");
    }

    #[test]
    fn a_machine_without_settings_is_named_so() {
        let root = sysfs(&[("devices/system/cpu/cpu0/online", "1")]);
        let knobs = Knobs::apply(root.path());
        assert!(knobs.outcomes().iter().all(|(_, outcome)| outcome == "absent"), "{knobs:?}");
        assert_eq!(Knobs::preemption(root.path(), "full").outcomes(), [("preempt", "absent".to_owned())]);
    }

    #[test]
    fn the_chosen_word_of_a_choice_is_its_value() {
        let root = sysfs(&[(PREEMPT, "none voluntary (full)\n")]);
        assert_eq!(Knobs::preemption(root.path(), "full").outcomes()[0].1, "full already");
        // A plain file does not put the word in parentheses, but holds it alone.
        let knobs = Knobs::preemption(root.path(), "none");
        assert_eq!(knobs.outcomes()[0].1, "none, was full");
        assert_eq!(
            knobs.restore(),
            [("preempt", true, format!("{} is full again", root.path().join(PREEMPT).display()))]
        );
    }

    #[test]
    fn what_cannot_be_put_back_is_named() {
        let root = sysfs(&[(NO_TURBO, "0")]);
        let knobs = Knobs::apply(root.path());
        std::fs::remove_file(root.path().join(NO_TURBO)).expect("there");
        std::fs::create_dir(root.path().join(NO_TURBO)).expect("writable");
        let restored = knobs.restore();
        assert!(
            matches!(&restored[..], [("turbo", false, reason)] if reason.contains("not 0")),
            "{restored:?}"
        );
    }
}
