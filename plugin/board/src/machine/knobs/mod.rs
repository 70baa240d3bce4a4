// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings that make a measurement repeatable: applied, verified, put back
//! (workloads.md 1.4).

mod snapshot;

pub use snapshot::{Entry, PutBack, Snapshot};

use super::line;
use snapshot::{GOVERNOR, PREEMPT, PREFERENCE, TURBO, preempt_file, turbo_file, value};
use std::path::{Path, PathBuf};

/// What was changed; dropping it puts everything back.
#[derive(Debug, Default)]
pub struct Knobs {
    /// All that may change, as it was before the first change.
    before: Snapshot,
    /// Whether anything was written.
    changed: bool,
    /// (setting, outcome) for the environment record.
    outcomes: Vec<(&'static str, String)>,
}

impl Knobs {
    /// Governor and energy preference to `performance`, turbo off, under the sysfs at `root`.
    /// What is absent or cannot be written is noted, not failed.
    pub fn apply(root: &Path) -> Self {
        // Everything is read before anything is written: the governor changes the preference.
        let before = Snapshot::take(root).only(&[GOVERNOR, PREFERENCE, TURBO]);
        let mut knobs = Self::found(before);
        let off = if turbo_file(root).ends_with("no_turbo") { "1" } else { "0" };
        for (name, wanted) in [(GOVERNOR, "performance"), (PREFERENCE, "performance"), (TURBO, off)] {
            knobs.set(name, wanted);
        }
        knobs.verify(off);
        knobs
    }

    /// Preemption to `word`, under the sysfs at `root`. A word that this kernel does not offer is
    /// not written; the outcome names what is in force instead.
    pub fn preemption(root: &Path, word: &str) -> Self {
        let mut knobs = Self::found(Snapshot::take(root).only(&[PREEMPT]));
        let file = preempt_file(root);
        let offered = line(&file).unwrap_or_default().replace(['(', ')'], "");
        if !offered.is_empty() && !offered.split_whitespace().any(|other| other == word) {
            let now = value(&file).unwrap_or_default();
            let outcome = format!("{now}; {word} is not reachable, this kernel offers {offered}");
            knobs.outcomes.push((PREEMPT, outcome));
        } else if let Err(error) = std::fs::read(&file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            let outcome = format!("unknown, {} cannot be read ({error}); run as root", file.display());
            knobs.outcomes.push((PREEMPT, outcome));
        } else {
            knobs.set(PREEMPT, word);
        }
        knobs
    }

    /// Nothing is changed.
    pub fn keep() -> Self {
        let mut knobs = Self::default();
        knobs.outcomes.push(("all", "kept as they were".into()));
        knobs
    }

    fn found(before: Snapshot) -> Self {
        Self { before, changed: false, outcomes: Vec::new() }
    }

