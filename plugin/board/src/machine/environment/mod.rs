// SPDX-License-Identifier: GPL-2.0-or-later
//! The environment record (workloads.md 1.5): what must be equal or quiet for
//! numbers to be compared. A field that cannot be read is left out.

mod files;
mod harness;
mod interrupts;
mod kernel;
mod mounts;
mod virtualisation;

pub use harness::{counts, identity};
pub use kernel::sha256;

use super::{cpus, line};
use crate::workloads::flat_key;
use files::{CPU_LINES, LINES};
use interrupts::Interrupts;
use std::fs;
use std::path::Path;

/// (field, value) pairs.
pub type Fields = Vec<(String, String)>;

/// What the machine whose file system root is `root` is like now.
pub fn environment(root: &Path) -> Fields {
    let mut fields: Fields = LINES
        .iter()
        .filter_map(|(field, path)| Some(((*field).to_owned(), line(&root.join(path))?)))
        .collect();
    fields.extend(processor(root));
    fields.extend(memory(root));
    fields.extend(kernel::fields(root));
    fields.extend(load(root));
    fields.extend(mounts::fields(root));
    fields.extend(each_cpu(root));
    fields
}

/// What only the running machine itself can say: its hypervisor, auditing, the init system.
pub fn asked_of_the_system() -> Fields {
    let mut fields = Fields::new();
    fields.push(("machine.hypervisor".into(), virtualisation::hypervisor()));
    let audit = kernel::audit_enabled().map(|enabled| enabled.to_string());
    fields.extend(audit.map(|enabled| ("kernel.audit".into(), enabled)));
    fields.extend(kernel::init_state());
    fields
}

fn processor(root: &Path) -> Fields {
    let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let mut fields = Fields::new();
    for (field, key) in [
        ("cpu.model", "model name"),
        ("cpu.family", "cpu family"),
        ("cpu.model_number", "model"),
        ("cpu.stepping", "stepping"),
        ("cpu.microcode", "microcode"),
        ("cpu.bugs", "bugs"),
    ] {
        fields.extend(colon_value(&cpuinfo, key).map(|value| (field.to_owned(), value)));
    }
    if let Some(flags) = colon_value(&cpuinfo, "flags") {
        let has = |flag| flags.split(' ').any(|other| other == flag);
        for flag in ["constant_tsc", "nonstop_tsc", "hypervisor", "rdtscp"] {
            fields.push((format!("cpu.flag.{flag}"), yes_or_no(has(flag))));
        }
    }
    let mut bugs: Fields = fs::read_dir(root.join("sys/devices/system/cpu/vulnerabilities"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some((format!("mitigation.{}", e.file_name().into_string().ok()?), line(&e.path())?)))
        .collect();
    bugs.sort();
    fields.extend(bugs);
    fields
}

fn memory(root: &Path) -> Fields {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let mut fields = Fields::new();
    for (field, key) in [
        ("memory.total", "MemTotal"),
        ("memory.free", "MemFree"),
        ("memory.percpu", "Percpu"),
        ("memory.slab_unreclaimable", "SUnreclaim"),
        ("memory.swap_total", "SwapTotal"),
        ("memory.swap_free", "SwapFree"),
    ] {
        fields.extend(colon_value(&meminfo, key).map(|value| (field.to_owned(), value)));
    }
    if root.join("proc").exists() {
        let pressure = yes_or_no(root.join("proc/pressure/cpu").exists());
        fields.push(("memory.pressure_accounting".into(), pressure));
    }
    // Checks of every object make allocation many times dearer. All caches have the same by default.
    let cache = root.join("sys/kernel/slab/kmalloc-64");
    let on = |check: &&str| line(&cache.join(check)).is_some_and(|value| value != "0");
    if cache.exists() {
        let checks: Vec<&str> =
            ["sanity_checks", "red_zone", "poison", "store_user", "trace"].into_iter().filter(on).collect();
        let value = if checks.is_empty() { "none".to_owned() } else { checks.join(" ") };
        fields.push(("memory.slab_debug".into(), value));
    }
    fields
}

fn load(root: &Path) -> Fields {
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let sched = fs::read_to_string(root.join("proc/self/sched")).unwrap_or_default();
    let stat = fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
    let cgroup = fs::read_to_string(root.join("sys/fs/cgroup/cgroup.stat")).unwrap_or_default();
    let fields = [
        ("load.voluntary_switches", colon_value(&status, "voluntary_ctxt_switches")),
        ("load.involuntary_switches", colon_value(&status, "nonvoluntary_ctxt_switches")),
        ("load.cpus_allowed", colon_value(&status, "Cpus_allowed_list")),
        ("load.migrations", colon_value(&sched, "se.nr_migrations")),
        ("load.runnable", flat_key(&stat, "procs_running").map(|n| n.to_string())),
        ("load.processes", flat_key(&stat, "processes").map(|n| n.to_string())),
        ("cgroup.descendants", flat_key(&cgroup, "nr_descendants").map(|n| n.to_string())),
        ("cgroup.dying_descendants", flat_key(&cgroup, "nr_dying_descendants").map(|n| n.to_string())),
    ];
    fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect()
}

fn each_cpu(root: &Path) -> Fields {
    let interrupts = Interrupts::parse(&fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default());
    let stat = fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
    let mut fields = Fields::new();
    for cpu in cpus(&root.join("sys")) {
        let mut add = |field: &str, value: Option<String>| {
            fields.extend(value.map(|value| (format!("cpu{cpu}.{field}"), value)));
        };
        add("interrupts", interrupts.total(cpu).map(|n| n.to_string()));
        add("device_interrupts", interrupts.of_devices(cpu).map(|n| n.to_string()));
        add("stolen_ticks", stolen_ticks(&stat, cpu));
        for (field, path) in CPU_LINES {
            add(field, line(&root.join(format!("sys/devices/system/cpu/cpu{cpu}")).join(path)));
        }
    }
    fields
}

/// Ticks in which the hypervisor ran something else, from the text of /proc/stat (proc(5)).
fn stolen_ticks(stat: &str, cpu: usize) -> Option<String> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split(' ').next() == Some(&name))?;
    line.split_whitespace().nth(8).map(str::to_owned)
}

