// SPDX-License-Identifier: GPL-2.0-or-later
//! `manifest.json`: the digest of every file of a bundle, written last.

use super::{BundleError, file};
use crate::cache::at;
use kernmark_validation::plan::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// Its name.
pub const MANIFEST: &str = "manifest.json";

/// SHA-256 of every file, by its path in the bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Lower-case hex, by path.
    pub files: BTreeMap<String, String>,
}

impl Manifest {
    /// The digests of what is at `bundle` now. Hidden files belong to work under way.
    ///
    /// # Errors
    /// Something there cannot be read.
    pub fn of(bundle: &Path) -> Result<Self, BundleError> {
        let mut files = BTreeMap::new();
        collect(bundle, "", &mut files)?;
        files.remove(MANIFEST);
        Ok(Self { files })
    }

    /// Reads the one that was written at the end of the experiment.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn read(bundle: &Path) -> Result<Self, BundleError> {
        file::read(&bundle.join(MANIFEST))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The disk.
    pub fn write(&self, bundle: &Path) -> Result<(), BundleError> {
        file::write(&bundle.join(MANIFEST), self)
    }

    /// How `found` differs from this, one line for each file.
    pub fn differences(&self, found: &Self) -> Vec<String> {
        let changed = self.files.iter().filter_map(|(path, digest)| match found.files.get(path) {
            None => Some(format!("{path}: it is missing")),
            Some(now) if now != digest => Some(format!("{path}: its content was changed")),
            Some(_) => None,
        });
        let added = found.files.keys().filter(|path| !self.files.contains_key(*path));
        changed
            .chain(added.map(|path| format!("{path}: it was not there when the experiment ended")))
            .collect()
    }

    /// One digest over all files: what a second person compares.
    pub fn fingerprint(&self) -> String {
        let mut digest = Sha256::new();
        for (path, of_file) in &self.files {
            digest.update(format!("{of_file}  {path}\n"));
        }
        hex(&digest.finalize())
    }
}

fn collect(directory: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> Result<(), BundleError> {
    for entry in std::fs::read_dir(directory).map_err(|e| at(directory, e))? {
        let entry = entry.map_err(|e| at(directory, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().map_err(|e| at(&path, e))?;
        if kind.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), files)?;
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).map_err(|e| at(&path, e))?;
            files.insert(format!("{prefix}{name}"), hex(&Sha256::digest(&bytes)));
        } else {
            files.insert(format!("{prefix}{name}"), "not a regular file".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_is_named() {
        let place = tempfile::tempdir().expect("temporary directory");
        let root = place.path();
        std::fs::create_dir(root.join("points")).expect("writable");
        for name in ["a", "points/b", "c"] {
            std::fs::write(root.join(name), name).expect("writable");
        }
        let before = Manifest::of(root).expect("readable");
        before.write(root).expect("writable");
        assert_eq!(Manifest::read(root).expect("just written"), before);
        assert!(before.differences(&Manifest::of(root).expect("readable")).is_empty());
        std::fs::write(root.join("points/b"), "B").expect("writable");
        std::fs::remove_file(root.join("c")).expect("writable");
        std::fs::write(root.join("d"), "d").expect("writable");
        std::fs::write(root.join(".new-x"), "under way").expect("writable");
        let after = Manifest::of(root).expect("readable");
        assert_eq!(
            before.differences(&after),
            [
                "c: it is missing",
                "points/b: its content was changed",
                "d: it was not there when the experiment ended"
            ]
        );
        assert_ne!(before.fingerprint(), after.fingerprint());
    }
}
