// SPDX-License-Identifier: GPL-2.0-or-later
//! The cache: everything expensive, outside git. An entry appears by a rename
//! when it is complete; what an interrupted run left behind is removed.

mod seal;

pub use seal::{is_sealed, seal};

use crate::interrupt::Interrupt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A wait for another process is told after this.
const SAY_AFTER: Duration = Duration::from_secs(2);
/// Between two looks at a lock that another process holds.
const LOCK_POLL: Duration = Duration::from_millis(50);
/// Less than this on a disk is a full disk: the next file of a build could be larger.
const FULL_BYTES: u64 = 128 << 20;

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
    /// Somebody asked to stop while another process held what is needed.
    #[error("interrupted; the same command continues from what is there")]
    Interrupted,
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
    announce: fn(&str),
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
        let cache = Self { root, announce: |_| {} };
        cache.remove_leftovers();
        Ok(cache)
    }

    /// Where long waits are told.
    #[must_use]
    pub fn announcing(mut self, announce: fn(&str)) -> Self {
        self.announce = announce;
        self
    }

    /// The directory of the whole cache.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where entry `key` of `kind` is or will be.
    pub fn entry(&self, kind: &str, key: &str) -> PathBuf {
        self.root.join(kind).join(key)
    }

    /// Waits until no other process makes this entry; says so when that takes a while.
    ///
    /// # Errors
    /// The lock file cannot be made, or somebody asked to stop.
    fn lock(&self, kind: &str, key: &str, interrupt: &Interrupt) -> Result<Locked, CacheError> {
        let place = self.root.join("locks").join(format!("{kind}-{key}"));
        let lock = lock_file(&place)?;
        let started = Instant::now();
        let mut said = false;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Locked { _lock: lock }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(at(&place, error)),
            }
            if interrupt.is_set() {
                return Err(CacheError::Interrupted);
            }
            if !said && started.elapsed() >= SAY_AFTER {
                (self.announce)(&format!(
                    "another kernmark makes the same {}; waiting for it",
                    singular(kind)
                ));
                said = true;
            }
            std::thread::sleep(LOCK_POLL);
        }
    }

    /// Entry `key` of `kind`: the one that is there when it is `intact`, else the one that `make` publishes.
    ///
    /// # Errors
    /// As [`Cache::lock`], and those of `make`.
    pub fn ensure<E: From<CacheError>>(
        &self,
        (kind, key): (&str, &str),
        interrupt: &Interrupt,
        intact: impl Fn(&Path) -> bool,
        make: impl FnOnce() -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let place = self.entry(kind, key);
        if intact(&place) {
            return Ok(place);
        }
        let _lock = self.lock(kind, key, interrupt)?;
        if intact(&place) {
            return Ok(place);
        }
        if place.symlink_metadata().is_ok() {
            (self.announce)(&format!(
                "{} is not as it was made (copied, restored from a backup, or damaged); making it again",
                place.display()
            ));
            remove_whole(&place).map_err(|e| at(&place, e))?;
        }
        make()?;
        Ok(place)
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

/// The umask this process was started with; 0 until [`set_own_umask`] was called.
static ASKED_UMASK: AtomicU32 = AtomicU32::new(0);

/// Makes the modes of new files the program's own choice. The umask that the user chose still closes what
/// is made for the user: see [`user_mode`].
pub fn set_own_umask() {
    let asked = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    ASKED_UMASK.store(asked.bits(), Ordering::SeqCst);
}

/// `mode` less what the user's umask takes away.
pub fn user_mode(mode: u32) -> u32 {
    mode & !ASKED_UMASK.load(Ordering::SeqCst)
}

/// The error for a tool that ran into a full disk, where the disk of `place` is really full: what a
/// stranger's build prints is no proof.
pub fn really_full(place: &Path) -> Option<CacheError> {
    let free_bytes = free_bytes(place)?;
    (free_bytes < FULL_BYTES).then(|| CacheError::DiskFull { place: place.to_owned(), free_bytes })
}

/// Writes `bytes` to `path` so that a reader sees all or nothing.
///
/// # Errors
/// The file cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
    write_with_mode(path, bytes, 0o644)
}

fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CacheError> {
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(directory)?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|e| at(path, e))
}

/// Writes `bytes` to the file a person named: into what is there already when that is no plain file (a
/// device, a pipe), through a link to what it leads to, else as [`write_whole`].
///
/// # Errors
/// The file cannot be written.
pub fn write_where_asked(path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let written = OpenOptions::new().write(true).open(path).and_then(|mut f| f.write_all(bytes));
            written.map_err(|e| at(path, e))
        }
        Ok(found) => {
            let target = fs::canonicalize(path).map_err(|e| at(path, e))?;
            write_with_mode(&target, bytes, found.permissions().mode() & 0o777)
        }
        Err(_) => write_with_mode(path, bytes, user_mode(0o666)),
    }
}

/// Removes a directory with everything in it, also what the owner may not enter: overlays leave such
/// directories, and builds can.
///
/// # Errors
/// Something stays.
pub fn remove_whole(path: &Path) -> io::Result<()> {
    let first = match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => error,
        other => return other,
    };
    // Neither program enters a directory through a link, and both reach any depth.
    for (program, arguments) in [("chmod", ["-R", "u+rwx", "--"]), ("rm", ["-r", "-f", "--"])] {
        let mut command = Command::new(program);
        command.args(arguments).arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // What they could not do shows below.
        let _ = command.status();
    }
    if path.symlink_metadata().is_ok() { Err(first) } else { Ok(()) }
}

/// `base` of `bases`.
fn singular(kind: &str) -> &str {
    kind.strip_suffix('s').unwrap_or(kind)
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
mod tests;
