// SPDX-License-Identifier: GPL-2.0-or-later
//! Concurrent inotify add and remove (workloads.md section 4): 96 instances
//! watch 96 files with an inode each, or 96 names of one inode that is watched
//! all the time. The difference is what connectors cost; their ratio is the
//! metric that other changes move least.

mod controls;
mod pairs;
mod places;
mod tally;

use super::{Arm, Condition, Metric, Prepared, Rounds, Session, Setting, Value, Workload};
use crate::inotify::{Fixture, Limits, Wanted, raise_open_files};
use crate::measure::{Amount, Clock, SharedRow, WorkerKind, Workers};
use crate::stop::Stop;
use controls::Controls;
use pairs::{ITEMS, Plan, Shape};
use places::worker_cpus;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tally::Tally;

/// One process, from its start to its end.
const PROCESS_LIMIT: Duration = Duration::from_secs(60);
/// Files open beside those of the instances.
const OTHER_FILES: u64 = 159;

/// Rounds as published.
const ROUNDS: Amount = Amount { samples: 25, operations: 1, warmups: 2 };

const CONTROLS: Arm = Arm {
    id: "controls",
    summary: "one worker: 1024 watches of one instance, mask updates of one watch, path look-ups",
    metrics: &[
        Metric { id: "bulk", unit: "ns", better: "lower", primary: false },
        Metric { id: "mask_update", unit: "ns", better: "lower", primary: false },
        Metric { id: "path_lookup", unit: "ns", better: "lower", primary: false },
    ],
    amount: ROUNDS,
    seconds: 2,
    on_boards: true,
    in_emulator: true,
    many_workers: false,
};

/// An arm with workers on the CPUs that [`places`] finds for it.
const fn workers(id: &'static str, summary: &'static str, on_boards: bool, many_workers: bool) -> Arm {
    const METRICS: &[Metric] = &[
        Metric { id: "distinct", unit: "ns", better: "lower", primary: true },
        Metric { id: "shared", unit: "ns", better: "lower", primary: false },
        Metric { id: "distinct_over_shared", unit: "ratio", better: "lower", primary: true },
    ];
    Arm {
        id,
        summary,
        metrics: METRICS,
        amount: ROUNDS,
        seconds: 2,
        on_boards,
        in_emulator: false,
        many_workers,
    }
}

/// Concurrent watches on distinct inodes, against the same on a shared one.
pub const FSNOTIFY_WATCH: Workload = Workload {
    id: "fsnotify.watch",
    summary: "concurrent inotify add and remove on 96 inodes, against the same on one inode",
    arms: &[
        CONTROLS,
        workers("p8", "8 workers, each on its own performance core", true, true),
        workers("p6", "6 workers, each on its own performance core", true, true),
        workers("p4", "4 workers, each on its own performance core", true, true),
        workers("p1", "one worker on a performance core", true, false),
        workers("w16", "16 workers on the 16 CPUs of 8 performance cores", true, true),
        workers(
            places::ANY_NUMBER,
            "as many workers as --set workers=N says, each on a CPU of its own",
            false,
            true,
        ),
    ],
    emulator: Amount { samples: 9, operations: 1, warmups: 1 },
    parameters: &[places::WORKERS, controls::CALLS],
    needs: &[
        "inotify with 105 free instances and watches (controls: 1032 watches)",
        "a tmpfs on /dev/shm or /tmp",
        "as many performance cores as the arm has workers",
    ],
    preemption: Some("none"),
    prepare: |setting| {
        Ok(Prepared::Rounds(if setting.arm == CONTROLS.id {
            Box::new(Controls::new(setting)?)
        } else {
            Box::new(Watch::new(setting)?)
        }))
    },
};

/// One arm with workers.
struct Watch {
    cpus: Vec<usize>,
    distinct: Tally,
    shared: Tally,
    processes: Processes,
}

impl Watch {
    fn new(setting: &Setting<'_>) -> Result<Self, Stop> {
        let cpus = worker_cpus(setting)?;
        // The keeper is one more instance and one more watch.
        let wanted = Wanted { instances: ITEMS as u64 + 1, watches: ITEMS as u64 + 1, events: 1 };
        Limits::read(Path::new("/proc"), nix::unistd::getuid().as_raw())?.check(wanted)?;
        raise_open_files(wanted.instances + OTHER_FILES)?;
        Fixture::on_tmpfs()?.remove()?;
        Ok(Self {
            cpus,
            distinct: Tally::default(),
            shared: Tally::default(),
            processes: Processes::default(),
        })
    }

    /// One process that sets itself up, measures and cleans up; time of all workers together, ns.
    fn process(&mut self, shape: Shape, clock: Clock) -> Result<u64, Stop> {
        let cpus = self.cpus.clone();
        let words = self.processes.run(&self.cpus, move |root, words| {
            let plan = Plan { shape, root: root.to_owned(), cpus: cpus.clone(), clock };
            plan.run().map(|tally| tally.store(words))
        })?;
        let tally = Tally::load(&words);
        match shape {
            Shape::Distinct => self.distinct.add(&tally),
            Shape::Shared => self.shared.add(&tally),
        }
        Ok(tally.worker_time())
    }
}

impl Rounds for Watch {
    fn round(&mut self, clock: Clock, round: u64, values: &mut [Value]) -> Result<(), Stop> {
        let (distinct, shared) = if round % 2 == 1 {
            let distinct = self.process(Shape::Distinct, clock)?;
            (distinct, self.process(Shape::Shared, clock)?)
        } else {
            let shared = self.process(Shape::Shared, clock)?;
            (self.process(Shape::Distinct, clock)?, shared)
        };
        let per_watch = |sum| Value { sum, operations: ITEMS as u64 };
        values.copy_from_slice(&[
            per_watch(distinct),
            per_watch(shared),
            Value { sum: distinct, operations: shared },
        ]);
        Ok(())
    }
}

