// SPDX-License-Identifier: GPL-2.0-or-later
//! Several workers at once: pinned processes or threads that count into shared
//! slots. Processes die with their parent, and none outlives its [`Workers`].

mod ending;
#[cfg(test)]
mod tests;

use super::Cpu;
use super::barrier::{Barrier, wait_while, wake_all};
use super::pin::{pin, restrict};
use super::shared_memory::{Shareable, SharedRow};
use crate::stop::Stop;
use ending::Ending;
pub use ending::Usage;
use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Words in a slot.
const SLOT_WORDS: usize = 32;
/// Workers must be ready within this time.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How often a parent that waits looks for signals and for workers that were killed.
const GLANCE: Duration = Duration::from_millis(100);

/// What a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerKind {
    /// A child made by fork(2).
    Process,
    /// A thread with its own table of open files: a shared one would be measured too.
    Thread,
}

/// What one worker counts, 256 bytes from the next so that no cache line is shared.
#[derive(Debug, Default)]
#[repr(C, align(256))]
pub struct Slot {
    words: [AtomicU64; SLOT_WORDS],
}

// SAFETY: atomics only, valid as zero.
unsafe impl Shareable for Slot {}

impl Slot {
    /// The number at `place`, below 32.
    pub fn get(&self, place: usize) -> u64 {
        self.words[place].load(Ordering::Relaxed)
    }

    /// Stores a number.
    #[inline(always)]
    pub fn set(&self, place: usize, value: u64) {
        self.words[place].store(value, Ordering::Relaxed);
    }

    /// Adds to a number that nobody else changes: a load and a store, no locked instruction.
    #[inline(always)]
    pub fn add(&self, place: usize, value: u64) {
        self.set(place, self.get(place).wrapping_add(value));
    }
}

/// Words that parent and workers talk through.
#[derive(Debug, Default)]
#[repr(C, align(256))]
struct Control {
    barrier: Barrier,
    /// Counts up whenever a worker is ready or has ended; the parent sleeps on it.
    events: AtomicU32,
    ready: AtomicU32,
    /// Workers sleep on it until it is 1.
    released: AtomicU32,
    stopping: AtomicU32,
}

// SAFETY: atomics only, valid as zero.
unsafe impl Shareable for Control {}

#[derive(Debug)]
struct Shared {
    control: SharedRow<Control>,
    slots: SharedRow<Slot>,
    endings: SharedRow<Ending>,
}

impl Shared {
    fn control(&self) -> &Control {
        &self.control[0]
    }

    fn event(&self) {
        self.control().events.fetch_add(1, Ordering::AcqRel);
        wake_all(&self.control().events);
    }

    /// Everybody is to end, whatever they wait for.
    fn stop(&self) {
        let control = self.control();
        control.stopping.store(1, Ordering::Release);
        control.released.store(1, Ordering::Release);
        wake_all(&control.released);
    }

    fn give_up(&self) {
        self.control().barrier.break_up();
        self.stop();
    }
}

/// A worker, as its own code sees it.
#[derive(Debug)]
pub struct Worker<'a> {
    /// From 0.
    pub index: usize,
    /// How many there are.
    #[cfg_attr(not(test), expect(dead_code, reason = "for workers that share out items among them"))]
    pub count: usize,
    /// The CPU it is pinned to; `None` of a worker that may use several.
    pub cpu: Option<Cpu>,
    shared: &'a Shared,
}

impl Worker<'_> {
    /// Where this worker counts.
    #[inline(always)]
    pub fn slot(&self) -> &Slot {
        &self.shared.slots[self.index]
    }

    /// Says that this worker is set up, and sleeps until all of them are released.
    ///
    /// # Errors
    /// The parent has given up.
    pub fn ready(&self) -> Result<(), Stop> {
        let control = self.shared.control();
        control.ready.fetch_add(1, Ordering::AcqRel);
        self.shared.event();
        while control.released.load(Ordering::Acquire) == 0 {
            wait_while(&control.released, 0, None);
        }
        if self.stopping() { Err(Stop::Interrupted) } else { Ok(()) }
    }

    /// Waits for all other workers; the parent is not among them.
    ///
    /// # Errors
    /// One of them has failed.
    #[inline]
    #[cfg_attr(not(test), expect(dead_code, reason = "for workloads whose workers wait for each other"))]
    pub fn meet(&self) -> Result<(), Stop> {
        self.shared.control().barrier.wait().map_err(|_| Stop::Interrupted)
    }

    /// Whether the parent wants it to end.
    #[inline(always)]
    pub fn stopping(&self) -> bool {
        self.shared.control().stopping.load(Ordering::Relaxed) != 0
    }

    /// Whether a pinned worker is still bound to its CPU and on it.
    pub fn affinity_holds(&self) -> bool {
        self.cpu.is_none_or(Cpu::is_here)
    }
}

