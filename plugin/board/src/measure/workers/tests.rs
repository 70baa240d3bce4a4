// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getaffinity};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

const BOTH: [WorkerKind; 2] = [WorkerKind::Process, WorkerKind::Thread];
const LIMIT: Duration = Duration::from_secs(60);

/// CPUs that this process may use.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).expect("affinity");
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

fn anywhere(count: usize) -> Vec<Vec<usize>> {
    vec![allowed(); count]
}

/// A handle on a process that is not our child.
fn pidfd(pid: u64) -> OwnedFd {
    // SAFETY: takes plain numbers; the descriptor that it returns is ours alone.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        assert!(fd >= 0, "pidfd_open({pid}): {}", Errno::last());
        OwnedFd::from_raw_fd(i32::try_from(fd).expect("a descriptor"))
    }
}

/// Whether the process ends within a generous time.
fn ends(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::from(60_000_u16)) == Ok(1)
}

#[test]
fn workers_count_into_their_own_slots_until_they_are_told_to_end() {
    for kind in BOTH {
        let mut workers = Workers::start(kind, &anywhere(3), |worker| {
            worker.ready()?;
            while !worker.stopping() {
                worker.slot().add(worker.index, 1);
            }
            Ok(())
        })
        .expect("startable");
        assert!(workers.slots().iter().all(|slot| slot.get(0) == 0), "nobody starts before the release");
        workers.release().expect("all are ready");
        while (0..3).any(|index| workers.slots()[index].get(index) == 0) {
            workers.check().expect("they run");
            std::thread::yield_now();
        }
        assert_eq!(workers.slots()[0].get(1), 0);
        let usage = workers.finish(LIMIT).expect("they end");
        assert_eq!(usage.len(), 3, "{kind:?}");
    }
}

#[test]
fn slots_are_256_bytes_apart() {
    assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (256, 256));
}

#[test]
fn workers_meet() {
    for kind in BOTH {
        let mut workers = Workers::start(kind, &anywhere(4), |worker| {
            worker.ready()?;
            if worker.count != 4 {
                return Err(Stop::Failed(format!("{} workers", worker.count)));
            }
            for round in 1..=100 {
                worker.slot().set(0, round);
                worker.meet()?;
                let slots = &worker.shared.slots;
                if slots.iter().any(|slot| slot.get(0) != round) {
                    return Err(Stop::Failed(format!("not all are in round {round}")));
                }
                worker.meet()?;
            }
            Ok(())
        })
        .expect("startable");
        workers.release().expect("all are ready");
        workers.join(LIMIT).expect("in step");
    }
}

#[test]
fn the_reason_of_a_failed_worker_arrives_and_the_others_end() {
    for kind in BOTH {
        for before_ready in [true, false] {
            let mut workers = Workers::start(kind, &anywhere(3), move |worker| {
                let fails = worker.index == 1;
                if fails && before_ready {
                    return Err(Stop::Missing("no such tree".into()));
                }
                worker.ready()?;
                if fails {
                    return Err(Stop::Missing("no such tree".into()));
                }
                worker.meet()
            })
            .expect("startable");
            let released = workers.release();
            let outcome = released.and_then(|()| workers.join(LIMIT).map(|_| ()));
            assert!(matches!(&outcome, Err(Stop::Missing(text)) if text == "no such tree"), "{outcome:?}");
        }
    }
}

#[test]
fn a_panic_is_our_mistake_not_a_hang() {
    let mut workers = Workers::start(WorkerKind::Thread, &anywhere(2), |worker| {
        assert!(worker.index == 0, "the other one panics");
        worker.ready()
    })
    .expect("startable");
    assert!(matches!(workers.release(), Err(Stop::Bug(_))));
}

#[test]
fn a_killed_worker_is_noticed() {
    let mut workers = Workers::start(WorkerKind::Process, &anywhere(2), |worker| {
        worker.ready()?;
        while !worker.stopping() {
            std::hint::spin_loop();
        }
        Ok(())
    })
    .expect("startable");
    workers.release().expect("all are ready");
    kill(workers.thread_ids()[1], Signal::SIGKILL).expect("our child");
    let outcome = workers.join(LIMIT);
    assert!(matches!(&outcome, Err(Stop::Failed(text)) if text.contains("SIGKILL")), "{outcome:?}");
}

