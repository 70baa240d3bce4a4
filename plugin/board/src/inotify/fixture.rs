// SPDX-License-Identifier: GPL-2.0-or-later
//! A fresh directory on tmpfs for the files that are watched, removed when
//! dropped.

use crate::guardian::own_name;
use crate::stop::Stop;
use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};
use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where a tmpfs is looked for, the place of the published numbers first.
const PLACES: [&str; 2] = ["/dev/shm", "/tmp"];

/// A directory of its own, removed with all its content when dropped.
#[derive(Debug)]
pub struct Fixture {
    path: PathBuf,
}

/// Device and inode number of a file.
pub type Identity = (u64, u64);

impl Fixture {
    /// A directory on the first of the usual places that is a tmpfs.
    ///
    /// # Errors
    /// None of them is.
    pub fn on_tmpfs() -> Result<Self, Stop> {
        Self::first_of(&PLACES.map(PathBuf::from), Some(TMPFS_MAGIC))
    }

    /// A directory in the first of `places` whose file system is `wanted`, or in the first that
    /// is there.
    fn first_of(places: &[PathBuf], wanted: Option<FsType>) -> Result<Self, Stop> {
        let fits = |place: &&PathBuf| {
            statfs(place.as_path())
                .is_ok_and(|found| wanted.is_none_or(|kind| found.filesystem_type() == kind))
        };
        let Some(place) = places.iter().find(fits) else {
            let names: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
            return Err(Stop::Missing(format!(
                "none of {} is a tmpfs; mount one with: mount -t tmpfs tmpfs /dev/shm",
                names.join(", ")
            )));
        };
        let path = nix::unistd::mkdtemp(&place.join(format!("{}-XXXXXX", own_name())))
            .map_err(|e| Stop::Missing(format!("no directory can be made in {}: {e}", place.display())))?;
        Ok(Self { path })
    }

    /// Where temporary files go, for tests.
    #[cfg(test)]
    pub fn anywhere() -> Self {
        Self::first_of(&[std::env::temp_dir()], None).expect("writable")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it now, when nothing is in it; else it goes with all that is in it, and says so.
    ///
    /// # Errors
    /// Something is in it.
    pub fn remove_empty(self) -> Result<(), Stop> {
        // Dropping it then removes what is in the way.
        fs::remove_dir(&self.path).map_err(|e| Stop::failed(self.path.display(), e))
    }

    /// Removes it now.
    ///
    /// # Errors
    /// Something is left.
    pub fn remove(self) -> Result<(), Stop> {
        fs::remove_dir_all(&self.path).map_err(|e| Stop::failed(self.path.display(), e))
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Gone already after `remove`.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Makes an empty file that was not there, mode 0600.
///
/// # Errors
/// It cannot be made.
pub fn create(path: &Path) -> Result<(), Stop> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map(drop).map_err(|e| Stop::failed(path.display(), e))
}

/// Device and inode number.
///
/// # Errors
/// There is no such file.
pub fn identity(path: &Path) -> Result<Identity, Stop> {
    let found = fs::symlink_metadata(path).map_err(|e| Stop::failed(path.display(), e))?;
    Ok((found.dev(), found.ino()))
}

/// The path as system calls take it.
pub fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path without NUL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixture_is_private_and_gone_afterwards() {
        let fixture = Fixture::anywhere();
        let path = fixture.path().to_owned();
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o700);
        let file = path.join("f-00000000");
        create(&file).expect("writable");
        assert!(create(&file).is_err(), "it is there already");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o7777, 0o600);
        assert_ne!(identity(&file).expect("there"), identity(&path).expect("there"));
        drop(fixture);
        assert!(!path.exists());
        for inside in [false, true] {
            let fixture = Fixture::anywhere();
            let path = fixture.path().to_owned();
            if inside {
                create(&path.join("left")).expect("writable");
            }
            assert_eq!(fixture.remove_empty().is_err(), inside);
            assert!(!path.exists());
        }
    }

    #[test]
    fn without_a_tmpfs_the_remedy_is_named() {
        let Err(Stop::Missing(reason)) =
            Fixture::first_of(&["/proc".into(), "/no/such".into()], Some(TMPFS_MAGIC))
        else {
            panic!("procfs is no tmpfs")
        };
        assert!(reason.contains("mount -t tmpfs"), "{reason}");
    }
}
