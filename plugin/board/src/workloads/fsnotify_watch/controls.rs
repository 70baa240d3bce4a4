// SPDX-License-Identifier: GPL-2.0-or-later
//! What must not move with the cost of connectors (workloads.md 4.2): many
//! watches of one instance, updates of one watch, and path look-ups. One worker
//! on the first CPU, each control of a round in a process of its own.

use super::tally::WORDS;
use super::{OTHER_FILES, Processes};
use crate::inotify::{Drained, Fixture, Instance, Limits, Wanted, c_path, create, raise_open_files};
use crate::measure::{Clock, Cpu};
use crate::stop::Stop;
use crate::workloads::{Condition, Parameter, Rounds, Session, Setting, Value};
use nix::errno::Errno;
use nix::libc;
use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// How many calls each control makes.
pub const CALLS: Parameter = Parameter {
    id: "calls",
    summary: "watches, updates and look-ups of each control",
    default: "1024",
    values: &[],
};
/// Larger numbers are refused: all paths are made beforehand.
const MOST_CALLS: u64 = 1 << 20;

const BULK_MASK: u32 = libc::IN_CREATE | libc::IN_DELETE | libc::IN_MOVED_FROM | libc::IN_MOVED_TO;
/// Untimed mask updates.
const WARM_UPDATES: usize = 2;
/// Untimed look-ups.
const WARM_LOOKUPS: usize = 16;

/// The three controls, in the order of their metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Control {
    Bulk,
    MaskUpdate,
    PathLookup,
}

/// The arm of the controls.
#[derive(Debug)]
pub struct Controls {
    cpu: Cpu,
    calls: usize,
    rounds: u64,
    counts: [Counts; 3],
    processes: Processes,
}

/// What processes of one control counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    time: u64,
    /// Calls that did what they should.
    good: u64,
    ignored: u64,
    overflow: u64,
    other: u64,
    in_place: u64,
}

impl Controls {
    /// # Errors
    /// A limit is too low, or there is no tmpfs.
    pub fn new(setting: &Setting<'_>) -> Result<Self, Stop> {
        let calls = setting.parameters.number(CALLS.id);
        if !(1..=MOST_CALLS).contains(&calls) {
            return Err(Stop::Usage(format!("calls={calls} is not between 1 and {MOST_CALLS}")));
        }
        // Every watch leaves one event until the end.
        let wanted = Wanted { instances: 1, watches: calls, events: calls };
        Limits::read(Path::new("/proc"), nix::unistd::getuid().as_raw())?.check(wanted)?;
        raise_open_files(OTHER_FILES)?;
        Fixture::on_tmpfs()?.remove()?;
        Ok(Self {
            cpu: setting.cpu,
            calls: usize::try_from(calls).expect("checked above"),
            rounds: 0,
            counts: [Counts::default(); 3],
            processes: Processes::default(),
        })
    }

    fn process(&mut self, control: Control, clock: Clock) -> Result<u64, Stop> {
        let (calls, cpu) = (self.calls, self.cpu);
        let words = self.processes.run(&[cpu.0], move |root, words| {
            measure(control, root, calls, cpu, clock).map(|counts| counts.store(words))
        })?;
        let counts = Counts::load(&words);
        self.counts[control as usize].add(counts);
        Ok(counts.time)
    }
}

impl Counts {
    fn store(self, words: &mut [u64; WORDS]) {
        let own = [self.time, self.good, self.ignored, self.overflow, self.other, self.in_place];
        words[..own.len()].copy_from_slice(&own);
    }

    fn load(words: &[u64; WORDS]) -> Self {
        let [time, good, ignored, overflow, other, in_place, ..] = *words;
        Self { time, good, ignored, overflow, other, in_place }
    }

    fn add(&mut self, more: Self) {
        self.time += more.time;
        self.good += more.good;
        self.ignored += more.ignored;
        self.overflow += more.overflow;
        self.other += more.other;
        self.in_place += more.in_place;
    }

    fn events(mut self, found: Drained) -> Self {
        self.ignored = found.ignored;
        self.overflow = found.overflow;
        self.other = found.other + found.unmounted;
        self
    }
}

