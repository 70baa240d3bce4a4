// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs many boots in their order, some at one time, and keeps each as soon as
//! it has ended. A second run takes what is there and makes the rest.

use super::point_directory::{BootKey, PointRecord, read_point, write_point};
use super::{Boot, Handle, Outcome, Progress, Recording, Runner, RunnerError, judge};
use crate::cache::{CacheError, at, free_bytes};
use kernmark_validation::samples::{PointLog, excerpt};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at boots under way.
const POLL: Duration = Duration::from_millis(10);
/// Between two reports while nothing changes.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// With less than this left on the disk no boot is started: two serial ports
/// at their limit fit.
const MIN_FREE_BYTES: u64 = 64 << 20;

/// Names of directories that only live as long as a run.
const TEMPORARY: [&str; 2] = [".boot-", ".new-"];

/// Boots to be made into points.
pub struct Schedule<'a> {
    /// Where they run.
    pub runner: &'a dyn Runner,
    /// The directory `points` of the bundle; made where it is missing.
    pub points: &'a Path,
    /// Set when somebody asks to stop.
    pub interrupt: &'a AtomicBool,
}

/// One point that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedPoint {
    /// `point.json`.
    pub record: PointRecord,
    /// What the log says.
    pub log: PointLog,
    /// The console around trouble, or its end; printable ASCII.
    pub excerpt: String,
    /// Taken from an earlier run.
    pub reused: bool,
}

/// How far a schedule is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Points that are over, those of earlier runs included.
    pub done: usize,
    /// Points asked for.
    pub total: usize,
    /// Names of the points under way.
    pub running: Vec<String>,
    /// About how long the rest takes, once a boot has ended.
    pub left: Option<Duration>,
}

impl Schedule<'_> {
    /// Makes all boots, in order. After one that did not end well no further
    /// one is started, so fewer points than boots come back: look at the
    /// outcomes first.
    ///
    /// # Errors
    /// The host failed or somebody asked to stop; points that are over are kept.
    pub fn run(
        &self,
        boots: &[Boot],
        progress: &mut dyn FnMut(&Step),
    ) -> Result<Vec<FinishedPoint>, RunnerError> {
        std::fs::create_dir_all(self.points).map_err(|e| at(self.points, e))?;
        let _lock = self.lock()?;
        remove_leftovers(self.points);
        let mut work = Work::new(self, boots)?;
        let mut reported: Option<(Instant, usize, usize)> = None;
        loop {
            if self.interrupt.load(Ordering::SeqCst) {
                return Err(RunnerError::Interrupted { done: work.finished.len(), total: boots.len() });
            }
            let changed = work.collect()? | work.start()?;
            let state = (work.finished.len(), work.active.len());
            let due = |(when, done, active): &(Instant, usize, usize)| {
                (*done, *active) != state || when.elapsed() >= REPORT_EVERY
            };
            if reported.as_ref().is_none_or(due) {
                progress(&work.step(boots.len()));
                reported = Some((Instant::now(), state.0, state.1));
            }
            if work.active.is_empty() {
                break;
            }
            if !changed {
                std::thread::sleep(POLL);
            }
        }
        let mut finished = std::mem::take(&mut work.finished);
        finished.sort_by_key(|point| point.record.index);
        Ok(finished)
    }

    /// Held while points are written.
    fn lock(&self) -> Result<File, RunnerError> {
        let directory = File::open(self.points).map_err(|e| at(self.points, e))?;
        match directory.try_lock() {
            Ok(()) => Ok(directory),
            Err(std::fs::TryLockError::WouldBlock) => {
                Err(RunnerError::Busy { directory: self.points.to_owned() })
            }
            Err(std::fs::TryLockError::Error(error)) => Err(at(self.points, error).into()),
        }
    }
}

/// A boot under way. Its directory goes when it is dropped.
struct Active {
    boot: Boot,
    key: BootKey,
    handle: Handle,
    _directory: tempfile::TempDir,
    started: Instant,
}

struct Work<'a> {
    schedule: &'a Schedule<'a>,
    waiting: VecDeque<(Boot, BootKey)>,
    active: Vec<Active>,
    finished: Vec<FinishedPoint>,
    /// Wall time of each boot that ended here.
    took: Vec<Duration>,
    stopped: bool,
}

