// SPDX-License-Identifier: GPL-2.0-or-later
//! The environment record (workloads.md 1.5): what must be equal or quiet for
//! numbers to be compared. A field that cannot be read is left out.

use super::{cpus, line};
use crate::workloads::{flat_key, superblocks};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// Files read whole as one line: (field, path under the root).
const LINES: &[(&str, &str)] = &[
    ("kernel.release", "proc/sys/kernel/osrelease"),
    ("kernel.version", "proc/sys/kernel/version"),
    ("kernel.banner", "proc/version"),
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
    ("kernel.bpf_stats", "proc/sys/kernel/bpf_stats_enabled"),
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
    let release = line(&root.join("proc/sys/kernel/osrelease"));
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
    add("kernel.config_gz_sha256", digest(&root.join("proc/config.gz")));
    if let Some(config) = release.and_then(|r| fs::read_to_string(root.join(format!("boot/config-{r}"))).ok())
    {
        add("kernel.config_sha256", Some(sha256(config.as_bytes())));
        add("kernel.config_canonical_sha256", Some(sha256(canonical_config(&config).as_bytes())));
    }
    if let Ok(modules) = fs::read_to_string(root.join("proc/modules")) {
        add("kernel.modules", Some(module_names(&modules)));
    }
    let cgroup = fs::read_to_string(root.join("sys/fs/cgroup/cgroup.stat")).unwrap_or_default();
    for (field, key) in
        [("cgroup.descendants", "nr_descendants"), ("cgroup.dying_descendants", "nr_dying_descendants")]
    {
        add(field, flat_key(&cgroup, key).map(|n| n.to_string()));
    }
    let stat = fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
    add("load.runnable", flat_key(&stat, "procs_running").map(|n| n.to_string()));
    if root.join("proc").exists() {
        add("memory.pressure_accounting", Some(yes_or_no(root.join("proc/pressure/cpu").exists())));
    }
    let mountinfo = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    add("cgroup.mount_options", cgroup2_options(&mountinfo));
    if !mountinfo.is_empty() {
        add("cgroup.superblocks", Some(superblocks(&mountinfo).to_string()));
    }
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

/// (field, value) pairs of this program, which do not change while it runs.
pub fn identity() -> Vec<(String, String)> {
    let mut fields = vec![
        ("harness.arguments", std::env::args().skip(1).collect::<Vec<_>>().join(" ")),
        ("harness.optimised", yes_or_no(!cfg!(debug_assertions))),
        ("harness.static", yes_or_no(cfg!(target_feature = "crt-static"))),
    ];
    if let Some(digest) = digest(Path::new("/proc/self/exe")) {
        fields.push(("harness.sha256", digest));
    }
    fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
}

/// (field, value) pairs of this process so far: what the measurement itself caused.
pub fn counts() -> Vec<(String, String)> {
    use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
    let mut fields = Vec::new();
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        fields.push(("load.minor_faults", usage.minor_page_faults().to_string()));
        fields.push(("load.major_faults", usage.major_page_faults().to_string()));
    }
    if let Ok((soft, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        fields.push(("harness.open_files", soft.to_string()));
    }
    fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
}

fn digest(path: &Path) -> Option<String> {
    Some(sha256(&fs::read(path).ok()?))
}

/// SHA-256 of `bytes`, lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

/// A kernel config without the line in which builds of one experiment may differ (protocol.md 8).
fn canonical_config(text: &str) -> String {
    text.lines().filter(|l| !l.starts_with("CONFIG_LOCALVERSION=")).map(|l| format!("{l}\n")).collect()
}

/// Names of the loaded modules, sorted.
fn module_names(text: &str) -> String {
    let mut names: Vec<&str> = text.lines().filter_map(|l| l.split_whitespace().next()).collect();
    names.sort_unstable();
    if names.is_empty() { "none".into() } else { names.join(" ") }
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
    fn configs_that_differ_in_the_release_only_are_the_same() {
        let config =
            |local: &str| canonical_config(&format!("CONFIG_SMP=y\nCONFIG_LOCALVERSION=\"{local}\"\n"));
        assert_eq!(config("-base"), config("-next"));
        assert_eq!(config(""), "CONFIG_SMP=y\n");
    }

    #[test]
    fn modules_are_sorted_names() {
        assert_eq!(module_names("xfs 1 2 - Live\nloop 3 0 - Live\n"), "loop xfs");
        assert_eq!(module_names(""), "none");
    }

    #[test]
    fn the_config_of_the_running_release_is_digested() {
        let root = tempfile::tempdir().expect("temporary directory");
        for (path, text) in
            [("proc/sys/kernel/osrelease", "6.12.1\n"), ("boot/config-6.12.1", "CONFIG_SMP=y\n")]
        {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has a parent")).expect("writable");
            std::fs::write(path, text).expect("writable");
        }
        let fields = environment(root.path());
        let digests: Vec<&str> =
            fields.iter().filter(|f| f.0.starts_with("kernel.config")).map(|f| f.1.as_str()).collect();
        assert_eq!(digests.len(), 2);
        assert_eq!(digests[0], digests[1], "there is no line to leave out");
    }

    #[test]
    fn an_empty_machine_has_no_fields() {
        let root = tempfile::tempdir().expect("temporary directory");
        assert_eq!(environment(root.path()), []);
    }

    #[test]
    fn this_machine_has_a_release() {
        let fields = environment(Path::new("/"));
        assert!(fields.iter().any(|(k, v)| k == "kernel.release" && !v.is_empty()));
    }
}