impl Rounds for Controls {
    fn round(&mut self, clock: Clock, _round: u64, values: &mut [Value]) -> Result<(), Stop> {
        for (value, control) in
            values.iter_mut().zip([Control::Bulk, Control::MaskUpdate, Control::PathLookup])
        {
            *value = Value { sum: self.process(control, clock)?, operations: self.calls as u64 };
        }
        self.rounds += 1;
        Ok(())
    }
}

impl Session for Controls {
    fn facts(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        Ok(vec![("workers", 1), ("calls", self.calls as u64)])
    }

    fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
        let mut conditions = conditions(self.rounds, self.calls as u64, &self.counts);
        conditions.push(self.processes.restored());
        Ok(conditions)
    }
}

/// Whether everything was as it must be.
fn conditions(rounds: u64, calls: u64, counts: &[Counts; 3]) -> Vec<Condition> {
    let [bulk, update, lookup] = counts;
    let all = rounds * calls;
    let of = |name, found: u64, wanted: u64, what: &str| {
        Condition::new(name, found == wanted, format!("{found} of {wanted} {what}"))
    };
    let overflow: u64 = counts.iter().map(|c| c.overflow).sum();
    let other: u64 = counts.iter().map(|c| c.other).sum();
    vec![
        of("bulk.watches", bulk.good, all, "watches added, each its own, and removed"),
        of("bulk.ignored", bulk.ignored, all, "removals left one IN_IGNORED"),
        of("mask_update.watch", update.good, all, "updates returned the same watch"),
        of("mask_update.ignored", update.ignored, rounds, "removals left one IN_IGNORED"),
        of("path_lookup.files", lookup.good, all, "files opened by path and closed"),
        Condition::new("overflow", overflow == 0, format!("{overflow} overflows of the event queue")),
        Condition::new("other_events", other == 0, format!("{other} events that belong to no removal")),
        of("affinity", counts.iter().map(|c| c.in_place).sum(), 3 * rounds, "processes stayed on their CPU"),
    ]
}

/// One control from set-up to clean-up, in `root`.
fn measure(control: Control, root: &Path, calls: usize, cpu: Cpu, clock: Clock) -> Result<Counts, Stop> {
    let before = cpu.runs_here();
    let mut counts = match control {
        Control::Bulk => bulk(root, calls, clock)?,
        Control::MaskUpdate => mask_update(&file(root)?, calls, clock)?,
        Control::PathLookup => path_lookup(&file(root)?, calls, clock),
    };
    counts.in_place = u64::from(before && cpu.is_here());
    for entry in fs::read_dir(root).map_err(|e| Stop::failed(root.display(), e))?.flatten() {
        let path = entry.path();
        let removed = if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        removed.map_err(|e| Stop::failed(path.display(), e))?;
    }
    Ok(counts)
}

fn file(root: &Path) -> Result<CString, Stop> {
    let path = root.join("f-00000000");
    create(&path)?;
    Ok(c_path(&path))
}

fn bulk(root: &Path, calls: usize, clock: Clock) -> Result<Counts, Stop> {
    let mut paths = Vec::with_capacity(calls);
    for number in 0..calls {
        let path = root.join(format!("d-{number:08}"));
        DirBuilder::new().mode(0o700).create(&path).map_err(|e| Stop::failed(path.display(), e))?;
        paths.push(c_path(&path));
    }
    let instance = Instance::new()?;
    let mut watches = vec![-1; calls];
    let mut removed = vec![-1; calls];
    let start = clock.now();
    for (watch, path) in watches.iter_mut().zip(&paths) {
        *watch = instance.add(path, BULK_MASK);
    }
    let end = clock.now();
    let add = end.wrapping_sub(start);
    let start = clock.now();
    for (result, watch) in removed.iter_mut().zip(&watches) {
        *result = instance.remove(*watch);
    }
    let end = clock.now();
    let removals = removed.iter().filter(|r| **r == 0).count();
    watches.retain(|watch| *watch > 0);
    watches.sort_unstable();
    watches.dedup();
    let counts = Counts {
        time: add + end.wrapping_sub(start),
        good: watches.len().min(removals) as u64,
        ..Counts::default()
    };
    Ok(counts.events(instance.drain()?))
}

