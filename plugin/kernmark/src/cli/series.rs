// SPDX-License-Identifier: GPL-2.0-or-later
//! `kernmark series`: what the parser makes of a mail file.

use crate::exit::{Exit, Failure};
use kernmark_validation::mail::{self, Series, SeriesFile};
use std::path::{Path, PathBuf};

/// Shows the series in a mail file.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Mailbox, single mail, or patch from git format-patch; several are read as one mailbox.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How it is shown.
    #[arg(long, value_parser = ["text", "json"], default_value = "text")]
    format: String,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read, or holds no series.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let file = read_files(&arguments.files)?;
    if arguments.format == "json" {
        println!("{}", serde_json::to_string_pretty(&file)?);
    } else {
        for series in &file.series {
            print!("{}", text(series));
        }
    }
    let complete = file.series.iter().any(|s| s.complete);
    Ok(if complete { Exit::Clean } else { Exit::Usage })
}

/// The series in `files`, read as one mailbox.
///
/// # Errors
/// A file cannot be read, or there is no series in them.
pub fn read_files(files: &[PathBuf]) -> Result<SeriesFile, Failure> {
    let mut bytes = Vec::new();
    for path in files {
        let more = read_bounded(path)?;
        if files.len() > 1 && !more.starts_with(b"From ") {
            bytes.extend_from_slice(b"\nFrom mboxrd@z Thu Jan  1 00:00:00 1970\n");
        } else {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(&more);
    }
    mail::read_series(&bytes).map_err(|error| {
        let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
        Failure::usage(format!("{}: {error}", names.join(", ")))
    })
}

/// One byte more than is accepted is enough to refuse a file.
fn read_bounded(path: &Path) -> Result<Vec<u8>, Failure> {
    use std::io::Read;
    let failed = |e: std::io::Error| Failure::usage(format!("{}: {e}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(mail::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn text(series: &Series) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let mut line = |l: String| {
        writeln!(text, "{}", kernmark_validation::samples::escape(l.as_bytes())).expect("writing to a string")
    };
    let state = if series.complete { "complete" } else { "not complete" };
    line(format!("{} (v{}, {} patches, {state})", series.title, series.version, series.total));
    for patch in &series.patches {
        line(format!(
            "  {}/{} {}: {}",
            patch.index,
            series.total,
            patch.short_subject(),
            patch.files.join(" ")
        ));
    }
    if let Some(base) = &series.base_commit {
        line(format!("  base-commit {base}"));
    }
    for problem in series.problems.iter().chain(&series.refused) {
        line(format!("  problem: {problem}"));
    }
    text
}
