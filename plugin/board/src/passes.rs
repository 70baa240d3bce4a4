// SPDX-License-Identifier: GPL-2.0-or-later
//! The two passes over the workloads: `run`, timed, and `observe`, untimed.

use crate::cli::{ObserveArguments, OutputArguments, PlaceArguments, RunArguments};
use crate::emit::Emitter;
use crate::machine::{Knobs, Topology, counts, environment, identity};
use crate::measure::{Amount, Clock, Cpu, measure, ordinary_policy, pin};
use crate::observe;
use crate::stop::{Exit, Stop};
use crate::workloads::{self, Session, WORKLOADS, Workload};
use kernmark_wire as wire;
use kernmark_wire::Record;
use std::collections::BTreeMap;
use std::path::Path;

/// Where settings and processors are described.
const SYSFS: &str = "/sys";

/// All operations of an arm are kept in memory until it is done, 16 bytes for each time.
const MAX_OPERATIONS: u64 = 4_000_000;

/// Measures.
///
/// # Errors
/// Nothing can be measured, or what was measured is void. An arm that cannot run here is a
/// `skip` record.
pub fn run(asked: &RunArguments, out: &mut Emitter) -> Result<Exit, Stop> {
    let workloads = chosen(&asked.workloads, &asked.arms)?;
    let clock = Clock::new(asked.clock, asked.waiting);
    start("run", clock.name(), &asked.output, out)?;
    let cpu = place(&asked.place, out)?;
    let knobs = if asked.keep_settings { Knobs::keep() } else { Knobs::apply(Path::new(SYSFS)) };
    for (name, outcome) in knobs.outcomes() {
        note("before", &format!("setting.{name}"), outcome, out)?;
    }
    let (facts, fineness) = clock.examine();
    for (key, value) in facts {
        note("before", key, &value, out)?;
    }
    require(
        fineness,
        "see the clock source in the kernel's log; an emulated machine needs one CPU or tsc=reliable",
        out,
    )?;
    note("before", "harness.memory_locked", &lock_memory(), out)?;
    record_environment("before", out)?;
    let mut exit = Exit::Done;
    let mut void = None;
    for workload in workloads {
        let amount = amount(asked, workload)?;
        let preemption = preemption(asked, workload, out)?;
        for arm in arms_of(workload, &asked.arms) {
            let done = run_arm(workload, arm, cpu, clock, amount, asked.single_operations, out);
            match skipped(workload, arm, done, out)? {
                None => {}
                Some(Problem::Skipped) if asked.workloads.is_empty() => {}
                Some(Problem::Skipped) => exit = Exit::Missing,
                Some(Problem::Void(reason)) => void = void.or(Some(reason)),
            }
        }
        let key = format!("setting.preempt.{}", workload.id);
        put_back(preemption, &|_| key.clone(), &mut void, out)?;
    }
    put_back(knobs, &|name| format!("setting.{name}"), &mut void, out)?;
    record_environment("after", out)?;
    void.map_or(Ok(exit), |reason| Err(Stop::Failed(reason)))
}

/// How much is measured: as asked for, else as the workload has it.
fn amount(asked: &RunArguments, workload: &Workload) -> Result<Amount, Stop> {
    let amount = Amount {
        samples: asked.samples.unwrap_or(workload.amount.samples),
        operations: asked.operations.unwrap_or(workload.amount.operations),
        warmups: asked.warmups.unwrap_or(workload.amount.warmups),
    };
    match amount.samples.checked_mul(amount.operations) {
        Some(1..=MAX_OPERATIONS) => Ok(amount),
        Some(_) | None => Err(Stop::Usage(format!(
            "{} samples of {} operations are not between 1 and {MAX_OPERATIONS} operations in all",
            amount.samples, amount.operations
        ))),
    }
}

fn run_arm(
    workload: &Workload,
    arm: &str,
    cpu: Cpu,
    clock: Clock,
    amount: Amount,
    single: bool,
    out: &mut Emitter,
) -> Result<Vec<wire::Check>, Stop> {
    let mut session = (workload.prepare)(arm)?;
    facts(workload, arm, session.as_mut(), out)?;
    let elsewhere = measure(workload, arm, session.as_mut(), (clock, cpu), amount, single, out)?;
    let mut checks = session.finish()?;
    checks.push(wire::Check {
        workload: workload.id.into(),
        arm: arm.into(),
        name: "affinity".into(),
        pass: elsewhere == 0 && cpu.is_here(),
        detail: format!("CPU {}, {elsewhere} operations ended elsewhere", cpu.0),
    });
    Ok(checks)
}