#[derive(Debug)]
enum Member {
    Process(Pid),
    Thread(JoinHandle<()>),
    Gone,
}

/// What workers counted, also when they are gone.
#[derive(Debug, Clone)]
pub struct Slots(Arc<Shared>);

impl std::ops::Deref for Slots {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.0.slots
    }
}

/// Running workers. Dropping it ends them all.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<Shared>,
    members: Vec<Member>,
}

impl Workers {
    /// Starts one worker for each of `places`: the CPUs that it may use. One CPU pins it. Each
    /// runs `work`, which sets itself up, calls [`Worker::ready`] and then does what it is for.
    ///
    /// # Errors
    /// Not all of them can be started.
    pub fn start(
        kind: WorkerKind,
        places: &[Vec<usize>],
        work: impl Fn(&Worker<'_>) -> Result<(), Stop> + Send + Sync + 'static,
    ) -> Result<Self, Stop> {
        let count = places.len();
        let shared = Arc::new(Shared {
            control: SharedRow::new(1)?,
            slots: SharedRow::new(count)?,
            endings: SharedRow::new(count)?,
        });
        let parties = u32::try_from(count).map_err(|_| Stop::Bug(format!("{count} workers")))?;
        shared.control().barrier.set_parties(parties);
        let work = Arc::new(work);
        // From here on a failure drops `workers`, which ends those that were started.
        let mut workers = Self { shared: Arc::clone(&shared), members: Vec::with_capacity(count) };
        for (index, place) in places.iter().enumerate() {
            workers.members.push(match kind {
                WorkerKind::Process => fork_worker(&shared, index, place, work.as_ref())?,
                WorkerKind::Thread => {
                    let (shared, work, place) = (Arc::clone(&shared), Arc::clone(&work), place.clone());
                    let body = move || {
                        let files = || {
                            unshare(CloneFlags::CLONE_FILES)
                                .map_err(|e| Stop::failed("an own table of open files", e))
                        };
                        run(&shared, index, &place, files, work.as_ref());
                    };
                    let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(body);
                    Member::Thread(thread.map_err(|e| Stop::failed("starting a thread", e))?)
                }
            });
        }
        Ok(workers)
    }

    /// Waits until all are ready, and lets them go at the same time.
    ///
    /// # Errors
    /// One of them failed, or a signal came in.
    pub fn release(&mut self) -> Result<(), Stop> {
        let all = u32::try_from(self.members.len()).expect("counted at the start");
        self.wait_until(READY_LIMIT, |shared| shared.control().ready.load(Ordering::Acquire) == all)?;
        let control = self.shared.control();
        control.released.store(1, Ordering::Release);
        wake_all(&control.released);
        Ok(())
    }

    /// What each of them counts.
    pub fn slots(&self) -> &[Slot] {
        &self.shared.slots
    }

    /// The same, to be read after they have ended.
    pub fn lasting_slots(&self) -> Slots {
        Slots(Arc::clone(&self.shared))
    }

    /// Process or thread ids, to observe them by; 0 of one that has not started yet.
    pub fn thread_ids(&self) -> Vec<Pid> {
        self.shared.endings.iter().map(Ending::thread_id).collect()
    }

    /// Fails when one of them has ended early, or a signal came in.
    ///
    /// # Errors
    /// The reason of the first that failed.
    pub fn check(&mut self) -> Result<(), Stop> {
        crate::signals::check()?;
        self.notice_deaths();
        self.first_failure().map_or(Ok(()), Err)
    }

    /// Tells them to end, and waits for it as [`Workers::join`] does.
    ///
    /// # Errors
    /// As [`Workers::join`].
    pub fn finish(self, limit: Duration) -> Result<Vec<Usage>, Stop> {
        self.shared.stop();
        self.join(limit)
    }

    /// Waits until they have ended; what each of them used.
    ///
    /// # Errors
    /// One of them failed, a signal came in, or they take longer than `limit`.
    pub fn join(mut self, limit: Duration) -> Result<Vec<Usage>, Stop> {
        self.wait_until(limit, |shared| shared.endings.iter().all(Ending::is_over))?;
        self.reap();
        Ok(self.shared.endings.iter().map(Ending::usage).collect())
    }

    fn wait_until(&mut self, limit: Duration, done: impl Fn(&Shared) -> bool) -> Result<(), Stop> {
        let start = Instant::now();
        loop {
            let seen = self.shared.control().events.load(Ordering::Acquire);
            if let Some(failure) = self.first_failure() {
                return Err(failure);
            }
            if done(&self.shared) {
                return Ok(());
            }
            if start.elapsed() > limit {
                return Err(Stop::Failed(format!("the workers took longer than {} s", limit.as_secs())));
            }
            wait_while(&self.shared.control().events, seen, Some(GLANCE));
            if self.shared.control().events.load(Ordering::Acquire) == seen {
                self.check()?;
            }
        }
    }

    fn first_failure(&self) -> Option<Stop> {
        self.shared.endings.iter().find_map(Ending::failure)
    }

    /// Finds processes that were killed and so could not say how they ended.
    fn notice_deaths(&mut self) {
        for (member, ending) in self.members.iter_mut().zip(self.shared.endings.iter()) {
            let Member::Process(pid) = *member else { continue };
            let status = match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => continue,
                other => other,
            };
            *member = Member::Gone;
            if !ending.is_over() {
                ending.fail(&Stop::Failed(format!("worker {pid} ended early: {status:?}")));
                self.shared.give_up();
            }
        }
    }

