// SPDX-License-Identifier: GPL-2.0-or-later
//! Hashes of file and directory content. What the system says has not changed
//! (inode, size, times) is not read again.

use super::BuildError;
use crate::cache::{Cache, CacheError, at, write_whole};
use crate::sandbox::SandboxError;
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Lower-case hex SHA-256 of one file.
pub(super) fn file(cache: &Cache, path: &Path) -> Result<String, BuildError> {
    let metadata = path.metadata().map_err(|e| at(path, e))?;
    let mut seen = Seen::default();
    seen.add(path, &metadata);
    remembered(cache, seen, || Ok(hash_file(path)?))
}

/// Lower-case hex SHA-256 over names, kinds, executable bits and content of
/// everything below `path`, without `.git` at its top.
pub(super) fn directory(cache: &Cache, path: &Path, interrupt: &AtomicBool) -> Result<String, BuildError> {
    let mut seen = Seen::default();
    for (name, metadata) in walk(path, interrupt)? {
        seen.add(&path.join(name), &metadata);
    }
    remembered(cache, seen, || directory_fresh(path, interrupt))
}

/// As [`directory`], reading everything.
pub(super) fn directory_fresh(path: &Path, interrupt: &AtomicBool) -> Result<String, BuildError> {
    let mut hash = Sha256::new();
    for (name, metadata) in walk(path, interrupt)? {
        stop_if(interrupt)?;
        let place = path.join(&name);
        hash.update(name.as_os_str().as_bytes());
        if metadata.is_symlink() {
            let target = std::fs::read_link(&place).map_err(|e| at(&place, e))?;
            hash.update(b"\0link\0");
            hash.update(target.as_os_str().as_bytes());
        } else if metadata.is_dir() {
            hash.update(b"\0directory\0");
        } else if metadata.is_file() {
            let executable = metadata.mode() & 0o100 != 0;
            hash.update(if executable { &b"\0program\0"[..] } else { &b"\0file\0"[..] });
            hash.update(hash_file(&place)?);
        } else {
            let detail = format!("{} is neither file, directory nor link; remove it", place.display());
            return Err(BuildError::NoTree(format!("--tree {}: {detail}", path.display())));
        }
        hash.update(b"\n");
    }
    Ok(hex(&hash.finalize()))
}

/// Everything below `root`, sorted by name, names relative to it.
fn walk(root: &Path, interrupt: &AtomicBool) -> Result<Vec<(PathBuf, Metadata)>, BuildError> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        stop_if(interrupt)?;
        let place = root.join(&directory);
        for entry in std::fs::read_dir(&place).map_err(|e| at(&place, e))? {
            let entry = entry.map_err(|e| at(&place, e))?;
            let name = directory.join(entry.file_name());
            if name == Path::new(".git") {
                continue;
            }
            let metadata = entry.metadata().map_err(|e| at(&entry.path(), e))?;
            if metadata.is_dir() {
                open.push(name.clone());
            }
            found.push((name, metadata));
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// What the system says of files, without reading them.
#[derive(Default)]
struct Seen {
    hash: Sha256,
    newest_s: i64,
}

impl Seen {
    /// Adds everything that would differ had the file been changed.
    fn add(&mut self, path: &Path, metadata: &Metadata) {
        self.hash.update(path.as_os_str().as_bytes());
        for number in [metadata.dev(), metadata.ino(), metadata.size(), u64::from(metadata.mode())] {
            self.hash.update(number.to_le_bytes());
        }
        for number in [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()] {
            self.hash.update(number.to_le_bytes());
        }
        self.newest_s = self.newest_s.max(metadata.ctime()).max(metadata.mtime());
    }

    /// A file that changed this moment may change again without a new time.
    fn settled(&self) -> bool {
        jiff::Timestamp::now().as_second() > self.newest_s + 2
    }
}

fn remembered(
    cache: &Cache,
    seen: Seen,
    compute: impl FnOnce() -> Result<String, BuildError>,
) -> Result<String, BuildError> {
    if !seen.settled() {
        return compute();
    }
    let place = cache.entry("hashes", &hex(&seen.hash.finalize()));
    if let Ok(hash) = std::fs::read_to_string(&place)
        && hash.len() == 64
    {
        return Ok(hash);
    }
    let hash = compute()?;
    let parent = place.parent().expect("an entry is below the cache");
    std::fs::create_dir_all(parent).map_err(|e| at(parent, e))?;
    write_whole(&place, hash.as_bytes())?;
    Ok(hash)
}

fn hash_file(path: &Path) -> Result<String, CacheError> {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hex(&hash.finalize())),
                length => hash.update(&buffer[..length]),
            }
        }
    };
    read().map_err(|e| at(path, e))
}

fn stop_if(interrupt: &AtomicBool) -> Result<(), BuildError> {
    if interrupt.load(Ordering::SeqCst) { Err(SandboxError::Interrupted.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Cache, PathBuf) {
        let place = tempfile::tempdir().expect("temporary directory");
        let cache = Cache::open(Some(&place.path().join("cache")), |_| None).expect("writable");
        let tree = place.path().join("tree");
        std::fs::create_dir_all(tree.join("fs")).expect("made");
        std::fs::write(tree.join("fs/a.c"), "one").expect("written");
        (place, cache, tree)
    }

    #[test]
    fn content_decides_and_git_does_not() {
        let (_place, cache, tree) = place();
        let go = AtomicBool::new(false);
        let hash = || directory(&cache, &tree, &go).expect("readable");
        let first = hash();
        assert_eq!(first, hash());
        std::fs::create_dir(tree.join(".git")).expect("made");
        std::fs::write(tree.join(".git/HEAD"), "x").expect("written");
        assert_eq!(first, hash());
        std::fs::write(tree.join("fs/a.c"), "two").expect("written");
        assert_ne!(first, hash());
        std::fs::write(tree.join("fs/a.c"), "one").expect("written");
        assert_eq!(first, hash());
        std::fs::rename(tree.join("fs/a.c"), tree.join("fs/b.c")).expect("renamed");
        assert_ne!(first, hash());
    }

    #[test]
    fn a_file_has_its_own_hash() {
        let (_place, cache, tree) = place();
        let path = tree.join("fs/a.c");
        let hash = file(&cache, &path).expect("readable");
        assert_eq!(hash, hex(&Sha256::digest(b"one")));
        assert_eq!(file(&cache, &path).expect("readable"), hash);
        std::fs::write(&path, "longer").expect("written");
        assert_eq!(file(&cache, &path).expect("readable"), hex(&Sha256::digest(b"longer")));
    }

    #[test]
    fn an_interrupt_stops_reading() {
        let (_place, cache, tree) = place();
        assert!(directory(&cache, &tree, &AtomicBool::new(true)).is_err());
    }
}
