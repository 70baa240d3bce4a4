// SPDX-License-Identifier: GPL-2.0-or-later
//! CPU time of the kernel threads that do deferred work.

use crate::stop::Stop;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Beginnings of the names of threads that do what others leave to them (workloads.md 5.4).
const NAMES: [&str; 3] = ["kworker/", "rcu", "ksoftirqd/"];
/// Parent of all kernel threads.
const KTHREADD: i32 = 2;

/// The kernel threads that were ever seen, with the CPU time of each.
///
/// The time is read from the CPU clock of the thread (each is a process of its own): the sum that
/// field 1 of its schedstat shows, without a file to open and also in kernels without schedstat.
#[derive(Debug, Default)]
pub struct KernelThreads {
    threads: BTreeMap<i32, Thread>,
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    clock: ClockId,
    worker: bool,
    /// CPU time when counting started, and the last that was seen, ns. One that came later
    /// started with 0.
    start: u64,
    last: u64,
}

impl KernelThreads {
    /// All there are now.
    ///
    /// # Errors
    /// There are none that could be seen, as in a container.
    pub fn find() -> Result<Self, Stop> {
        let mut found = Self::default();
        found.look_again()?;
        found.require_some()?;
        found.start();
        Ok(found)
    }

    fn require_some(&self) -> Result<(), Stop> {
        if self.threads.is_empty() {
            return Err(Stop::Missing(
                "no kernel threads are to be seen, so work left to them cannot be counted; run outside of \
                 containers, in the machine's own process namespace"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Takes threads in that came since.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn look_again(&mut self) -> Result<(), Stop> {
        let entries = fs::read_dir("/proc").map_err(|e| Stop::failed("/proc", e))?;
        for entry in entries.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            if self.threads.contains_key(&pid) {
                continue;
            }
            if let Some(worker) = deferring(&entry.path())
                && let Some(clock) = clock_of(pid)
            {
                self.threads.insert(pid, Thread { clock, worker, start: 0, last: 0 });
            }
        }
        Ok(())
    }

    /// Counting starts now.
    pub fn start(&mut self) {
        self.total();
        for thread in self.threads.values_mut() {
            thread.start = thread.last;
        }
    }

    /// CPU time of all of them so far, ns. One that has ended keeps what it had.
    pub fn total(&mut self) -> u64 {
        for thread in self.threads.values_mut() {
            if let Some(now) = read(thread.clock) {
                thread.last = now.max(thread.last);
            }
        }
        self.threads.values().map(|t| t.last).sum()
    }

    /// CPU time since counting started, ns.
    #[cfg_attr(not(test), expect(dead_code, reason = "for workloads of several workers"))]
    pub fn used(&mut self) -> u64 {
        self.total();
        self.threads.values().map(|t| t.last - t.start).sum()
    }

    /// Workers among them that are alive.
    #[cfg_attr(not(test), expect(dead_code, reason = "for workloads of several workers"))]
    pub fn workers(&self) -> usize {
        self.threads.values().filter(|t| t.worker && read(t.clock).is_some()).count()
    }
}

/// Whether the process is a kernel thread that does deferred work, and then whether it is a kworker.
fn deferring(process: &Path) -> Option<bool> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let (name, parent) = name_and_parent(&stat)?;
    let known = NAMES.iter().any(|beginning| name.starts_with(beginning));
    (known && parent == KTHREADD).then(|| name.starts_with(NAMES[0]))
}

/// Of the text of a stat file: pid (name) state parent ...
fn name_and_parent(stat: &str) -> Option<(&str, i32)> {
    let (before, after) = stat.rsplit_once(") ")?;
    let (_, name) = before.split_once('(')?;
    Some((name, after.split(' ').nth(1)?.parse().ok()?))
}

fn clock_of(pid: i32) -> Option<ClockId> {
    ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).ok().filter(|clock| read(*clock).is_some())
}

fn read(clock: ClockId) -> Option<u64> {
    let time = clock_gettime(clock).ok()?;
    Some(time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let line = "17 (kworker/0:1-events) I 2 0 0 0 -1";
        assert_eq!(name_and_parent(line), Some(("kworker/0:1-events", 2)));
        assert_eq!(name_and_parent("5 (a) b) S 1 5"), Some(("a) b", 1)));
        assert_eq!(name_and_parent("5 a S 1"), None);
    }

    /// A process of this machine's user may call itself what it likes.
    #[test]
    fn a_container_without_kernel_threads_is_a_skip() {
        let Err(Stop::Missing(reason)) = KernelThreads::default().require_some() else { panic!("none") };
        assert!(reason.contains("outside of containers"), "{reason}");
    }

    #[test]
    fn only_children_of_kthreadd_count() {
        let place = tempfile::tempdir().expect("temporary directory");
        for (stat, expected) in [
            ("9 (kworker/0:1) I 2 0", Some(true)),
            ("9 (rcu_sched) I 2 0", Some(false)),
            ("9 (kworker/0:1) S 1 0", None),
            ("9 (kswapd0) S 2 0", None),
        ] {
            fs::write(place.path().join("stat"), stat).expect("writable");
            assert_eq!(deferring(place.path()), expected, "{stat}");
        }
    }

    #[test]
    fn the_clock_of_a_process_is_what_it_used() {
        let own = clock_of(std::process::id().cast_signed()).expect("our own");
        let before = read(own).expect("readable");
        std::hint::black_box((0..2_000_000_u64).fold(0_u64, |a, b| a.wrapping_mul(31).wrapping_add(b)));
        assert!(read(own).expect("readable") > before);
        // Process ids stay below 4194304.
        assert!(clock_of(4_194_304).is_none(), "no such process");
    }

    #[test]
    fn what_was_used_before_does_not_count() {
        let clock = clock_of(std::process::id().cast_signed()).expect("our own");
        let mut threads = KernelThreads::default();
        let late = Thread { clock, worker: true, start: 0, last: 0 };
        threads.threads.insert(1, late);
        threads.start();
        let first = threads.used();
        threads.threads.insert(2, late);
        assert!(threads.used() > first, "a thread that came later counts from its beginning");
        assert_eq!(threads.workers(), 2);
    }
}
