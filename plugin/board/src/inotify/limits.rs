// SPDX-License-Identifier: GPL-2.0-or-later
//! How many instances, watches and events one user may have, and how many of
//! them are taken (workloads.md 4.1).

use crate::stop::Stop;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs;
use std::path::Path;

/// Instances and watches that others of the same user may come to want meanwhile.
const SPARE: u64 = 8;

/// What the kernel allows a user, and what that user has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    instances: u64,
    watches: u64,
    queued_events: u64,
    instances_taken: u64,
    watches_taken: u64,
}

/// What a workload needs at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Instances.
    pub instances: u64,
    /// Watches.
    pub watches: u64,
    /// Events that are in one queue at the same time.
    pub events: u64,
}

impl Limits {
    /// Those of the user `user`, from the procfs at `proc`. What other processes hold is counted
    /// where they may be looked at.
    ///
    /// # Errors
    /// The kernel does not name its limits.
    pub fn read(proc: &Path, user: u32) -> Result<Self, Stop> {
        let limit = |name: &str| -> Result<u64, Stop> {
            let path = proc.join("sys/fs/inotify").join(name);
            let text = fs::read_to_string(&path).map_err(|error| {
                Stop::Missing(format!("{}: {error}; the kernel needs CONFIG_INOTIFY_USER", path.display()))
            })?;
            text.trim().parse().map_err(|_| Stop::Failed(format!("{} is not a number", path.display())))
        };
        let (instances_taken, watches_taken) = taken(proc, user);
        Ok(Self {
            instances: limit("max_user_instances")?,
            watches: limit("max_user_watches")?,
            queued_events: limit("max_queued_events")?,
            instances_taken,
            watches_taken,
        })
    }

    /// Whether there is room.
    ///
    /// # Errors
    /// A limit is too low; the error says which, and how to raise it.
    pub fn check(&self, wanted: Wanted) -> Result<(), Stop> {
        for (name, limit, taken, wanted, spare) in [
            ("max_user_instances", self.instances, self.instances_taken, wanted.instances, SPARE),
            ("max_user_watches", self.watches, self.watches_taken, wanted.watches, SPARE),
            ("max_queued_events", self.queued_events, 0, wanted.events, 1),
        ] {
            let needed = wanted + spare;
            if wanted > 0 && limit.saturating_sub(taken) < needed {
                let with_taken = taken + needed;
                return Err(Stop::Missing(format!(
                    "fs.inotify.{name} is {limit}, of which this user holds {taken}, and {needed} more are \
                     needed; raise it with: sysctl fs.inotify.{name}={with_taken}"
                )));
            }
        }
        Ok(())
    }
}

/// Instances and watches that processes of `user` hold.
fn taken(proc: &Path, user: u32) -> (u64, u64) {
    let mut found = (0, 0);
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    let numbered = processes.filter(|e| e.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok()));
    for process in numbered.map(|e| e.path()) {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let uid =
            status.lines().find_map(|l| l.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok());
        if uid != Some(user) {
            continue;
        }
        for file in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            if fs::read_link(file.path()).is_ok_and(|to| to == Path::new("anon_inode:inotify")) {
                let info = process.join("fdinfo").join(file.file_name());
                let info = fs::read_to_string(info).unwrap_or_default();
                found.0 += 1;
                found.1 += info.lines().filter(|line| line.starts_with("inotify ")).count() as u64;
            }
        }
    }
    found
}

/// Raises the limit on open files of this process to at least `wanted`.
///
/// # Errors
/// It may not be raised that far.
pub fn raise_open_files(wanted: u64) -> Result<(), Stop> {
    let files = Resource::RLIMIT_NOFILE;
    let (soft, hard) = getrlimit(files).map_err(|e| Stop::failed("RLIMIT_NOFILE", e))?;
    if soft >= wanted {
        return Ok(());
    }
    if hard >= wanted {
        return setrlimit(files, wanted, hard).map_err(|e| Stop::failed("RLIMIT_NOFILE", e));
    }
    Err(Stop::Missing(format!(
        "{wanted} files must be open at once and only {hard} may be; raise the limit with: ulimit -Hn {wanted}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A procfs with these limits, and one process of user 7 that has an instance with two watches.
    fn proc(limits: [&str; 3]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("temporary directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("writable");
            fs::write(path, text).expect("writable");
        };
        for (name, value) in
            ["max_user_instances", "max_user_watches", "max_queued_events"].iter().zip(limits)
        {
            write(&format!("sys/fs/inotify/{name}"), &format!("{value}\n"));
        }
        write("12/status", "Name:\twatcher\nUid:\t7\t7\t7\t7\n");
        write("12/fdinfo/3", "pos:\t0\ninotify wd:1 ino:9\ninotify wd:2 ino:a\n");
        write("12/fd/4", "");
        symlink("anon_inode:inotify", root.path().join("12/fd/3")).expect("writable");
        root
    }

    fn check(limits: [&str; 3], user: u32, wanted: Wanted) -> Result<(), Stop> {
        Limits::read(proc(limits).path(), user)?.check(wanted)
    }

    const WANTED: Wanted = Wanted { instances: 97, watches: 97, events: 1024 };

    #[test]
    fn each_limit_that_is_too_low_is_named_with_its_remedy() {
        assert!(check(["105", "105", "1025"], 8, WANTED).is_ok(), "exactly enough");
        for (limits, remedy) in [
            (["104", "105", "1025"], "max_user_instances=105"),
            (["105", "104", "1025"], "max_user_watches=105"),
            (["105", "105", "1024"], "max_queued_events=1025"),
        ] {
            let Err(Stop::Missing(reason)) = check(limits, 8, WANTED) else { panic!("{limits:?} is enough") };
            assert!(reason.contains(remedy), "{reason}");
        }
        assert!(check(["0", "8", "0"], 8, Wanted::default()).is_ok(), "nothing wanted");
    }

    #[test]
    fn what_the_same_user_holds_is_not_free() {
        assert!(check(["106", "107", "1025"], 7, WANTED).is_ok());
        for limits in [["105", "107", "1025"], ["106", "106", "1025"]] {
            let Err(Stop::Missing(reason)) = check(limits, 7, WANTED) else { panic!("{limits:?} is enough") };
            assert!(reason.contains("holds"), "{reason}");
        }
    }

    #[test]
    fn a_kernel_without_inotify_is_a_skip() {
        let empty = tempfile::tempdir().expect("temporary directory");
        let Err(Stop::Missing(reason)) = Limits::read(empty.path(), 0) else { panic!("no limits there") };
        assert!(reason.contains("CONFIG_INOTIFY_USER"), "{reason}");
    }

    #[test]
    fn open_files_beyond_the_hard_limit_are_a_skip() {
        raise_open_files(1).expect("one file is allowed");
        let Err(Stop::Missing(reason)) = raise_open_files(u64::MAX - 1) else { panic!("so many files") };
        assert!(reason.contains("ulimit"), "{reason}");
    }
}
