// SPDX-License-Identifier: GPL-2.0-or-later
//! `kernmark report`: any format from a bundle.

use crate::bundle::{Bundle, templates};
use crate::cache::write_where_asked;
use crate::console::print;
use crate::exit::{Exit, Failure};
use kernmark_validation::report;
use std::path::PathBuf;

/// Makes a report of a finished experiment.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The bundle directory.
    directory: PathBuf,
    /// What it is made for; `mail` is the whole message with headers.
    #[arg(long, default_value = "text", value_parser = report::FORMATS.iter().map(|f| f.name).collect::<Vec<_>>())]
    format: String,
    /// Templates of your own, laid out like report-templates/.
    #[arg(long)]
    templates: Option<PathBuf>,
    /// Write to this file instead of standard output.
    #[arg(long)]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// There is no finished experiment, or the report cannot be made.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let findings = Bundle::open(&arguments.directory).findings().map_err(Failure::from)?;
    let templates = templates(arguments.templates.as_deref())?;
    let format = report::format(&arguments.format).ok_or_else(|| Failure::usage("unknown format"))?;
    let text = (format.render)(&findings, &templates).map_err(|e| Failure::usage(e.to_string()))?;
    match &arguments.output {
        Some(path) => write_where_asked(path, text.as_bytes()).map_err(Failure::from)?,
        None => print(&text)?,
    }
    Ok(Exit::Clean)
}
