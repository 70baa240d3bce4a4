// SPDX-License-Identifier: GPL-2.0-or-later
//! The view that one series has of its base, copy-on-write where possible, and what its builds did there
//! that no patch accounts for.

use super::apply::{does_not_apply, git_apply};
use super::error::BuildError;
use super::recipe::{HOME, OUTPUT, RESULT, SOURCE};
use crate::cache::{self, Cache, Scratch};
use crate::sandbox::{Finished, Limits, Overlay, Sandbox, SandboxError, give_to_sandbox};
use kernmark_validation::mail::Patch;
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const APPLY_LIMIT: Duration = Duration::from_secs(300);
const COPY_LIMIT: Duration = Duration::from_secs(1800);

/// At most this many paths are named.
const NAMED: usize = 20;

/// The layers of one series; kept between its builds, so that each patch only
/// compiles what it changes.
#[derive(Debug)]
pub(super) struct Layers {
    scratch: Scratch,
    source: PathBuf,
    output: PathBuf,
    kind: Kind,
    /// Patches applied so far.
    applied: usize,
    /// The changes to the source as the patches left them.
    expected: Stamps,
}

/// How a series gets its own view of the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An overlay: made in no time.
    Overlay,
    /// A whole copy, where the file system of the cache cannot carry an
    /// overlay: network file systems, containers whose root is an overlay.
    Copy,
}

impl Layers {
    /// Over the source tree `source` and the finished output of its base; by
    /// overlays where they can be had.
    pub fn new(
        cache: &Cache,
        source: &Path,
        output: &Path,
        interrupt: &AtomicBool,
    ) -> Result<Self, BuildError> {
        let layers = Self::of_kind(cache, source, output, Kind::Overlay, interrupt)?;
        let trial = layers.overlay(output, "output");
        let tried = Sandbox::command("true").overlay(trial, OUTPUT, true).run(APPLY_LIMIT, interrupt);
        match tried {
            Ok(_) => Ok(layers),
            // Had the sandbox itself been refused, copying is refused in the same words.
            Err(SandboxError::Refused { .. }) => Self::of_kind(cache, source, output, Kind::Copy, interrupt),
            Err(error) => Err(error.into()),
        }
    }

    /// Layers of one kind.
    pub fn of_kind(
        cache: &Cache,
        source: &Path,
        output: &Path,
        kind: Kind,
        interrupt: &AtomicBool,
    ) -> Result<Self, BuildError> {
        let scratch = cache.scratch()?;
        for (name, from) in [("source", source), ("output", output)] {
            let place = scratch.path().join(name);
            made(&place, "upper")?;
            made(&place, "work")?;
            if kind == Kind::Copy {
                copy(from, &place.join("upper"), interrupt)?;
            }
        }
        made(scratch.path(), "home")?;
        let (source, output) = (source.to_owned(), output.to_owned());
        Ok(Self { scratch, source, output, kind, applied: 0, expected: Stamps::new() })
    }

    /// Clean layers over the same base.
    pub fn afresh(&self, cache: &Cache, interrupt: &AtomicBool) -> Result<Self, BuildError> {
        Self::of_kind(cache, &self.source, &self.output, self.kind, interrupt)
    }

    /// How many patches are applied.
    pub fn applied(&self) -> usize {
        self.applied
    }

    /// Applies the patches of `patches` that are not applied yet.
    pub fn apply(&mut self, patches: &[Patch], total: u32, interrupt: &AtomicBool) -> Result<(), BuildError> {
        for patch in &patches[self.applied..] {
            let diff = self.scratch.path().join("diff");
            cache::write_whole(&diff, patch.diff.as_bytes())?;
            let git = git_apply("/kernmark/diff").read_only(&diff, "/kernmark/diff").directory(SOURCE);
            let finished = self.show_source(git).run(APPLY_LIMIT, interrupt)?;
            if !finished.success() {
                return Err(does_not_apply(patch, total, &finished.stderr.text()));
            }
            self.applied += 1;
        }
        self.expected = stamps(&self.upper("source"));
        Ok(())
    }

    /// Shows source, output, home and an empty result directory, which is returned.
    /// The source is writable: a build that writes there only changes its own
    /// layer, and gives itself away even when it hides its messages.
    pub fn show(&self, sandbox: Sandbox) -> Result<(Sandbox, PathBuf), BuildError> {
        let result = self.scratch.path().join("result");
        if result.exists() {
            cache::remove_whole(&result).map_err(|e| cache::at(&result, e))?;
        }
        made(self.scratch.path(), "result")?;
        let shown = self
            .show_output(self.show_source(sandbox))
            .writable(self.scratch.path().join("home"), HOME)
            .writable(&result, RESULT);
        Ok((shown, result))
    }

    fn show_source(&self, sandbox: Sandbox) -> Sandbox {
        self.show_layer(sandbox, &self.source, "source", SOURCE)
    }

    fn show_output(&self, sandbox: Sandbox) -> Sandbox {
        self.show_layer(sandbox, &self.output, "output", OUTPUT)
    }

    fn show_layer(&self, sandbox: Sandbox, lower: &Path, name: &str, inside: &str) -> Sandbox {
        match self.kind {
            Kind::Overlay => sandbox.overlay(self.overlay(lower, name), inside, true),
            Kind::Copy => sandbox.writable(self.upper(name), inside),
        }
    }