/// Value of the first `key : value` line.
fn colon_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::synthetic::write;

    #[test]
    fn values_after_a_colon() {
        let text = "model name\t: 12th Gen  X\nstepping : 2\n";
        assert_eq!(colon_value(text, "model name").as_deref(), Some("12th Gen X"));
        assert_eq!(colon_value(text, "microcode"), None);
    }

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let text = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 80 9 10\ncpu11 0 0 0 0 0 0 0 7 0 0\n";
        assert_eq!(stolen_ticks(text, 1).as_deref(), Some("80"));
        assert_eq!(stolen_ticks(text, 0), None);
    }

    #[test]
    fn a_machine_is_recorded_from_its_files() {
        let root = tempfile::tempdir().expect("temporary directory");
        for (path, text) in [
            ("proc/cpuinfo", "model name\t: X\nflags\t\t: fpu constant_tsc hypervisor"),
            ("proc/self/sched", "se.nr_migrations   :       3"),
            ("proc/self/status", "nonvoluntary_ctxt_switches:\t5"),
            ("proc/interrupts", "      CPU0\n 24:   7  IO-APIC  4-edge ttyS0\nLOC:  90  Local timer"),
            ("sys/kernel/slab/kmalloc-64/red_zone", "1"),
            ("sys/kernel/slab/kmalloc-64/poison", "0"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_total_time_ms", "12"),
        ] {
            write(root.path(), path, text);
        }
        let fields = environment(root.path());
        for (field, value) in [
            ("cpu.flag.constant_tsc", "yes"),
            ("cpu.flag.nonstop_tsc", "no"),
            ("load.migrations", "3"),
            ("load.involuntary_switches", "5"),
            ("cpu0.interrupts", "97"),
            ("cpu0.device_interrupts", "7"),
            ("cpu0.package_throttle_ms", "12"),
            ("memory.slab_debug", "red_zone"),
        ] {
            let found = fields.iter().find(|(key, _)| key == field).map(|(_, value)| value.as_str());
            assert_eq!(found, Some(value), "{field}");
        }
        let mut keys: Vec<&str> = fields.iter().map(|(key, _)| key.as_str()).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count, "a field twice is a log with a mistake");
    }

    #[test]
    fn an_empty_machine_has_no_fields() {
        let root = tempfile::tempdir().expect("temporary directory");
        assert_eq!(environment(root.path()), []);
    }

    #[test]
    fn this_machine_has_a_release_and_no_field_twice() {
        let fields: Fields = environment(Path::new("/"))
            .into_iter()
            .chain(asked_of_the_system())
            .chain(counts())
            .chain(identity())
            .collect();
        assert!(fields.iter().any(|(k, v)| k == "kernel.release" && !v.is_empty()));
        let mut keys: Vec<&String> = fields.iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
