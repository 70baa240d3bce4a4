// SPDX-License-Identifier: GPL-2.0-or-later
//! The two passes over the workloads: `run`, timed, and `observe`, untimed.

mod machine;
mod place;
mod plan;
mod sampling;

pub use machine::record_environment;
pub use sampling::profile;

use crate::cli::{ObserveArguments, OutputArguments, RunArguments};
use crate::emit::Emitter;
use crate::measure::{Amount, Clock, Manner, Outcome, Planned, measure, report_facts};
use crate::observe;
use crate::settle::uptime;
use crate::stop::{Exit, Stop};
use crate::workloads::{self, Arm, Condition, Parameters, Setting, WORKLOADS, Workload};
use kernmark_wire as wire;
use kernmark_wire::Record;
use machine::{Ready, note, preemption, put_back};
use place::Place;

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
    let place = Place::take(&asked.place, out)?;
    if !asked.emulator {
        plan::lines(&workloads, asked, uptime()).iter().for_each(|line| out.say(line));
        out.plan(plan::arms(&workloads, asked));
    }
    let ready = Ready::make(asked, place.cpu, clock, out)?;
    let mut whole = Whole::default();
    let manner = Manner {
        clock,
        single_operations: asked.single_operations,
        one_set_up: asked.emulator,
        between: asked.settle.samples,
    };
    for workload in workloads {
        let parameters = Parameters::new(workload.parameters, &asked.place.parameters)?;
        for (id, value) in parameters.all() {
            note("before", &format!("parameter.{}.{id}", workload.id), value, out)?;
        }
        let arms = arms_of(workload, asked);
        let planned = arms
            .iter()
            .map(|&arm| {
                let setting = place.setting(arm, &parameters);
                Ok(Planned { arm, amount: amount(asked, workload, arm, arms.len())?, setting })
            })
            .collect::<Result<Vec<_>, Stop>>()?;
        let preemption = preemption(asked, workload, out)?;
        for (arm, done) in arms.iter().zip(measure(workload, &planned, manner, out)?) {
            match skipped(workload, arm.id, done, out)? {
                Some(Problem::Skipped) if asked.workloads.is_empty() => {}
                problem => whole.take(problem),
            }
        }
        let key = format!("setting.preempt.{}", workload.id);
        put_back(preemption, &|_| key.clone(), &mut whole.void, out)?;
    }
    ready.end(&mut whole.void, out)?;
    whole.exit()
}

/// How much is measured of an arm: as asked for, else as the workload has it.
fn amount(asked: &RunArguments, workload: &Workload, arm: &'static Arm, arms: usize) -> Result<Amount, Stop> {
    let usual = if asked.emulator { workload.emulator } else { arm.amount };
    let amount = Amount {
        samples: asked.samples.unwrap_or(usual.samples),
        operations: asked.operations.unwrap_or(usual.operations),
        warmups: asked.warmups.unwrap_or(usual.warmups),
    };
    let total = amount.samples.checked_mul(amount.operations).and_then(|n| n.checked_mul(arms as u64));
    match total {
        Some(1..=MAX_OPERATIONS) => Ok(amount),
        Some(_) | None => Err(Stop::Usage(format!(
            "{} samples of {} operations in {arms} arms are not between 1 and {MAX_OPERATIONS} operations in all",
            amount.samples, amount.operations
        ))),
    }
}

/// Counts function calls, untimed.
///
/// # Errors
/// As [`run`].
pub fn observe(asked: &ObserveArguments, out: &mut Emitter) -> Result<Exit, Stop> {
    let workloads = chosen(&asked.workloads, &asked.arms)?;
    start("observe", "none", &asked.output, out)?;
    let place = Place::take(&asked.place, out)?;
    let mut whole = Whole::default();
    for workload in workloads {
        let parameters = Parameters::new(workload.parameters, &asked.place.parameters)?;
        for arm in observed_arms(workload, &asked.arms) {
            let done = observe_arm(workload, &place.setting(arm, &parameters), &asked.functions, out);
            whole.take(skipped(workload, arm.id, done, out)?);
        }
    }
    whole.exit()
}

fn observe_arm(
    workload: &Workload,
    setting: &Setting<'_>,
    functions: &[String],
    out: &mut Emitter,
) -> Outcome {
    observe::profile(workload, setting, out)?;
    let mut prepared = (workload.prepare)(setting)?;
    let session = prepared.session();
    report_facts(workload.id, setting.arm, &session.facts()?, out)?;
    report_facts(workload.id, setting.arm, &session.prove()?, out)?;
    observe::operations(workload, setting.arm, session, functions, out)?;
    observe::deferred_work(workload, setting.arm, session, out)?;
    session.finish()
}

