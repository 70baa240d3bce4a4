// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine under measurement: its processors, its settings and its record.

mod environment;
mod knobs;
#[expect(dead_code, reason = "for workloads on ext4 and XFS, which come after it")]
mod ram_disk;
mod steadiness;
#[cfg(test)]
pub mod synthetic;
mod topology;

pub use environment::{Fields, asked_of_the_system, counts, environment, identity, sha256};
pub use knobs::{Entry, Knobs, PutBack, Snapshot};
pub use steadiness::{Interval, units};
pub use topology::{CpuList, Topology};

use crate::stop::Stop;
use std::path::Path;

/// First line of a file, trimmed; `None` when it cannot be read or is empty.
fn line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The text of a file of one word, trimmed.
///
/// # Errors
/// It cannot be read.
pub fn read_word(path: &Path) -> Result<String, Stop> {
    let text = std::fs::read_to_string(path).map_err(|e| Stop::failed(path.display(), e))?;
    Ok(text.trim().to_owned())
}

/// CPU numbers that have a directory `cpuN` under `root`/devices/system/cpu, ascending.
fn cpus(root: &Path) -> Vec<usize> {
    let mut found: Vec<usize> = std::fs::read_dir(root.join("devices/system/cpu"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}
