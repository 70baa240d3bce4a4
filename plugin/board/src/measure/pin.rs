// SPDX-License-Identifier: GPL-2.0-or-later
//! Pins the measuring thread and says whether it stayed there (workloads.md 1.3).

use crate::machine::CpuList;
use crate::stop::Stop;
use kernmark_wire::Check;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// A CPU that this thread is pinned to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu(pub usize);

/// Pins this thread to the first of `wanted` that it may use; with `or_any`, else to the first
/// that it may use at all.
///
/// # Errors
/// None of these CPUs is allowed, or the pinning did not take.
pub fn pin(wanted: &[usize], or_any: bool) -> Result<Cpu, Stop> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).map_err(|e| Stop::failed("sched_getaffinity", e))?;
    let is_allowed = |cpu: &usize| allowed.is_set(*cpu).unwrap_or(false);
    let any = || if or_any { (0..CpuSet::count()).find(is_allowed) } else { None };
    let cpu = wanted.iter().copied().find(is_allowed).or_else(any);
    let Some(cpu) = cpu else {
        return Err(Stop::Missing(format!(
            "none of the CPUs {wanted:?} may be used; choose others with --cpus"
        )));
    };
    let mut only = CpuSet::new();
    only.set(cpu).map_err(|e| Stop::failed(format!("CPU {cpu}"), e))?;
    sched_setaffinity(this, &only).map_err(|e| Stop::failed(format!("pinning to CPU {cpu}"), e))?;
    let cpu = Cpu(cpu);
    if cpu.is_here() { Ok(cpu) } else { Err(Stop::Failed(format!("pinning to CPU {} did not take", cpu.0))) }
}

/// Lets this thread run on `cpus` only.
///
/// # Errors
/// None of these CPUs is there, or this thread may use none of them.
pub fn restrict(cpus: &[usize]) -> Result<(), Stop> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu).map_err(|e| Stop::failed(format!("CPU {cpu}"), e))?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).map_err(|e| match e {
        nix::errno::Errno::EINVAL => {
            Stop::Missing(format!("none of the CPUs {cpus:?} may be used; choose others with --cpus"))
        }
        other => Stop::failed(format!("restricting to CPUs {cpus:?}"), other),
    })
}

/// The CPUs that this thread may use.
///
/// # Errors
/// The kernel does not say.
pub fn allowed_cpus() -> Result<CpuList, Stop> {
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(|e| Stop::failed("sched_getaffinity", e))?;
    Ok(CpuList((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()))
}

/// A thread that may use every CPU again, until this is dropped: it then goes back to where it was.
#[derive(Debug)]
pub struct Unpinned {
    before: CpuSet,
}

impl Unpinned {
    /// Lets this thread run on every CPU that the machine and its container allow.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn here() -> Result<Self, Stop> {
        let this = Pid::from_raw(0);
        let before = sched_getaffinity(this).map_err(|e| Stop::failed("sched_getaffinity", e))?;
        let mut every = CpuSet::new();
        for cpu in 0..CpuSet::count() {
            every.set(cpu).map_err(|e| Stop::failed(format!("CPU {cpu}"), e))?;
        }
        sched_setaffinity(this, &every).map_err(|e| Stop::failed("leaving the CPU it was pinned to", e))?;
        Ok(Self { before })
    }
}

impl Drop for Unpinned {
    fn drop(&mut self) {
        // Shows up as a failed check `affinity` of whatever is measured next.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

impl Cpu {
    /// Whether the thread may run here only, and runs here.
    pub fn is_here(self) -> bool {
        let exactly = sched_getaffinity(Pid::from_raw(0)).is_ok_and(|set| {
            (0..CpuSet::count()).all(|cpu| set.is_set(cpu).unwrap_or(false) == (cpu == self.0))
        });
        exactly && self.runs_here()
    }

    /// Whether the thread runs here right now; a read without a system call.
    #[inline(always)]
    pub fn runs_here(self) -> bool {
        sched_getcpu() == Ok(self.0)
    }
}

/// Whether this thread is an ordinary one: SCHED_OTHER and nice 0, as any caller would be.
pub fn ordinary_policy() -> Check {
    // SAFETY: both calls take plain numbers and only read; 0 is the calling thread. An error of
    // getpriority reads as nice -1, which is not 0 either.
    let (policy, nice) = unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
    Check {
        workload: String::new(),
        arm: String::new(),
        name: "policy".into(),
        pass: policy == libc::SCHED_OTHER && nice == 0,
        detail: format!("scheduling policy {policy} (0 is SCHED_OTHER), nice {nice}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nice_thread_is_no_ordinary_one() {
        // In a thread of its own, which ends nice.
        let nice = std::thread::spawn(|| {
            // SAFETY: plain numbers; 0 is the calling thread.
            assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) }, 0);
            ordinary_policy()
        });
        let check = nice.join().expect("no panic");
        assert!(!check.pass && check.detail.contains("nice 5"), "{check:?}");
    }

    #[test]
    fn another_cpu_is_not_here() {
        std::thread::spawn(|| {
            let here = pin(&[], true).expect("there is a CPU");
            let other = Cpu(here.0 + 1);
            assert!(here.is_here() && !other.is_here() && !other.runs_here());
            assert!(matches!(pin(&[other.0], false), Err(Stop::Missing(_))), "it is pinned elsewhere");
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_pinned_thread_is_where_it_should_be() {
        std::thread::spawn(|| {
            let cpu = pin(&[], true).expect("some CPU is allowed");
            assert!(cpu.is_here());
            assert!(!Cpu(cpu.0 + 1).is_here());
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn unpinned_only_for_a_while() {
        std::thread::spawn(|| {
            let set = || sched_getaffinity(Pid::from_raw(0)).expect("affinity");
            let all = set();
            let cpu = pin(&[], true).expect("some CPU is allowed");
            let pinned = set();
            let unpinned = Unpinned::here().expect("allowed");
            assert_eq!(set(), all);
            drop(unpinned);
            assert_eq!(set(), pinned);
            restrict(&[cpu.0]).expect("allowed");
            assert!(cpu.is_here());
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        std::thread::spawn(|| {
            let error = pin(&[1023], false).expect_err("no such CPU");
            assert!(error.to_string().contains("1023"), "{error}");
            assert!(pin(&[1023], true).is_ok(), "another one will do");
        })
        .join()
        .expect("no panic");
    }
}