    /// Waits for what is known to have ended or to be ending.
    fn reap(&mut self) {
        for member in &mut self.members {
            match std::mem::replace(member, Member::Gone) {
                // A thread that panicked has said so in its ending.
                Member::Thread(thread) => drop(thread.join()),
                Member::Process(pid) => while waitpid(pid, None) == Err(Errno::EINTR) {},
                Member::Gone => {}
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.give_up();
        for member in &self.members {
            if let Member::Process(pid) = member {
                // Ours until it is waited for, so the number cannot belong to anybody else.
                let _ = kill(*pid, Signal::SIGKILL);
            }
        }
        self.reap();
    }
}

fn fork_worker(
    shared: &Arc<Shared>,
    index: usize,
    place: &[usize],
    work: &impl Fn(&Worker<'_>) -> Result<(), Stop>,
) -> Result<Member, Stop> {
    let parent = getpid();
    // SAFETY: the program has one thread (tests have more; there the child, which the C library
    // gives a working allocator, calls nothing that another thread could hold locked).
    match unsafe { fork() }.map_err(|e| Stop::failed("fork", e))? {
        ForkResult::Parent { child } => Ok(Member::Process(child)),
        ForkResult::Child => {
            run(shared, index, place, || die_with(parent), work);
            // SAFETY: ends the child at once: neither destructors nor buffers of the parent's
            // run twice.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Has the kernel kill this process when `parent` dies, in whatever way.
fn die_with(parent: Pid) -> Result<(), Stop> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(|e| Stop::failed("PR_SET_PDEATHSIG", e))?;
    // It may have died before the call above.
    if getppid() != parent {
        return Err(Stop::Interrupted);
    }
    // Locks of the parent are not inherited; pages that are still shared with it would be
    // copied in the middle of the measurement. Where it is not allowed, warm-ups must do.
    use nix::sys::mman::{MlockAllFlags, mlockall};
    let _ = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE);
    Ok(())
}

/// The whole life of one worker.
fn run(
    shared: &Shared,
    index: usize,
    place: &[usize],
    set_up: impl FnOnce() -> Result<(), Stop>,
    work: &impl Fn(&Worker<'_>) -> Result<(), Stop>,
) {
    let ending = &shared.endings[index];
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        ending.begin();
        set_up()?;
        let cpu = match place {
            [cpu] => Some(pin(&[*cpu], false)?),
            several => {
                restrict(several)?;
                None
            }
        };
        let outcome = work(&Worker { index, count: shared.slots.len(), cpu, shared });
        ending.note_usage();
        outcome
    }));
    match outcome {
        Ok(Ok(())) => ending.succeed(),
        // Others wait for this one no longer.
        Ok(Err(stop)) => {
            ending.fail(&stop);
            shared.give_up();
        }
        Err(_) => {
            ending.fail(&Stop::Bug(format!("worker {index} panicked")));
            shared.give_up();
        }
    }
    shared.event();
}
