// SPDX-License-Identifier: GPL-2.0-or-later
//! The cache: everything expensive, outside git. An entry appears by a rename
//! when it is complete; what an interrupted run left behind is removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// No place for it is known.
    #[error("no place for the cache: set --cache, KERNMARK_CACHE or HOME")]
    NoPlace,
    /// The disk is full.
    #[error("the disk of {} is full ({} MiB free); source and builds take about 3 GiB: make room, then run the same command again", place.display(), free_bytes >> 20)]
    DiskFull {
        /// A directory on it.
        place: PathBuf,
        /// What is left, bytes.
        free_bytes: u64,
    },
    /// Something else went wrong.
    #[error("{}: {source}", place.display())]
    Io {
        /// Where.
        place: PathBuf,
        /// What.
        source: io::Error,
    },
}

/// The cache directory, open.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
}

/// A scratch directory of this process inside the cache; removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    // Held for as long as the directory is in use; tells leftovers from live ones.
    _lock: File,
}

/// An entry locked by this process, so that two runs do not make it at once.
#[derive(Debug)]
pub struct Locked {
    _lock: File,
}

impl Cache {
    /// Opens the cache at `asked`, else where `environment` (a look-up of variables) says. Nobody but
    /// its owner can walk into what it holds: files of the sandbox user in there are out of reach for
    /// other processes of that user.
    ///
    /// # Errors
    /// No place is known, or the directory cannot be made.
    pub fn open(
        asked: Option<&Path>,
        environment: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, CacheError> {
        let root = asked
            .map(Path::to_owned)
            .or_else(|| environment("KERNMARK_CACHE"))
            .or_else(|| environment("XDG_CACHE_HOME").map(|d| d.join("kernmark")))
            .or_else(|| environment("HOME").map(|d| d.join(".cache/kernmark")))
            .ok_or(CacheError::NoPlace)?;
        let root = std::path::absolute(&root).map_err(|e| at(&root, e))?;
        for part in ["scratch", "locks"] {
            private_directory(&root.join(part))?;
        }
        let cache = Self { root };
        cache.remove_leftovers();
        Ok(cache)
    }

    /// The directory of the whole cache.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where entry `key` of `kind` is or will be.
    pub fn entry(&self, kind: &str, key: &str) -> PathBuf {
        self.root.join(kind).join(key)
    }

    /// Waits until no other process makes this entry.
    ///
    /// # Errors
    /// The lock file cannot be made.
    pub fn lock(&self, kind: &str, key: &str) -> Result<Locked, CacheError> {
        let place = self.root.join("locks").join(format!("{kind}-{key}"));
        let lock = lock_file(&place)?;
        lock.lock().map_err(|e| at(&place, e))?;
        Ok(Locked { _lock: lock })
    }

    /// A new scratch directory.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn scratch(&self) -> Result<Scratch, CacheError> {
        let directory = self.root.join("scratch");
        // Nobody may take it for a leftover before its lock is held.
        let _quiet = self.quiet()?;
        let made =
            tempfile::Builder::new().prefix("run-").tempdir_in(&directory).map_err(|e| at(&directory, e))?;
        let path = made.keep();
        let place = path.with_extension("lock");
        let lock = lock_file(&place)?;
        lock.lock().map_err(|e| at(&place, e))?;
        Ok(Scratch { path, _lock: lock })
    }

    /// A directory for entry `key` of `kind` that stays when this process dies, so that the work is
    /// continued. Only for work that can tell what of it is whole, and under the entry's lock.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn unfinished(&self, kind: &str, key: &str) -> Result<PathBuf, CacheError> {
        let parent = self.root.join("unfinished");
        private_directory(&parent)?;
        let place = parent.join(format!("{kind}-{key}"));
        fs::create_dir_all(&place).map_err(|e| at(&place, e))?;
        Ok(place)
    }

    /// Makes a finished directory the entry `key` of `kind`.
    ///
    /// # Errors
    /// The rename fails.
    pub fn publish(&self, finished: &Path, kind: &str, key: &str) -> Result<PathBuf, CacheError> {
        let place = self.entry(kind, key);
        private_directory(&self.root.join(kind))?;
        // Data before name: after a power cut an entry is whole or absent.
        sync_directory(finished).map_err(|e| at(finished, e))?;
        fs::rename(finished, &place).map_err(|e| at(&place, e))?;
        Ok(place)
    }

    /// Held while scratch directories appear or leftovers are looked for.
    fn quiet(&self) -> Result<File, CacheError> {
        let place = self.root.join("locks/scratch");
        let lock = lock_file(&place)?;
        lock.lock().map_err(|e| at(&place, e))?;
        Ok(lock)
    }

    /// Removes scratch directories whose process is gone.
    fn remove_leftovers(&self) {
        let Ok(_quiet) = self.quiet() else { return };
        for entry in fs::read_dir(self.root.join("scratch")).into_iter().flatten().flatten() {
            let lock = entry.path();
            if lock.extension().is_none_or(|e| e != "lock") {
                continue;
            }
            let free = lock_file(&lock).is_ok_and(|file| file.try_lock().is_ok());
            if free {
                // A leftover costs only space; the next run tries again.
                let _ = remove_whole(&lock.with_extension(""));
                let _ = fs::remove_file(&lock);
            }
        }
    }
}

impl Scratch {
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is removed as a leftover later.
        let removed = remove_whole(&self.path);
        if removed.is_ok() || !self.path.exists() {
            let _ = fs::remove_file(self.path.with_extension("lock"));
        }
    }
}