#[test]
fn dropped_workers_leave_no_process() {
    let mut workers = Workers::start(WorkerKind::Process, &anywhere(2), |worker| {
        worker.ready()?;
        loop {
            std::hint::spin_loop();
        }
    })
    .expect("startable");
    workers.release().expect("all are ready");
    let children = workers.thread_ids();
    drop(workers);
    for child in children {
        assert_eq!(waitpid(child, Some(WaitPidFlag::WNOHANG)), Err(Errno::ECHILD));
    }
}

#[test]
fn workers_die_with_their_parent() {
    // The worker is itself a parent, which is killed without a chance to put anything back.
    let mut parents = Workers::start(WorkerKind::Process, &anywhere(1), |parent| {
        let mut children = Workers::start(WorkerKind::Process, &anywhere(1), |child| {
            child.ready()?;
            loop {
                std::hint::spin_loop();
            }
        })?;
        children.release()?;
        parent.slot().set(0, u64::from(children.thread_ids()[0].as_raw().unsigned_abs()));
        parent.ready()?;
        loop {
            std::hint::spin_loop();
        }
    })
    .expect("startable");
    parents.release().expect("ready");
    let grandchild = pidfd(parents.slots()[0].get(0));
    kill(parents.thread_ids()[0], Signal::SIGKILL).expect("our child");
    assert!(ends(&grandchild), "the grandchild still runs");
}

#[test]
fn a_thread_has_its_own_open_files() {
    /// Higher than any descriptor of these tests.
    const DESCRIPTOR: i32 = 900;
    let mut workers = Workers::start(WorkerKind::Thread, &anywhere(1), |worker| {
        // SAFETY: a descriptor that nothing else in this table uses.
        let made = unsafe { libc::dup2(0, DESCRIPTOR) };
        worker.slot().set(0, u64::from(made == DESCRIPTOR));
        worker.ready()?;
        while !worker.stopping() {
            std::thread::yield_now();
        }
        Ok(())
    })
    .expect("startable");
    workers.release().expect("ready");
    assert_eq!(workers.slots()[0].get(0), 1, "the thread has it");
    // SAFETY: only asks.
    let here = unsafe { libc::fcntl(DESCRIPTOR, libc::F_GETFD) };
    assert_eq!(here, -1, "the parent has not");
    workers.finish(LIMIT).expect("ends");
}

#[test]
fn one_cpu_pins_and_several_do_not() {
    let cpus = allowed();
    let places = [vec![cpus[0]], cpus.clone()];
    let mut workers = Workers::start(WorkerKind::Process, &places, |worker| {
        worker.slot().set(0, u64::from(worker.cpu.is_some()));
        worker.slot().set(1, u64::from(worker.affinity_holds()));
        worker.ready()
    })
    .expect("startable");
    workers.release().expect("ready");
    let seen: Vec<_> = workers.slots().iter().map(|slot| (slot.get(0), slot.get(1))).collect();
    assert_eq!(seen, [(1, 1), (0, 1)]);
}

#[test]
fn a_cpu_that_is_not_there_is_missing() {
    for places in [vec![vec![1023]], vec![vec![1022, 1023]]] {
        let mut workers =
            Workers::start(WorkerKind::Process, &places, |worker| worker.ready()).expect("startable");
        let outcome = workers.release();
        assert!(matches!(&outcome, Err(Stop::Missing(text)) if text.contains("1023")), "{outcome:?}");
    }
}

#[test]
fn usage_is_that_of_the_worker() {
    let mut workers = Workers::start(WorkerKind::Process, &anywhere(2), |worker| {
        worker.ready()?;
        if worker.index == 0 {
            // Each of these sleeps gives the CPU away.
            for _ in 0..20 {
                wait_while(&AtomicU32::new(0), 0, Some(Duration::from_micros(100)));
            }
        }
        Ok(())
    })
    .expect("startable");
    workers.release().expect("ready");
    let usage = workers.join(LIMIT).expect("they end");
    assert!(usage[0].voluntary_switches >= 20, "{usage:?}");
    assert!(usage[0].voluntary_switches > usage[1].voluntary_switches, "{usage:?}");
}
