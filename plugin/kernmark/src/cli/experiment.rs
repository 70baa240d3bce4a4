// SPDX-License-Identifier: GPL-2.0-or-later
//! `kernmark experiment`: any builds in any order, from a plan.

use super::check::{Running, print_report};
use crate::bundle::{Bundle, EXPERIMENT};
use crate::exit::{Exit, Failure};
use crate::experiment::{Concluded, Definition, RunnerChoice, exit_of};
use std::path::PathBuf;

/// Runs an experiment of your own: builds, order, workloads and thresholds from a plan.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Runs the plan, or continues it where an interruption left it.
    Run(RunArguments),
    /// Continues the experiment of a bundle, whatever interrupted it.
    Resume(ResumeArguments),
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    /// The plan, as docs/experiments.md describes it.
    plan: PathBuf,
    /// Directory for everything of this experiment; by default one is made here, named after it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Bundle whose boots are taken instead of new ones.
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

#[derive(Debug, clap::Args)]
struct ResumeArguments {
    /// The bundle.
    directory: PathBuf,
    #[command(flatten)]
    running: Running,
}

/// Runs the command.
///
/// # Errors
/// Bad input, or this machine failed.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let (concluded, running) = match &arguments.action {
        Action::Run(run) => {
            let definition = Definition::read(&run.plan)?;
            let runner = run.replay.clone().map_or(RunnerChoice::Qemu, RunnerChoice::Replay);
            let runtime = run.running.runtime(run.out.clone(), runner);
            (
                run.running
                    .follow(|progress, stop| crate::experiment::run(&runtime, definition, progress, stop))?,
                &run.running,
            )
        }
        Action::Resume(resume) => (resumed(resume)?, &resume.running),
    };
    print_report(&concluded, running.format())?;
    Ok(concluded.exit)
}

/// Continues the experiment of a bundle; of a finished one its findings are read.
fn resumed(arguments: &ResumeArguments) -> Result<Concluded, Failure> {
    let bundle = Bundle::open(&arguments.directory);
    if bundle.is_finished() {
        let findings = bundle.findings()?;
        return Ok(Concluded { exit: exit_of(&findings), findings, bundle });
    }
    let plan = arguments.directory.join(EXPERIMENT);
    if !plan.is_file() {
        return Err(Failure::usage(format!(
            "{}: there is no experiment to continue ({EXPERIMENT} is missing); start one with kernmark check or \
             kernmark experiment run",
            arguments.directory.display()
        )));
    }
    let definition = Definition::read(&plan)?;
    let runtime = arguments.running.runtime(Some(arguments.directory.clone()), RunnerChoice::Qemu);
    arguments.running.follow(|progress, stop| crate::experiment::run(&runtime, definition, progress, stop))
}
