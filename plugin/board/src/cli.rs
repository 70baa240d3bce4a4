// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line; PID 1 gets the same one from the kernel.

use crate::emit::{Emitter, Format};
use crate::machine::{Knobs, environment};
use crate::measure::{Amount, Clock, ClockName, Cpu, measure, pin};
use crate::observe::observe;
use crate::signals;
use crate::stop::{Exit, Stop};
use crate::workloads::{self, WORKLOADS, Workload};
use clap::{Args, Parser, Subcommand};
use kernmark_wire as wire;
use kernmark_wire::Record;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Measures kernel paths on this machine.
#[derive(Debug, Parser)]
// Without colours: on a serial console they would only be noise in the log.
#[command(name = "kernmark-board", version, color = clap::ColorChoice::Never)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Names workloads, arms, metrics, parameters and needs.
    List {
        /// As JSON.
        #[arg(long, value_parser = ["text", "json"], default_value = "text")]
        format: String,
    },
    /// Measures.
    Run(RunArguments),
    /// Counts function calls, untimed.
    Observe(ObserveArguments),
    /// Prints the environment record.
    Environment(OutputArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Workload ids; all of them by default.
    workloads: Vec<String>,
    /// Arms; the default arm of each workload by default.
    #[arg(long = "arm")]
    arms: Vec<String>,
    /// Samples for each arm.
    #[arg(long)]
    samples: Option<u64>,
    /// Operations in each sample.
    #[arg(long)]
    operations: Option<u64>,
    /// Untimed operations before each sample.
    #[arg(long)]
    warmups: Option<u64>,
    /// CPUs to choose from; the first allowed one is used.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// The clock.
    #[arg(long, value_enum, default_value = "monotonic-raw")]
    clock: ClockName,
    /// Report each operation too.
    #[arg(long)]
    single_operations: bool,
    /// Report time off the CPU for each operation.
    #[arg(long)]
    waiting: bool,
    /// Leave governor, energy preference and turbo as they are.
    #[arg(long)]
    keep_settings: bool,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, Args)]
