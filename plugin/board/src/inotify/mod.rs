// SPDX-License-Identifier: GPL-2.0-or-later
//! inotify(7) as the workloads use it: instances and watches by raw calls, the
//! limits on them, and the files they are put on.

mod fixture;
mod limits;

pub use fixture::{Fixture, Identity, c_path, create, identity};
pub use limits::{Limits, Wanted, raise_open_files};

use crate::stop::Stop;
use nix::errno::Errno;
use nix::libc;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Room for the events of one read. Events without a name take 16 bytes, those with one up to
/// 16 + 256.
const BUFFER: usize = 4096;

/// One inotify instance, closed when dropped.
#[derive(Debug)]
pub struct Instance(OwnedFd);

/// The events that an instance held, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// `IN_IGNORED`: a watch is gone.
    pub ignored: u64,
    /// `IN_UNMOUNT`: the file system of a watch is gone.
    pub unmounted: u64,
    /// `IN_Q_OVERFLOW`: events were lost.
    pub overflow: u64,
    /// Anything else.
    pub other: u64,
}

impl Drained {
    /// Both together.
    pub fn and(self, more: Self) -> Self {
        Self {
            ignored: self.ignored + more.ignored,
            unmounted: self.unmounted + more.unmounted,
            overflow: self.overflow + more.overflow,
            other: self.other + more.other,
        }
    }
}

impl Instance {
    /// A new instance that does not block.
    ///
    /// # Errors
    /// The kernel has no inotify, or a limit is reached; the error says which.
    pub fn new() -> Result<Self, Stop> {
        // SAFETY: the call takes plain numbers and returns a descriptor that nobody else owns.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        if descriptor >= 0 {
            // SAFETY: as above.
            return Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }));
        }
        Err(Stop::Missing(match Errno::last() {
            Errno::ENOSYS => "the kernel has no inotify (CONFIG_INOTIFY_USER)".into(),
            Errno::EMFILE => "no further inotify instance: the limit of open files, or \
                              fs.inotify.max_user_instances, is reached; raise it with sysctl"
                .into(),
            error => format!("inotify_init1: {error}"),
        }))
    }

    /// Adds a watch or changes its mask: the watch, or -1.
    #[inline(always)]
    pub fn add(&self, path: &CStr, mask: u32) -> i32 {
        // SAFETY: `path` is a NUL-terminated string that lives for the whole call.
        unsafe { libc::inotify_add_watch(self.0.as_raw_fd(), path.as_ptr(), mask) }
    }

    /// Removes a watch: 0, or -1.
    #[inline(always)]
    pub fn remove(&self, watch: i32) -> i32 {
        // SAFETY: the call takes plain numbers.
        unsafe { libc::inotify_rm_watch(self.0.as_raw_fd(), watch) }
    }

    /// Reads all events that are there.
    ///
    /// # Errors
    /// They cannot be read, or make no sense.
    pub fn drain(&self) -> Result<Drained, Stop> {
        let mut found = Drained::default();
        self.read(&mut |mask, _| match mask {
            mask if mask & libc::IN_Q_OVERFLOW != 0 => found.overflow += 1,
            mask if mask & libc::IN_IGNORED != 0 => found.ignored += 1,
            mask if mask & libc::IN_UNMOUNT != 0 => found.unmounted += 1,
            _ => found.other += 1,
        })?;
        Ok(found)
    }

    /// Hands mask and watch of every event that is there to `take`.
    ///
    /// # Errors
    /// As [`Instance::drain`].
    pub fn read(&self, take: &mut dyn FnMut(u32, i32)) -> Result<(), Stop> {
        let mut buffer = [0_u8; BUFFER];
        loop {
            let length = match nix::unistd::read(&self.0, &mut buffer) {
                Ok(length) => length,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(Stop::failed("reading inotify events", error)),
            };
            let mut rest = &buffer[..length];
            while let Some((head, after)) = rest.split_first_chunk::<16>() {
                // struct inotify_event: watch, mask, cookie, length of the name.
                let word =
                    |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
                take(word(4), word(0).cast_signed());
                let name = usize::try_from(word(12)).expect("usize has at least 32 bits");
                rest =
                    after.get(name..).ok_or_else(|| Stop::Failed("an inotify event is cut short".into()))?;
            }
            if length == 0 {
                return Err(Stop::Failed("an inotify instance came to its end".into()));
            }
        }
    }

    /// Watches that this instance has now, as /proc/self/fdinfo shows them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn watches(&self) -> Result<u64, Stop> {
        let path = format!("/proc/self/fdinfo/{}", self.0.as_raw_fd());
        let text = std::fs::read_to_string(&path).map_err(|e| Stop::failed(path, e))?;
        Ok(text.lines().filter(|line| line.starts_with("inotify ")).count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_event_is_told_apart() {
        let fixture = Fixture::anywhere();
        let instance = Instance::new().expect("inotify");
        let file = fixture.path().join("watched");
        std::fs::write(&file, "").expect("writable");
        let path = c_path(&file);
        let watch = instance.add(&path, libc::IN_ATTRIB | libc::IN_MODIFY);
        assert!(watch > 0);
        assert_eq!(instance.add(&path, libc::IN_MODIFY), watch, "one watch for one inode");
        assert_eq!(instance.watches().expect("procfs"), 1);
        assert_eq!(instance.drain().expect("readable"), Drained::default());
        std::fs::write(&file, "x").expect("writable");
        assert_eq!(instance.remove(watch), 0);
        assert_eq!(instance.remove(watch), -1);
        let found = instance.drain().expect("readable");
        assert_eq!((found.ignored, found.other > 0, found.overflow), (1, true, 0));
        assert_eq!(instance.watches().expect("procfs"), 0);
    }
}
