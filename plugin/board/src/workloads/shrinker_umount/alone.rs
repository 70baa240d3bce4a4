// SPDX-License-Identifier: GPL-2.0-or-later
//! Arm `alone`: one cycle, and then whatever it leaves to others until that is
//! done, to the nanosecond (workloads.md 5.4). On a machine with one CPU all that is neither idle
//! nor this thread is such work: kernel threads, interrupts and soft interrupts. On the
//! deterministic runner a nanosecond is an instruction.

use super::cycle::Cycle;
use crate::measure::{Clock, Timed};
use crate::observe::{KernelThreads, idle_ns};
use crate::stop::Stop;
use crate::workloads::{Condition, Edge, Metric, Operations, Session};
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// How often kernel threads are looked at, and so the fineness of the drain.
const STEP: Duration = Duration::from_millis(5);
/// Every operation is watched at least so long, so that looking costs the same for all.
const WATCHED: Duration = Duration::from_millis(100);
/// Longer than any pause inside a grace period: some ticks of 4 ms. Done is what has not run since.
const QUIET: Duration = Duration::from_millis(30);
/// What is not done by then never will be.
const LIMIT: Duration = Duration::from_secs(2);

/// The metrics, in the order of the times of a sequence.
pub const METRICS: &[Metric] = &[
    Metric { id: "deferred_cpu_per_sb", unit: "ns", better: "lower", primary: false },
    Metric { id: "total_cpu_per_sb", unit: "ns", better: "lower", primary: false },
    Metric { id: "drain", unit: "us", better: "lower", primary: false },
];

/// A cycle with what comes after it.
pub struct Alone {
    cycle: Cycle,
    threads: KernelThreads,
}

/// Where time went so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    idle: u64,
    own: u64,
    now: u64,
}

impl Reading {
    /// This thread runs, so the CPU is not idle while the three are read.
    fn take(clock: Clock) -> Result<Self, Stop> {
        let idle = idle_ns()?;
        Ok(Self { idle, own: own_cpu(), now: clock.now() })
    }

    /// CPU time of everybody else between `start` and this.
    fn others_since(&self, start: &Self) -> u64 {
        let busy = (self.now - start.now).saturating_sub(self.idle - start.idle);
        busy.saturating_sub(self.own - start.own)
    }
}

impl Alone {
    /// Sets up a cycle of the file system `kind`.
    ///
    /// # Errors
    /// It cannot be mounted here, or idle time and kernel threads cannot be told.
    pub fn new(kind: &str) -> Result<Self, Stop> {
        idle_ns()?;
        Ok(Self { threads: KernelThreads::find()?, cycle: Cycle::new(kind)? })
    }

    /// Waits until no kernel thread has run for some time; when, after the start, one last did.
    fn drain(&mut self, clock: Clock) -> Result<Duration, Stop> {
        let start = clock.now();
        let mut last = (Duration::ZERO, self.threads.total());
        loop {
            std::thread::sleep(STEP);
            let (elapsed, total) = (Duration::from_nanos(clock.now() - start), self.threads.total());
            if total != last.1 {
                last = (elapsed, total);
            }
            if elapsed >= WATCHED && elapsed - last.0 >= QUIET {
                return Ok(last.0);
            }
            if elapsed > LIMIT {
                return Err(Stop::Missing(format!(
                    "kernel threads are never at rest for {} ms here; this arm is for the emulator, arms v015 and \
                     v0201 count deferred work on machines that do other things as well",
                    QUIET.as_millis()
                )));
            }
        }
    }
}

impl Operations for Alone {
    fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop> {
        let start = Reading::take(clock)?;
        self.cycle.once()?;
        let cycle = own_cpu() - start.own;
        let drain = self.drain(clock)?;
        let others = Reading::take(clock)?.others_since(&start);
        let whole = |duration| Timed { duration, waiting: 0 };
        let drain_us = u64::try_from(drain.as_micros()).unwrap_or(u64::MAX);
        times[..3].copy_from_slice(&[whole(others), whole(cycle + others), whole(drain_us)]);
        Ok(())
    }
}

impl Session for Alone {
    fn settle(&mut self) -> Result<(), Stop> {
        // Workers may have come since; what the last sample left is done by then.
        self.threads.look_again()
    }

    fn operations(&self) -> &'static [&'static str] {
        self.cycle.operations()
    }

    fn observe(&mut self, mark: &mut dyn FnMut(Edge) -> Result<(), Stop>) -> Result<(), Stop> {
        self.cycle.observe(mark)
    }

    fn functions(&self) -> &'static [&'static str] {
        self.cycle.functions()
    }

    fn last_work(&self) -> Option<&'static str> {
        self.cycle.last_work()
    }

    fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
        self.cycle.finish()
    }
}

fn own_cpu() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0, |t| t.tv_sec().unsigned_abs() * 1_000_000_000 + t.tv_nsec().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_what_is_neither_idle_nor_ours() {
        let start = Reading { idle: 1_000, own: 50, now: 10_000 };
        let end = Reading { idle: 91_000, own: 4_050, now: 110_000 };
        assert_eq!(end.others_since(&start), 6_000);
        let coarse = Reading { own: 20_050, ..end };
        assert_eq!(coarse.others_since(&start), 0, "never below nothing");
    }

    #[test]
    fn a_machine_that_cannot_tell_is_skipped() {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let found = std::thread::spawn(|| Alone::new("ramfs").err()).join().expect("no panic");
        if cpus > 1 {
            assert!(matches!(found, Some(Stop::Missing(_))), "{found:?}");
        }
    }
}
