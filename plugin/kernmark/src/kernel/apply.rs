// SPDX-License-Identifier: GPL-2.0-or-later
//! Applies a series as `git am` would, without fuzz, to the touched files alone:
//! says early which hunk fails, and what each file looks like after each patch.

use super::error::BuildError;
use super::tree::Tree;
use crate::cache::{self, Cache};
use crate::interrupt::Interrupt;
use crate::sandbox::{Limits, Sandbox, give_to_sandbox};
use kernmark_validation::mail::{Patch, Series};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

const APPLY_LIMIT: Duration = Duration::from_secs(120);

/// What the touched files hold before the series and after each patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppliedSeries {
    /// `states[0]` is the base, `states[k]` after patch k; a file that is absent there has no entry.
    pub states: Vec<BTreeMap<String, String>>,
}

/// Applies all patches of `series` to copies of the files they touch.
///
/// # Errors
/// A patch does not apply; the error names patch and hunk.
pub fn apply(
    tree: &Tree,
    series: &Series,
    cache: &Cache,
    interrupt: &Interrupt,
) -> Result<AppliedSeries, BuildError> {
    let touched: BTreeSet<&String> = series.patches.iter().flat_map(|p| &p.files).collect();
    for path in &touched {
        if !is_plain_relative(path) {
            return Err(BuildError::NoTree(format!(
                "the series names a file outside of the tree: {}",
                path.escape_default()
            )));
        }
    }
    let scratch = cache.scratch()?;
    let files = scratch.path().join("files");
    let diffs = scratch.path().join("diffs");
    for place in [&files, &diffs] {
        fs::create_dir(place).map_err(|e| cache::at(place, e))?;
    }
    for path in &touched {
        let from = tree.path.join(path);
        if tree.read(path).is_some() {
            let to = files.join(path);
            let parent = to.parent().expect("a path below the directory");
            fs::create_dir_all(parent).map_err(|e| cache::at(parent, e))?;
            fs::copy(&from, &to).map_err(|e| cache::at(&to, e))?;
        }
    }
    give_away(&files)?;
    let mut states = vec![read_all(&files, &touched)];
    for patch in &series.patches {
        let diff = diffs.join(format!("{}.diff", patch.index));
        cache::write_whole(&diff, patch.diff.as_bytes())?;
        let finished = git_apply("/kernmark/diff")
            .read_only(&diff, "/kernmark/diff")
            .writable(&files, "/kernmark/source")
            .directory("/kernmark/source")
            .run(APPLY_LIMIT, interrupt.flag())?;
        if !finished.success() {
            return Err(does_not_apply(patch, series.total, &finished.stderr.text()));
        }
        if let Some(path) = odd_file(&files).map_err(|e| cache::at(&files, e))? {
            return Err(BuildError::NoTree(format!(
                "patch {}/{} makes {}, which is no plain file; such a series is not tested",
                patch.index,
                series.total,
                path.display().to_string().escape_default()
            )));
        }
        states.push(read_all(&files, &touched));
    }
    Ok(AppliedSeries { states })
}

/// `git apply` of the diff at `path` inside the sandbox, to the working directory.
pub(super) fn git_apply(path: &str) -> Sandbox {
    Sandbox::command("git")
        // No repository above may change what the command means.
        .env("GIT_CEILING_DIRECTORIES", "/kernmark")
        .args(["apply", "--whitespace=nowarn", "--verbose", path])
        .limits(Limits::TOOL)
}

/// The error for what `git apply` said.
pub(super) fn does_not_apply(patch: &Patch, total: u32, stderr: &str) -> BuildError {
    BuildError::DoesNotApply {
        patch: patch.index,
        total,
        subject: patch.short_subject().to_owned(),
        place: failing_place(&patch.diff, stderr),
    }
}