/// An error at a place; a full disk gets its own.
pub fn at(place: &Path, source: io::Error) -> CacheError {
    if source.kind() == io::ErrorKind::StorageFull {
        CacheError::DiskFull { place: place.to_owned(), free_bytes: free_bytes(place).unwrap_or(0) }
    } else {
        CacheError::Io { place: place.to_owned(), source }
    }
}

/// Bytes free for ordinary users on the disk that holds `place`.
pub fn free_bytes(place: &Path) -> Option<u64> {
    let found = nix::sys::statvfs::statvfs(place).ok()?;
    Some(found.blocks_available() * found.fragment_size())
}

/// Writes `bytes` to `path` so that a reader sees all or nothing.
///
/// # Errors
/// The file cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(directory)?;
        io::Write::write_all(&mut file, bytes)?;
        file.as_file().sync_data()?;
        let mode = fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|e| at(path, e))
}

/// Removes a directory with everything in it, also what the owner may not enter: overlays leave such
/// directories, and builds can.
///
/// # Errors
/// Something stays.
pub fn remove_whole(path: &Path) -> io::Result<()> {
    let first = match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        other => return other,
    };
    let mut open = vec![path.to_owned()];
    while let Some(directory) = open.pop() {
        // Entries are only entered when they are directories themselves, never through links.
        let _ = fs::set_permissions(&directory, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    fs::remove_dir_all(path).map_err(|_| first)
}

fn private_directory(place: &Path) -> Result<(), CacheError> {
    fs::create_dir_all(place).map_err(|e| at(place, e))?;
    fs::set_permissions(place, fs::Permissions::from_mode(0o700)).map_err(|e| at(place, e))
}

fn lock_file(place: &Path) -> Result<File, CacheError> {
    OpenOptions::new().create(true).truncate(false).write(true).open(place).map_err(|e| at(place, e))
}

/// Flushes the whole file system that holds `place`: one call for thousands of files.
fn sync_directory(place: &Path) -> io::Result<()> {
    Ok(nix::unistd::syncfs(File::open(place)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let place = tempfile::tempdir().expect("temporary directory");
        let cache = Cache::open(Some(place.path()), |_| None).expect("writable");
        (place, cache)
    }

    #[test]
    fn the_place_is_found_in_order() {
        let place = tempfile::tempdir().expect("temporary directory");
        let variable = |wanted: &'static str| {
            let value = place.path().join(wanted);
            move |name: &str| (name == wanted).then(|| value.clone())
        };
        for (name, below) in
            [("KERNMARK_CACHE", ""), ("XDG_CACHE_HOME", "kernmark"), ("HOME", ".cache/kernmark")]
        {
            let cache = Cache::open(None, variable(name)).expect("writable");
            assert_eq!(cache.entry("k", "x"), place.path().join(name).join(below).join("k/x"));
        }
        assert!(matches!(Cache::open(None, |_| None), Err(CacheError::NoPlace)));
    }

    #[test]
    fn scratch_vanishes_and_leftovers_are_removed() {
        let (place, cache) = cache();
        let scratch = cache.scratch().expect("writable");
        let path = scratch.path().to_owned();
        assert!(path.is_dir());
        // A second run must not take a live directory for a leftover.
        Cache::open(Some(place.path()), |_| None).expect("writable");
        assert!(path.is_dir());
        drop(scratch);
        assert!(!path.exists());
        let dead = place.path().join("scratch/run-dead");
        fs::create_dir(&dead).expect("writable");
        fs::write(dead.with_extension("lock"), "").expect("writable");
        Cache::open(Some(place.path()), |_| None).expect("writable");
        assert!(!dead.exists());
    }

    #[test]
    fn directories_that_cannot_be_entered_are_removed_too() {
        let place = tempfile::tempdir().expect("temporary directory");
        let closed = place.path().join("tree/work/work");
        fs::create_dir_all(&closed).expect("writable");
        fs::write(closed.join("file"), "").expect("writable");
        std::os::unix::fs::symlink("/", place.path().join("tree/link")).expect("writable");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("owned");
        remove_whole(&place.path().join("tree")).expect("removed");
        assert!(!place.path().join("tree").exists());
    }

    #[test]
    fn only_the_owner_can_walk_in() {
        let (place, cache) = cache();
        let made = place.path().join("made");
        fs::create_dir(&made).expect("writable");
        cache.publish(&made, "trees", "key").expect("writable");
        for part in ["scratch", "locks", "trees"] {
            let mode = fs::metadata(place.path().join(part)).expect("is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{part}");
        }
    }

    #[test]
    fn an_entry_appears_whole() {
        let (_place, cache) = cache();
        let scratch = cache.scratch().expect("writable");
        let made = scratch.path().join("made");
        fs::create_dir(&made).expect("writable");
        write_whole(&made.join("file"), b"text").expect("writable");
        let entry = cache.publish(&made, "images", "key").expect("writable");
        assert_eq!(entry, cache.entry("images", "key"));
        assert_eq!(fs::read(entry.join("file")).expect("readable"), b"text");
    }

    #[test]
    fn a_full_disk_has_its_own_error() {
        let error = at(Path::new("/"), io::Error::from(io::ErrorKind::StorageFull));
        assert!(
            matches!(error, CacheError::DiskFull { .. }) && error.to_string().contains("make room"),
            "{error}"
        );
    }
}