/// The arms asked for that this workload has; its default arm when none of them is its own.
fn observed_arms(workload: &'static Workload, asked: &[String]) -> Vec<&'static Arm> {
    let own = own_arms(workload, asked);
    if own.is_empty() { vec![&workload.arms[0]] } else { own }
}

/// Those of the arms asked for that this workload has.
fn own_arms(workload: &Workload, asked: &[String]) -> Vec<&'static Arm> {
    workload.arms.iter().filter(|arm| asked.iter().any(|id| id == arm.id)).collect()
}

/// Why an arm yields no numbers.
enum Problem {
    /// It cannot run here.
    Skipped,
    /// A condition did not hold.
    Void(String),
}

/// What the arms of a pass come to together.
#[derive(Debug, Default)]
struct Whole {
    missing: bool,
    /// The first condition that did not hold.
    void: Option<String>,
}

impl Whole {
    fn take(&mut self, problem: Option<Problem>) {
        match problem {
            None => {}
            Some(Problem::Skipped) => self.missing = true,
            Some(Problem::Void(reason)) => {
                self.void.get_or_insert(reason);
            }
        }
    }

    fn exit(self) -> Result<Exit, Stop> {
        let done = if self.missing { Exit::Missing } else { Exit::Done };
        self.void.map_or(Ok(done), |reason| Err(Stop::Failed(reason)))
    }
}

/// Reports the conditions of an arm, or that it was skipped.
fn skipped(
    workload: &Workload,
    arm: &str,
    done: Outcome,
    out: &mut Emitter,
) -> Result<Option<Problem>, Stop> {
    match done {
        Ok(conditions) => {
            let failed = conditions.iter().find(|c| !c.pass);
            let reason = failed.map(|c| format!("{} {arm}: {}: {}", workload.id, c.name, c.detail));
            for Condition { name, pass, detail } in conditions {
                out.emit(Record::Check(wire::Check {
                    workload: workload.id.into(),
                    arm: arm.into(),
                    name: name.into(),
                    pass,
                    detail,
                }))?;
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

/// The arms asked for that this workload has; when none of them is its own, those that it
/// measures by default here.
fn arms_of(workload: &Workload, asked: &RunArguments) -> Vec<&'static Arm> {
    let own = own_arms(workload, &asked.arms);
    if own.is_empty() {
        let usual = |arm: &&'static Arm| if asked.emulator { arm.in_emulator } else { arm.on_boards };
        workload.arms.iter().filter(usual).collect()
    } else {
        own
    }
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

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn asked(arguments: &[&str]) -> RunArguments {
        use clap::Parser;
        #[derive(Debug, Parser)]
        struct Only {
            #[command(flatten)]
            run: RunArguments,
        }
        Only::try_parse_from(["run"].iter().chain(arguments)).expect("valid").run
    }

    #[test]
    fn asked_arms_are_matched_to_their_workload() {
        let arms = |workload, arguments: &[&str]| -> Vec<&str> {
            arms_of(workload, &asked(arguments)).iter().map(|a| a.id).collect()
        };
        let both = ["--arm", "bare", "--arm", "scx-off"];
        assert_eq!(arms(&workloads::KERNFS_RMDIR, &both), ["scx-off", "bare"]);
        assert_eq!(arms(&workloads::CONTROL_GETPPID, &both), ["plain"]);
        assert_eq!(arms(&workloads::KERNFS_RMDIR, &[]), ["scx-off", "scx-nocb", "scx-cb"]);
        assert_eq!(arms(&workloads::KERNFS_RMDIR, &["--emulator"]), ["scx-off", "bare"]);
    }

    #[test]
    fn amounts_are_the_workloads_own_unless_asked_for() {
        let workload = &workloads::KERNFS_RMDIR;
        let of = |arguments: &[&str]| amount(&asked(arguments), workload, &workload.arms[0], 2);
        assert_eq!(of(&[]).expect("fits"), workload.arms[0].amount);
        assert_eq!(of(&["--emulator"]).expect("fits"), workload.emulator);
        assert_eq!(of(&["--samples", "7"]).expect("fits").samples, 7);
        assert!(matches!(of(&["--samples", "2000000", "--operations", "2"]), Err(Stop::Usage(_))));
        assert!(matches!(of(&["--samples", "0"]), Err(Stop::Usage(_))));
    }

    #[test]
    fn an_arm_of_none_of_the_workloads_is_refused() {
        let ids = ["control.getppid".to_owned()];
        let error = chosen(&ids, &["scx-off".to_owned()]).expect_err("not its arm");
        assert!(matches!(&error, Stop::Usage(text) if text.contains("plain")), "{error}");
    }

    #[test]
    fn a_condition_that_did_not_hold_voids_the_run_but_is_reported() {
        let check = Condition::new("affinity", false, "CPU 0");
        let mut out = Emitter::collecting();
        let found = skipped(&workloads::CONTROL_GETPPID, "plain", Ok(vec![check]), &mut out).expect("memory");
        assert!(matches!(found, Some(Problem::Void(reason)) if reason.contains("affinity: CPU 0")));
        assert_eq!(out.into_records().len(), 1);
    }
}
