// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a series comes from: mail files, the program itself, or a git range.

use super::{Request, SeriesSource};
use crate::cli::read_mail_files;
use crate::exit::Failure;
use kernmark_validation::mail::{Series, SeriesFile, read_series};
use std::process::Command;

/// The one series that is asked for; it is complete and may be applied.
///
/// # Errors
/// There is none, several, or one that lacks patches; the error says which.
pub fn load(request: &Request) -> Result<Series, Failure> {
    let (file, name) = match &request.series {
        SeriesSource::Files(files) => {
            let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
            (read_mail_files(files)?, names.join(", "))
        }
        SeriesSource::Embedded { name, mbox } => (parsed(mbox, name)?, (*name).to_owned()),
        SeriesSource::Range(range) => (parsed(&format_patch(request, range)?, range)?, range.clone()),
    };
    choose(file, &name)
}

/// The newest version of the one series in `file`.
pub(super) fn choose(file: SeriesFile, name: &str) -> Result<Series, Failure> {
    let newest = file.series.iter().map(|s| s.version).max().unwrap_or(1);
    let mut candidates: Vec<Series> = file.series.into_iter().filter(|s| s.version == newest).collect();
    let series = match candidates.len() {
        0 => return Err(Failure::usage(format!("{name}: there is no series"))),
        1 => candidates.remove(0),
        n => {
            let titles: Vec<&str> = candidates.iter().map(|s| s.title.as_str()).collect();
            return Err(Failure::usage(format!(
                "{name} holds {n} series ({}); save one of them to a file of its own",
                titles.join("; ")
            )));
        }
    };
    if let Some(refused) = series.refused.first() {
        return Err(Failure::usage(format!("{name}: {refused}")));
    }
    if !series.complete {
        let problems = series.problems.join("; ");
        return Err(Failure::usage(format!(
            "{name}: the series \"{}\" is not complete: {problems}. Save the whole thread and try again",
            series.title
        )));
    }
    Ok(series)
}

fn parsed(mbox: &[u8], name: &str) -> Result<SeriesFile, Failure> {
    read_series(mbox).map_err(|e| Failure::usage(format!("{name}: {e}")))
}

/// `git format-patch` of the user's own repository.
fn format_patch(request: &Request, range: &str) -> Result<Vec<u8>, Failure> {
    let tree = request.tree.as_deref().ok_or_else(|| {
        Failure::usage(format!("{range} is no file; to check a git range, name the repository with --tree"))
    })?;
    let out = Command::new("git")
        .arg("-C")
        .arg(tree)
        .args([
            "format-patch",
            "--stdout",
            "--no-signature",
            "--no-base",
            "--cover-letter",
            "--end-of-options",
            range,
        ])
        .output()
        .map_err(|e| Failure::host(format!("git: {e}; install it with: apt-get install git")))?;
    if out.status.success() && !out.stdout.is_empty() {
        return Ok(out.stdout);
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let reason = said.lines().next().unwrap_or("it holds no commit");
    Err(Failure::usage(format!("{range} in {}: {reason}", tree.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(title: &str, version: u32, complete: bool) -> Series {
        Series {
            title: title.into(),
            version,
            complete,
            problems: if complete { vec![] } else { vec!["missing: patch 2/3".into()] },
            ..Series::default()
        }
    }

    #[test]
    fn the_newest_version_is_taken_and_doubt_is_refused() {
        let file = |series| SeriesFile { version: 1, series, ..SeriesFile::default() };
        let chosen =
            choose(file(vec![series("t", 1, true), series("t", 2, true)]), "f").expect("one is newest");
        assert_eq!(chosen.version, 2);
        for (series, expected) in [
            (vec![series("a", 1, true), series("b", 1, true)], "2 series (a; b)"),
            (vec![series("a", 1, false)], "missing: patch 2/3"),
            (vec![Series { refused: vec!["out".into()], ..series("a", 1, false) }], "f: out"),
        ] {
            let error = choose(file(series), "f").expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
