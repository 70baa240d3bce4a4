// SPDX-License-Identifier: GPL-2.0-or-later
//! One process: 96 pairs of an instance and a path, which the workers add and
//! remove side by side (workloads.md 4.1).

use super::tally::Tally;
use crate::inotify::{Drained, Identity, Instance, c_path, create, identity};
use crate::measure::{Barrier, Clock, pin};
use crate::stop::Stop;
use nix::errno::Errno;
use nix::libc;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Pairs of an instance and a path.
pub const ITEMS: usize = 96;
/// What the watches are for: an event that nobody causes.
const MASK: u32 = libc::IN_ATTRIB;

/// How the paths belong to inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Each is a file of its own: every watch makes and destroys a connector.
    Distinct,
    /// All are names of one inode, which is watched all the time.
    Shared,
}

impl Shape {
    /// Names of the conditions, in the order in which a tally states them.
    pub const fn condition_names(self) -> [&'static str; 9] {
        match self {
            Self::Distinct => [
                "distinct.adds",
                "distinct.removes",
                "distinct.ignored",
                "distinct.overflow",
                "distinct.other_events",
                "distinct.unexpected",
                "distinct.inodes",
                "distinct.keeper",
                "distinct.affinity",
            ],
            Self::Shared => [
                "shared.adds",
                "shared.removes",
                "shared.ignored",
                "shared.overflow",
                "shared.other_events",
                "shared.unexpected",
                "shared.inodes",
                "shared.keeper",
                "shared.affinity",
            ],
        }
    }
}

/// What a process is to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How the paths belong to inodes.
    pub shape: Shape,
    /// An empty directory.
    pub root: PathBuf,
    /// One for each worker.
    pub cpus: Vec<usize>,
    /// The clock of every worker.
    pub clock: Clock,
}

/// An instance and the path that it watches.
#[derive(Debug)]
struct Pair {
    instance: Instance,
    path: CString,
    /// What the add returned.
    watch: i32,
    /// What the removal returned.
    removed: i32,
}

/// What one worker did.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    add: u64,
    remove: u64,
    in_place: bool,
}

impl Plan {
    /// Sets up, measures, counts and cleans up.
    ///
    /// # Errors
    /// The files or instances cannot be made, or a worker cannot go to its CPU.
    pub fn run(&self) -> Result<Tally, Stop> {
        let data = self.root.join("data");
        fs::DirBuilder::new().mode(0o700).create(&data).map_err(|e| Stop::failed(data.display(), e))?;
        let keeper_path = data.join("k-00000000");
        let paths: Vec<PathBuf> = (0..ITEMS).map(|item| data.join(format!("f-{item:08}"))).collect();
        let keeper = self.make_files(&paths, &keeper_path)?;
        let mut pairs = Vec::with_capacity(ITEMS);
        let mut identities: Vec<Identity> = Vec::with_capacity(ITEMS);
        for path in &paths {
            identities.push(identity(path)?);
            pairs.push(Pair { instance: Instance::new()?, path: c_path(path), watch: -1, removed: -1 });
        }
        let work = self.work(&mut pairs)?;
        let mut tally = count(&pairs, &work, &mut identities)?;
        if let Some((keeper, watch)) = keeper {
            if keeper.remove(watch) != 0 {
                return Err(Stop::failed("removing the watch of the keeper", Errno::last()));
            }
            tally.keeper = keeper.drain()?;
        }
        drop(pairs);
        fs::remove_dir_all(&data).map_err(|e| Stop::failed(data.display(), e))?;
        Ok(tally)
    }

    /// Makes what the paths name, and the keeper and its watch where there is one.
    fn make_files(&self, paths: &[PathBuf], keeper_path: &Path) -> Result<Option<(Instance, i32)>, Stop> {
        if self.shape == Shape::Distinct {
            paths.iter().try_for_each(|path| create(path))?;
            return Ok(None);
        }
        create(keeper_path)?;
        for path in paths {
            fs::hard_link(keeper_path, path).map_err(|e| Stop::failed(path.display(), e))?;
        }
        let keeper = Instance::new()?;
        let watch = keeper.add(&c_path(keeper_path), MASK);
        if watch < 0 {
            return Err(Stop::failed("inotify_add_watch of the keeper", Errno::last()));
        }
        Ok(Some((keeper, watch)))
    }

