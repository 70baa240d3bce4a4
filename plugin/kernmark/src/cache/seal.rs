// SPDX-License-Identifier: GPL-2.0-or-later
//! Digests of the files of an entry, written when it is made: a damaged one is made again instead of used.

use super::{CacheError, at, write_whole};
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::Path;

/// Name of the file that holds them, in the format of sha256sum(1).
const SEAL: &str = "sha256sums";

/// Writes down the digests of all plain files of `directory`, those further below excepted.
///
/// # Errors
/// A file cannot be read or written.
pub fn seal(directory: &Path) -> Result<(), CacheError> {
    let text = digests(directory).map_err(|e| at(directory, e))?;
    write_whole(&directory.join(SEAL), text.as_bytes())
}

/// Whether the files of `directory` are those that were there when it was sealed.
pub fn is_sealed(directory: &Path) -> bool {
    fs::read_to_string(directory.join(SEAL))
        .is_ok_and(|sealed| digests(directory).is_ok_and(|found| found == sealed))
}

fn digests(directory: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != SEAL && entry.file_type()?.is_file() {
            lines.push(format!("{}  {name}\n", hex(&Sha256::digest(fs::read(entry.path())?))));
        }
    }
    lines.sort();
    Ok(lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_breaks_the_seal() {
        let place = tempfile::tempdir().expect("temporary directory");
        let file = |name: &str| place.path().join(name);
        assert!(!is_sealed(place.path()), "never sealed");
        fs::write(file("a"), "text").expect("writable");
        fs::create_dir(file("below")).expect("writable");
        seal(place.path()).expect("writable");
        assert!(is_sealed(place.path()));
        for damage in [
            &(|| fs::write(file("a"), "tex")) as &dyn Fn() -> io::Result<()>,
            &|| fs::remove_file(file("a")),
            &|| fs::write(file("b"), ""),
        ] {
            fs::write(file("a"), "text").expect("writable");
            assert!(is_sealed(place.path()));
            damage().expect("writable");
            assert!(!is_sealed(place.path()));
        }
    }
}
