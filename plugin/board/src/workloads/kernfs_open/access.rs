// SPDX-License-Identifier: GPL-2.0-or-later
//! What is done to a file, again and again, each return value checked. Nothing
//! here allocates once it is set up.

use super::tree::{Target, Tree};
use crate::stop::Stop;
use nix::errno::Errno;
use nix::libc;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Most that is read at once; kernfs gives no more to one read anyway.
pub const READ_BYTES: usize = 4096;

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// open, read, close.
    Open,
    /// open with O_PATH, close.
    PathOnly,
    /// stat.
    Stat,
    /// pread of a file held open.
    Pread,
}

impl Access {
    /// As the parameter `access` and the arms name it.
    pub fn named(name: &str) -> Self {
        match name {
            super::O_PATH => Self::PathOnly,
            super::STAT => Self::Stat,
            super::PREAD => Self::Pread,
            // The tree makes the difference of `tmpfs`.
            _ => Self::Open,
        }
    }

    /// The system calls of one operation.
    pub fn calls(self) -> &'static [&'static str] {
        match self {
            Self::Open => &["open", "read", "close"],
            Self::PathOnly => &["open", "close"],
            Self::Stat => &["stat"],
            Self::Pread => &["pread"],
        }
    }
}

/// Why an operation was not as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A call failed.
    Call(&'static str, Errno),
    /// Fewer, more or other bytes than the first time.
    Content,
    /// stat finds another file than the first time.
    Inode,
}

impl Fault {
    /// The reason to end with.
    pub fn of(self, target: &Target) -> Stop {
        let path = target.path.to_string_lossy();
        match self {
            Self::Call(call, errno) => Stop::failed(format!("{call} of {path}"), errno),
            Self::Content => Stop::Failed(format!("{path} reads otherwise than the first time")),
            Self::Inode => Stop::Failed(format!("{path} is another file than the first time")),
        }
    }
}

/// Does one thing to the files of a tree.
#[derive(Debug)]
pub struct Accessor {
    access: Access,
    directory: RawFd,
    /// One for each file, where they are held open.
    held: Vec<OwnedFd>,
    buffer: Box<[u8; READ_BYTES]>,
}