struct ObserveArguments {
    /// Workload ids.
    #[arg(required = true)]
    workloads: Vec<String>,
    /// Arms; the default arm of each workload by default.
    #[arg(long = "arm")]
    arms: Vec<String>,
    /// Count only these functions.
    #[arg(long, value_delimiter = ',')]
    functions: Vec<String>,
    /// CPUs to choose from.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, Args)]
struct OutputArguments {
    /// How results are written.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Where; standard output by default.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Name of the point, repeated in the results.
    #[arg(long, default_value = "")]
    point: String,
    /// Protocol hash, repeated in the results.
    #[arg(long, default_value = "")]
    protocol: String,
}

/// Runs the command line of this process.
pub fn main() -> Exit {
    run(std::env::args(), None)
}

/// Runs `arguments`; results go to `results` where given, else where the arguments say.
pub fn run(arguments: impl Iterator<Item = String>, results: Option<Box<dyn Write>>) -> Exit {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing is left to do when even the message cannot be written.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    signals::install();
    let outcome = match arguments.command {
        Command::List { format } => list(&format),
        Command::Run(arguments) => {
            with_emitter(&arguments.output, results, |out| run_workloads(&arguments, out))
        }
        Command::Observe(arguments) => {
            with_emitter(&arguments.output, results, |out| observe_workloads(&arguments, out))
        }
        Command::Environment(output) => with_emitter(&output, results, |out| {
            record_environment("before", out)?;
            Ok(Exit::Done)
        }),
    };
    outcome.unwrap_or_else(|stop| {
        eprintln!("kernmark-board: {stop}");
        Exit::from(&stop)
    })
}

fn list(format: &str) -> Result<Exit, Stop> {
    if format == "json" {
        let list: Vec<serde_json::Value> = WORKLOADS
            .iter()
            .map(|w| {
                serde_json::json!({
                    "id": w.id, "summary": w.summary, "needs": w.needs,
                    "arms": w.arms.iter().map(|a| serde_json::json!({"id": a.id, "summary": a.summary})).collect::<Vec<_>>(),
                    "metrics": w.metrics.iter().map(|m| serde_json::json!({
                        "id": m.id, "unit": m.unit, "better": m.better, "primary": m.primary})).collect::<Vec<_>>(),
                    "parameters": {"samples": w.amount.samples, "operations": w.amount.operations, "warmups": w.amount.warmups},
                })
            })
            .collect();
        println!("{}", serde_json::Value::from(list));
        return Ok(Exit::Done);
    }
    for w in WORKLOADS {
        println!("{}: {}", w.id, w.summary);
        for arm in w.arms {
            println!("  arm {}: {}", arm.id, arm.summary);
        }
        for m in w.metrics {
            let decides = if m.primary { ", decides a verdict" } else { "" };
            println!("  metric {}: {}, {} is better{decides}", m.id, m.unit, m.better);
        }
        let Amount { samples, operations, warmups } = w.amount;
        println!("  by default {samples} samples of {operations} operations, {warmups} warm-ups before each");
        for need in w.needs {
            println!("  needs {need}");
        }
    }
    Ok(Exit::Done)
}

fn with_emitter(
    arguments: &OutputArguments,
    results: Option<Box<dyn Write>>,
    work: impl FnOnce(&mut Emitter) -> Result<Exit, Stop>,
) -> Result<Exit, Stop> {
    let writer: Box<dyn Write> = match (results, &arguments.output) {
        (Some(writer), _) => writer,
        (None, Some(path)) => Box::new(std::fs::File::create(path)?),
        (None, None) => Box::new(std::io::stdout()),
    };
    let mut out = Emitter::new(arguments.format, writer, true);
    match work(&mut out) {
        Ok(exit) => {
            out.end("ok")?;
            Ok(exit)
        }
        Err(stop) => {
            out.end(&format!("failed: {stop}"))?;
            Err(stop)
        }
    }
}

fn run_workloads(arguments: &RunArguments, out: &mut Emitter) -> Result<Exit, Stop> {
    let workloads = chosen(&arguments.workloads)?;
    let clock = Clock::new(arguments.clock, arguments.waiting);
    start("run", clock.name(), &arguments.output, out)?;
    let cpu = pin(&arguments.cpus)?;
    let knobs = if arguments.keep_settings { Knobs::keep() } else { Knobs::apply(Path::new("/sys")) };
    let mut note = |key: &str, value: String| {
        out.emit(Record::Environment(wire::Environment { when: "before".into(), key: key.into(), value }))
    };
    for (name, outcome) in knobs.outcomes() {
        note(&format!("setting.{name}"), outcome.clone())?;
    }
    let (minimum, median) = clock.calibrate();
    note("clock.read_minimum", minimum.to_string())?;
    note("clock.read_median", median.to_string())?;
    note("harness.cpu", cpu.0.to_string())?;
    note("harness.memory_locked", lock_memory())?;
    record_environment("before", out)?;
    let mut exit = Exit::Done;
    for workload in workloads {
        let amount = Amount {
            samples: arguments.samples.unwrap_or(workload.amount.samples),
            operations: arguments.operations.unwrap_or(workload.amount.operations).max(1),
            warmups: arguments.warmups.unwrap_or(workload.amount.warmups),
        };
        for arm in arms_of(workload, &arguments.arms) {
            let done = run_arm(workload, arm, cpu, clock, amount, arguments.single_operations, out);
            if skipped(workload, arm, done, out)? && !arguments.workloads.is_empty() {
                exit = Exit::Missing;
            }
        }
    }
    record_environment("after", out)?;
    Ok(exit)
}

fn run_arm(
    workload: &Workload,
    arm: &str,
    cpu: Cpu,
    clock: Clock,
    amount: Amount,
    single: bool,
    out: &mut Emitter,
) -> Result<(), Stop> {
    let mut session = (workload.prepare)(arm, cpu)?;
    for (name, value) in session.facts()? {
        out.emit(Record::Fact(wire::Fact {
            workload: workload.id.into(),
            arm: arm.into(),
            name: name.into(),
            value,
        }))?;
    }
    measure(workload, arm, session.as_mut(), clock, amount, single, out)?;
    for check in session.finish()? {
        out.emit(Record::Check(check))?;
    }
    Ok(())
}

fn observe_workloads(arguments: &ObserveArguments, out: &mut Emitter) -> Result<Exit, Stop> {
    let workloads = chosen(&arguments.workloads)?;
    start("observe", "none", &arguments.output, out)?;
    let cpu = pin(&arguments.cpus)?;
    let mut exit = Exit::Done;
    for workload in workloads {
        for arm in arms_of(workload, &arguments.arms) {
            let done = observe(workload, arm, cpu, &arguments.functions, out);
            if skipped(workload, arm, done, out)? {
                exit = Exit::Missing;
            }
        }
    }
    Ok(exit)
}

/// Turns something missing into a `skip` record; whether it was.
fn skipped(workload: &Workload, arm: &str, done: Result<(), Stop>, out: &mut Emitter) -> Result<bool, Stop> {
    match done {
        Ok(()) => Ok(false),
        Err(Stop::Missing(reason)) => {
            out.emit(Record::Skip(wire::Skip { workload: workload.id.into(), arm: arm.into(), reason }))?;
            Ok(true)
        }
        Err(other) => Err(other),
    }
}

fn chosen(ids: &[String]) -> Result<Vec<&'static Workload>, Stop> {
    if ids.is_empty() { Ok(WORKLOADS.to_vec()) } else { ids.iter().map(|id| workloads::find(id)).collect() }
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

fn record_environment(when: &str, out: &mut Emitter) -> Result<(), Stop> {
    for (key, value) in environment(Path::new("/")) {
        out.emit(Record::Environment(wire::Environment { when: when.into(), key, value }))?;
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
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn asked_arms_are_matched_to_their_workload() {
        let asked = ["bare".to_owned(), "scx-off".to_owned()];
        assert_eq!(arms_of(&workloads::KERNFS_RMDIR, &asked), ["scx-off", "bare"]);
        assert_eq!(arms_of(&workloads::CONTROL_GETPPID, &asked), ["plain"]);
        assert_eq!(arms_of(&workloads::KERNFS_RMDIR, &[]), ["scx-off"]);
    }

    #[test]
    fn unknown_workloads_and_options_are_usage_errors() {
        let run = |arguments: &[&str]| {
            super::run(arguments.iter().map(|a| (*a).to_owned()), Some(Box::new(std::io::sink())))
        };
        assert_eq!(run(&["kernmark-board", "frobnicate"]), Exit::Usage);
        assert_eq!(run(&["kernmark-board", "run", "no.such"]), Exit::Missing);
    }
}
