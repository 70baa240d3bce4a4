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
    /// How it differs from the first build where the plan says that it may, each for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_differences: Vec<String>,
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

/// What identifies a build beside its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdentityField {
    /// First line of `gcc --version`.
    Compiler,
    /// Canonical .config.
    Config,
    /// KBUILD_BUILD_TIMESTAMP.
    Timestamp,
    /// KBUILD_BUILD_USER.
    User,
    /// KBUILD_BUILD_HOST.
    Host,
    /// Length of the release string.
    ReleaseLength,
}

impl std::fmt::Display for IdentityField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Compiler => "compiler",
            Self::Config => "canonical config",
            Self::Timestamp => "build timestamp",
            Self::User => "build user",
            Self::Host => "build host",
            Self::ReleaseLength => "release string length",
        })
    }
}

impl BuildIdentity {
    /// What stands where something about an image is not known.
    pub const UNKNOWN: &str = "unknown";

    /// The fields in which `self` and `other` differ; empty when the two may be compared. The
    /// release string may differ, its length may not. What is not known of one side differs.
    pub fn differences(&self, other: &Self) -> Vec<IdentityField> {
        let differ = |one: &str, two: &str| one != two || one == Self::UNKNOWN;
        [
            (IdentityField::Compiler, differ(&self.compiler, &other.compiler)),
            (IdentityField::Config, differ(&self.config_sha256, &other.config_sha256)),
            (IdentityField::Timestamp, differ(&self.timestamp, &other.timestamp)),
            (IdentityField::User, differ(&self.user, &other.user)),
            (IdentityField::Host, differ(&self.host, &other.host)),
            (IdentityField::ReleaseLength, self.release_length != other.release_length),
        ]
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_equal() {
        let identity = |compiler: &str, release: &str| BuildIdentity {
            compiler: compiler.into(),
            config_sha256: "c".into(),
            timestamp: "t".into(),
            user: "u".into(),
            host: "h".into(),
            release_length: u32::try_from(release.len()).expect("short"),
            release: release.into(),
        };
        let one = identity("gcc 12", "6.12.1-aa");
        assert_eq!(one.differences(&identity("gcc 12", "6.12.2-bb")), []);
        assert_eq!(
            one.differences(&identity("gcc 13", "6.12.10-bb")),
            [IdentityField::Compiler, IdentityField::ReleaseLength]
        );
        let unknown = identity(BuildIdentity::UNKNOWN, "6.12.1-aa");
        assert_eq!(unknown.differences(&unknown), [IdentityField::Compiler]);
    }
}
