// SPDX-License-Identifier: GPL-2.0-or-later
//! The text for people: a table of what was measured, how steady the machine was,
//! and what is missing.

mod rows;
mod scale;

use kernmark_wire::{Calls, Environment, Record};
use std::fmt::Write;

/// The whole text.
pub fn render(records: &[Record], status: &str) -> String {
    let mut text = String::new();
    let mut line = |l: &str| writeln!(text, "{}", l.trim_end()).expect("writing to a string");
    let rows = rows::rows(records);
    // Beside numbers, the record of the machine would bury them.
    let only_environment = records.iter().all(|r| matches!(r, Record::Environment(_)));
    if !rows.is_empty() {
        line(&headline(records));
        line("");
        rows::lines(&rows).iter().for_each(|l| line(l));
        line("");
    }
    facts(records).iter().for_each(|l| line(l));
    for record in records {
        match record {
            Record::Calls(calls) => calls_of(calls).iter().for_each(|l| line(l)),
            Record::Returns(r) => line(&format!(
                "{} {} {}: {} returned NULL {} times, something {} times",
                r.workload, r.arm, r.operation, r.function, r.null, r.other
            )),
            Record::NotAvailable(n) => {
                line(&format!("{} {}: {} not available: {}", n.workload, n.arm, n.what, n.reason));
            }
            Record::Environment(e) if only_environment => line(&format!("{} = {}", e.key, e.value)),
            _ => {}
        }
    }
    if !rows.is_empty() {
        machine(records).iter().for_each(|l| line(l));
    }
    missing(records).iter().for_each(|l| line(l));
    if status != "ok" {
        line(status);
    }
    text
}

/// What ran where.
fn headline(records: &[Record]) -> String {
    let field =
        |key| environment(records).find(|e| e.when == "before" && e.key == key).map(|e| e.value.as_str());
    let mut parts = vec![format!("kernmark-board {}", env!("CARGO_PKG_VERSION"))];
    parts.extend(field("kernel.release").map(|release| format!("Linux {release}")));
    parts.extend(field("cpu.model").map(str::to_owned));
    parts.extend(field("harness.cpu").map(|cpu| format!("CPU {cpu}")));
    parts.join(", ")
}

fn environment(records: &[Record]) -> impl Iterator<Item = &Environment> {
    records.iter().filter_map(|r| if let Record::Environment(e) = r { Some(e) } else { None })
}

/// One line for each arm.
fn facts(records: &[Record]) -> Vec<String> {
    let mut arms: Vec<((&str, &str), Vec<String>)> = Vec::new();
    for record in records {
        let Record::Fact(fact) = record else { continue };
        let arm = (fact.workload.as_str(), fact.arm.as_str());
        let said = format!("{} {}", fact.name.replace('_', " "), fact.value);
        match arms.iter_mut().find(|(known, _)| *known == arm) {
            Some((_, all)) => all.push(said),
            None => arms.push((arm, vec![said])),
        }
    }
    arms.iter().map(|((workload, arm), all)| format!("{workload} {arm}: {}", all.join(", "))).collect()
}

fn calls_of(calls: &Calls) -> Vec<String> {
    let of = |(function, caller, count): &(String, String, u64)| {
        let per = *count as f64 / calls.operations.max(1) as f64;
        format!("{} {} {}: {per:.3} x {function} <- {caller}", calls.workload, calls.arm, calls.operation)
    };
    calls.calls.iter().map(of).collect()
}

