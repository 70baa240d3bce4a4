// SPDX-License-Identifier: GPL-2.0-or-later
//! Conditions on correctness, identity and environment of the boots of a `time` experiment
//! (statistics.md 3.5, protocol.md 6.8), from what each boot recorded.

use super::{FailedGate, TimeRules};
use crate::samples::PointLog;
use std::collections::BTreeMap;

/// Fields of the environment that are the same in every boot of an experiment.
const EQUAL: &[&str] = &[
    "cgroup.mount_options",
    "cgroup.superblocks",
    "clock.source",
    "cpu.microcode",
    "cpu.model",
    "cpu.no_turbo",
    "cpu.online",
    "cpu.smt",
    "harness.sha256",
    "kernel.preempt",
    "kernel.rcu_expedited",
    "kernel.rcu_normal",
    "memory.total",
];
/// The same of every field with this beginning.
const EQUAL_PREFIX: &str = "mitigation.";
/// Ends of fields that count how often a processor was slowed down.
const THROTTLES: [&str; 2] = [".core_throttles", ".package_throttles"];

/// Every condition that does not hold. `boots` has the name, build label and log of each boot, in
/// their order.
pub fn failed_conditions(boots: &[(&str, &str, &PointLog)], rules: &TimeRules) -> Vec<FailedGate> {
    let mut failed: Vec<FailedGate> =
        boots.iter().flat_map(|(name, _, log)| correctness(name, log)).collect();
    failed.extend(boot_ids(boots));
    failed.extend(releases(boots));
    failed.extend(equal_fields(boots));
    failed.extend(boots.iter().flat_map(|(name, _, log)| environment(name, log, rules)));
    failed
}

fn correctness(name: &str, log: &PointLog) -> Vec<FailedGate> {
    let problems = log.problems.iter().map(|p| format!("{name}: {p}"));
    let checks = log.checks.iter().filter(|c| !c.pass).map(|c| {
        format!("{name}: {} {}: the condition \"{}\" did not hold: {}", c.workload, c.arm, c.name, c.detail)
    });
    problems.chain(checks).map(|detail| FailedGate::Correctness { detail }).collect()
}

fn identity(detail: String) -> FailedGate {
    FailedGate::Identity { detail }
}

/// Every boot is one of its own.
fn boot_ids(boots: &[(&str, &str, &PointLog)]) -> Vec<FailedGate> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    let mut failed = Vec::new();
    for (name, _, log) in boots {
        match log.start.as_ref().map(|start| start.boot_id.as_str()) {
            None | Some("") => failed.push(identity(format!("{name} does not say which boot it is"))),
            Some(id) => {
                if let Some(before) = seen.insert(id, name) {
                    failed.push(identity(format!("{name} and {before} are the same boot")));
                }
            }
        }
    }
    failed
}

/// One release for each build, all of one length (protocol.md 6.1).
fn releases(boots: &[(&str, &str, &PointLog)]) -> Vec<FailedGate> {
    let release = |log: &PointLog| log.environment_before.get("kernel.release").cloned();
    let mut failed = Vec::new();
    let mut of_build: BTreeMap<&str, (String, &str)> = BTreeMap::new();
    let mut first: Option<(String, &str)> = None;
    for (name, build, log) in boots {
        let Some(running) = release(log) else {
            failed.push(identity(format!("{name} does not say which kernel it runs")));
            continue;
        };
        let (expected, other) = of_build.entry(build).or_insert_with(|| (running.clone(), name));
        if *expected != running {
            failed.push(identity(format!("{name} runs {running}, {other} of the same build {expected}")));
        }
        let (one, other) = first.get_or_insert_with(|| (running.clone(), name));
        if one.len() != running.len() {
            failed.push(identity(format!(
                "the release strings {running} of {name} and {one} of {other} differ in length"
            )));
        }
    }
    failed
}

fn equal_fields(boots: &[(&str, &str, &PointLog)]) -> Vec<FailedGate> {
    let Some(((first, _, reference), others)) = boots.split_first() else { return Vec::new() };
    let fields = |log: &PointLog| -> BTreeMap<String, String> {
        let kept = |key: &str| EQUAL.contains(&key) || key.starts_with(EQUAL_PREFIX);
        let mut fields: BTreeMap<String, String> = log
            .environment_before
            .iter()
            .filter(|(key, _)| kept(key))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let line = log.environment_before.get("kernel.cmdline");
        fields.extend(line.map(|line| ("kernel.cmdline".to_owned(), command_line(line))));
        fields
    };
    let expected = fields(reference);
    let mut failed = Vec::new();
    for (name, _, log) in others {
        let found = fields(log);
        let keys = expected.keys().chain(found.keys().filter(|k| !expected.contains_key(*k)));
        for key in keys.filter(|key| expected.get(*key) != found.get(*key)) {
            let told =
                |side: &BTreeMap<String, String>| side.get(key).map_or("absent", String::as_str).to_owned();
            failed.push(identity(format!(
                "{key} is {} in {name}, {} in {first}",
                told(&found),
                told(&expected)
            )));
        }
    }
    failed
}

/// A kernel command line without the name of the image and the words for the measuring program.
fn command_line(line: &str) -> String {
    let words = line.split_whitespace().take_while(|word| *word != "--");
    words.filter(|word| !word.starts_with("BOOT_IMAGE=")).collect::<Vec<_>>().join(" ")
}

