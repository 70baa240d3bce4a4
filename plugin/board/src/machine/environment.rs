// SPDX-License-Identifier: GPL-2.0-or-later
//! The environment record (workloads.md 1.5): what must be equal or quiet for
//! numbers to be compared. A field that cannot be read is left out.

use super::{cpus, line};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// Files read whole as one line: (field, path under the root).
const LINES: &[(&str, &str)] = &[
    ("kernel.release", "proc/sys/kernel/osrelease"),
    ("kernel.version", "proc/sys/kernel/version"),
    ("kernel.cmdline", "proc/cmdline"),
    ("kernel.boot_id", "proc/sys/kernel/random/boot_id"),
    ("kernel.taint", "proc/sys/kernel/tainted"),
    ("kernel.lsm", "sys/kernel/security/lsm"),
    ("kernel.lockdown", "sys/kernel/security/lockdown"),
    ("kernel.rcu_expedited", "sys/kernel/rcu_expedited"),
    ("kernel.rcu_normal", "sys/kernel/rcu_normal"),
    ("kernel.preempt", "sys/kernel/debug/sched/preempt"),
    ("kernel.nmi_watchdog", "proc/sys/kernel/nmi_watchdog"),
    ("kernel.perf_event_paranoid", "proc/sys/kernel/perf_event_paranoid"),
    ("kernel.kptr_restrict", "proc/sys/kernel/kptr_restrict"),
    ("kernel.randomize_va_space", "proc/sys/kernel/randomize_va_space"),
    ("cpu.smt", "sys/devices/system/cpu/smt/control"),
    ("cpu.online", "sys/devices/system/cpu/online"),
    ("cpu.no_turbo", "sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("cpu.hwp_dynamic_boost", "sys/devices/system/cpu/intel_pstate/hwp_dynamic_boost"),
    ("cpu.idle_driver", "sys/devices/system/cpu/cpuidle/current_driver"),
    ("cpu.idle_governor", "sys/devices/system/cpu/cpuidle/current_governor_ro"),
    ("clock.source", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("memory.thp", "sys/kernel/mm/transparent_hugepage/enabled"),
    ("memory.thp_defrag", "sys/kernel/mm/transparent_hugepage/defrag"),
    ("memory.thp_shmem", "sys/kernel/mm/transparent_hugepage/shmem_enabled"),
    ("memory.ksm", "sys/kernel/mm/ksm/run"),
    ("memory.numa_balancing", "proc/sys/kernel/numa_balancing"),
    ("load.average", "proc/loadavg"),
    ("cgroup.controllers", "sys/fs/cgroup/cgroup.controllers"),
    ("inotify.max_user_instances", "proc/sys/fs/inotify/max_user_instances"),
    ("inotify.max_user_watches", "proc/sys/fs/inotify/max_user_watches"),
    ("inotify.max_queued_events", "proc/sys/fs/inotify/max_queued_events"),
];

/// Files of each CPU: (field, path under its directory).
const CPU_LINES: &[(&str, &str)] = &[
    ("governor", "cpufreq/scaling_governor"),
    ("driver", "cpufreq/scaling_driver"),
    ("energy_preference", "cpufreq/energy_performance_preference"),
    ("min_khz", "cpufreq/scaling_min_freq"),
    ("max_khz", "cpufreq/scaling_max_freq"),
    ("base_khz", "cpufreq/base_frequency"),
    ("core_throttles", "thermal_throttle/core_throttle_count"),
    ("package_throttles", "thermal_throttle/package_throttle_count"),
    ("core_throttle_ms", "thermal_throttle/core_throttle_total_time_ms"),
];

/// (field, value) pairs of the machine whose file system root is `root`.
pub fn environment(root: &Path) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = LINES
        .iter()
        .filter_map(|(field, path)| Some(((*field).to_owned(), line(&root.join(path))?)))
        .collect();
    let mut add = |field: &str, value: Option<String>| {
        if let Some(value) = value {
            fields.push((field.to_owned(), value));
        }
    };
    let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    for (field, key) in [
        ("cpu.model", "model name"),
        ("cpu.stepping", "stepping"),
        ("cpu.microcode", "microcode"),
        ("cpu.bugs", "bugs"),
    ] {
        add(field, colon_value(&cpuinfo, key));
    }
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    for (field, key) in [
        ("memory.total", "MemTotal"),
        ("memory.percpu", "Percpu"),
        ("memory.slab_unreclaimable", "SUnreclaim"),
        ("memory.swap_total", "SwapTotal"),
    ] {
        add(field, colon_value(&meminfo, key));
    }
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    for (field, key) in [
        ("load.voluntary_switches", "voluntary_ctxt_switches"),
        ("load.involuntary_switches", "nonvoluntary_ctxt_switches"),
        ("load.cpus_allowed", "Cpus_allowed_list"),
    ] {
        add(field, colon_value(&status, key));
    }
    add("kernel.btf_sha256", digest(&root.join("sys/kernel/btf/vmlinux")));
    add("harness.sha256", digest(Path::new("/proc/self/exe")));
    let mountinfo = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    add("cgroup.mount_options", cgroup2_options(&mountinfo));
    let interrupts = fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default();
    let cpus = cpus(&root.join("sys"));
    for (column, cpu) in cpus.iter().enumerate() {
        add(&format!("cpu{cpu}.interrupts"), interrupt_count(&interrupts, column).map(|n| n.to_string()));
        for (field, path) in CPU_LINES {
            let file = root.join(format!("sys/devices/system/cpu/cpu{cpu}")).join(path);
            add(&format!("cpu{cpu}.{field}"), line(&file));
        }
    }
    let mut bugs: Vec<_> = fs::read_dir(root.join("sys/devices/system/cpu/vulnerabilities"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some((e.file_name().into_string().ok()?, line(&e.path())?)))
        .collect();
    bugs.sort();
    for (name, value) in bugs {
        add(&format!("mitigation.{name}"), Some(value));
    }
    fields
}

/// Value of the first `key : value` line.
fn colon_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

fn digest(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect())
}

/// Superblock options of the first cgroup2 mount.
fn cgroup2_options(mountinfo: &str) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let (_, after) = line.split_once(" - ")?;
        let mut fields = after.split(' ');
        (fields.next()? == "cgroup2").then(|| fields.nth(1).unwrap_or_default().to_owned())
    })
}

