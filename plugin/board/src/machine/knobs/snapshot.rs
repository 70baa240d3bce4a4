// SPDX-License-Identifier: GPL-2.0-or-later
//! Values of settings at one moment, and the way back to them. Its lines are
//! what a later process needs to put everything back (see `guardian`).

use crate::machine::{CpuList, cpus, line};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Governor of a CPU.
pub const GOVERNOR: &str = "scaling_governor";
/// Energy preference of a CPU; some drivers have none.
pub const PREFERENCE: &str = "energy_performance_preference";
/// Whether clocks above the base are allowed.
pub const TURBO: &str = "turbo";
/// Preemption model, where the kernel has a choice.
pub const PREEMPT: &str = "preempt";

/// One file that holds one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// One of the names above; the same for all CPUs.
    pub name: String,
    /// Where one CPU only is set.
    pub cpu: Option<usize>,
    /// Where it is.
    pub file: PathBuf,
    /// What it was, without line end.
    pub value: String,
}

/// What became of one setting on the way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutBack {
    /// Name of the setting.
    pub name: String,
    /// Whether it holds its value again.
    pub done: bool,
    /// For people.
    pub outcome: String,
}

/// Settings in the order in which they are put back. The energy preference comes after the
/// governor: `performance` refuses any other preference with EBUSY
/// (drivers/cpufreq/intel_pstate.c).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot(pub Vec<Entry>);

impl Snapshot {
    /// Reads governor, energy preference, turbo and preemption under the sysfs at `root`; what
    /// is absent or cannot be read is left out.
    pub fn take(root: &Path) -> Self {
        let mut entries = Vec::new();
        let mut add = |name: &str, cpu, file: PathBuf| {
            if let Some(value) = value(&file) {
                entries.push(Entry { name: name.into(), cpu, file, value });
            }
        };
        for name in [GOVERNOR, PREFERENCE] {
            for cpu in cpus(root) {
                add(name, Some(cpu), root.join(format!("devices/system/cpu/cpu{cpu}/cpufreq/{name}")));
            }
        }
        add(TURBO, None, turbo_file(root));
        add(PREEMPT, None, preempt_file(root));
        Self(entries)
    }

    /// Those settings whose name is among `names`.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Self {
        Self(self.0.iter().filter(|entry| names.contains(&entry.name.as_str())).cloned().collect())
    }

    /// The same settings as they are now.
    #[must_use]
    pub fn again(&self) -> Self {
        let now = |entry: &Entry| Some(Entry { value: value(&entry.file)?, ..entry.clone() });
        Self(self.0.iter().filter_map(now).collect())
    }

    /// (setting, value); where CPUs differ, which of them have which.
    pub fn lines(&self) -> Vec<(String, String)> {
        let mut names: Vec<&str> = self.0.iter().map(|entry| entry.name.as_str()).collect();
        names.dedup();
        names.into_iter().map(|name| (name.to_owned(), self.line(name))).collect()
    }

    fn line(&self, name: &str) -> String {
        let mut values: BTreeMap<&str, CpuList> = BTreeMap::new();
        for entry in self.0.iter().filter(|entry| entry.name == name) {
            values.entry(&entry.value).or_default().0.extend(entry.cpu);
        }
        if values.len() == 1 {
            return values.keys().copied().collect();
        }
        let texts: Vec<String> = values.iter().map(|(value, cpus)| format!("{value} on {cpus}")).collect();
        texts.join(", ")
    }

    /// Writes every setting that differs, reads it again, and says what became of it. Writing the
    /// governor may set others back by itself; those are not written.
    pub fn put_back(&self) -> Vec<PutBack> {
        let mut outcomes = Vec::new();
        for Entry { name, file, value: before, .. } in &self.0 {
            let show = file.display();
            if value(file).as_deref() == Some(before) {
                continue;
            }
            let written = std::fs::write(file, before);
            let now = value(file).unwrap_or_default();
            let (done, outcome) = match written {
                Ok(()) if now == *before => (true, format!("{show} is {before} again")),
                Ok(()) => (false, format!("{show} is {now}; it was {before}")),
                Err(error) => (false, format!("{show} is {now}, not {before}: {error}")),
            };
            outcomes.push(PutBack { name: name.clone(), done, outcome });
        }
        outcomes
    }
}

/// Intel's driver says whether turbo is forbidden, others whether it is allowed.
pub fn turbo_file(root: &Path) -> PathBuf {
    let intel = root.join("devices/system/cpu/intel_pstate/no_turbo");
    if intel.exists() { intel } else { root.join("devices/system/cpu/cpufreq/boost") }
}

/// Where the preemption model is chosen.
pub fn preempt_file(root: &Path) -> PathBuf {
    root.join("kernel/debug/sched/preempt")
}

/// The value in force: of a choice such as `none voluntary (full)` the word in parentheses.
pub fn value(file: &Path) -> Option<String> {
    let text = line(file)?;
    let chosen =
        text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(word, _)| word.to_owned());
    Some(chosen.unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::synthetic::{self, write};

    #[test]
    fn cpus_that_differ_are_named() {
        let tree = synthetic::i7_12700kf().tree();
        for cpu in 0..20 {
            let governor = if cpu < 16 { "powersave" } else { "performance" };
            write(tree.path(), &format!("devices/system/cpu/cpu{cpu}/cpufreq/{GOVERNOR}"), governor);
        }
        write(tree.path(), "devices/system/cpu/intel_pstate/no_turbo", "0");
        let found = Snapshot::take(tree.path());
        assert_eq!(
            found.lines(),
            [
                (GOVERNOR.to_owned(), "performance on 16-19, powersave on 0-15".to_owned()),
                (TURBO.to_owned(), "0".to_owned())
            ]
        );
        assert_eq!(found.only(&[TURBO]).0.len(), 1);
        assert_eq!(found.again(), found);
    }

    #[test]
    fn only_what_differs_is_written() {
        let tree = synthetic::virtual_machine().tree();
        let boost = "devices/system/cpu/cpufreq/boost";
        write(tree.path(), boost, "1");
        write(tree.path(), "kernel/debug/sched/preempt", "none (full) lazy");
        let before = Snapshot::take(tree.path());
        assert_eq!(before.lines()[1], (PREEMPT.to_owned(), "full".to_owned()));
        assert_eq!(before.put_back(), []);
        write(tree.path(), boost, "0");
        let outcomes = before.put_back();
        assert!(matches!(&outcomes[..], [PutBack { name, done: true, .. }] if name == TURBO), "{outcomes:?}");
        assert_eq!(before.again(), before);
    }
}