/// How steady the machine was, its settings, and whatever warns of taking numbers at face value.
fn machine(records: &[Record]) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(
        environment(records)
            .filter(|e| e.key == "machine.steadiness")
            .map(|e| format!("machine: {}", e.value)),
    );
    lines.extend(
        environment(records)
            .filter(|e| e.key == "harness.measured_s")
            .map(|e| format!("time: {} s", e.value)),
    );
    let settings: Vec<String> = environment(records)
        .filter(|e| e.when == "before")
        .filter_map(|e| Some((e.key.strip_prefix("setting.")?, &e.value)))
        .filter(|(name, _)| !name.contains('.'))
        .map(|(name, value)| format!("{} {value}", name.replace('_', " ")))
        .collect();
    if !settings.is_empty() {
        lines.push(format!("settings: {}", settings.join("; ")));
    }
    for e in environment(records).filter(|e| e.when == "before") {
        if let Some(workload) = e.key.strip_prefix("setting.preempt.")
            && e.value.contains("not reachable")
        {
            lines.push(format!("caution: {workload} ran with preemption {}", e.value));
        }
        if e.key == "clock.instead" || (e.key == "clock.gate" && e.value != "pass") {
            lines.push(format!("caution: {} {}", e.key, e.value));
        }
    }
    lines
}

/// Conditions that failed and what was skipped, with reasons.
fn missing(records: &[Record]) -> Vec<String> {
    let mut lines = Vec::new();
    for record in records {
        if let Record::Check(c) = record
            && !c.pass
        {
            let place: Vec<&str> =
                [c.workload.as_str(), &c.arm, &c.name].into_iter().filter(|p| !p.is_empty()).collect();
            lines.push(format!("FAILED {}: {}", place.join(" "), c.detail));
        }
    }
    for record in records {
        if let Record::Skip(s) = record {
            lines.push(format!("skip {}: {}", [s.workload.as_str(), &s.arm].join(" ").trim_end(), s.reason));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_wire::{Check, Fact};

    fn with_environment(mut records: Vec<Record>, fields: &[(&str, &str)]) -> Vec<Record> {
        for (key, value) in fields {
            let (when, key, value) = ("before".into(), (*key).into(), (*value).into());
            records.push(Record::Environment(Environment { when, key, value }));
        }
        records
    }

    #[test]
    fn a_person_sees_numbers_the_machine_and_what_is_missing() {
        let mut records = with_environment(
            crate::emit::test_records::some(),
            &[
                ("clock.gate", "fail: hpet"),
                ("kernel.release", "6.12"),
                ("machine.steadiness", "steady, load 0.1 before"),
                ("setting.scaling_governor", "performance, was powersave"),
                ("setting.turbo", "absent"),
                (
                    "setting.preempt.fsnotify.watch",
                    "full; none is not reachable, this kernel offers full lazy",
                ),
                ("memory.total", "16 kB"),
                ("harness.measured_s", "83"),
            ],
        );
        for (name, value) in [("nodes", 26), ("dying_at_most", 0)] {
            let (workload, arm) = ("kernfs.rmdir".into(), "scx-off".into());
            records.push(Record::Fact(Fact { workload, arm, name: name.into(), value }));
        }
        records.push(Record::Check(Check {
            workload: String::new(),
            arm: String::new(),
            name: "taint".into(),
            pass: false,
            detail: "went from 0 to 512".into(),
        }));
        assert_eq!(
            render(&records, "failed: gone").replacen(env!("CARGO_PKG_VERSION"), "VERSION", 1),
            "\
kernmark-board VERSION, Linux 6.12

workload      arm      metric    median     CV          range  samples
kernfs.rmdir  scx-off  remove    100 ns  0.4 %  100 .. 100 ns        2
              bare     remove  75.00 ns      -       75.00 ns        1

kernfs.rmdir scx-off: nodes 26, dying at most 0
machine: steady, load 0.1 before
time: 83 s
settings: scaling governor performance, was powersave; turbo absent
caution: clock.gate fail: hpet
caution: fsnotify.watch ran with preemption full; none is not reachable, this kernel offers full lazy
FAILED taint: went from 0 to 512
skip kernfs.rmdir scx-cb: no sched_ext
failed: gone
"
        );
    }

    #[test]
    fn the_environment_alone_is_shown_whole() {
        let text = render(&with_environment(vec![], &[("kernel.release", "6.12")]), "ok");
        assert_eq!(text, "kernel.release = 6.12\n");
    }
}