/// Counts function calls, untimed.
///
/// # Errors
/// As [`run`].
pub fn observe(asked: &ObserveArguments, out: &mut Emitter) -> Result<Exit, Stop> {
    let workloads = chosen(&asked.workloads, &asked.arms)?;
    start("observe", "none", &asked.output, out)?;
    place(&asked.place, out)?;
    let mut exit = Exit::Done;
    let mut void = None;
    for workload in workloads {
        for arm in arms_of(workload, &asked.arms) {
            let done = observe_arm(workload, arm, &asked.functions, out);
            match skipped(workload, arm, done, out)? {
                None => {}
                Some(Problem::Skipped) => exit = Exit::Missing,
                Some(Problem::Void(reason)) => void = void.or(Some(reason)),
            }
        }
    }
    void.map_or(Ok(exit), |reason| Err(Stop::Failed(reason)))
}

fn observe_arm(
    workload: &Workload,
    arm: &str,
    functions: &[String],
    out: &mut Emitter,
) -> Result<Vec<wire::Check>, Stop> {
    observe::profile(workload, arm, out)?;
    let mut session = (workload.prepare)(arm)?;
    facts(workload, arm, session.as_mut(), out)?;
    observe::operations(workload, arm, session.as_mut(), functions, out)?;
    session.finish()
}

fn facts(workload: &Workload, arm: &str, session: &mut dyn Session, out: &mut Emitter) -> Result<(), Stop> {
    for (name, value) in session.facts()? {
        out.emit(Record::Fact(wire::Fact {
            workload: workload.id.into(),
            arm: arm.into(),
            name: name.into(),
            value,
        }))?;
    }
    Ok(())
}

/// Why an arm yields no numbers.
enum Problem {
    /// It cannot run here.
    Skipped,
    /// A condition did not hold.
    Void(String),
}

/// Reports the conditions of an arm, or that it was skipped.
fn skipped(
    workload: &Workload,
    arm: &str,
    done: Result<Vec<wire::Check>, Stop>,
    out: &mut Emitter,
) -> Result<Option<Problem>, Stop> {
    match done {
        Ok(checks) => {
            let failed = checks.iter().find(|c| !c.pass);
            let reason = failed.map(|c| format!("{} {}: {}: {}", c.workload, c.arm, c.name, c.detail));
            for check in checks {
                out.emit(Record::Check(check))?;
            }
            Ok(reason.map(Problem::Void))
        }
        Err(Stop::Missing(reason)) => {
            out.emit(Record::Skip(wire::Skip { workload: workload.id.into(), arm: arm.into(), reason }))?;
            Ok(Some(Problem::Skipped))
        }
        Err(other) => Err(other),
    }
}

/// Preemption as asked for, else as the workload's published numbers had it, where the kernel has a choice.
fn preemption(asked: &RunArguments, workload: &Workload, out: &mut Emitter) -> Result<Knobs, Stop> {
    let Some(word) = asked.preempt.as_deref().or(workload.preemption.filter(|_| !asked.keep_settings)) else {
        return Ok(Knobs::default());
    };
    let knobs = Knobs::preemption(Path::new(SYSFS), word);
    for (_, outcome) in knobs.outcomes() {
        note("before", &format!("setting.preempt.{}", workload.id), outcome, out)?;
        if asked.preempt.is_some() && !outcome.starts_with(word) {
            return Err(Stop::Missing(format!(
                "preemption {word} is not reachable: {outcome}; choose another with --preempt, or boot a kernel \
                 that offers it"
            )));
        }
    }
    Ok(knobs)
}

/// Puts settings back and reports it; `void` takes the first that did not go back.
fn put_back(
    knobs: Knobs,
    key: &dyn Fn(&str) -> String,
    void: &mut Option<String>,
    out: &mut Emitter,
) -> Result<(), Stop> {
    // One line for each setting, not for each CPU; what failed is not hidden by what did not.
    let mut lines: BTreeMap<&str, (bool, String)> = BTreeMap::new();
    for (name, done, outcome) in knobs.restore() {
        let line = lines.entry(name).or_insert((done, outcome.clone()));
        if line.0 && !done {
            *line = (done, outcome);
        }
    }
    for (name, (done, outcome)) in lines {
        if !done {
            void.get_or_insert(format!("a setting was not put back: {outcome}"));
        }
        note("after", &key(name), &outcome, out)?;
    }
    Ok(())
}

/// Pins this thread where asked, and records where that is.
fn place(asked: &PlaceArguments, out: &mut Emitter) -> Result<Cpu, Stop> {
    let topology = Topology::read(Path::new(SYSFS));
    if let Some(expected) = asked.expect_cpus {
        let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
        if online != i64::try_from(expected).ok() {
            return Err(Stop::Failed(format!(
                "{} CPUs are online where {expected} were expected; an emulated machine without ACPI needs \
                 -smp {expected},sockets={expected}",
                online.unwrap_or_default()
            )));
        }
    }
    let cpu = match &asked.cpus {
        Some(list) => pin(&list.0, false)?,
        None => pin(&topology.physical_performance.0, true)?,
    };
    for (key, value) in [
        ("harness.cpu", cpu.0.to_string()),
        ("cpu.performance", topology.performance.to_string()),
        ("cpu.efficiency", topology.efficiency.to_string()),
        ("cpu.physical_performance", topology.physical_performance.to_string()),
        ("cpu.kinds_from", topology.source.to_owned()),
    ] {
        note("before", key, &value, out)?;
    }
    require(ordinary_policy(), "start it without nice, chrt and the like", out)?;
    Ok(cpu)
}

