// SPDX-License-Identifier: GPL-2.0-or-later
//! Which CPUs belong to performance cores, by the first source that knows
//! (workloads.md 1.3): performance counters, CPUID, frequency and siblings.

use super::{CpuList, siblings};
use crate::machine::line;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Kind of a core of a hybrid processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreKind {
    /// Intel Core.
    Performance,
    /// Intel Atom.
    Efficiency,
}

/// CPUs of performance cores among `online`, and which source knew. All of them where nothing
/// says that there are two kinds.
pub fn performance(
    root: &Path,
    online: &CpuList,
    kind_of: impl Fn(usize) -> Option<CoreKind>,
) -> (CpuList, &'static str) {
    by_counters(root, online)
        .map(|found| (found, "performance counters"))
        .or_else(|| by_instruction(online, kind_of).map(|found| (found, "CPUID")))
        .or_else(|| by_frequency(root, online).map(|found| (found, "frequency and siblings")))
        .unwrap_or_else(|| (online.clone(), "one kind of core"))
}

/// A hybrid processor has a unit of counters of its own for each kind of core; its mask keeps
/// CPUs that are offline. What is not `cpu_core` is `cpu_atom` or `cpu_lowpower`.
fn by_counters(root: &Path, online: &CpuList) -> Option<CpuList> {
    let places = ["devices", "bus/event_source/devices"];
    let mask: CpuList = places
        .iter()
        .find_map(|place| line(&root.join(place).join("cpu_core/cpus")))
        .and_then(|text| text.parse().ok())?;
    Some(mask.within(online)).filter(|found| !found.0.is_empty())
}

/// `None` unless every CPU has a kind and there are performance cores.
fn by_instruction(online: &CpuList, kind_of: impl Fn(usize) -> Option<CoreKind>) -> Option<CpuList> {
    let kinds: Vec<(usize, CoreKind)> =
        online.0.iter().map(|&cpu| Some((cpu, kind_of(cpu)?))).collect::<Option<_>>()?;
    let found: Vec<usize> =
        kinds.iter().filter(|(_, kind)| *kind == CoreKind::Performance).map(|(cpu, _)| *cpu).collect();
    (!found.is_empty()).then_some(CpuList(found))
}

/// Two base frequencies of which the slower belongs to cores with one thread; else cores with
/// several threads that are all faster at most than any core with one. Neither capacity nor a
/// higher limit alone is looked at: on x86 the best few performance cores have that too.
fn by_frequency(root: &Path, online: &CpuList) -> Option<CpuList> {
    let threads: BTreeMap<usize, usize> =
        online.0.iter().map(|&cpu| (cpu, siblings(root, cpu).0.len())).collect();
    let frequencies = |file: &str| -> Option<BTreeMap<usize, u64>> {
        let khz = |cpu| {
            line(&root.join(format!("devices/system/cpu/cpu{cpu}/cpufreq")).join(file))?.parse::<u64>().ok()
        };
        online.0.iter().map(|&cpu| Some((cpu, khz(cpu)?))).collect()
    };
    if let Some(base) = frequencies("base_frequency") {
        let groups: BTreeSet<u64> = base.values().copied().collect();
        let slow = *groups.first()?;
        let slow_is_single = base.iter().filter(|(_, khz)| **khz == slow).all(|(cpu, _)| threads[cpu] == 1);
        let fast = base.iter().filter(|(_, khz)| **khz != slow).map(|(cpu, _)| *cpu).collect();
        return (groups.len() == 2 && slow_is_single).then_some(CpuList(fast));
    }
    let most = frequencies("cpuinfo_max_freq")?;
    let (several, alone): (Vec<usize>, Vec<usize>) = online.0.iter().partition(|cpu| threads[cpu] > 1);
    let slowest = several.iter().map(|cpu| most[cpu]).min()?;
    let fastest = alone.iter().map(|cpu| most[cpu]).max()?;
    (slowest > fastest).then_some(CpuList(several))
}

/// What the processor itself says about the core of `cpu`, read there (CPUID leaf 0x1A); `None`
/// where the CPU may not be used or the processor is not a hybrid one.
pub fn by_cpuid(cpu: usize) -> Option<CoreKind> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const FEATURES: u32 = 0x07;
    const HYBRID: u32 = 1 << 15;
    const KIND: u32 = 0x1a;
    let here = Pid::from_raw(0);
    if __cpuid(0).eax < KIND || __cpuid_count(FEATURES, 0).edx & HYBRID == 0 {
        return None;
    }
    let before = sched_getaffinity(here).ok()?;
    let mut only = CpuSet::new();
    only.set(cpu).ok()?;
    sched_setaffinity(here, &only).ok()?;
    let kind = kind_of_register(__cpuid_count(KIND, 0).eax);
    sched_setaffinity(here, &before).ok()?;
    kind
}

/// Bits 31 to 24 of EAX (Intel SDM, volume 2A, CPUID leaf 1AH).
fn kind_of_register(eax: u32) -> Option<CoreKind> {
    match eax >> 24 {
        0x40 => Some(CoreKind::Performance),
        0x20 => Some(CoreKind::Efficiency),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_register_names_two_kinds_and_no_other() {
        for (eax, kind) in [
            (0x4000_0001, Some(CoreKind::Performance)),
            (0x2000_0001, Some(CoreKind::Efficiency)),
            (0, None),
            (0x0000_0040, None),
        ] {
            assert_eq!(kind_of_register(eax), kind, "{eax:#x}");
        }
    }

    #[test]
    fn asking_the_processor_leaves_the_affinity_as_it_was() {
        let mask = || sched_getaffinity(Pid::from_raw(0)).expect("own thread");
        let before = mask();
        by_cpuid(0);
        by_cpuid(4095);
        assert_eq!(before, mask());
    }
}