    /// Lets the workers loose, each on its part of the pairs. This thread only waits for them.
    fn work(&self, pairs: &mut [Pair]) -> Result<Vec<Work>, Stop> {
        let workers = self.cpus.len();
        let barrier = Barrier::default();
        barrier.set_parties(u32::try_from(workers).expect("a few"));
        let mut parts = Vec::with_capacity(workers);
        let mut rest = pairs;
        for worker in 0..workers {
            let (part, after) = rest.split_at_mut(ITEMS * (worker + 1) / workers - ITEMS * worker / workers);
            parts.push(part);
            rest = after;
        }
        std::thread::scope(|scope| {
            let (barrier, clock) = (&barrier, self.clock);
            let threads: Vec<_> = parts
                .into_iter()
                .zip(&self.cpus)
                .map(|(part, &cpu)| {
                    scope.spawn(move || {
                        let done = one_worker(part, cpu, barrier, clock);
                        if done.is_err() {
                            barrier.break_up();
                        }
                        done
                    })
                })
                .collect();
            let ended = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(Stop::Bug("a worker panicked".into()))));
            // The first that failed says why; those that waited for it were only interrupted.
            let (good, mut bad): (Vec<_>, Vec<_>) = ended.partition(Result::is_ok);
            bad.sort_by_key(|failed| matches!(failed, Err(Stop::Interrupted)));
            bad.into_iter()
                .next()
                .map_or_else(|| good.into_iter().collect(), |first| first.map(|_| Vec::new()))
        })
    }
}

/// Pin, barrier, add all, barrier, remove all, barrier. Two clock reads for each window, no
/// allocation and no formatting in it.
fn one_worker(pairs: &mut [Pair], cpu: usize, barrier: &Barrier, clock: Clock) -> Result<Work, Stop> {
    let meet = || barrier.wait().map_err(|_| Stop::Interrupted);
    let cpu = pin(&[cpu], false)?;
    meet()?;
    let mut here = cpu.runs_here();
    let start = clock.now();
    for pair in &mut *pairs {
        pair.watch = pair.instance.add(&pair.path, MASK);
    }
    let end = clock.now();
    let add = end.wrapping_sub(start);
    here &= cpu.runs_here();
    meet()?;
    here &= cpu.runs_here();
    let start = clock.now();
    for pair in &mut *pairs {
        pair.removed = pair.instance.remove(pair.watch);
    }
    let end = clock.now();
    here &= cpu.runs_here();
    meet()?;
    Ok(Work { add, remove: end.wrapping_sub(start), in_place: here && cpu.is_here() })
}

