// SPDX-License-Identifier: GPL-2.0-or-later
//! Which CPUs are performance cores, which share a core, and the places of
//! workers (workloads.md 1.3).

mod cpu_list;
mod kinds;
#[cfg(test)]
mod tests;

pub use cpu_list::CpuList;
pub use kinds::CoreKind;

use super::{cpus, line};
use crate::stop::Stop;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What the CPUs of this machine are. CPUs that are offline are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// CPUs of performance cores; all CPUs where the machine has one kind of core.
    pub performance: CpuList,
    /// CPUs of efficiency cores.
    pub efficiency: CpuList,
    /// The lowest CPU of each performance core.
    pub physical_performance: CpuList,
    /// How the kinds of cores were told apart.
    pub source: &'static str,
    /// For each CPU the lowest CPU of its core.
    core: BTreeMap<usize, usize>,
}

impl Topology {
    /// Reads the sysfs at `root`, and asks the processor itself where sysfs does not know.
    pub fn read(root: &Path) -> Self {
        Self::read_with(root, kinds::by_cpuid)
    }

    /// Reads the sysfs at `root`; `kind_of` says of a CPU which kind of core it is, where known.
    pub fn read_with(root: &Path, kind_of: impl Fn(usize) -> Option<CoreKind>) -> Self {
        let online = online(root);
        let (performance, source) = kinds::performance(root, &online, kind_of);
        let core = online
            .0
            .iter()
            .map(|&cpu| (cpu, siblings(root, cpu).0.first().copied().unwrap_or(cpu)))
            .collect();
        Self::of(performance.clone(), online.without(&performance), core, source)
    }

    fn of(
        performance: CpuList,
        efficiency: CpuList,
        core: BTreeMap<usize, usize>,
        source: &'static str,
    ) -> Self {
        let mut seen = BTreeSet::new();
        let first_of_core = |cpu: &&usize| seen.insert(core.get(*cpu).copied().unwrap_or(**cpu));
        let physical_performance = CpuList(performance.0.iter().filter(first_of_core).copied().collect());
        Self { performance, efficiency, physical_performance, source, core }
    }

    /// The same machine when only `allowed` may be used.
    #[must_use]
    pub fn limited_to(&self, allowed: &CpuList) -> Self {
        let within = |list: &CpuList| list.within(allowed);
        Self::of(within(&self.performance), within(&self.efficiency), self.core.clone(), self.source)
    }

    /// CPUs in the order in which workers fill them: one for each performance core, then their
    /// siblings, then efficiency cores.
    pub fn filling_order(&self) -> CpuList {
        let siblings = self.performance.without(&self.physical_performance);
        CpuList([&self.physical_performance.0[..], &siblings.0, &self.efficiency.0].concat())
    }

    /// The CPUs of the workers of an arm: `p8` is the first CPU of each of the 8 lowest performance
    /// cores, `w16` is the 16 lowest threads of performance cores. Either case is understood.
    ///
    /// # Errors
    /// [`Stop::Missing`] where the machine has fewer; [`Stop::Usage`] for another name.
    pub fn places(&self, arm: &str) -> Result<CpuList, Stop> {
        let unknown = || Stop::Usage(format!("{arm:?} is no place for workers; write it like p8 or w16"));
        let (kind, count) = arm.split_at_checked(1).ok_or_else(unknown)?;
        let count: usize = count.parse().ok().filter(|n| *n > 0).ok_or_else(unknown)?;
        let (all, what) = match kind {
            "p" | "P" => (&self.physical_performance, "performance cores"),
            "w" | "W" => (&self.performance, "threads of performance cores"),
            _ => return Err(unknown()),
        };
        first(all, count, &format!("{arm} needs {count} {what}"))
    }

    /// CPUs for `count` workers in the order in which they are filled.
    ///
    /// # Errors
    /// [`Stop::Missing`] where the machine has fewer.
    pub fn fill(&self, count: usize) -> Result<CpuList, Stop> {
        first(&self.filling_order(), count, &format!("{count} workers need a CPU each"))
    }
}

/// The first `count` of these; where there are fewer, the reason begins with `need`.
fn first(all: &CpuList, count: usize, need: &str) -> Result<CpuList, Stop> {
    all.0.get(..count).map(|found| CpuList(found.to_vec())).ok_or_else(|| {
        let mut sorted = all.clone();
        sorted.0.sort_unstable();
        let list = if all.0.is_empty() { String::new() } else { format!(" (CPUs {sorted})") };
        Stop::Missing(format!(
            "{need}, and there are {}{list}; choose fewer, or see that all are online and allowed",
            all.0.len()
        ))
    })
}

/// CPUs that are online; where the kernel does not say, all there are.
fn online(root: &Path) -> CpuList {
    line(&root.join("devices/system/cpu/online"))
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| CpuList(cpus(root)))
}

/// CPUs online that share a core with `cpu`, itself included.
fn siblings(root: &Path, cpu: usize) -> CpuList {
    let place = root.join(format!("devices/system/cpu/cpu{cpu}/topology"));
    ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|file| line(&place.join(file))?.parse().ok())
        .unwrap_or(CpuList(vec![cpu]))
}