fn mask_update(path: &CStr, calls: usize, clock: Clock) -> Result<Counts, Stop> {
    let mask = |call: usize| if call.is_multiple_of(2) { libc::IN_MODIFY } else { libc::IN_ATTRIB };
    let instance = Instance::new()?;
    let watch = instance.add(path, mask(1));
    for call in 0..WARM_UPDATES {
        if watch < 0 || instance.add(path, mask(call)) != watch {
            return Err(Stop::failed("inotify_add_watch of a watched file", Errno::last()));
        }
    }
    let mut results = vec![-1; calls];
    let start = clock.now();
    for (call, result) in results.iter_mut().enumerate() {
        *result = instance.add(path, mask(call));
    }
    let end = clock.now();
    let good = results.iter().filter(|result| **result == watch).count() as u64;
    if instance.remove(watch) != 0 {
        return Err(Stop::failed("inotify_rm_watch", Errno::last()));
    }
    let counts = Counts { time: end.wrapping_sub(start), good, ..Counts::default() };
    Ok(counts.events(instance.drain()?))
}

fn path_lookup(path: &CStr, calls: usize, clock: Clock) -> Counts {
    let look_up = || {
        // SAFETY: `path` is a NUL-terminated string that lives for the whole call.
        let file = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        // SAFETY: the descriptor is this call's own; one that is none is refused.
        let closed = unsafe { libc::close(file) };
        u64::from(file >= 0 && closed == 0)
    };
    for _ in 0..WARM_LOOKUPS {
        look_up();
    }
    let mut good = 0;
    let start = clock.now();
    for _ in 0..calls {
        good += look_up();
    }
    let end = clock.now();
    Counts { time: end.wrapping_sub(start), good, ..Counts::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{ClockName, pin};

    fn good() -> [Counts; 3] {
        let counts = |good, ignored| Counts { time: 5, good, ignored, in_place: 2, ..Counts::default() };
        [counts(8, 8), counts(8, 2), counts(8, 0)]
    }

    fn failed(counts: &[Counts; 3]) -> Vec<&'static str> {
        conditions(2, 4, counts).into_iter().filter(|c| !c.pass).map(|c| c.name).collect()
    }

    #[test]
    fn every_condition_fails_by_its_own_number_alone() {
        assert_eq!(failed(&good()), [""; 0]);
        for (change, name) in [
            ((|c| c[0].good -= 1) as fn(&mut [Counts; 3]), "bulk.watches"),
            (|c| c[0].ignored += 1, "bulk.ignored"),
            (|c| c[1].good -= 1, "mask_update.watch"),
            (|c| c[1].ignored -= 1, "mask_update.ignored"),
            (|c| c[2].good -= 1, "path_lookup.files"),
            (|c| c[1].overflow += 1, "overflow"),
            (|c| c[2].other += 1, "other_events"),
            (|c| c[0].in_place -= 1, "affinity"),
        ] {
            let mut counts = good();
            change(&mut counts);
            assert_eq!(failed(&counts), [name]);
        }
    }

    #[test]
    fn every_control_does_all_its_calls_and_leaves_nothing() {
        std::thread::spawn(|| {
            let cpu = pin(&[], true).expect("some CPU");
            let clock = Clock::new(ClockName::MonotonicRaw, false);
            for (control, ignored) in [(Control::Bulk, 8), (Control::MaskUpdate, 1), (Control::PathLookup, 0)]
            {
                let fixture = Fixture::anywhere();
                let counts = measure(control, fixture.path(), 8, cpu, clock).expect("works");
                let expected =
                    Counts { time: counts.time, good: 8, ignored, in_place: 1, ..Counts::default() };
                assert_eq!(counts, expected, "{control:?}");
                assert!(counts.time > 0);
                fixture.remove_empty().expect("nothing is left");
            }
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_counted_and_a_watch_that_cannot_be_made_ends_it() {
        let clock = Clock::new(ClockName::MonotonicRaw, false);
        assert_eq!(path_lookup(c"/no/such/file", 3, clock).good, 0);
        let error = mask_update(c"/no/such/file", 3, clock).expect_err("no such file");
        assert!(error.to_string().contains("ENOENT"), "{error}");
    }

    #[test]
    fn numbers_arrive_as_they_were_stored() {
        let counts = Counts { time: 1, good: 2, ignored: 3, overflow: 4, other: 5, in_place: 6 };
        let mut words = [0; WORDS];
        counts.store(&mut words);
        assert_eq!(Counts::load(&words), counts);
    }
}
