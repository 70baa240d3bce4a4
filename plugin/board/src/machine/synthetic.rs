// SPDX-License-Identifier: GPL-2.0-or-later
//! Trees like the sysfs of machines that are not here, for tests.

use std::path::Path;
use tempfile::TempDir;

/// A core as its files show it.
#[derive(Debug, Clone, Copy)]
pub struct Core {
    /// CPUs that share it, as the kernel lists those online.
    pub cpus: &'static [usize],
    /// `base_frequency`, kHz; none where the driver has no such file.
    pub base_khz: Option<u64>,
    /// `cpuinfo_max_freq`, kHz; none without cpufreq.
    pub max_khz: Option<u64>,
}

/// What one machine looks like.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// `online`.
    pub online: &'static str,
    /// Cores with at least one CPU online.
    pub cores: Vec<Core>,
    /// (path under the root, text) of further files.
    pub files: Vec<(&'static str, &'static str)>,
}

const fn performance(cpus: &'static [usize]) -> Core {
    // The two best cores of this processor may run at 5.0 GHz; each is as good as another here.
    let max = if cpus[0] < 4 { 5_000_000 } else { 4_900_000 };
    Core { cpus, base_khz: Some(3_600_000), max_khz: Some(max) }
}

const fn efficiency(cpus: &'static [usize]) -> Core {
    Core { cpus, base_khz: Some(2_700_000), max_khz: Some(3_800_000) }
}

const EFFICIENCY: [Core; 4] = [efficiency(&[16]), efficiency(&[17]), efficiency(&[18]), efficiency(&[19])];
const PAIRS: [Core; 8] = [
    performance(&[0, 1]),
    performance(&[2, 3]),
    performance(&[4, 5]),
    performance(&[6, 7]),
    performance(&[8, 9]),
    performance(&[10, 11]),
    performance(&[12, 13]),
    performance(&[14, 15]),
];

/// An i7-12700KF as shipped: 8 performance cores with 2 threads each, 4 efficiency cores.
pub fn i7_12700kf() -> Machine {
    Machine {
        online: "0-19",
        cores: PAIRS.into_iter().chain(EFFICIENCY).collect(),
        files: vec![("devices/cpu_core/cpus", "0-15"), ("devices/cpu_atom/cpus", "16-19")],
    }
}

/// The same with its second threads switched off while it runs: they keep their numbers.
pub fn i7_12700kf_smt_off() -> Machine {
    let single: [Core; 8] = [
        performance(&[0]),
        performance(&[2]),
        performance(&[4]),
        performance(&[6]),
        performance(&[8]),
        performance(&[10]),
        performance(&[12]),
        performance(&[14]),
    ];
    Machine {
        online: "0,2,4,6,8,10,12,14,16-19",
        cores: single.into_iter().chain(EFFICIENCY).collect(),
        ..i7_12700kf()
    }
}

/// The same with its efficiency cores switched off in the firmware: no longer a hybrid.
pub fn i7_12700kf_efficiency_off() -> Machine {
    Machine { online: "0-15", cores: PAIRS.to_vec(), files: vec![("devices/cpu/type", "4")] }
}

/// A laptop that numbers first the first threads, then efficiency cores, then second threads.
pub fn laptop() -> Machine {
    let fast = |cpus| Core { cpus, base_khz: Some(2_600_000), max_khz: Some(4_700_000) };
    let slow = |cpus| Core { cpus, base_khz: Some(1_900_000), max_khz: Some(3_500_000) };
    Machine {
        online: "0-11",
        cores: vec![
            fast(&[0, 10]),
            fast(&[1, 11]),
            slow(&[2]),
            slow(&[3]),
            slow(&[4]),
            slow(&[5]),
            slow(&[6]),
            slow(&[7]),
            slow(&[8]),
            slow(&[9]),
        ],
        files: vec![("devices/cpu_core/cpus", "0-1,10-11"), ("devices/cpu_atom/cpus", "2-9")],
    }
}

/// A virtual machine: no cpufreq, no turbo.
pub fn virtual_machine() -> Machine {
    let core = |cpus| Core { cpus, base_khz: None, max_khz: None };
    Machine { online: "0-1", cores: vec![core(&[0]), core(&[1])], files: vec![] }
}

impl Machine {
    /// Writes the tree.
    pub fn tree(&self) -> TempDir {
        let root = tempfile::tempdir().expect("temporary directory");
        write(root.path(), "devices/system/cpu/online", self.online);
        for (path, text) in &self.files {
            write(root.path(), path, text);
        }
        for core in &self.cores {
            let list: Vec<String> = core.cpus.iter().map(usize::to_string).collect();
            for cpu in core.cpus {
                let place = format!("devices/system/cpu/cpu{cpu}");
                write(root.path(), &format!("{place}/topology/core_cpus_list"), &list.join(","));
                for (file, khz) in [("base_frequency", core.base_khz), ("cpuinfo_max_freq", core.max_khz)] {
                    if let Some(khz) = khz {
                        write(root.path(), &format!("{place}/cpufreq/{file}"), &khz.to_string());
                    }
                }
            }
        }
        root
    }
}

/// Writes one file of a tree, with its line end.
pub fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().expect("has a parent")).expect("writable");
    std::fs::write(path, format!("{text}\n")).expect("writable");
}
