// SPDX-License-Identifier: GPL-2.0-or-later
//! Which CPUs are performance cores, which share a core, and lists of CPUs
//! (workloads.md 1.3).

use super::{cpus, line};
use std::collections::BTreeMap;
use std::path::Path;

/// A list of CPUs in the kernel's notation: `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

impl std::str::FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no list of CPUs; write it like 0-3,8");
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.parse().map_err(|_| bad())?;
            let last: usize = last.parse().map_err(|_| bad())?;
            // The kernel knows no more than 8192 CPUs on x86.
            if first > last || last >= 8192 {
                return Err(bad());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

impl std::fmt::Display for CpuList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for &cpu in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let texts: Vec<String> = ranges
            .iter()
            .map(|&(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        f.write_str(&texts.join(","))
    }
}

/// What the CPUs of this machine are.
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
}

impl Topology {
    /// Reads the sysfs at `root`.
    pub fn read(root: &Path) -> Self {
        let all = cpus(root);
        let named = |name: &str| -> Option<CpuList> {
            line(&root.join("devices").join(name).join("cpus"))?.parse().ok()
        };
        let (performance, efficiency, source) = match (named("cpu_core"), named("cpu_atom")) {
            (Some(performance), Some(efficiency)) => (performance, efficiency, "performance counters"),
            (None | Some(_), _) => by_frequency(root, &all).unwrap_or((
                CpuList(all.clone()),
                CpuList::default(),
                "one kind of core",
            )),
        };
        let mut cores: BTreeMap<usize, usize> = BTreeMap::new();
        for &cpu in &performance.0 {
            let first = siblings(root, cpu).0.first().copied().unwrap_or(cpu);
            cores.entry(first).or_insert(cpu);
        }
        let physical_performance = CpuList(cores.into_values().collect());
        Self { performance, efficiency, physical_performance, source }
    }
}

/// CPUs that share a core with `cpu`, itself included.
fn siblings(root: &Path, cpu: usize) -> CpuList {
    let place = root.join(format!("devices/system/cpu/cpu{cpu}/topology"));
    ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|file| line(&place.join(file))?.parse().ok())
        .unwrap_or(CpuList(vec![cpu]))
}

/// Two groups by base frequency: with several siblings and faster, alone and slower. Capacity
/// is not looked at: on x86 it is no sign of the kind of core.
fn by_frequency(root: &Path, all: &[usize]) -> Option<(CpuList, CpuList, &'static str)> {
    let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for &cpu in all {
        let place = root.join(format!("devices/system/cpu/cpu{cpu}/cpufreq"));
        let khz = ["base_frequency", "cpuinfo_max_freq"]
            .iter()
            .find_map(|file| line(&place.join(file))?.parse::<u64>().ok())?;
        groups.entry(khz).or_default().push(cpu);
    }
    if groups.len() != 2 {
        return None;
    }
    let fast = groups.pop_last()?.1;
    let slow = groups.pop_last()?.1;
    let count = |cpus: &[usize]| cpus.iter().map(|&c| siblings(root, c).0.len()).max().unwrap_or(1);
    (count(&fast) > 1 && count(&slow) == 1).then_some((
        CpuList(fast),
        CpuList(slow),
        "frequency and siblings",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysfs(files: &[(String, String)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("temporary directory");
        for (path, text) in files {
            let path = root.path().join("devices").join(path);
            std::fs::create_dir_all(path.parent().expect("has a parent")).expect("writable");
            std::fs::write(path, text).expect("writable");
        }
        root
    }

    /// Two performance cores with two threads each, two efficiency cores.
    fn hybrid() -> Vec<(String, String)> {
        [("0-1", 36), ("0-1", 36), ("2-3", 36), ("2-3", 36), ("4", 27), ("5", 27)]
            .iter()
            .enumerate()
            .flat_map(|(cpu, (siblings, hundred_mhz))| {
                [
                    (format!("system/cpu/cpu{cpu}/topology/core_cpus_list"), format!("{siblings}\n")),
                    (format!("system/cpu/cpu{cpu}/cpufreq/base_frequency"), format!("{hundred_mhz}00000\n")),
                ]
            })
            .collect()
    }

    #[test]
    fn lists_read_and_print() {
        for (text, cpus, printed) in
            [("0-3,8", vec![0, 1, 2, 3, 8], "0-3,8"), ("5", vec![5], "5"), ("2,1,0\n", vec![0, 1, 2], "0-2")]
        {
            let list: CpuList = text.parse().expect("valid");
            assert_eq!((list.0.clone(), list.to_string()), (cpus, printed.to_owned()));
        }
        for text in ["", "a", "3-1", "1-", "0-99999999999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    #[test]
    fn counters_name_the_kinds_of_cores() {
        let mut files = hybrid();
        files.extend([("cpu_core/cpus".into(), "0-3\n".into()), ("cpu_atom/cpus".into(), "4-5\n".into())]);
        let found = Topology::read(sysfs(&files).path());
        assert_eq!(found.source, "performance counters");
        assert_eq!(
            (found.performance.to_string(), found.efficiency.to_string()),
            ("0-3".into(), "4-5".into())
        );
        assert_eq!(found.physical_performance.0, [0, 2]);
    }

    #[test]
    fn without_counters_frequency_and_siblings_tell() {
        let found = Topology::read(sysfs(&hybrid()).path());
        assert_eq!(found.source, "frequency and siblings");
        assert_eq!((found.efficiency.0, found.physical_performance.0), (vec![4, 5], vec![0, 2]));
    }

    #[test]
    fn a_plain_machine_has_one_kind() {
        let found = Topology::read(sysfs(&[("system/cpu/cpu0/online".into(), "1".into())]).path());
        assert_eq!(found.source, "one kind of core");
        assert_eq!((found.physical_performance.0, found.efficiency.0), (vec![0], vec![]));
    }
}
