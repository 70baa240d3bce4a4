// SPDX-License-Identifier: GPL-2.0-or-later
//! Command line: one file for each subcommand.

mod check;
mod compare;
mod experiment;
mod report;
mod series;
mod try_sample;
mod verify;

pub use series::read_files as read_mail_files;

use crate::console::say;
use crate::exit::{Exit, Failure};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Validates a posted patch series: before/after numbers from fresh boots.
#[derive(Debug, Parser)]
#[command(name = "kernmark", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Box<check::Arguments>),
    Compare(compare::Arguments),
    Experiment(Box<experiment::Arguments>),
    Report(report::Arguments),
    Series(series::Arguments),
    Try(try_sample::Arguments),
    Verify(verify::Arguments),
}

/// Runs the command line of this process and says how it ended.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let usage = error.use_stderr();
            // Nothing is left to do when even the message cannot be written.
            let _ = error.print();
            return if usage { Exit::Usage } else { Exit::Clean }.into();
        }
    };
    // The sandbox user must read what is made for it; caches and bundles are closed by their own modes.
    crate::cache::set_own_umask();
    match run(arguments.command) {
        Ok(exit) => exit.into(),
        Err(error) => {
            say(&format!("{error:#}"));
            error.downcast_ref::<Failure>().map_or(Exit::Bug, |f| f.exit).into()
        }
    }
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Experiment(arguments) => experiment::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Series(arguments) => series::run(&arguments),
        Command::Try(arguments) => try_sample::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
    }
}
