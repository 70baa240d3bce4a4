// SPDX-License-Identifier: GPL-2.0-or-later
//! One directory for each point: `point.json`, `samples.jsonl`, `console.log`
//! as recorded, and `environment.tsv` for people. It appears by a rename.

use super::{Boot, MachineEnd, Outcome, Recording, RunnerError};
use crate::cache::{at, write_whole};
use kernmark_validation::plan::hex;
use kernmark_validation::samples::{PointLog, environment_tsv};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;

const RECORD: &str = "point.json";
const RESULTS: &str = "samples.jsonl";
const CONSOLE: &str = "console.log";
const ENVIRONMENT: &str = "environment.tsv";

/// Larger files are no recording of ours.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Everything that decides what a boot writes: equal keys, equal bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootKey {
    /// Name of the point.
    pub name: String,
    /// SHA-256 of the kernel image.
    pub image_sha256: String,
    /// SHA-256 of the initramfs.
    pub initramfs_sha256: String,
    /// The seed.
    pub seed: u64,
    /// Protocol hash.
    pub protocol: String,
    /// Name of the runner.
    pub runner: String,
    /// Its version.
    pub runner_version: String,
    /// Its command line, with the paths inside its sandbox.
    pub command_line: Vec<String>,
}

/// `point.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointRecord {
    /// 1.
    pub version: u32,
    /// Place in the order, from 1.
    pub index: usize,
    /// What ran.
    pub boot: BootKey,
    /// How the machine ended.
    pub end: MachineEnd,
    /// What became of it.
    pub outcome: Outcome,
    /// SHA-256 of `samples.jsonl`.
    pub samples_sha256: String,
    /// SHA-256 of `console.log`.
    pub console_sha256: String,
}

/// A point read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPoint {
    /// `point.json`.
    pub record: PointRecord,
    /// `samples.jsonl`.
    pub results: Vec<u8>,
    /// `console.log`.
    pub console: Vec<u8>,
}

impl BootKey {
    /// The key of `boot` on this runner.
    pub fn new(boot: &Boot, runner: &str, version: &str, command_line: Vec<String>) -> Self {
        Self {
            name: boot.name.clone(),
            image_sha256: boot.image.sha256.clone(),
            initramfs_sha256: boot.initramfs.sha256.clone(),
            seed: boot.seed,
            protocol: boot.protocol.clone(),
            runner: runner.to_owned(),
            runner_version: version.to_owned(),
            command_line,
        }
    }
}

impl PointRecord {
    /// The record of one boot.
    pub fn new(index: usize, boot: BootKey, recording: &Recording, outcome: Outcome) -> Self {
        Self {
            version: 1,
            index,
            boot,
            end: recording.end.clone(),
            outcome,
            samples_sha256: hex(&Sha256::digest(&recording.results)),
            console_sha256: hex(&Sha256::digest(&recording.console)),
        }
    }
}

/// Reads point `index` below `points`.
///
/// # Errors
/// Says what is missing or does not fit, for a person.
pub fn read_point(points: &Path, index: usize) -> Result<StoredPoint, String> {
    let directory = points.join(index.to_string());
    let read = |name: &str| -> Result<Vec<u8>, String> {
        let path = directory.join(name);
        let mut bytes = Vec::new();
        std::fs::File::open(&path)
            .and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(bytes)
    };
    let record: PointRecord = serde_json::from_slice(&read(RECORD)?)
        .map_err(|error| format!("{}: {error}", directory.join(RECORD).display()))?;
    let point = StoredPoint { record, results: read(RESULTS)?, console: read(CONSOLE)? };
    for (name, bytes, hash) in [
        (RESULTS, &point.results, &point.record.samples_sha256),
        (CONSOLE, &point.console, &point.record.console_sha256),
    ] {
        if hex(&Sha256::digest(bytes)) != *hash {
            return Err(format!("{}: it was changed after it was recorded", directory.join(name).display()));
        }
    }
    if (point.record.version, point.record.index) != (1, index) {
        return Err(format!("{}: another version or place", directory.join(RECORD).display()));
    }
    Ok(point)
}

/// Writes a point; one that is there already gives way.
///
/// # Errors
/// The disk is full or broken.
pub(super) fn write_point(
    points: &Path,
    record: &PointRecord,
    recording: &Recording,
    log: &PointLog,
) -> Result<(), RunnerError> {
    let place = points.join(record.index.to_string());
    let made = tempfile::Builder::new().prefix(".new-").tempdir_in(points).map_err(|e| at(points, e))?;
    let whole = made.path().join("point");
    std::fs::create_dir(&whole).map_err(|e| at(&whole, e))?;
    let mut json = serde_json::to_vec_pretty(record).expect("a record holds only strings and integers");
    json.push(b'\n');
    for (name, bytes) in [
        (RESULTS, recording.results.as_slice()),
        (CONSOLE, &recording.console),
        (ENVIRONMENT, environment_tsv(log).as_bytes()),
        (RECORD, &json),
    ] {
        write_whole(&whole.join(name), bytes)?;
    }
    if place.exists() {
        std::fs::rename(&place, made.path().join("before")).map_err(|e| at(&place, e))?;
    }
    std::fs::rename(&whole, &place).map_err(|e| at(&place, e))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::boot::tests::boot;
    use super::*;

    fn point(outcome: Outcome) -> (PointRecord, Recording) {
        let recording = Recording {
            end: MachineEnd::Good,
            results: b"results".to_vec(),
            console: b"\x1b[2J\xff".to_vec(),
        };
        let key = BootKey::new(&boot(3), "qemu", "7.2", vec!["qemu".into()]);
        (PointRecord::new(3, key, &recording, outcome), recording)
    }

    #[test]
    fn a_point_reads_back_and_gives_way() {
        let place = tempfile::tempdir().expect("temporary directory");
        assert!(read_point(place.path(), 3).expect_err("nothing there").contains("3/point.json"));
        for outcome in [Outcome::Reset, Outcome::Done] {
            let (record, recording) = point(outcome);
            write_point(place.path(), &record, &recording, &PointLog::default()).expect("writable");
            let read = read_point(place.path(), 3).expect("just written");
            assert_eq!(
                (read.record, read.results, read.console),
                (record, recording.results, recording.console)
            );
        }
        let names: Vec<_> = std::fs::read_dir(place.path())
            .expect("readable")
            .map(|e| e.expect("entry").file_name())
            .collect();
        assert_eq!(names, ["3"], "nothing else is left");
        assert!(place.path().join("3/environment.tsv").exists());
    }

    #[test]
    fn changed_and_foreign_points_are_not_read() {
        let place = tempfile::tempdir().expect("temporary directory");
        let (record, recording) = point(Outcome::Done);
        write_point(place.path(), &record, &recording, &PointLog::default()).expect("writable");
        std::fs::rename(place.path().join("3"), place.path().join("4")).expect("writable");
        assert!(read_point(place.path(), 4).expect_err("moved").contains("another version or place"));
        std::fs::rename(place.path().join("4"), place.path().join("3")).expect("writable");
        std::fs::write(place.path().join("3/console.log"), "other").expect("writable");
        assert!(read_point(place.path(), 3).expect_err("changed").contains("3/console.log: it was changed"));
        std::fs::write(place.path().join("3/point.json"), "{").expect("writable");
        assert!(read_point(place.path(), 3).expect_err("broken").contains("3/point.json"));
    }
}