/// Everything that happened, events included.
fn count(pairs: &[Pair], work: &[Work], identities: &mut Vec<Identity>) -> Result<Tally, Stop> {
    let adds = pairs.iter().filter(|pair| pair.watch > 0).count() as u64;
    let removes = pairs.iter().filter(|pair| pair.removed == 0).count() as u64;
    let mut events = Drained::default();
    for pair in pairs {
        events = events.and(pair.instance.drain()?);
    }
    identities.sort_unstable();
    identities.dedup();
    Ok(Tally {
        processes: 1,
        add_sum: work.iter().map(|w| w.add).sum(),
        remove_sum: work.iter().map(|w| w.remove).sum(),
        adds,
        removes,
        unexpected: 2 * pairs.len() as u64 - adds - removes,
        inodes: identities.len() as u64,
        in_place: work.iter().filter(|w| w.in_place).count() as u64,
        events,
        keeper: Drained::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inotify::Fixture;
    use crate::measure::ClockName;

    /// A CPU that this test may use.
    fn cpu() -> usize {
        std::thread::spawn(|| pin(&[], true).expect("some CPU").0).join().expect("no panic")
    }

    fn pairs(root: &Path, count: usize) -> Vec<Pair> {
        let pair = |item: usize| {
            let path = root.join(format!("f-{item:08}"));
            create(&path).expect("writable");
            Pair { instance: Instance::new().expect("inotify"), path: c_path(&path), watch: -1, removed: -1 }
        };
        (0..count).map(pair).collect()
    }

    fn clock() -> Clock {
        Clock::new(ClockName::MonotonicRaw, false)
    }

    /// One worker on these pairs, and what is counted of it.
    fn worked(pairs: &mut [Pair], meddle: impl FnOnce()) -> Tally {
        let barrier = Barrier::default();
        barrier.set_parties(1);
        let cpu = cpu();
        let work = std::thread::scope(|scope| {
            scope.spawn(|| one_worker(pairs, cpu, &barrier, clock())).join().expect("no panic")
        });
        meddle();
        count(pairs, &[work.expect("works")], &mut vec![(1, 1), (1, 2)]).expect("countable")
    }

    #[test]
    fn both_shapes_meet_every_condition() {
        for shape in [Shape::Distinct, Shape::Shared] {
            let fixture = Fixture::anywhere();
            // Two workers on one CPU: slow, but they must meet all the same.
            let plan = Plan { shape, root: fixture.path().to_owned(), cpus: vec![cpu(); 2], clock: clock() };
            let tally = plan.run().expect("runs");
            let failed: Vec<_> = tally.conditions(shape, 2).into_iter().filter(|c| !c.pass).collect();
            assert!(failed.is_empty(), "{failed:?}");
            assert!(tally.add_sum > 0 && tally.remove_sum > 0);
            assert_eq!(fs::read_dir(fixture.path()).expect("there").count(), 0, "nothing is left");
        }
    }

    #[test]
    fn a_path_that_is_gone_and_a_watch_that_nobody_has_are_counted() {
        let fixture = Fixture::anywhere();
        let mut pairs = pairs(fixture.path(), 2);
        fs::remove_file(fixture.path().join("f-00000001")).expect("ours");
        let tally = worked(&mut pairs, || ());
        assert_eq!((tally.adds, tally.removes, tally.unexpected), (1, 1, 2));
        assert_eq!(tally.events.ignored, 1);
    }

    #[test]
    fn an_event_of_somebody_else_is_counted() {
        let fixture = Fixture::anywhere();
        let mut pairs = pairs(fixture.path(), 2);
        let other = c_path(&fixture.path().join("f-00000000"));
        // The watch is there before and stays: the removal of a worker finds it under its number.
        assert!(pairs[1].instance.add(&other, libc::IN_OPEN) > 0);
        let tally = worked(&mut pairs, || {
            fs::read(fixture.path().join("f-00000000")).expect("readable");
        });
        assert_eq!((tally.events.ignored, tally.events.other), (2, 1));
    }

    #[test]
    fn a_worker_that_leaves_its_cpu_is_counted() {
        let fixture = Fixture::anywhere();
        let mut pairs = pairs(fixture.path(), 1);
        let moved = [Work { in_place: false, ..Work::default() }, Work { in_place: true, ..Work::default() }];
        assert_eq!(count(&pairs, &moved, &mut Vec::new()).expect("countable").in_place, 1);
        assert_eq!(worked(&mut pairs, || ()).in_place, 1);
    }

    #[test]
    fn a_worker_without_its_cpu_frees_the_others() {
        let fixture = Fixture::anywhere();
        let cpus = vec![cpu(), 1023];
        let plan = Plan { shape: Shape::Distinct, root: fixture.path().to_owned(), cpus, clock: clock() };
        let error = plan.run().expect_err("no such CPU");
        assert!(matches!(&error, Stop::Missing(reason) if reason.contains("1023")), "{error}");
    }
}
