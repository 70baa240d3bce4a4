// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line; PID 1 gets the same one from the kernel.

use crate::emit::{Emitter, Format, KernelLog};
use crate::guardian::{self, Guarded};
use crate::list;
use crate::machine::CpuList;
use crate::measure::ClockName;
use crate::passes;
use crate::settle::Settle;
use crate::show::show;
use crate::signals;
use crate::stop::{Exit, Stop};
use crate::workloads::WORKLOADS;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Measures kernel paths on this machine.
#[derive(Debug, Parser)]
// Without colours: on a serial console they would only be noise in the log.
#[command(name = "kernmark-board", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Names workloads, arms, metrics, parameters and needs.
    List {
        /// For people, for programs, or as the page `docs/workloads.md`.
        #[arg(long, value_enum, default_value = "text")]
        format: list::Format,
    },
    /// Measures.
    Run(RunArguments),
    /// Counts function calls, untimed.
    Observe(ObserveArguments),
    /// Samples where the workers of a workload spend their time, untimed.
    Profile(ProfileArguments),
    /// Prints the environment record.
    Environment(OutputArguments),
    /// Prints results recorded before, in another format.
    Show(ShowArguments),
}

/// What `show` is asked for.
#[derive(Debug, Args)]
struct ShowArguments {
    /// What `run --format jsonl --output FILE` has written.
    file: PathBuf,
    /// How results are written.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Where; standard output by default.
    #[arg(long)]
    output: Option<PathBuf>,
}

/// What `run` is asked for.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Workload ids; all of them by default.
    #[arg(value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// Arms; by default those that each workload measures on a board.
    #[arg(long = "arm", value_delimiter = ',')]
    pub arms: Vec<String>,
    /// Arms and amounts for the deterministic emulator instead.
    #[arg(long)]
    pub emulator: bool,
    /// Samples for each arm.
    #[arg(long)]
    pub samples: Option<u64>,
    /// Operations in each sample.
    #[arg(long)]
    pub operations: Option<u64>,
    /// Untimed operations before each sample.
    #[arg(long)]
    pub warmups: Option<u64>,
    /// The clock.
    #[arg(long, value_enum, default_value = "monotonic-raw")]
    pub clock: ClockName,
    /// Report each operation too.
    #[arg(long)]
    pub single_operations: bool,
    /// Report time off the CPU for each operation.
    #[arg(long)]
    pub waiting: bool,
    /// Wait until the boot is so long ago, after settings were applied, and between samples; seconds.
    #[arg(
        long = "settle-s",
        value_name = "BOOT,SETTINGS,SAMPLES",
        default_value = "0,0,0",
        conflicts_with = "emulator"
    )]
    pub settle: Settle,
    /// Leave governor, energy preference, turbo and preemption as they are.
    #[arg(long)]
    pub keep_settings: bool,
    /// Preemption that must be in force; by default that of the workload, where the kernel has a choice.
    #[arg(long, conflicts_with = "keep_settings", value_name = "WORD")]
    pub preempt: Option<String>,
    #[command(flatten)]
    pub place: PlaceArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `profile` is asked for.
