// SPDX-License-Identifier: GPL-2.0-or-later
//! A barrier on a futex, for threads and for processes with shared memory
//! (workloads.md 4.1): those of the C libraries differ from each other, so that
//! numbers would depend on which one is linked in.

use super::shared_memory::Shareable;
use nix::libc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A meeting point of a fixed number of workers, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(256))]
pub struct Barrier {
    parties: AtomicU32,
    arrived: AtomicU32,
    generation: AtomicU32,
    broken: AtomicU32,
}

// SAFETY: atomics only; all zero is a barrier nobody waits at.
unsafe impl Shareable for Barrier {}

/// Somebody whom the barrier waits for is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl Barrier {
    /// Sets how many meet here; before the first of them arrives.
    pub fn set_parties(&self, parties: u32) {
        self.parties.store(parties, Ordering::Release);
    }

    /// Waits until all are here.
    ///
    /// # Errors
    /// One of them will never be.
    #[inline]
    pub fn wait(&self) -> Result<(), Broken> {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.parties.load(Ordering::Acquire) {
            self.arrived.store(0, Ordering::Release);
            self.generation.fetch_add(1, Ordering::AcqRel);
            wake_all(&self.generation);
        } else {
            // A barrier that broke before the generation was read never changes it again.
            while self.generation.load(Ordering::Acquire) == generation && !self.is_broken() {
                wait_while(&self.generation, generation, None);
            }
        }
        if self.is_broken() { Err(Broken) } else { Ok(()) }
    }

    /// Frees everybody who waits, now and later.
    pub fn break_up(&self) {
        self.broken.store(1, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
        wake_all(&self.generation);
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst) != 0
    }
}

/// Sleeps while `word` is `value`, until it is woken or `limit` is over. It may also return for
/// no reason, so callers look at the word again.
pub fn wait_while(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` and `limit` live for the whole call; the kernel only reads them. Not a
    // private futex, because it may be in memory of several processes.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, limit) };
}

/// Wakes everybody who sleeps on `word`.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the address only names the sleepers; nothing is read or written there.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nobody_runs_ahead() {
        const PARTIES: u32 = 4;
        const ROUNDS: u64 = 500;
        let barrier = Barrier::default();
        barrier.set_parties(PARTIES);
        let arrivals = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..PARTIES {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        arrivals.fetch_add(1, Ordering::SeqCst);
                        barrier.wait().expect("nobody leaves");
                        let all = arrivals.load(Ordering::SeqCst);
                        // Everybody of this round has arrived; the quickest may be in the next.
                        assert!(all >= round * u64::from(PARTIES), "{all} arrivals after round {round}");
                        barrier.wait().expect("nobody leaves");
                    }
                });
            }
        });
        assert_eq!(arrivals.into_inner(), ROUNDS * u64::from(PARTIES));
    }

    #[test]
    fn a_broken_barrier_holds_nobody() {
        let barrier = Barrier::default();
        barrier.set_parties(2);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| barrier.wait());
            while barrier.arrived.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            barrier.break_up();
            assert_eq!(waiting.join().expect("no panic"), Err(Broken));
        });
        assert_eq!(barrier.wait(), Err(Broken), "and none later");
    }

    #[test]
    fn a_wait_ends_by_its_limit_or_by_another_value() {
        let word = AtomicU32::new(3);
        wait_while(&word, 3, Some(Duration::from_millis(1)));
        wait_while(&word, 4, None);
    }
}