/// Reports a condition of the machine as a whole, without which nothing is worth measuring.
fn require(check: wire::Check, advice: &str, out: &mut Emitter) -> Result<(), Stop> {
    let missed = (!check.pass).then(|| Stop::Failed(format!("{}; {advice}", check.detail)));
    out.emit(Record::Check(check))?;
    missed.map_or(Ok(()), Err)
}

fn chosen(ids: &[String], arms: &[String]) -> Result<Vec<&'static Workload>, Stop> {
    let workloads = if ids.is_empty() {
        WORKLOADS.to_vec()
    } else {
        ids.iter().map(|id| workloads::find(id)).collect::<Result<Vec<_>, _>>()?
    };
    let known = |arm: &String| workloads.iter().any(|w| w.arms.iter().any(|a| a.id == arm));
    match arms.iter().find(|arm| !known(arm)) {
        None => Ok(workloads),
        Some(arm) => {
            let all: Vec<&str> = workloads.iter().flat_map(|w| w.arms).map(|a| a.id).collect();
            Err(Stop::Usage(format!("no arm {arm:?}; there are {}", all.join(", "))))
        }
    }
}

/// The arms asked for that this workload has; its default arm when none of them is its own.
fn arms_of<'a>(workload: &'a Workload, asked: &[String]) -> Vec<&'a str> {
    let own: Vec<&str> =
        workload.arms.iter().map(|a| a.id).filter(|id| asked.iter().any(|a| a == id)).collect();
    if own.is_empty() { vec![workload.arms[0].id] } else { own }
}

fn start(pass: &str, clock: &str, output: &OutputArguments, out: &mut Emitter) -> Result<(), Stop> {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    out.emit(Record::Start(wire::Start {
        format: wire::FORMAT,
        pass: pass.into(),
        protocol: output.protocol.clone(),
        point: output.point.clone(),
        boot_id: boot_id.trim().into(),
        clock: clock.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        default_arms: WORKLOADS.iter().map(|w| (w.id.into(), w.arms[0].id.into())).collect(),
    }))?;
    Ok(())
}

fn note(when: &str, key: &str, value: &str, out: &mut Emitter) -> Result<(), Stop> {
    let value = value.to_owned();
    out.emit(Record::Environment(wire::Environment { when: when.into(), key: key.into(), value }))?;
    Ok(())
}

/// Emits the whole environment record.
///
/// # Errors
/// It cannot be written.
pub fn record_environment(when: &str, out: &mut Emitter) -> Result<(), Stop> {
    let own = if when == "before" { identity() } else { Vec::new() };
    for (key, value) in environment(Path::new("/")).into_iter().chain(counts()).chain(own) {
        note(when, &key, &value, out)?;
    }
    Ok(())
}

/// Keeps page faults out of timed windows, where that is allowed.
fn lock_memory() -> String {
    use nix::sys::mman::{MlockAllFlags, mlockall};
    match mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE) {
        Ok(()) => "yes".into(),
        Err(error) => format!("no: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asked_arms_are_matched_to_their_workload() {
        let asked = ["bare".to_owned(), "scx-off".to_owned()];
        assert_eq!(arms_of(&workloads::KERNFS_RMDIR, &asked), ["scx-off", "bare"]);
        assert_eq!(arms_of(&workloads::CONTROL_GETPPID, &asked), ["plain"]);
        assert_eq!(arms_of(&workloads::KERNFS_RMDIR, &[]), ["scx-off"]);
    }

    #[test]
    fn an_arm_of_none_of_the_workloads_is_refused() {
        let ids = ["control.getppid".to_owned()];
        let error = chosen(&ids, &["scx-off".to_owned()]).expect_err("not its arm");
        assert!(matches!(&error, Stop::Usage(text) if text.contains("plain")), "{error}");
    }

    #[test]
    fn a_condition_that_did_not_hold_voids_the_run_but_is_reported() {
        let check = wire::Check {
            workload: "control.getppid".into(),
            arm: "plain".into(),
            name: "affinity".into(),
            pass: false,
            detail: "CPU 0".into(),
        };
        let mut out = Emitter::collecting();
        let found = skipped(&workloads::CONTROL_GETPPID, "plain", Ok(vec![check]), &mut out).expect("memory");
        assert!(matches!(found, Some(Problem::Void(reason)) if reason.contains("affinity: CPU 0")));
        assert_eq!(out.into_records().len(), 1);
    }
}