    /// A directory of this series that no sandbox sees.
    pub fn private(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// What `finished`, a build on these layers, did that no build needs. Each
    /// entry is a phrase for a person, paths escaped.
    pub fn tampering(&self, finished: &Finished) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let source = stamps(&self.upper("source"));
        found.extend(differing(&self.expected, &source).map(|path| format!("changed {path} in the source")));
        let home = stamps(&self.scratch.path().join("home"));
        found.extend(home.keys().map(|path| format!("wrote {path} into its home directory")));
        let left_out = found.len().saturating_sub(NAMED);
        found.truncate(NAMED);
        if left_out > 0 {
            found.push(format!("and {left_out} paths more"));
        }
        if finished.network.unroutable > 0 {
            found.push("tried to reach other machines".to_owned());
        }
        if finished.network.loopback > 0 {
            found.push("opened connections to its own machine".to_owned());
        }
        found
    }

    fn upper(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name).join("upper")
    }

    fn overlay(&self, lower: &Path, name: &str) -> Overlay {
        let work = self.scratch.path().join(name).join("work");
        Overlay { lower: vec![lower.to_owned()], upper: self.upper(name), work }
    }
}

/// Copies everything with its times, which make goes by. Blocks are shared
/// where the file system can.
fn copy(from: &Path, to: &Path, interrupt: &AtomicBool) -> Result<(), BuildError> {
    let limits = Limits { files: 1_000_000, written: 16 << 30, ..Limits::BUILD };
    let finished = Sandbox::command("cp")
        .args(["--archive", "--reflink=auto", "/kernmark/from/.", "/kernmark/to"])
        .read_only(from, "/kernmark/from")
        .writable(to, "/kernmark/to")
        .limits(limits)
        .run(COPY_LIMIT, interrupt)?;
    if finished.success() {
        return Ok(());
    }
    let said = finished.stderr.text();
    let kind = if said.contains("No space left") { ErrorKind::StorageFull } else { ErrorKind::Other };
    let source =
        std::io::Error::new(kind, said.lines().next().unwrap_or("cp failed").escape_debug().to_string());
    Err(cache::at(to, source).into())
}

/// Makes `name` below `parent` and gives it to the sandbox user.
pub(super) fn made(parent: &Path, name: &str) -> Result<PathBuf, BuildError> {
    let place = parent.join(name);
    fs::create_dir_all(&place).map_err(|e| cache::at(&place, e))?;
    give_to_sandbox(&place).map_err(|e| cache::at(&place, e))?;
    Ok(place)
}

/// What the system says of everything below a directory but directories, by
/// escaped path. Links are not followed.
type Stamps = BTreeMap<String, String>;

fn stamps(root: &Path) -> Stamps {
    let mut found = Stamps::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(m) = entry.metadata() else { continue };
            let path = entry.path();
            if m.is_dir() {
                open.push(path);
                continue;
            }
            let name =
                path.strip_prefix(root).unwrap_or(&path).to_string_lossy().escape_default().to_string();
            let times = (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
            found.insert(name, format!("{:o} {} {times:?}", m.mode(), m.len()));
        }
    }
    found
}

/// Names that are only on one side or not the same on both, sorted.
fn differing<'a>(before: &'a Stamps, after: &'a Stamps) -> impl Iterator<Item = &'a str> {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).map(String::as_str)
}

/// Lower-case hex SHA-256 over what the system says of everything below `root`:
/// changes when anything there is written to, also when its times are put back.
pub(super) fn witness(root: &Path) -> String {
    let mut hash = Sha256::new();
    for (name, stamp) in stamps(root) {
        hash.update(format!("{name} {stamp}\n"));
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let place = tempfile::tempdir().expect("temporary directory");
        for path in files {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().expect("below")).expect("writable");
            fs::write(path, "x").expect("writable");
        }
        place
    }

    #[test]
    fn what_was_written_added_or_removed_differs() {
        let place = tree(&["fs/kernfs/dir.c", "fs/Makefile", "Makefile"]);
        let before = stamps(place.path());
        assert_eq!(differing(&before, &stamps(place.path())).count(), 0);
        fs::write(place.path().join("fs/Makefile"), "longer").expect("writable");
        fs::remove_file(place.path().join("Makefile")).expect("writable");
        std::os::unix::fs::symlink("/etc", place.path().join("fs/\u{1b}link")).expect("writable");
        let after = stamps(place.path());
        let names: Vec<&str> = differing(&before, &after).collect();
        assert_eq!(names, ["Makefile", "fs/Makefile", "fs/\\u{1b}link"]);
    }

    #[test]
    fn a_witness_sees_a_write_with_old_times() {
        let place = tree(&["vmlinux"]);
        let path = place.path().join("vmlinux");
        let before = witness(place.path());
        assert_eq!(before, witness(place.path()));
        let modified = fs::metadata(&path).and_then(|m| m.modified()).expect("has a time");
        // Until the clock of the file system has moved on a write leaves no trace.
        while witness(place.path()) == before {
            fs::write(&path, "y").expect("writable");
            let file = fs::File::options().write(true).open(&path).expect("writable");
            file.set_modified(modified).expect("owned");
        }
    }
}
