// SPDX-License-Identifier: GPL-2.0-or-later
//! Takes recorded points instead of booting: a lab incident becomes a test by
//! copying one directory.

use super::{Boot, BootError, Handle, MachineEnd, Progress, Recording, Runner, RunnerError, read_point};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// Replays the points of an earlier bundle.
#[derive(Debug)]
pub struct ReplayRunner {
    points: PathBuf,
    started: Mutex<HashMap<PathBuf, Boot>>,
}

impl ReplayRunner {
    /// `points` is the directory `points` of a bundle.
    pub fn new(points: impl Into<PathBuf>) -> Self {
        Self { points: points.into(), started: Mutex::default() }
    }

    fn started(&self) -> MutexGuard<'_, HashMap<PathBuf, Boot>> {
        self.started.lock().expect("no holder of this lock panics")
    }
}

impl Runner for ReplayRunner {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn version(&self) -> &str {
        "recorded"
    }

    fn parallel(&self) -> usize {
        1
    }

    fn prepare(&self, boot: &Boot) -> Result<Vec<String>, BootError> {
        Ok(vec!["replay".into(), boot.index.to_string()])
    }

    fn start(&self, boot: &Boot, directory: &Path) -> Result<Handle, RunnerError> {
        self.started().insert(directory.to_owned(), boot.clone());
        Ok(Handle { runner: self.name().to_owned(), directory: directory.to_owned() })
    }

    fn poll(&self, handle: &Handle) -> Result<Progress, RunnerError> {
        let boot = self.started().remove(&handle.directory);
        let boot = boot.ok_or_else(|| RunnerError::Unknown { directory: handle.directory.clone() })?;
        Ok(Progress::Ended(recorded(&self.points, &boot).unwrap_or_else(|what| Recording {
            end: MachineEnd::NotRecorded { what },
            results: Vec::new(),
            console: Vec::new(),
        })))
    }

    fn cancel(&self, handle: &Handle) {
        self.started().remove(&handle.directory);
    }
}

/// The recording of `boot`, or why there is none.
fn recorded(points: &Path, boot: &Boot) -> Result<Recording, String> {
    let point = read_point(points, boot.index)?;
    let was = &point.record.boot;
    for (what, differs) in [
        ("point name", was.name != boot.name),
        ("kernel image", was.image_sha256 != boot.image.sha256),
        ("seed", was.seed != boot.seed),
        ("protocol", was.protocol != boot.protocol),
    ] {
        if differs {
            return Err(format!(
                "{}: recorded with another {what}",
                points.join(boot.index.to_string()).display()
            ));
        }
    }
    Ok(Recording { end: point.record.end, results: point.results, console: point.console })
}

#[cfg(test)]
mod tests {
    use super::super::boot::tests::boot;
    use super::super::point_directory::{BootKey, PointRecord, write_point};
    use super::super::{Input, Outcome};
    use super::*;
    use kernmark_validation::samples::PointLog;

    #[test]
    fn only_the_same_boot_is_replayed() {
        let place = tempfile::tempdir().expect("temporary directory");
        let recording = Recording { end: MachineEnd::Reset, results: b"r".to_vec(), console: b"c".to_vec() };
        let key = BootKey::new(&boot(2), "qemu", "7.2", Vec::new());
        let record = PointRecord::new(2, key, &recording, Outcome::Reset);
        write_point(place.path(), &record, &recording, &PointLog::default()).expect("writable");
        let runner = ReplayRunner::new(place.path());
        let replay = |boot: &Boot| {
            let handle = runner.start(boot, Path::new("/nowhere")).expect("starts");
            let ended = runner.poll(&handle).expect("started");
            assert!(matches!(runner.poll(&handle), Err(RunnerError::Unknown { .. })));
            ended
        };
        assert_eq!(replay(&boot(2)), Progress::Ended(recording));
        let other = Input { path: "x".into(), sha256: "dd".repeat(32) };
        for (boot, what) in [
            (boot(1), "1/point.json"),
            (Boot { image: other, ..boot(2) }, "another kernel image"),
            (Boot { seed: 2, ..boot(2) }, "another seed"),
            (Boot { protocol: "x".into(), ..boot(2) }, "another protocol"),
            (Boot { name: "x".into(), ..boot(2) }, "another point name"),
        ] {
            let Progress::Ended(Recording { end: MachineEnd::NotRecorded { what: said }, .. }) =
                replay(&boot)
            else {
                panic!("{what}: replayed")
            };
            assert!(said.contains(what), "{said}");
        }
    }
}