fn environment(name: &str, log: &PointLog, rules: &TimeRules) -> Vec<FailedGate> {
    let (before, after) = (&log.environment_before, &log.environment_after);
    let mut seen: Vec<String> = Vec::new();
    for (when, fields) in [("before", before), ("after", after)] {
        if let Some(taint) = fields.get("kernel.taint").filter(|taint| *taint != "0") {
            seen.push(format!("the kernel is tainted ({taint}) {when} the measurement"));
        }
        if let Some(units) = fields.get("units.failed").filter(|units| *units != "0") {
            seen.push(format!("{units} failed units {when} the measurement"));
        }
    }
    let ends = |key: &str, end: &str| key.starts_with("cpu") && key.ends_with(end);
    for (key, value) in before {
        if ends(key, ".governor") && value != "performance" {
            seen.push(format!("{key} is {value}"));
        }
    }
    if before.get("cpu.no_turbo").is_some_and(|value| value != "1") {
        seen.push("turbo is on".into());
    }
    for (key, count) in after.iter().filter(|(key, _)| THROTTLES.iter().any(|end| ends(key, end))) {
        let started = before.get(key);
        if started.is_some_and(|started| started != count) {
            seen.push(format!("{key} went from {} to {count}", started.map_or("nothing", String::as_str)));
        }
    }
    let load = before.get("load.average").and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    if let Some(load) = load.filter(|load| *load > rules.load_limit) {
        seen.push(format!("load average {load} before the measurement, limit {}", rules.load_limit));
    }
    seen.into_iter().map(|what| FailedGate::Environment { detail: format!("{name}: {what}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_wire::{Check, Start};

    fn log(boot_id: &str, release: &str, fields: &[(&str, &str)]) -> PointLog {
        let mut before: BTreeMap<String, String> =
            fields.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        before.insert("kernel.release".into(), release.into());
        PointLog {
            start: Some(Start {
                format: 1,
                pass: "run".into(),
                protocol: String::new(),
                point: String::new(),
                boot_id: boot_id.into(),
                clock: "monotonic_raw".into(),
                version: String::new(),
                default_arms: BTreeMap::new(),
            }),
            environment_before: before,
            ..PointLog::default()
        }
    }

    fn failed(logs: &[PointLog]) -> Vec<String> {
        let names = ["base-A", "patched-A", "patched-B", "base-B"];
        let boots: Vec<(&str, &str, &PointLog)> = names
            .iter()
            .zip(logs)
            .map(|(name, log)| (*name, name.split_once('-').map_or("", |(build, _)| build), log))
            .collect();
        failed_conditions(&boots, &TimeRules::default()).iter().map(ToString::to_string).collect()
    }

    const QUIET: [(&str, &str); 5] = [
        ("cpu.model", "a cpu"),
        ("cpu.no_turbo", "1"),
        ("cpu0.governor", "performance"),
        ("kernel.cmdline", "BOOT_IMAGE=/a quiet -- run a --point x"),
        ("load.average", "0.10 0.2 0.3 1/90 7"),
    ];

    #[test]
    fn boots_in_order_pass() {
        let other = [&QUIET[..3], &[("kernel.cmdline", "BOOT_IMAGE=/b quiet -- run a --point y")]].concat();
        assert_eq!(failed(&[log("1", "6.1-aa", &QUIET), log("2", "6.1-bb", &other)]), [] as [&str; 0]);
    }

    #[test]
    fn each_condition_is_named_with_its_boot() {
        let with = |field: (&'static str, &'static str)| {
            let mut fields = QUIET.to_vec();
            fields.retain(|(key, _)| *key != field.0);
            fields.push(field);
            fields
        };
        for (second, said) in [
            (log("1", "6.1-bb", &QUIET), "patched-A and base-A are the same boot"),
            (log("2", "6.1-bbb", &QUIET), "differ in length"),
            (
                log("2", "6.1-bb", &with(("cpu.model", "other"))),
                "cpu.model is other in patched-A, a cpu in base-A",
            ),
            (log("2", "6.1-bb", &with(("kernel.cmdline", "loud"))), "kernel.cmdline is loud"),
            (
                log("2", "6.1-bb", &with(("mitigation.x", "on"))),
                "mitigation.x is on in patched-A, absent in base-A",
            ),
            (log("2", "6.1-bb", &with(("kernel.taint", "512"))), "tainted (512) before"),
            (log("2", "6.1-bb", &with(("units.failed", "2"))), "2 failed units"),
            (log("2", "6.1-bb", &with(("cpu3.governor", "powersave"))), "cpu3.governor is powersave"),
            (log("2", "6.1-bb", &with(("load.average", "3.0 2.0 1.0"))), "load average 3"),
        ] {
            let found = failed(&[log("1", "6.1-aa", &QUIET), second]);
            assert!(found.iter().any(|f| f.contains(said)), "{said}: {found:?}");
        }
        let mut hot = log("2", "6.1-bb", &with(("cpu0.core_throttles", "4")));
        hot.environment_after = [("cpu0.core_throttles".to_owned(), "9".to_owned())].into();
        let found = failed(&[log("1", "6.1-aa", &QUIET), hot]);
        assert!(found.iter().any(|f| f.contains("cpu0.core_throttles went from 4 to 9")), "{found:?}");
        let mut wrong = log("2", "6.1-bb", &QUIET);
        wrong.checks = vec![Check {
            workload: "kernfs.rmdir".into(),
            arm: "scx-off".into(),
            name: "26 nodes".into(),
            pass: false,
            detail: "25".into(),
        }];
        let found = failed(&[log("1", "6.1-aa", &QUIET), wrong]);
        assert!(
            found[0].starts_with("correctness gate: patched-A") && found[0].contains("26 nodes"),
            "{found:?}"
        );
        let third = log("3", "6.1-cc", &QUIET);
        let found = failed(&[log("1", "6.1-aa", &QUIET), log("2", "6.1-bb", &QUIET), third]);
        assert!(
            found.iter().any(|f| f.contains("patched-B runs 6.1-cc, patched-A of the same build 6.1-bb"))
        );
    }
}
