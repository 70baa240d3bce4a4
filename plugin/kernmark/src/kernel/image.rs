// SPDX-License-Identifier: GPL-2.0-or-later
//! A finished image as the cache holds it, and its identity.

use super::config::canonical_sha256;
use super::error::BuildError;
use super::recipe::{CONFIG, HOST, IMAGE, OBJECTS, RELEASE, SYSTEM_MAP, TIMESTAMP, USER, compiler_of};
use crate::cache;
use kernmark_validation::builds::{BuildIdentity, BuildRecord};
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One kernel image and what is known about it.
#[derive(Debug, Clone)]
pub struct Build {
    /// For `builds.json`.
    pub record: BuildRecord,
    /// The bootable image.
    pub image: PathBuf,
    /// Text of System.map; written by the build, so hostile for a patched one.
    pub system_map: String,
    /// Text of the final .config.
    pub config: String,
    /// Object files that were compiled, relative to the top.
    pub objects: BTreeSet<String>,
    /// What the build did that no build needs: a phrase for each, for a person.
    pub tampered: Vec<String>,
}

/// Reads the image in `place`; `side` is its label and how many patches are applied. For a patched
/// one `base_config` is the .config of its base.
pub(super) fn load(
    place: &Path,
    source: &str,
    base_config: Option<&str>,
    side: (&str, usize),
) -> Result<Build, BuildError> {
    let (label, patches) = side;
    let config = text(&place.join(CONFIG))?;
    let release = text(&place.join(RELEASE))?.trim().to_owned();
    let image = place.join(IMAGE);
    let system_map = text(&place.join(SYSTEM_MAP))?;
    let image_bytes = fs::read(&image).map_err(|e| cache::at(&image, e))?;
    let record = BuildRecord {
        label: label.to_owned(),
        patches: u32::try_from(patches).expect("a series is short"),
        source: source.to_owned(),
        identity: BuildIdentity {
            compiler: compiler_of(&config),
            config_sha256: canonical_sha256(&config, base_config),
            timestamp: TIMESTAMP.into(),
            user: USER.into(),
            host: HOST.into(),
            release_length: u32::try_from(release.len()).unwrap_or(u32::MAX),
            release,
        },
        image_sha256: hex(&Sha256::digest(&image_bytes)),
        system_map_sha256: hex(&Sha256::digest(system_map.as_bytes())),
        same_image_as: None,
        allowed_differences: Vec::new(),
    };
    let objects = text(&place.join(OBJECTS))?.lines().map(str::to_owned).collect();
    Ok(Build { record, image, system_map, config, objects, tampered: Vec::new() })
}

/// Text of a result file; what is no UTF-8 is replaced.
pub(super) fn text(path: &Path) -> Result<String, BuildError> {
    let bytes = fs::read(path).map_err(|e| cache::at(path, e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The build of a place with these files.
    fn build(config: &str, release: &str, base_config: Option<&str>) -> Build {
        let place = tempfile::tempdir().expect("temporary directory");
        for (name, text) in [
            (CONFIG, config),
            (RELEASE, release),
            (IMAGE, "image"),
            (SYSTEM_MAP, "0 T f\n"),
            (OBJECTS, "a.o\nb/c.o\n"),
        ] {
            fs::write(place.path().join(name), text).expect("writable");
        }
        load(place.path(), "a tree", base_config, ("1/2", 1)).expect("readable")
    }

    #[test]
    fn an_image_is_read_with_its_identity() {
        let build = build("CONFIG_CC_VERSION_TEXT=\"gcc 12\"\n", "6.12.1\n", None);
        assert_eq!((build.record.label.as_str(), build.record.patches), ("1/2", 1));
        assert_eq!(
            (build.record.identity.release.as_str(), build.record.identity.release_length),
            ("6.12.1", 6)
        );
        assert_eq!(build.record.identity.compiler, "gcc 12");
        assert!(build.objects.contains("b/c.o") && build.objects.len() == 2);
        assert_eq!(build.record.image_sha256, hex(&Sha256::digest(b"image")));
    }
}
