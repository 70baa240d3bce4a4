// SPDX-License-Identifier: GPL-2.0-or-later
//! `kernmark try`: the main job on a sample series that slows one path down.

use super::check::{Common, Own, print_report};
use crate::console::ask;
use crate::exit::Exit;
use crate::experiment::{RunnerChoice, SeriesSource};

/// The sample that is tried.
const SAMPLE: &[u8] = include_bytes!("../../../../examples/series/kernfs-removal.mbox");

/// Takes a sample series, builds and boots its kernels, and prints the reply.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Do not ask before starting.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// This machine failed.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    if !arguments.yes && !confirmed()? {
        return Ok(Exit::Clean);
    }
    let series = SeriesSource::Embedded { name: "examples/series/kernfs-removal.mbox", mbox: SAMPLE };
    let own = Own { tree: None, base: None, runner: RunnerChoice::Qemu, each_patch: true };
    let request = arguments.common.request(series, own);
    let concluded = arguments.common.conclude(&request)?;
    print_report(&concluded, "mail")?;
    Ok(concluded.exit)
}

/// Asks on a terminal; elsewhere nobody could answer, so it goes on.
fn confirmed() -> std::io::Result<bool> {
    use std::io::IsTerminal;
    if !std::io::stdin().is_terminal() {
        return Ok(true);
    }
    ask("This unpacks a kernel (1.7 GB), builds it three times (about 5 minutes) and boots it. Go on? [Y/n]");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(!answer.trim().eq_ignore_ascii_case("n"))
}
