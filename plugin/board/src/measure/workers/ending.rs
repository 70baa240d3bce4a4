// SPDX-License-Identifier: GPL-2.0-or-later
//! How a worker ended, in memory that its parent reads.

use crate::measure::shared_memory::Shareable;
use crate::stop::Stop;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::{Pid, gettid};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Bytes of a reason that are kept.
const REASON_BYTES: usize = 472;

const RUNNING: u32 = 0;
const DONE: u32 = 1;
const FAILED: u32 = 2;
const MISSING: u32 = 3;
const INTERRUPTED: u32 = 4;
const BUG: u32 = 5;
/// Being written.
const ENDING: u32 = 6;

/// What a worker used from its start to the end of its work, its set-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user space, ns.
    pub user: u64,
    /// Time in the kernel, ns.
    pub system: u64,
    /// Times it gave its CPU away.
    pub voluntary_switches: u64,
    /// Times its CPU was taken from it.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
}

/// How one worker ended.
#[derive(Debug)]
#[repr(C, align(1024))]
pub struct Ending {
    state: AtomicU32,
    thread: AtomicU32,
    reason_length: AtomicU32,
    usage: [AtomicU64; 5],
    reason: [AtomicU8; REASON_BYTES],
}

// SAFETY: atomics only, valid as zero.
unsafe impl Shareable for Ending {}

impl Ending {
    /// The worker has begun.
    pub fn begin(&self) {
        self.thread.store(gettid().as_raw().unsigned_abs(), Ordering::Release);
    }

    /// Its thread id; 0 before it has begun.
    pub fn thread_id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.thread.load(Ordering::Acquire)).unwrap_or_default())
    }

    /// Takes what the calling thread has used.
    pub fn note_usage(&self) {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return };
        let ns = |time: nix::sys::time::TimeVal| time.num_nanoseconds().unsigned_abs();
        for (word, value) in self.usage.iter().zip([
            ns(usage.user_time()),
            ns(usage.system_time()),
            usage.voluntary_context_switches().unsigned_abs(),
            usage.involuntary_context_switches().unsigned_abs(),
            usage.minor_page_faults().unsigned_abs(),
        ]) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// All went well.
    pub fn succeed(&self) {
        self.state.store(DONE, Ordering::Release);
    }

    /// The first reason that is given stays.
    pub fn fail(&self, stop: &Stop) {
        if self.state.compare_exchange(RUNNING, ENDING, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        let (state, text) = match stop {
            Stop::Missing(text) => (MISSING, text.clone()),
            Stop::Interrupted => (INTERRUPTED, String::new()),
            Stop::Bug(text) => (BUG, text.clone()),
            Stop::Usage(_) | Stop::Failed(_) | Stop::Output(_) => (FAILED, stop.to_string()),
        };
        let mut length = text.len().min(REASON_BYTES);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        for (place, byte) in self.reason.iter().zip(text.as_bytes()[..length].iter()) {
            place.store(*byte, Ordering::Relaxed);
        }
        self.reason_length.store(u32::try_from(length).unwrap_or_default(), Ordering::Relaxed);
        self.state.store(state, Ordering::Release);
    }

    /// Whether it has ended, well or not.
    pub fn is_over(&self) -> bool {
        !matches!(self.state.load(Ordering::Acquire), RUNNING | ENDING)
    }

    /// Why it failed. `None` of one that only followed others: their reason is the one to hear.
    pub fn failure(&self) -> Option<Stop> {
        let state = self.state.load(Ordering::Acquire);
        let length = self.reason_length.load(Ordering::Relaxed) as usize;
        let bytes: Vec<u8> =
            self.reason.iter().take(length).map(|byte| byte.load(Ordering::Relaxed)).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match state {
            FAILED => Some(Stop::Failed(text)),
            MISSING => Some(Stop::Missing(text)),
            BUG => Some(Stop::Bug(text)),
            _ => None,
        }
    }

    /// What it used.
    pub fn usage(&self) -> Usage {
        let [user, system, voluntary_switches, involuntary_switches, minor_faults] =
            [0, 1, 2, 3, 4].map(|place: usize| self.usage[place].load(Ordering::Relaxed));
        Usage { user, system, voluntary_switches, involuntary_switches, minor_faults }
    }
}
