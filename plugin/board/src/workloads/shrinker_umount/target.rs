// SPDX-License-Identifier: GPL-2.0-or-later
//! A file system that is mounted, used and unmounted again and again at one
//! place: bare system calls on prepared strings, so that a timed loop allocates nothing.

use crate::stop::Stop;
use nix::errno::Errno;
use nix::libc;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Size option of the published runs, 2 MiB; ramfs knows none and ignores it.
pub const SIZE: &CStr = c"size=2097152";

/// A call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Which.
    pub call: &'static str,
    /// Why.
    pub error: Errno,
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::failed(refused.call, refused.error)
    }
}

/// What is mounted where.
#[derive(Debug)]
pub struct Target {
    kind: CString,
    source: CString,
    options: Option<&'static CStr>,
    point: CString,
    /// Of the fs operations.
    file: CString,
    link: CString,
}

impl Target {
    /// `source` as file system `kind` at `point`.
    pub fn new(kind: &str, source: &Path, options: Option<&'static CStr>, point: &Path) -> Self {
        let string = |path: &Path| CString::new(path.as_os_str().as_bytes()).expect("a path without NUL");
        Self {
            kind: CString::new(kind).expect("a name without NUL"),
            source: string(source),
            options,
            file: string(&point.join("file")),
            link: string(&point.join("link")),
            point: string(point),
        }
    }

    /// mount(2).
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn mount(&self) -> Result<(), Refused> {
        let options = self.options.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: all strings end in NUL and live for the whole call.
        done("mount", unsafe {
            libc::mount(
                self.source.as_ptr(),
                self.point.as_ptr(),
                self.kind.as_ptr(),
                0,
                options.cast::<libc::c_void>(),
            )
        })
    }

    /// The operations on the mounted file system (workloads.md 5.1), every result looked at.
    ///
    /// # Errors
    /// The first that failed.
    pub fn use_it(&self) -> Result<(), Refused> {
        let mut found = MaybeUninit::<libc::stat>::uninit();
        let (file, link, point) = (self.file.as_ptr(), self.link.as_ptr(), self.point.as_ptr());
        // SAFETY: strings end in NUL and live for the whole call; `found` has room for what is
        // written and is never read.
        unsafe {
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;
            let opened = Owned(call("open", libc::c_long::from(libc::open(file, flags, 0o600)))?);
            done("fstat", libc::fstat(opened.0, found.as_mut_ptr()))?;
            done("symlink", libc::symlink(point, link))?;
            done("lstat of the link", libc::lstat(link, found.as_mut_ptr()))?;
            done("unlink of the link", libc::unlink(link))?;
            done("unlink of the file", libc::unlink(file))?;
            drop(opened);
            done("mkdir", libc::mkdir(file, 0o700))?;
            done("lstat of the directory", libc::lstat(file, found.as_mut_ptr()))?;
            done("rmdir", libc::rmdir(file))
        }
    }

    /// umount2(2).
    ///
    /// # Errors
    /// What the kernel said.
    #[inline]
    pub fn umount(&self, flags: libc::c_int) -> Result<(), Refused> {
        // SAFETY: the string ends in NUL and lives for the whole call.
        done("umount", unsafe { libc::umount2(self.point.as_ptr(), flags) })
    }
}

/// A descriptor that is closed when dropped.
struct Owned(libc::c_int);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: ours, and closed only here.
        unsafe { libc::close(self.0) };
    }
}

fn done(what: &'static str, value: libc::c_int) -> Result<(), Refused> {
    call(what, libc::c_long::from(value)).map(drop)
}

/// The result of a call: a number that is not negative, for descriptors one that fits.
fn call(what: &'static str, value: libc::c_long) -> Result<libc::c_int, Refused> {
    libc::c_int::try_from(value)
        .ok()
        .filter(|number| *number >= 0)
        .ok_or(Refused { call: what, error: Errno::last() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_leave_a_directory_as_it_was() {
        let place = tempfile::tempdir().expect("temporary directory");
        let target = Target::new("ramfs", Path::new("none"), Some(SIZE), place.path());
        for _ in 0..2 {
            assert_eq!(target.use_it(), Ok(()));
        }
        assert_eq!(std::fs::read_dir(place.path()).expect("readable").count(), 0);
    }

    #[test]
    fn the_call_that_fails_is_named() {
        let target = Target::new("ramfs", Path::new("none"), None, Path::new("/does/not/exist"));
        assert_eq!(target.use_it(), Err(Refused { call: "open", error: Errno::ENOENT }));
        let error = target.umount(0).expect_err("nothing is mounted there");
        // Without privileges the kernel does not even look.
        assert!([Errno::ENOENT, Errno::EPERM].contains(&error.error), "{error:?}");
        assert!(Stop::from(error).to_string().starts_with("umount: "));
    }
}
