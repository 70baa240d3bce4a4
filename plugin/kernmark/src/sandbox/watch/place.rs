// SPDX-License-Identifier: GPL-2.0-or-later
//! Private files of one run, outside of the cache because the sandbox user must reach them; what a killed
//! run left behind goes with the next.

use super::{SandboxError, host_error, reported_number};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

/// Not TMPDIR: uid 65534 must be able to walk there.
const PARENT: &str = "/tmp";
const PREFIX: &str = "kernmark-sandbox-";
/// A directory that is younger may not be locked yet by the process that makes it.
const SETTLED: Duration = Duration::from_secs(60);

/// Private files of one run; removed when dropped.
pub(super) struct Place {
    _directory: tempfile::TempDir,
    // Tells a live directory from a leftover.
    _lock: File,
    pub stage: PathBuf,
    pub report: PathBuf,
}

impl Place {
    pub fn new() -> Result<Self, SandboxError> {
        static LEFTOVERS: Once = Once::new();
        LEFTOVERS.call_once(|| remove_leftovers(Path::new(PARENT), SETTLED));
        Self::below(Path::new(PARENT)).map_err(host_error("make a directory in /tmp"))
    }

    fn below(parent: &Path) -> std::io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir_in(parent)?;
        let lock = File::open(directory.path())?;
        lock.lock()?;
        let stage = directory.path().join("stage");
        std::fs::create_dir(&stage)?;
        let report = directory.path().join("report");
        Ok(Self { _directory: directory, _lock: lock, stage, report })
    }

    /// Exit code of the command; `None` when it was never started.
    pub fn exit_code(&self) -> Option<i32> {
        reported_number(&self.report, "exit-code").and_then(|code| i32::try_from(code).ok())
    }
}

/// Removes directories of our user whose process is gone. What cannot be removed costs next to nothing.
fn remove_leftovers(parent: &Path, settled: Duration) {
    let own = nix::unistd::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let is_old =
            metadata.modified().ok().and_then(|m| m.elapsed().ok()).is_some_and(|age| age >= settled);
        if !entry.file_name().to_string_lossy().starts_with(PREFIX)
            || !metadata.is_dir()
            || metadata.uid() != own
            || !is_old
        {
            continue;
        }
        let path = entry.path();
        if File::open(&path).is_ok_and(|directory| directory.try_lock().is_ok()) {
            let _ = std::fs::remove_file(path.join("report"));
            let _ = std::fs::remove_dir(path.join("stage"));
            let _ = std::fs::remove_dir(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_goes_and_live_ones_stay() {
        let parent = tempfile::tempdir().expect("temporary directory");
        let live = Place::below(parent.path()).expect("writable");
        let dead = parent.path().join(format!("{PREFIX}dead"));
        std::fs::create_dir_all(dead.join("stage")).expect("writable");
        std::fs::write(dead.join("report"), "{}").expect("writable");
        remove_leftovers(parent.path(), SETTLED);
        assert!(dead.exists(), "too young to tell");
        remove_leftovers(parent.path(), Duration::ZERO);
        assert!(!dead.exists() && live.stage.is_dir());
    }
}
