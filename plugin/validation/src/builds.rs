// SPDX-License-Identifier: GPL-2.0-or-later
//! The record of each kernel build: its identity, `builds.json` of a bundle.
//!
//! All sides of an experiment must agree in everything but the source: a
//! difference elsewhere makes a comparison meaningless, so it is refused
//! (protocol.md 6.1).

use serde::{Deserialize, Serialize};

/// `builds.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildsFile {
    /// 1.
    pub version: u32,
    /// In the order of `Plan::builds`.
    pub builds: Vec<BuildRecord>,
}

/// One kernel image and everything that identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRecord {
    /// As in the plan: `base`, `1/2`, `patched` ...
    pub label: String,
    /// How many patches of the series are applied.
    pub patches: u32,
    /// Where the source comes from, for a person: `linux-source-6.12 6.12.117-1` or a commit.
    pub source: String,
    /// What must be equal on all sides.
    pub identity: BuildIdentity,
    /// SHA-256 of the bootable image.
    pub image_sha256: String,
    /// SHA-256 of System.map.
    pub system_map_sha256: String,
    /// Label of an earlier build with the identical image, if any: nothing to measure then.
    pub same_image_as: Option<String>,
}

/// What must be equal on all sides of an experiment (protocol.md 6.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildIdentity {
    /// First line of `gcc --version`.
    pub compiler: String,
    /// SHA-256 of the final .config without its CONFIG_LOCALVERSION line.
    pub config_sha256: String,
    /// KBUILD_BUILD_TIMESTAMP.
    pub timestamp: String,
    /// KBUILD_BUILD_USER.
    pub user: String,
    /// KBUILD_BUILD_HOST.
    pub host: String,
    /// Length of the kernel release string in bytes.
    pub release_length: u32,
    /// The kernel release string.
    pub release: String,
}

impl BuildIdentity {
    /// Names of the fields in which `self` and `other` differ; empty when the
    /// two may be compared. The release string may differ, its length may not.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        [
            ("compiler", self.compiler != other.compiler),
            ("canonical config", self.config_sha256 != other.config_sha256),
            ("build timestamp", self.timestamp != other.timestamp),
            ("build user", self.user != other.user),
            ("build host", self.host != other.host),
            ("release string length", self.release_length != other.release_length),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect()
    }
}