impl Accessor {
    /// For the files of `tree`, whose directory must stay open meanwhile.
    ///
    /// # Errors
    /// A file cannot be held open.
    pub fn new(access: Access, tree: &Tree, targets: &[Target]) -> Result<Self, Stop> {
        let directory = tree.directory.as_ref().map_or(libc::AT_FDCWD, AsRawFd::as_raw_fd);
        let mut held = Vec::new();
        if access == Access::Pread {
            for target in targets {
                let fd = open(directory, target, libc::O_RDONLY).map_err(|fault| fault.of(target))?;
                // SAFETY: just opened here, and nobody else knows it.
                held.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        Ok(Self { access, directory, held, buffer: Box::new([0; READ_BYTES]) })
    }

    /// Does it once, to the file at `index` of `targets`.
    ///
    /// # Errors
    /// A call failed, or the file is not as it was.
    #[inline]
    pub fn once(&mut self, targets: &[Target], index: usize) -> Result<(), Fault> {
        let target = &targets[index];
        match self.access {
            Access::Open => {
                let fd = self.open(target)?;
                let read = self.read(fd, target);
                close(fd)?;
                read
            }
            Access::PathOnly => close(self.open(target)?),
            Access::Stat => self.stat(target),
            Access::Pread => self.pread(index, target),
        }
    }

    /// The same with `mark(call, true)` before and `mark(call, false)` after each call.
    ///
    /// # Errors
    /// As [`Accessor::once`], or the mark could not be set.
    pub fn marked(
        &mut self,
        targets: &[Target],
        index: usize,
        mark: &mut dyn FnMut(&'static str, bool) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let target = &targets[index];
        let mut fd = Ok(-1);
        for &call in self.access.calls() {
            mark(call, true)?;
            let done = match call {
                "open" => {
                    fd = self.open(target);
                    fd.map(|_| ())
                }
                "read" => fd.and_then(|fd| self.read(fd, target)),
                "close" => fd.and_then(close),
                "stat" => self.stat(target),
                _ => self.pread(index, target),
            };
            mark(call, false)?;
            done.map_err(|fault| fault.of(target))?;
        }
        Ok(())
    }

    #[inline(always)]
    fn open(&self, target: &Target) -> Result<RawFd, Fault> {
        let how = if self.access == Access::PathOnly { libc::O_PATH } else { libc::O_RDONLY };
        open(self.directory, target, how)
    }

    #[inline(always)]
    fn read(&mut self, fd: RawFd, target: &Target) -> Result<(), Fault> {
        // SAFETY: the buffer holds READ_BYTES bytes and lives for the whole call.
        let length = unsafe { libc::read(fd, self.buffer.as_mut_ptr().cast(), READ_BYTES) };
        self.same("read", length, target)
    }

    #[inline(always)]
    fn pread(&mut self, index: usize, target: &Target) -> Result<(), Fault> {
        let fd = self.held[index].as_raw_fd();
        // SAFETY: the buffer holds READ_BYTES bytes and lives for the whole call.
        let length = unsafe { libc::pread(fd, self.buffer.as_mut_ptr().cast(), READ_BYTES, 0) };
        self.same("pread", length, target)
    }

    #[inline(always)]
    fn same(&self, call: &'static str, length: isize, target: &Target) -> Result<(), Fault> {
        let length = usize::try_from(length).map_err(|_| Fault::Call(call, Errno::last()))?;
        if self.buffer[..length] == target.content[..] { Ok(()) } else { Err(Fault::Content) }
    }

    #[inline(always)]
    fn stat(&self, target: &Target) -> Result<(), Fault> {
        let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the path is NUL-terminated, `found` takes one `stat`; both live for the call.
        let done = unsafe { libc::fstatat(self.directory, target.path.as_ptr(), found.as_mut_ptr(), 0) };
        if done != 0 {
            return Err(Fault::Call("stat", Errno::last()));
        }
        // SAFETY: the call succeeded, so it is filled in.
        if unsafe { found.assume_init() }.st_ino == target.inode { Ok(()) } else { Err(Fault::Inode) }
    }
}

#[inline(always)]
fn open(directory: RawFd, target: &Target, how: libc::c_int) -> Result<RawFd, Fault> {
    // SAFETY: the path is a NUL-terminated string that lives for the whole call.
    let fd = unsafe { libc::openat(directory, target.path.as_ptr(), how | libc::O_CLOEXEC) };
    if fd < 0 { Err(Fault::Call("open", Errno::last())) } else { Ok(fd) }
}

#[inline(always)]
fn close(fd: RawFd) -> Result<(), Fault> {
    // SAFETY: a descriptor that `open` returned to the same operation, closed once.
    if unsafe { libc::close(fd) } == 0 { Ok(()) } else { Err(Fault::Call("close", Errno::last())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Two files in a directory that vanishes.
    fn files() -> (tempfile::TempDir, Tree) {
        let place = tempfile::tempdir().expect("temporary directory");
        for (name, text) in [("a", "0\n"), ("b", "0-1\n")] {
            std::fs::write(place.path().join(name), text).expect("writable");
        }
        let paths: Vec<_> = ["a", "b"].iter().map(|name| place.path().join(name)).collect();
        let tree = Tree::of(&paths, 1, 0).expect("readable");
        (place, tree)
    }

    fn all(access: Access, tree: &Tree) -> Result<(), Stop> {
        let mut accessor = Accessor::new(access, tree, &tree.targets)?;
        for (index, target) in tree.targets.iter().enumerate() {
            accessor.once(&tree.targets, index).map_err(|fault| fault.of(target))?;
        }
        Ok(())
    }

    const ALL: [Access; 4] = [Access::Open, Access::PathOnly, Access::Stat, Access::Pread];

    #[test]
    fn every_access_finds_the_files_as_they_were() {
        let (_place, tree) = files();
        for access in ALL {
            all(access, &tree).expect("unchanged");
            let mut calls = Vec::new();
            let mut accessor = Accessor::new(access, &tree, &tree.targets).expect("readable");
            let mut mark = |call, begins| {
                if begins {
                    calls.push(call);
                }
                Ok(())
            };
            accessor.marked(&tree.targets, 1, &mut mark).expect("unchanged");
            assert_eq!(calls, access.calls());
        }
    }

    #[test]
    fn names_are_those_of_arms_and_parameter() {
        let named = ["open", "tmpfs", "o_path", "stat", "pread"].map(Access::named);
        assert_eq!(
            named,
            [Access::Open, Access::Open, Access::PathOnly, Access::Stat, Access::Pread],
            "tmpfs is another tree, not another access"
        );
    }

    #[test]
    fn other_content_is_seen_where_content_is_read() {
        for text in ["1\n", "", "0\nmore\n"] {
            let (place, tree) = files();
            let old = place.path().join("a");
            std::fs::write(&old, text).expect("writable");
            for access in ALL {
                let seen = all(access, &tree);
                let reads = matches!(access, Access::Open | Access::Pread);
                assert_eq!(seen.is_err(), reads, "{access:?} of {text:?}: {seen:?}");
            }
        }
    }

    #[test]
    fn another_file_of_that_name_is_seen_by_stat() {
        let (place, tree) = files();
        let name = |name: &str| place.path().join(name);
        std::fs::write(name("new"), "0\n").expect("writable");
        std::fs::rename(name("new"), name("a")).expect("same directory");
        let seen = all(Access::Stat, &tree).expect_err("another inode");
        assert!(seen.to_string().contains("another file"), "{seen}");
    }

    #[test]
    fn a_file_that_is_gone_is_named() {
        let (place, tree) = files();
        std::fs::remove_file(place.path().join("b")).expect("there");
        for access in ALL {
            let seen = all(access, &tree).expect_err("gone").to_string();
            assert!(seen.contains("/b: ENOENT"), "{access:?}: {seen}");
        }
        assert!(!Path::new(place.path()).join("b").exists());
    }
}
