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
    use super::super::{Input, Outcome, judge};
    use super::*;
    use kernmark_validation::compare::Values;
    use kernmark_validation::plan::Evidence;
    use kernmark_validation::samples::{PointIdentity, PointLog, to_point};

    /// Instructions per operation of the recorded boot.
    const MEDIANS: [(&str, f64); 5] = [
        ("create", 68542.0),
        ("remove", 41419.0),
        ("bare_create", 38509.0),
        ("bare_remove", 28901.0),
        ("call", 231.0),
    ];

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

    /// Two points as format 1 was first recorded: a measuring boot and an observing one.
    const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/points");

    fn recorded_boot(index: usize) -> Boot {
        let key = read_point(Path::new(RECORDED), index).expect("recorded").record.boot;
        let image = Input { path: "bzImage".into(), sha256: key.image_sha256 };
        Boot { name: key.name, image, seed: key.seed, protocol: key.protocol, ..boot(index) }
    }

    fn replayed(index: usize) -> (Boot, Recording) {
        let boot = recorded_boot(index);
        let recording = recorded(Path::new(RECORDED), &boot).expect("recorded");
        (boot, recording)
    }

    #[test]
    fn the_oldest_recordings_still_read() {
        let (boot, measured) = replayed(1);
        let (outcome, log) =
            judge(&boot.name, &boot.protocol, &measured.end, &measured.results, &measured.console);
        assert_eq!(outcome, Outcome::Done);
        assert_eq!(log.environment_before["kernel.release"], "6.12.117");
        let identity = PointIdentity {
            experiment: "recorded".into(),
            point: boot.name.clone(),
            build: "base".into(),
            boot: 1,
            seed: Some(boot.seed),
        };
        let point = to_point(&log, &identity, Evidence::Path);
        let medians: Vec<(&str, f64)> = point
            .measurements
            .iter()
            .map(|measurement| {
                let Values::Samples(mut values) = measurement.values.clone() else { panic!("no samples") };
                values.sort_by(f64::total_cmp);
                assert_eq!((values.len(), measurement.waiting.len()), (128, 128));
                (measurement.metric.as_str(), values[64])
            })
            .collect();
        assert_eq!(medians, MEDIANS);
        let (boot, observed) = replayed(2);
        let (outcome, log) =
            judge(&boot.name, &boot.protocol, &observed.end, &observed.results, &observed.console);
        assert_eq!((outcome, log.profiles.len(), log.calls.len()), (Outcome::Done, 1, 2));
    }

    #[test]
    fn a_recording_cut_anywhere_is_not_done() {
        let (boot, whole) = replayed(1);
        for end in (0..whole.results.len()).step_by(97).chain([whole.results.len() - 1]) {
            let (outcome, _) =
                judge(&boot.name, &boot.protocol, &whole.end, &whole.results[..end], &whole.console);
            assert_ne!(outcome, Outcome::Done, "cut after {end} bytes");
        }
    }
}