#[derive(Debug, Args)]
pub struct ProfileArguments {
    /// Workload id.
    pub workload: String,
    /// Arms; the default arm of the workload by default.
    #[arg(long = "arm", value_delimiter = ',')]
    pub arms: Vec<String>,
    /// How long each arm is sampled.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Samples in a second of each worker.
    #[arg(long, default_value_t = 997, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub frequency: u64,
    #[command(flatten)]
    pub place: PlaceArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What `observe` is asked for.
#[derive(Debug, Args)]
pub struct ObserveArguments {
    /// Workload ids.
    #[arg(required = true, value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// Arms; the default arm of each workload by default.
    #[arg(long = "arm", value_delimiter = ',')]
    pub arms: Vec<String>,
    /// Count only these functions.
    #[arg(long, value_delimiter = ',')]
    pub functions: Vec<String>,
    #[command(flatten)]
    pub place: PlaceArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// On which processors.
#[derive(Debug, Args)]
pub struct PlaceArguments {
    /// CPUs to choose from, e.g. 0-3,8; by default one for each physical performance core.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Refuse a machine with another number of CPUs online.
    #[arg(long, value_name = "N")]
    pub expect_cpus: Option<usize>,
    /// Sets a parameter of a workload; see the list.
    #[arg(long = "set", value_name = "ID=VALUE", value_parser = pair, value_delimiter = ',')]
    pub parameters: Vec<(String, String)>,
    /// Where processors and settings are described.
    #[arg(long, hide = true, default_value = "/sys")]
    pub sysfs: PathBuf,
    /// Where journals of changed settings are kept.
    #[arg(long, hide = true)]
    pub journals: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (id, value) = text.split_once('=').ok_or("write it as ID=VALUE")?;
    let known = WORKLOADS.iter().flat_map(|w| w.parameters).any(|parameter| parameter.id == id);
    if known {
        Ok((id.to_owned(), value.to_owned()))
    } else {
        Err(format!("no workload has a parameter {id:?}"))
    }
}

/// How and where results are written.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// How results are written.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Where; standard output by default.
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Name of the point, repeated in the results.
    #[arg(long, default_value = "")]
    pub point: String,
    /// Protocol hash, repeated in the results.
    #[arg(long, default_value = "")]
    pub protocol: String,
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
            if !error.use_stderr() {
                return Exit::Done;
            }
            // Whoever reads the results alone must see why there are none.
            let text = error.to_string();
            let first = match error.kind() {
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no command is given",
                _ => text.lines().next().unwrap_or_default().trim_start_matches("error: "),
            };
            return results.map_or(Exit::Usage, |writer| {
                finish(&mut Emitter::new(Format::Jsonl, writer, true), |_| Err(Stop::Usage(first.into())))
            });
        }
    };
    signals::install();
    match arguments.command {
        Command::List { format } => {
            // Whoever closes the pipe early has seen enough.
            let _ = std::io::stdout().write_all(list::render(format).as_bytes());
            Exit::Done
        }
        Command::Run(asked) => under_guard(&asked.place, false, results, |results| {
            with_emitter(asked.output.place(), results, |out| passes::run(&asked, out))
        }),
        Command::Observe(asked) => under_guard(&asked.place, true, results, |results| {
            with_emitter(asked.output.place(), results, |out| passes::observe(&asked, out))
        }),
        Command::Profile(asked) => under_guard(&asked.place, false, results, |results| {
            with_emitter(asked.output.place(), results, |out| passes::profile(&asked, out))
        }),
        Command::Environment(output) => with_emitter(output.place(), results, |out| {
            passes::record_environment("before", out)?;
            Ok(Exit::Done)
        }),
        Command::Show(asked) => {
            with_emitter((asked.format, asked.output.as_deref()), results, |out| show(&asked.file, out))
        }
    }
}

impl OutputArguments {
    fn place(&self) -> (Format, Option<&Path>) {
        (self.format, self.output.as_deref())
    }
}

/// Does `work` in a process of its own that is put in order afterwards. In a guest, where results
/// go to a port, the machine ends with the work.
fn under_guard(
    place: &PlaceArguments,
    traces: bool,
    results: Option<Box<dyn Write>>,
    work: impl FnOnce(Option<Box<dyn Write>>) -> Exit,
) -> Exit {
    if results.is_some() {
        return work(results);
    }
    let guarded = Guarded { sysfs: place.sysfs.clone(), journals: place.journals.clone(), traces };
    guardian::run(&guarded, || work(None))
}