/// The hunk that git names, as `file hunk #n (line l)`, or what git said.
fn failing_place(diff: &str, stderr: &str) -> String {
    let line = |prefix: &str| stderr.lines().find_map(|l| l.strip_prefix(prefix));
    let Some((file, number)) = line("error: patch failed: ").and_then(|place| place.rsplit_once(':')) else {
        return line("error: ").unwrap_or("git apply gave no reason").escape_default().to_string();
    };
    let mut hunk = 0;
    let mut in_file = false;
    for text in diff.lines() {
        if let Some(path) = text.strip_prefix("--- a/") {
            in_file = path.trim_end() == file;
            hunk = 0;
        } else if in_file && text.starts_with("@@ -") {
            hunk += 1;
            let start = text[4..].split([',', ' ']).next().unwrap_or_default();
            if start == number {
                return format!("{file} hunk #{hunk} (line {number})");
            }
        }
    }
    format!("{file} at line {number}")
}

fn is_plain_relative(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|c| matches!(c, Component::Normal(_)))
}

/// The first path below `directory` that is neither a directory nor a plain file, relative to it.
fn odd_file(directory: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut open = vec![directory.to_owned()];
    while let Some(place) = open.pop() {
        for entry in fs::read_dir(&place)? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() {
                open.push(path);
            } else if !kind.is_file() {
                return Ok(Some(path.strip_prefix(directory).unwrap_or(&path).to_owned()));
            }
        }
    }
    Ok(None)
}

/// The touched files as they are now; there are no symbolic links.
fn read_all(directory: &Path, touched: &BTreeSet<&String>) -> BTreeMap<String, String> {
    touched
        .iter()
        .filter_map(|path| {
            let place = directory.join(path);
            let is_file = fs::symlink_metadata(&place).is_ok_and(|m| m.is_file());
            let bytes = is_file.then(|| fs::read(&place).ok()).flatten()?;
            Some(((*path).clone(), String::from_utf8_lossy(&bytes).into_owned()))
        })
        .collect()
}

/// Gives a directory and everything below to the sandbox user.
fn give_away(directory: &Path) -> Result<(), BuildError> {
    give_to_sandbox(directory).map_err(|e| cache::at(directory, e))?;
    for entry in fs::read_dir(directory).map_err(|e| cache::at(directory, e))?.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            give_away(&path)?;
        } else {
            give_to_sandbox(&path).map_err(|e| cache::at(&path, e))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failing_hunk_is_counted_in_its_file() {
        let diff = "--- a/x.c\n+++ b/x.c\n@@ -1,3 +1,3 @@\n@@ -40,3 +40,3 @@\n--- a/y.c\n+++ b/y.c\n@@ -40,3 +40,4 @@\n";
        for (stderr, expected) in [
            ("error: patch failed: x.c:40\nerror: x.c: patch does not apply\n", "x.c hunk #2 (line 40)"),
            ("error: patch failed: y.c:40\n", "y.c hunk #1 (line 40)"),
            ("error: y.c: No such file or directory\n", "y.c: No such file or directory"),
            ("", "git apply gave no reason"),
        ] {
            assert_eq!(failing_place(diff, stderr), expected);
        }
    }

    #[test]
    fn a_link_is_found_wherever_it_is() {
        let place = tempfile::tempdir().expect("temporary directory");
        let deep = place.path().join("fs/kernfs");
        fs::create_dir_all(&deep).expect("writable");
        fs::write(deep.join("dir.c"), "").expect("writable");
        assert_eq!(odd_file(place.path()).expect("readable"), None);
        std::os::unix::fs::symlink("/etc", deep.join("etc")).expect("writable");
        assert_eq!(odd_file(place.path()).expect("readable"), Some("fs/kernfs/etc".into()));
    }

    #[test]
    fn only_plain_relative_paths_are_files_of_the_tree() {
        for (path, plain) in
            [("fs/a.c", true), ("../a", false), ("/etc/passwd", false), ("a/../../b", false), ("", false)]
        {
            assert_eq!(is_plain_relative(path), plain, "{path}");
        }
    }
}
