// SPDX-License-Identifier: GPL-2.0-or-later
//! `kernmark series`: what the parser makes of a mail file.

use crate::console::print;
use crate::exit::{Exit, Failure};
use kernmark_validation::mail::{self, Series, SeriesFile};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Shows the series in a mail file.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Mailbox, single mail, patch from git format-patch, or bare diff, gzipped or not; several are read as one mailbox.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How it is shown.
    #[arg(long, value_parser = ["text", "json"], default_value = "text")]
    format: String,
}

/// Runs the command: clean when there is a complete series.
///
/// # Errors
/// A file cannot be read, holds no series, or none that is complete.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let file = read_files(&arguments.files)?;
    if arguments.format == "json" {
        print(&(serde_json::to_string_pretty(&file)? + "\n"))?;
    } else {
        print(&text(&file))?;
    }
    require_complete(&file)?;
    Ok(Exit::Clean)
}

/// The series in `files`, read as one mailbox.
///
/// # Errors
/// A file cannot be read, or there is no series in them.
pub fn read_files(files: &[PathBuf]) -> Result<SeriesFile, Failure> {
    let mut contents = Vec::new();
    let mut room = mail::MAX_BYTES + 1;
    for path in files {
        let bytes =
            read_bounded(path, room).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        room -= bytes.len();
        contents.push(bytes);
    }
    mail::read_files(&contents).map_err(|error| {
        let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
        Failure::usage(format!("{}: {error}", names.join(", ")))
    })
}

/// Says what is missing or forbidden in the newest series when none is complete.
fn require_complete(file: &SeriesFile) -> Result<(), Failure> {
    if file.series.iter().any(|series| series.complete) {
        return Ok(());
    }
    let reasons = file.series.last().map(incomplete).unwrap_or_default();
    Err(Failure::usage(escape(&format!("no complete series: {reasons}"))))
}

/// Why a series cannot be tested, in one line.
fn incomplete(series: &Series) -> String {
    let mut reasons = series.refused.clone();
    reasons.extend(series.problems.iter().filter(|p| p.starts_with("missing: ")).cloned());
    let what = if series.refused.is_empty() {
        "; save the whole thread with all patches"
    } else {
        "; ask the author to send it again"
    };
    format!("\"{}\" (v{}): {}{what}", series.title, series.version, reasons.join("; "))
}

/// At most `room` bytes, enough to see that there are too many; gzip is undone (lore serves threads so).
fn read_bounded(path: &Path, room: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(room as u64).read_to_end(&mut bytes)?;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(room as u64).read_to_end(&mut plain)?;
    Ok(plain)
}

fn escape(text: &str) -> String {
    kernmark_validation::samples::escape(text.as_bytes())
}

fn text(file: &SeriesFile) -> String {
    let mut lines = Vec::new();
    for series in &file.series {
        let state = if series.complete { "complete" } else { "not complete" };
        let patches = if series.total == 1 { "patch" } else { "patches" };
        lines.push(format!("{} (v{}, {} {patches}, {state})", series.title, series.version, series.total));
        for patch in &series.patches {
            let files = patch.files.join(" ");
            lines.push(format!("  {}/{} {}: {files}", patch.index, series.total, patch.short_subject()));
        }
        lines.extend(series.base_commit.iter().map(|base| format!("  base-commit {base}")));
        lines.extend(series.prerequisites.iter().map(|p| format!("  {p}")));
        if !series.replies.is_empty() {
            lines.push(format!("  {} replies", series.replies.len()));
        }
        lines.extend(series.problems.iter().map(|p| format!("  problem: {p}")));
        lines.extend(series.refused.iter().map(|r| format!("  refused: {r}")));
    }
    lines.extend(file.problems.iter().map(|p| format!("problem: {p}")));
    lines.iter().map(|line| escape(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn sample(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/series").join(format!("{name}.mbox"))
    }

    #[test]
    fn a_missing_patch_is_named_and_ends_with_usage() {
        let file = read_files(&[sample("missing-patch")]).expect("a series");
        let failure = require_complete(&file).expect_err("incomplete");
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("missing: patch 2/3"), "{}", failure.message);
        assert!(text(&file).contains("not complete"));
    }

    #[test]
    fn what_is_no_mail_and_what_is_not_there_end_with_usage() {
        for (path, word) in [
            (Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"), "not a mail"),
            (sample("no-such-file"), "No such file"),
        ] {
            let failure = read_files(std::slice::from_ref(&path)).expect_err("no series");
            assert_eq!(failure.exit, Exit::Usage);
            assert!(
                failure.message.contains(word) && failure.message.contains("kernmark"),
                "{}",
                failure.message
            );
        }
    }

    #[test]
    fn gzipped_and_split_files_are_the_same_series() {
        let directory = tempfile::tempdir().expect("a directory");
        let plain = std::fs::read(sample("does-not-compile")).expect("the sample");
        let zipped = directory.path().join("t.mbox.gz");
        let mut encoder = flate2::write::GzEncoder::new(
            std::fs::File::create(&zipped).expect("a file"),
            flate2::Compression::fast(),
        );
        encoder.write_all(&plain).and_then(|()| encoder.finish()).expect("written");
        let whole = read_files(&[sample("does-not-compile")]).expect("a series");
        assert_eq!(read_files(&[zipped]).expect("a series"), whole);
        let text = String::from_utf8(plain).expect("text");
        let mut parts = Vec::new();
        for (number, mail) in text.split("From 0000").skip(1).enumerate() {
            let path = directory.path().join(format!("{number}.patch"));
            std::fs::write(&path, format!("From 0000{mail}")).expect("written");
            parts.push(path);
        }
        assert_eq!(parts.len(), 3);
        assert_eq!(read_files(&parts).expect("a series"), whole);
    }

    #[test]
    fn nothing_from_a_mail_reaches_the_terminal() {
        let file = SeriesFile {
            series: vec![Series { title: "a\u{1b}[2Jb".into(), ..Series::default() }],
            ..SeriesFile::default()
        };
        let failure = require_complete(&file).expect_err("incomplete");
        assert!(!text(&file).contains('\u{1b}') && !failure.message.contains('\u{1b}'), "{failure}");
    }
}
