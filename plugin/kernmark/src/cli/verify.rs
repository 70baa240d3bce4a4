// SPDX-License-Identifier: GPL-2.0-or-later
//! `kernmark verify`: whether a bundle still says what its boots measured.

use crate::bundle::{Bundle, templates, verify};
use crate::console::print;
use crate::exit::{Exit, Failure};
use std::path::PathBuf;

/// Recomputes every number of a bundle and checks every digest.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The bundle directory.
    directory: PathBuf,
    /// Templates that its reports were made with, where not the embedded ones.
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
}

/// Verifies; says what holds and what does not.
///
/// # Errors
/// There is no finished bundle, or it does not hold.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let bundle = Bundle::open(&arguments.directory);
    let found = verify(&bundle, &templates(arguments.templates.as_deref())?)?;
    let mut text: String = found.holds.iter().map(|line| format!("holds: {line}\n")).collect();
    text.extend(found.problems.iter().map(|line| format!("DOES NOT HOLD: {line}\n")));
    print(&format!("{text}fingerprint of all files: {}\n", found.fingerprint))?;
    if found.problems.is_empty() {
        return Ok(Exit::Clean);
    }
    Err(Failure::usage(format!(
        "{}: {} of what it says does not follow from what was recorded; take the original back, or run the experiment again",
        arguments.directory.display(),
        found.problems.len()
    ))
    .into())
}