fn with_emitter(
    (format, output): (Format, Option<&Path>),
    results: Option<Box<dyn Write>>,
    work: impl FnOnce(&mut Emitter) -> Result<Exit, Stop>,
) -> Exit {
    // Set and not empty: LAVA wants signals in the kernel's log.
    let kernel_log = format.is_for_a_log() && std::env::var_os("KMSG").is_some_and(|set| !set.is_empty());
    let writer: Box<dyn Write> = match (results, output) {
        (Some(writer), _) => writer,
        (None, Some(path)) => match std::fs::File::create(path) {
            Ok(file) => Box::new(file),
            Err(error) => {
                eprintln!("kernmark-board: cannot write {}: {error}", path.display());
                return Exit::Usage;
            }
        },
        (None, None) if kernel_log => Box::new(KernelLog::new("/dev/kmsg")),
        (None, None) => Box::new(std::io::stdout()),
    };
    finish(&mut Emitter::new(format, writer, true), work)
}

/// Does `work` and writes the last record, whatever becomes of it.
fn finish(out: &mut Emitter, work: impl FnOnce(&mut Emitter) -> Result<Exit, Stop>) -> Exit {
    // Guards have put everything back by the time a panic arrives here; the emitter only
    // counts and writes, so it is as good as before.
    let outcome = catch_unwind(AssertUnwindSafe(|| work(out))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        Err(Stop::Bug(text.to_owned()))
    });
    let (status, exit) = match &outcome {
        Ok(exit) => ("ok".to_owned(), *exit),
        Err(stop) => {
            eprintln!("kernmark-board: {stop}");
            (format!("failed: {stop}"), Exit::from(stop))
        }
    };
    match out.end(&status) {
        Ok(()) => exit,
        Err(error) => {
            let stop = Stop::from(error);
            eprintln!("kernmark-board: {stop}");
            if outcome.is_ok() { Exit::from(&stop) } else { exit }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_wire::{End, Record};

    fn run_with(arguments: &[&str]) -> Exit {
        run(arguments.iter().map(|a| (*a).to_owned()), Some(Box::new(std::io::sink())))
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn unknown_workloads_arms_and_options_are_usage_errors() {
        for arguments in [
            &["kernmark-board", "frobnicate"][..],
            &["kernmark-board", "run", "--cpus", "3-1"],
            &["kernmark-board", "run", "no.such"],
            &["kernmark-board", "run", "control.getppid", "--arm", "scx-of"],
            &["kernmark-board", "observe"],
        ] {
            assert_eq!(run_with(arguments), Exit::Usage, "{arguments:?}");
        }
    }

    /// The last record of `work`.
    fn end_of(work: impl FnOnce(&mut Emitter) -> Result<Exit, Stop>) -> (Exit, Option<Record>) {
        let shared = crate::emit::test_records::Shared::default();
        let exit = finish(&mut Emitter::new(Format::Jsonl, Box::new(shared.clone()), false), work);
        let last = shared.text().lines().last().map(|line| kernmark_wire::unframe(line).expect("valid").1);
        (exit, last)
    }

    #[test]
    fn even_a_panic_leaves_a_last_record() {
        let failed = |status: &str| Some(Record::End(End { records: 0, status: status.into() }));
        let (exit, last) = end_of(|_| panic!("index {} is out of range", 7));
        assert_eq!(exit, Exit::Bug);
        assert_eq!(
            last,
            failed("failed: a mistake in kernmark-board, please report it: index 7 is out of range")
        );
        assert_eq!(
            end_of(|_| Err(Stop::Failed("rmdir: EBUSY".into()))),
            (Exit::Machine, failed("failed: rmdir: EBUSY"))
        );
        assert_eq!(end_of(|_| Ok(Exit::Missing)), (Exit::Missing, failed("ok")));
    }

    #[test]
    fn a_usage_error_reaches_the_results() {
        let shared = crate::emit::test_records::Shared::default();
        let arguments = ["kernmark-board", "run", "--frobnicate"].map(str::to_owned);
        assert_eq!(run(arguments.into_iter(), Some(Box::new(shared.clone()))), Exit::Usage);
        assert!(shared.text().contains("failed: unexpected argument '--frobnicate'"), "{}", shared.text());
        let shared = crate::emit::test_records::Shared::default();
        let none = std::iter::once("kernmark-board".to_owned());
        assert_eq!(run(none, Some(Box::new(shared.clone()))), Exit::Usage);
        assert!(shared.text().contains("failed: no command is given"), "{}", shared.text());
    }
}
