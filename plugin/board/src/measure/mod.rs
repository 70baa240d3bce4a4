// SPDX-License-Identifier: GPL-2.0-or-later
//! How operations are timed: clock, pinning, the loop over samples, and several
//! workers at once.

mod barrier;
mod clock;
mod disturbances;
mod pin;
mod samples;
mod shared_memory;
mod workers;

pub use barrier::Barrier;
pub use clock::{Clock, ClockName};
pub use disturbances::Disturbances;
pub use pin::{Cpu, Unpinned, allowed_cpus, ordinary_policy, pin};
pub use samples::{Amount, Manner, Outcome, Planned, measure, report_facts};
pub use shared_memory::SharedRow;
pub use workers::{Usage, Worker, WorkerKind, Workers};

/// One timed operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timed {
    /// Duration in units of the clock (ns; instructions for `tsc` in the emulator).
    pub duration: u64,
    /// Of that, time the thread was off the CPU, ns; 0 unless asked for.
    pub waiting: u64,
}

/// Times one operation; the window holds two clock reads and the operation.
///
/// The thread's CPU time is read outside the window, so `waiting` misses waits
/// shorter than that read itself (about a microsecond).
#[inline(always)]
pub fn timed<T>(clock: Clock, operation: impl FnOnce() -> T) -> (Timed, T) {
    let cpu_before = clock.thread_cpu();
    let start = clock.now();
    let value = operation();
    let end = clock.now();
    let duration = end.wrapping_sub(start);
    let waiting = match cpu_before {
        None => 0,
        Some(before) => duration.saturating_sub(clock.thread_cpu().unwrap_or(before).saturating_sub(before)),
    };
    (Timed { duration, waiting }, value)
}