impl Session for Watch {
    fn facts(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        Ok(vec![("workers", self.cpus.len() as u64), ("watches", ITEMS as u64)])
    }

    fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        let how = format!("CPUs {}; barrier=futex; each half of a round a new process", cpus.join(","));
        let mut conditions = vec![Condition::new("workers", true, how)];
        conditions.extend(self.distinct.conditions(Shape::Distinct, self.cpus.len()));
        conditions.extend(self.shared.conditions(Shape::Shared, self.cpus.len()));
        conditions.push(self.processes.restored());
        Ok(conditions)
    }
}

/// Processes, each with a directory of its own on a tmpfs that it leaves empty.
#[derive(Debug, Default)]
struct Processes {
    /// What the first that did not leave it empty left.
    left: Option<String>,
}

impl Processes {
    /// As [`in_a_process`]; `work` is also told its directory.
    fn run(
        &mut self,
        cpus: &[usize],
        work: impl Fn(&Path, &mut [u64; tally::WORDS]) -> Result<(), Stop> + Send + Sync + 'static,
    ) -> Result<[u64; tally::WORDS], Stop> {
        let fixture = Fixture::on_tmpfs()?;
        let root = fixture.path().to_owned();
        let words = in_a_process(cpus, move |words| work(&root, words))?;
        // The process has emptied it; what is left is a mistake that must be seen.
        if let Err(error) = fixture.remove_empty() {
            self.left.get_or_insert(error.to_string());
        }
        Ok(words)
    }

    fn restored(&mut self) -> Condition {
        let left = self.left.take();
        Condition::new("restored", left.is_none(), left.unwrap_or_else(|| "each process left no file".into()))
    }
}

/// Runs `work` in a process of its own that may use `cpus`, and hands over the numbers it stores.
fn in_a_process(
    cpus: &[usize],
    work: impl Fn(&mut [u64; tally::WORDS]) -> Result<(), Stop> + Send + Sync + 'static,
) -> Result<[u64; tally::WORDS], Stop> {
    let row = Arc::new(SharedRow::<AtomicU64>::new(tally::WORDS)?);
    let stored = Arc::clone(&row);
    let mut workers = Workers::start(WorkerKind::Process, &[cpus.to_vec()], move |worker| {
        worker.ready()?;
        let mut words = [0; tally::WORDS];
        work(&mut words)?;
        stored.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        Ok(())
    })?;
    workers.release()?;
    workers.join(PROCESS_LIMIT)?;
    Ok(std::array::from_fn(|place| row[place].load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{CpuList, Topology};
    use crate::measure::{ClockName, pin};
    use crate::workloads::Parameters;

    /// A round of one worker on a CPU that this test may use.
    fn one_worker<T>(then: impl FnOnce(Watch) -> T + Send) -> T
    where
        T: Send,
    {
        let work = || {
            let cpu = pin(&[], true).expect("some CPU");
            let topology = Topology::read(Path::new("/sys")).limited_to(&CpuList(vec![cpu.0]));
            let parameters = Parameters::new(FSNOTIFY_WATCH.parameters, &[]).expect("defaults");
            let setting =
                Setting { arm: places::ANY_NUMBER, topology: &topology, cpu, parameters: &parameters };
            then(Watch::new(&setting).expect("limits and a tmpfs"))
        };
        std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
    }

    fn failed(conditions: &[Condition]) -> Vec<&'static str> {
        conditions.iter().filter(|c| !c.pass).map(|c| c.name).collect()
    }

    #[test]
    fn a_round_is_two_processes_and_their_ratio() {
        one_worker(|mut watch| {
            let clock = Clock::new(ClockName::MonotonicRaw, false);
            let mut values = [Value::default(); 3];
            for round in 1..=2 {
                watch.round(clock, round, &mut values).expect("runs");
                assert_eq!((values[0].operations, values[1].operations), (96, 96));
                assert_eq!((values[2].sum, values[2].operations), (values[0].sum, values[1].sum));
                assert!(values.iter().all(|v| v.sum > 0));
            }
            assert_eq!((watch.distinct.processes, watch.shared.processes), (2, 2));
            let conditions = watch.finish().expect("finishes");
            assert_eq!(failed(&conditions), [""; 0]);
            assert!(conditions[0].detail.contains("barrier=futex"));
        });
    }

    #[test]
    fn a_file_that_is_left_and_a_bad_count_void_the_run() {
        one_worker(|mut watch| {
            watch.processes.left = Some("Directory not empty".into());
            watch.shared = Tally { processes: 1, ..Tally::default() };
            let names = failed(&watch.finish().expect("finishes"));
            assert!(names.contains(&"restored") && names.contains(&"shared.adds"), "{names:?}");
            assert!(!names.iter().any(|name| name.starts_with("distinct")), "{names:?}");
        });
    }

    #[test]
    fn a_process_hands_over_its_numbers_or_its_reason() {
        std::thread::spawn(|| {
            let cpu = pin(&[], true).expect("some CPU").0;
            let words = in_a_process(&[cpu], |words| {
                words[3] = 7;
                Ok(())
            });
            assert_eq!(words.expect("works")[3], 7);
            let Err(Stop::Missing(reason)) = in_a_process(&[cpu], |_| Err(Stop::Missing("no tmpfs".into())))
            else {
                panic!("it failed")
            };
            assert_eq!(reason, "no tmpfs");
        })
        .join()
        .expect("no panic");
    }
}