/// Sum of one CPU's column in /proc/interrupts.
fn interrupt_count(text: &str, column: usize) -> Option<u64> {
    let header = text.lines().next()?;
    if column >= header.split_whitespace().count() {
        return None;
    }
    Some(text.lines().skip(1).filter_map(|l| l.split_whitespace().nth(column + 1)?.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_after_a_colon() {
        let text = "model name\t: 12th Gen  X\nstepping : 2\n";
        assert_eq!(colon_value(text, "model name").as_deref(), Some("12th Gen X"));
        assert_eq!(colon_value(text, "microcode"), None);
    }

    #[test]
    fn interrupts_are_summed_by_cpu() {
        let text =
            "           CPU0       CPU1\n  0:  10   1   IO-APIC timer\nLOC:   5   7 Local timer\nERR:  0\n";
        assert_eq!(interrupt_count(text, 0), Some(15));
        assert_eq!(interrupt_count(text, 1), Some(8));
        assert_eq!(interrupt_count(text, 2), None);
    }

    #[test]
    fn an_empty_machine_has_only_the_harness() {
        let root = tempfile::tempdir().expect("temporary directory");
        let fields: Vec<String> = environment(root.path()).into_iter().map(|f| f.0).collect();
        assert_eq!(fields, ["harness.sha256"]);
    }

    #[test]
    fn this_machine_has_a_release() {
        let fields = environment(Path::new("/"));
        assert!(fields.iter().any(|(k, v)| k == "kernel.release" && !v.is_empty()));
    }
}