    /// (setting, outcome) pairs.
    pub fn outcomes(&self) -> &[(&'static str, String)] {
        &self.outcomes
    }

    /// Puts everything back and says what became of each file that differed.
    pub fn restore(mut self) -> Vec<PutBack> {
        self.put_back()
    }

    fn put_back(&mut self) -> Vec<PutBack> {
        if std::mem::take(&mut self.changed) { self.before.put_back() } else { Vec::new() }
    }

    fn set(&mut self, name: &'static str, wanted: &str) {
        let files: Vec<PathBuf> =
            self.before.only(&[name]).0.into_iter().map(|Entry { file, .. }| file).collect();
        let outcome = self.try_set(name, &files, wanted).unwrap_or_else(|reason| reason);
        self.outcomes.push((name, outcome));
    }

    /// The outcome; as an error where a file is not as wanted.
    fn try_set(&mut self, name: &str, files: &[PathBuf], wanted: &str) -> Result<String, String> {
        if files.is_empty() {
            return Ok("absent".to_owned());
        }
        for file in files {
            let show = file.display();
            let before = value(file).unwrap_or_default();
            if before == wanted {
                continue;
            }
            std::fs::write(file, wanted).map_err(|error| {
                let choice = line(file).unwrap_or_default();
                format!("{show} stays {before} ({error}); it says {choice}")
            })?;
            self.changed = true;
            let now = value(file).unwrap_or_default();
            if now != wanted {
                return Err(format!("{show} is {now} after {wanted} was written"));
            }
        }
        // Of all CPUs, as they were at first: writing the governor changed the preference too.
        let was = self.before.only(&[name]).lines().into_iter().map(|(_, was)| was).collect::<String>();
        Ok(if was == wanted { format!("{wanted} already") } else { format!("{wanted}, was {was}") })
    }

    /// Looks once more at what was set first: a later change may have changed it.
    fn verify(&mut self, turbo_off: &str) {
        let now = self.before.again();
        for (name, outcome) in &mut self.outcomes {
            let wanted = if *name == TURBO { turbo_off } else { "performance" };
            let lost = now.only(&[name]).0.into_iter().find(|entry| entry.value != wanted);
            if let (true, Some(lost)) = (outcome.starts_with(wanted), lost) {
                *outcome = format!("{} is {} again", lost.file.display(), lost.value);
            }
        }
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        for PutBack { done, outcome, .. } in self.put_back() {
            if !done {
                eprintln!("kernmark-board: not put back: {outcome}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::synthetic::{self, write};
    use tempfile::TempDir;

    const CPU: &str = "devices/system/cpu/cpu";
    const NO_TURBO: &str = "devices/system/cpu/intel_pstate/no_turbo";
    const BOOST: &str = "devices/system/cpu/cpufreq/boost";
    const PREEMPT_FILE: &str = "kernel/debug/sched/preempt";

    /// An i7-12700KF with CPU 19 on `performance` already.
    fn i7() -> TempDir {
        let tree = synthetic::i7_12700kf().tree();
        for cpu in 0..20 {
            let (governor, preference) =
                if cpu == 19 { ("performance", "performance") } else { ("powersave", "balance_performance") };
            write(tree.path(), &format!("{CPU}{cpu}/cpufreq/{GOVERNOR}"), governor);
            write(tree.path(), &format!("{CPU}{cpu}/cpufreq/{PREFERENCE}"), preference);
        }
        write(tree.path(), NO_TURBO, "0");
        tree
    }

    fn text(root: &TempDir, path: &str) -> String {
        std::fs::read_to_string(root.path().join(path)).expect("readable").trim().to_owned()
    }

    #[test]
    fn settings_are_applied_and_put_back() {
        let root = i7();
        let before = Snapshot::take(root.path());
        let knobs = Knobs::apply(root.path());
        assert_eq!(
            Snapshot::take(root.path()).lines(),
            [(GOVERNOR, "performance"), (PREFERENCE, "performance"), (TURBO, "1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        let outcomes: Vec<&str> = knobs.outcomes().iter().map(|(_, outcome)| outcome.as_str()).collect();
        assert_eq!(
            outcomes,
            [
                "performance, was performance on 19, powersave on 0-18",
                "performance, was balance_performance on 0-18, performance on 19",
                "1, was 0"
            ]
        );
        let restored = knobs.restore();
        assert!(restored.iter().all(|put| put.done), "{restored:?}");
        assert_eq!(restored.len(), 19 + 19 + 1);
        assert_eq!(Snapshot::take(root.path()), before);
    }

    #[test]
    fn the_governor_comes_back_before_the_preference() {
        let restored = Knobs::apply(i7().path()).restore();
        let mut names: Vec<&str> = restored.iter().map(|put| put.name.as_str()).collect();
        names.dedup();
        assert_eq!(names, [GOVERNOR, PREFERENCE, TURBO]);
    }

    #[test]
    fn a_preference_that_is_absent_is_noted() {
        let root = i7();
        for cpu in 0..20 {
            let file = root.path().join(format!("{CPU}{cpu}/cpufreq/{PREFERENCE}"));
            std::fs::remove_file(file).expect("there");
        }
        let knobs = Knobs::apply(root.path());
        assert_eq!(knobs.outcomes()[1], (PREFERENCE, "absent".to_owned()));
    }

    #[test]
    fn dropping_puts_back_too() {
        let root = synthetic::virtual_machine().tree();
        write(root.path(), BOOST, "1");
        let knobs = Knobs::apply(root.path());
        assert_eq!(text(&root, BOOST), "0");
        drop(knobs);
        assert_eq!(text(&root, BOOST), "1");
    }

    #[test]
    fn a_machine_without_settings_is_named_so() {
        let root = synthetic::virtual_machine().tree();
        let knobs = Knobs::apply(root.path());
        assert!(knobs.outcomes().iter().all(|(_, outcome)| outcome == "absent"), "{knobs:?}");
        assert_eq!(Knobs::preemption(root.path(), "full").outcomes(), [(PREEMPT, "absent".to_owned())]);
    }

    #[test]
    fn the_chosen_word_of_a_choice_is_its_value() {
        let root = synthetic::virtual_machine().tree();
        write(root.path(), PREEMPT_FILE, "none voluntary (full)");
        assert_eq!(Knobs::preemption(root.path(), "full").outcomes()[0].1, "full already");
        // A plain file does not put the word in parentheses, but holds it alone.
        let knobs = Knobs::preemption(root.path(), "none");
        assert_eq!(knobs.outcomes()[0].1, "none, was full");
        let restored = knobs.restore();
        assert!(matches!(&restored[..], [put] if put.done && put.outcome.ends_with("is full again")));
        assert_eq!(text(&root, PREEMPT_FILE), "full");
    }

    #[test]
    fn preemption_that_is_not_offered_is_named_and_not_written() {
        let root = synthetic::virtual_machine().tree();
        write(root.path(), PREEMPT_FILE, "(full) lazy");
        let knobs = Knobs::preemption(root.path(), "none");
        assert_eq!(
            knobs.outcomes(),
            [(PREEMPT, "full; none is not reachable, this kernel offers full lazy".to_owned())]
        );
        assert_eq!((text(&root, PREEMPT_FILE).as_str(), knobs.restore().len()), ("(full) lazy", 0));
    }

    #[test]
    fn what_cannot_be_put_back_is_named() {
        let root = i7();
        let knobs = Knobs::apply(root.path());
        std::fs::remove_file(root.path().join(NO_TURBO)).expect("there");
        std::fs::create_dir(root.path().join(NO_TURBO)).expect("writable");
        let restored = knobs.restore();
        let failed: Vec<&PutBack> = restored.iter().filter(|put| !put.done).collect();
        assert!(
            matches!(&failed[..], [put] if put.name == TURBO && put.outcome.contains("not 0")),
            "{failed:?}"
        );
    }

    #[test]
    fn a_setting_that_does_not_stay_is_named() {
        let root = i7();
        let mut knobs = Knobs::apply(root.path());
        write(root.path(), &format!("{CPU}3/cpufreq/{GOVERNOR}"), "powersave");
        knobs.verify("1");
        assert!(knobs.outcomes()[0].1.ends_with("cpu3/cpufreq/scaling_governor is powersave again"));
        assert!(knobs.outcomes()[1].1.starts_with("performance"));
    }
}
