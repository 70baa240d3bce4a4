// SPDX-License-Identifier: GPL-2.0-or-later
//! The clock of a run (workloads.md 1.2).

use nix::time::{ClockId, clock_gettime};
use std::arch::x86_64::_rdtsc;

/// Reads that calibrate the clock.
const CALIBRATION_READS: usize = 100_000;

/// Which clock times operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ClockName {
    /// CLOCK_MONOTONIC_RAW, ns.
    MonotonicRaw,
    /// The time stamp counter. In the emulator with an instruction clock it
    /// counts executed instructions; on hardware only for cross-checks.
    Tsc,
}

/// A clock ready to be read.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: Source,
    waiting: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Posix(ClockId),
    Tsc,
}

impl Clock {
    /// Takes the clock asked for; CLOCK_MONOTONIC where the raw one is refused.
    pub fn new(name: ClockName, waiting: bool) -> Self {
        let source = match name {
            ClockName::Tsc => Source::Tsc,
            ClockName::MonotonicRaw => {
                let raw = ClockId::CLOCK_MONOTONIC_RAW;
                Source::Posix(if clock_gettime(raw).is_ok() { raw } else { ClockId::CLOCK_MONOTONIC })
            }
        };
        Self { source, waiting }
    }

    /// `monotonic_raw`, `monotonic` or `tsc`.
    pub fn name(self) -> &'static str {
        match self.source {
            Source::Tsc => "tsc",
            Source::Posix(id) if id == ClockId::CLOCK_MONOTONIC_RAW => "monotonic_raw",
            Source::Posix(_) => "monotonic",
        }
    }

    /// Now, in units of the clock.
    #[inline(always)]
    pub fn now(self) -> u64 {
        match self.source {
            // SAFETY: every x86-64 processor has the time stamp counter; reading it has no side effect.
            Source::Tsc => unsafe { _rdtsc() },
            Source::Posix(id) => nanoseconds(id),
        }
    }

    /// CPU time of this thread in ns, when waiting is to be told apart.
    #[inline(always)]
    pub fn thread_cpu(self) -> Option<u64> {
        self.waiting.then(|| nanoseconds(ClockId::CLOCK_THREAD_CPUTIME_ID))
    }

    /// Smallest and median difference of back-to-back reads.
    pub fn calibrate(self) -> (u64, u64) {
        let mut differences = vec![0_u64; CALIBRATION_READS];
        let mut last = self.now();
        for difference in &mut differences {
            let now = self.now();
            *difference = now.wrapping_sub(last);
            last = now;
        }
        differences.sort_unstable();
        (differences[0], differences[CALIBRATION_READS / 2])
    }
}

#[inline(always)]
fn nanoseconds(id: ClockId) -> u64 {
    clock_gettime(id).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward_and_have_a_name() {
        for (name, text) in [(ClockName::MonotonicRaw, "monotonic_raw"), (ClockName::Tsc, "tsc")] {
            let clock = Clock::new(name, false);
            assert_eq!(clock.name(), text);
            let first = clock.now();
            assert!(clock.now() >= first);
            assert_eq!(clock.thread_cpu(), None);
        }
    }

    #[test]
    fn calibration_orders_minimum_and_median() {
        let (minimum, median) = Clock::new(ClockName::MonotonicRaw, false).calibrate();
        assert!(minimum <= median);
    }

    #[test]
    fn thread_time_advances_with_work() {
        let clock = Clock::new(ClockName::MonotonicRaw, true);
        let before = clock.thread_cpu().expect("asked for");
        std::hint::black_box((0..2_000_000_u64).fold(0_u64, |a, b| a.wrapping_mul(31).wrapping_add(b)));
        assert!(clock.thread_cpu().expect("asked for") > before);
    }
}