impl<'a> Work<'a> {
    fn new(schedule: &'a Schedule<'a>, boots: &[Boot]) -> Result<Self, RunnerError> {
        let runner = schedule.runner;
        let mut work = Self {
            schedule,
            waiting: VecDeque::new(),
            active: Vec::new(),
            finished: Vec::new(),
            took: Vec::new(),
            stopped: false,
        };
        for boot in boots {
            let key = BootKey::new(boot, runner.name(), runner.version(), runner.prepare(boot)?);
            match reusable(schedule.points, boot, &key) {
                Some(point) => work.finished.push(point),
                None => work.waiting.push_back((boot.clone(), key)),
            }
        }
        Ok(work)
    }

    /// Starts what may be started; whether anything was.
    fn start(&mut self) -> Result<bool, RunnerError> {
        let mut started = false;
        while !self.stopped && self.active.len() < self.schedule.runner.parallel().max(1) {
            let Some((boot, key)) = self.waiting.pop_front() else { break };
            let points = self.schedule.points;
            if let Some(free_bytes) = free_bytes(points).filter(|free| *free < MIN_FREE_BYTES) {
                return Err(CacheError::DiskFull { place: points.to_owned(), free_bytes }.into());
            }
            let directory = tempfile::Builder::new()
                .prefix(TEMPORARY[0])
                .tempdir_in(points)
                .map_err(|e| at(points, e))?;
            let handle = self.schedule.runner.start(&boot, directory.path())?;
            self.active.push(Active { boot, key, handle, _directory: directory, started: Instant::now() });
            started = true;
        }
        Ok(started)
    }

    /// Takes what has ended; whether anything had.
    fn collect(&mut self) -> Result<bool, RunnerError> {
        let mut ended = false;
        let mut place = 0;
        while place < self.active.len() {
            match self.schedule.runner.poll(&self.active[place].handle)? {
                Progress::Running => place += 1,
                Progress::Ended(recording) => {
                    let active = self.active.remove(place);
                    self.finish(active, &recording)?;
                    ended = true;
                }
            }
        }
        Ok(ended)
    }

    fn finish(&mut self, active: Active, recording: &Recording) -> Result<(), RunnerError> {
        let Active { boot, key, started, .. } = active;
        let points = self.schedule.points;
        self.took.push(started.elapsed());
        let (outcome, log) =
            judge(&boot.name, &boot.protocol, &recording.end, &recording.results, &recording.console);
        if outcome != Outcome::Done {
            self.stopped = true;
            // A full disk cuts logs; that is not the kernel's fault.
            if let Some(free_bytes) = free_bytes(points).filter(|free| *free < 1 << 20) {
                return Err(CacheError::DiskFull { place: points.to_owned(), free_bytes }.into());
            }
        }
        let record = PointRecord::new(boot.index, key, recording, outcome);
        match &record.outcome {
            // Nothing ran, so there is nothing to keep.
            Outcome::Emulator { .. } | Outcome::NotRecorded { .. } => {}
            _ => write_point(points, &record, recording, &log)?,
        }
        let excerpt = excerpt(&recording.console);
        self.finished.push(FinishedPoint { record, log, excerpt, reused: false });
        Ok(())
    }

    fn step(&self, total: usize) -> Step {
        let left = (!self.took.is_empty()).then(|| {
            let mean =
                self.took.iter().sum::<Duration>() / u32::try_from(self.took.len()).unwrap_or(u32::MAX);
            let parallel = self.schedule.runner.parallel().max(1);
            let rounds = (self.waiting.len() + self.active.len()).div_ceil(parallel);
            mean * u32::try_from(rounds).unwrap_or(u32::MAX)
        });
        let running = self.active.iter().map(|active| active.boot.name.clone()).collect();
        Step { done: self.finished.len(), total, running, left }
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        for active in &self.active {
            self.schedule.runner.cancel(&active.handle);
        }
    }
}

/// The point of an earlier run, when it is of this very boot and ended well.
fn reusable(points: &Path, boot: &Boot, key: &BootKey) -> Option<FinishedPoint> {
    // A point that is absent or does not hold is made again.
    let point = read_point(points, boot.index).ok()?;
    if point.record.boot != *key {
        return None;
    }
    let (outcome, log) = judge(&boot.name, &boot.protocol, &point.record.end, &point.results, &point.console);
    (outcome == Outcome::Done && point.record.outcome == Outcome::Done).then(|| FinishedPoint {
        record: point.record,
        log,
        excerpt: excerpt(&point.console),
        reused: true,
    })
}

/// Removes what an earlier run could not remove because it was killed.
fn remove_leftovers(points: &Path) {
    for entry in std::fs::read_dir(points).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if TEMPORARY.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            // What cannot be removed costs only space.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::boot::tests::boot;
    use super::super::{BootError, MachineEnd};
    use super::*;
    use kernmark_wire::{End, FORMAT, Record, Start, frame};
    use std::cell::RefCell;
    use std::path::PathBuf;

    /// A runner whose boots end after two looks at them.
    #[derive(Default)]
    struct Scripted {
        /// Places of the order that do not end well.
        broken: Vec<usize>,
        parallel: usize,
        version: String,
        started: RefCell<Vec<usize>>,
        under_way: RefCell<Vec<(PathBuf, Boot, u32)>>,
        most: RefCell<usize>,
        cancelled: RefCell<usize>,
        /// Set after this many boots were started.
        interrupt_at: Option<(usize, &'static AtomicBool)>,
    }

    impl Runner for Scripted {
        fn name(&self) -> &'static str {
            "scripted"
        }
        fn version(&self) -> &str {
            &self.version
        }
        fn parallel(&self) -> usize {
            self.parallel
        }
        fn prepare(&self, boot: &Boot) -> Result<Vec<String>, BootError> {
            Ok(vec![boot.kernel_command_line("quiet")?])
        }
        fn start(&self, boot: &Boot, directory: &Path) -> Result<Handle, RunnerError> {
            self.started.borrow_mut().push(boot.index);
            let mut under_way = self.under_way.borrow_mut();
            under_way.push((directory.to_owned(), boot.clone(), 0));
            let most = under_way.len().max(*self.most.borrow());
            *self.most.borrow_mut() = most;
            if let Some((count, flag)) = self.interrupt_at
                && self.started.borrow().len() == count
            {
                flag.store(true, Ordering::SeqCst);
            }
            Ok(Handle { runner: self.name().into(), directory: directory.to_owned() })
        }
        fn poll(&self, handle: &Handle) -> Result<Progress, RunnerError> {
            let mut under_way = self.under_way.borrow_mut();
            let place = under_way.iter().position(|(d, _, _)| *d == handle.directory).expect("started");
            under_way[place].2 += 1;
            if under_way[place].2 < 2 {
                return Ok(Progress::Running);
            }
            let (_, boot, _) = under_way.remove(place);
            let end = if self.broken.contains(&boot.index) { MachineEnd::Reset } else { MachineEnd::Good };
            let results = if end == MachineEnd::Good { results(&boot) } else { Vec::new() };
            Ok(Progress::Ended(Recording { end, results, console: b"console\n".to_vec() }))
        }
        fn cancel(&self, handle: &Handle) {
            self.under_way.borrow_mut().retain(|(directory, _, _)| *directory != handle.directory);
            *self.cancelled.borrow_mut() += 1;
        }
    }

    fn results(boot: &Boot) -> Vec<u8> {
        let start = Record::Start(Start {
            format: FORMAT,
            pass: "run".into(),
            protocol: boot.protocol.clone(),
            point: boot.name.clone(),
            boot_id: "x".into(),
            clock: "tsc".into(),
            version: "0".into(),
            default_arms: [].into(),
        });
        let end = Record::End(End { records: 1, status: "ok".into() });
        format!("{}\n{}\n", frame(0, &start), frame(1, &end)).into_bytes()
    }

    fn never() -> &'static AtomicBool {
        Box::leak(Box::default())
    }

    fn run(
        runner: &Scripted,
        points: &Path,
        interrupt: &AtomicBool,
    ) -> Result<Vec<FinishedPoint>, RunnerError> {
        let boots: Vec<Boot> = (1..=5).map(boot).collect();
        Schedule { runner, points, interrupt }.run(&boots, &mut |_| {})
    }

    #[test]
    fn boots_start_in_order_and_side_by_side() {
        let place = tempfile::tempdir().expect("temporary directory");
        let points = place.path().join("points");
        for (parallel, most) in [(1, 1), (2, 2), (9, 5), (0, 1)] {
            let runner = Scripted { parallel, version: parallel.to_string(), ..Scripted::default() };
            let finished = run(&runner, &points, never()).expect("nothing fails");
            assert_eq!(*runner.started.borrow(), [1, 2, 3, 4, 5]);
            assert_eq!(*runner.most.borrow(), most, "{parallel} at one time");
            let indices: Vec<usize> = finished.iter().map(|point| point.record.index).collect();
            assert_eq!(indices, [1, 2, 3, 4, 5]);
            assert!(finished.iter().all(|point| point.record.outcome == Outcome::Done && !point.reused));
        }
        let names = std::fs::read_dir(&points).expect("readable").count();
        assert_eq!(names, 5, "no directory of a boot is left");
    }

    #[test]
    fn a_second_run_takes_what_is_there() {
        let place = tempfile::tempdir().expect("temporary directory");
        let again = |version: &str| {
            let runner = Scripted { parallel: 2, version: version.into(), ..Scripted::default() };
            let finished = run(&runner, place.path(), never()).expect("nothing fails");
            assert_eq!(finished.len(), 5);
            assert!(
                finished
                    .iter()
                    .all(|point| point.reused != runner.started.borrow().contains(&point.record.index))
            );
            runner.started.take()
        };
        assert_eq!(again("1"), [1, 2, 3, 4, 5]);
        assert_eq!(again("1"), [] as [usize; 0]);
        std::fs::write(place.path().join("2/samples.jsonl"), "changed").expect("writable");
        std::fs::remove_dir_all(place.path().join("4")).expect("writable");
        std::fs::create_dir(place.path().join(".boot-dead")).expect("writable");
        assert_eq!(again("1"), [2, 4], "changed and missing points are made again");
        assert!(!place.path().join(".boot-dead").exists());
        assert_eq!(again("2"), [1, 2, 3, 4, 5], "another emulator is another boot");
    }

    #[test]
    fn after_a_failure_nothing_more_is_started() {
        let place = tempfile::tempdir().expect("temporary directory");
        let runner = Scripted { parallel: 2, broken: vec![2], ..Scripted::default() };
        let finished = run(&runner, place.path(), never()).expect("the kernel failed, not the host");
        let outcomes: Vec<_> = finished.iter().map(|p| (p.record.index, p.record.outcome.clone())).collect();
        assert_eq!(outcomes[..2], [(1, Outcome::Done), (2, Outcome::Reset)]);
        assert!(!runner.started.borrow().contains(&5));
        assert_eq!(finished[1].excerpt, "console\n");
        let mended = Scripted { parallel: 2, ..Scripted::default() };
        run(&mended, place.path(), never()).expect("nothing fails");
        assert!(mended.started.borrow().contains(&2) && !mended.started.borrow().contains(&1));
    }

    #[test]
    fn an_interrupt_keeps_what_is_over_and_removes_the_rest() {
        let place = tempfile::tempdir().expect("temporary directory");
        let interrupt = never();
        let runner = Scripted { parallel: 1, interrupt_at: Some((3, interrupt)), ..Scripted::default() };
        let error = run(&runner, place.path(), interrupt).expect_err("interrupted");
        assert!(matches!(error, RunnerError::Interrupted { done: 2, total: 5 }), "{error}");
        assert_eq!(*runner.cancelled.borrow(), 1);
        let mut names: Vec<_> = std::fs::read_dir(place.path())
            .expect("readable")
            .map(|entry| entry.expect("entry").file_name().into_string().expect("ASCII"))
            .collect();
        names.sort();
        assert_eq!(names, ["1", "2"]);
        let rest = Scripted { parallel: 1, ..Scripted::default() };
        run(&rest, place.path(), never()).expect("nothing fails");
        assert_eq!(*rest.started.borrow(), [3, 4, 5]);
    }

    #[test]
    fn one_bundle_has_one_writer() {
        let place = tempfile::tempdir().expect("temporary directory");
        let runner = Scripted { parallel: 1, ..Scripted::default() };
        let schedule = Schedule { runner: &runner, points: place.path(), interrupt: never() };
        let held = schedule.lock().expect("free");
        let error = run(&runner, place.path(), never()).expect_err("held");
        assert!(matches!(error, RunnerError::Busy { .. }), "{error}");
        drop(held);
        run(&runner, place.path(), never()).expect("free again");
    }

    #[test]
    fn progress_counts_and_estimates() {
        let place = tempfile::tempdir().expect("temporary directory");
        let runner = Scripted { parallel: 2, ..Scripted::default() };
        let boots: Vec<Boot> = (1..=3).map(boot).collect();
        let mut steps = Vec::new();
        Schedule { runner: &runner, points: place.path(), interrupt: never() }
            .run(&boots, &mut |step| steps.push(step.clone()))
            .expect("nothing fails");
        let first = steps.first().expect("reported");
        assert_eq!((first.done, first.total, first.running.len(), first.left), (0, 3, 2, None));
        let last = steps.last().expect("reported");
        assert_eq!((last.done, last.running.len(), last.left), (3, 0, Some(Duration::ZERO)));
    }
}
