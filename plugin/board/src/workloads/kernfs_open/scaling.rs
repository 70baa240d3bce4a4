// SPDX-License-Identifier: GPL-2.0-or-later
//! Many workers at once, in windows: each counts in its own slot, and an
//! unpinned parent reads all slots at both ends of a window (workloads.md 3.3).

use super::super::{Condition, Rounds, Session, Setting, Value};
use super::access::{Access, Accessor};
use super::places::Places;
use super::tree::{Target, Tree};
use crate::measure::{Clock, Unpinned, Usage, Worker, WorkerKind, Workers};
use crate::observe::Frames;
use crate::stop::Stop;
use std::sync::Arc;
use std::time::Duration;

/// Words of a slot.
const COUNT: usize = 0;
const ELSEWHERE: usize = 1;
/// Workers end within this time once they are told to.
const END_LIMIT: Duration = Duration::from_secs(30);
/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Workers that have been started, and what they did in the windows so far.
#[derive(Debug)]
pub struct Scaling {
    workers: Option<Workers>,
    released: bool,
    window: Duration,
    places: Places,
    /// Of each worker, in the windows since the first.
    counts: Vec<u64>,
    /// Windows in which a worker stood still.
    stalls: u64,
    usage: Vec<Usage>,
    total: u64,
    tree: Arc<Tree>,
    _unpinned: Unpinned,
}

impl Scaling {
    /// Starts the workers; they wait for the first window.
    ///
    /// # Errors
    /// There are fewer CPUs or files than workers, or one of them failed.
    pub fn new(setting: &Setting<'_>, tree: Tree, access: Access, count: usize) -> Result<Self, Stop> {
        let unpinned = Unpinned::here()?;
        let places = Places::choose(setting.topology, count)?;
        let parameters = setting.parameters;
        let same = parameters.text("files") == "same";
        let window = Duration::from_millis(parameters.number("window_ms"));
        if window.is_zero() {
            return Err(Stop::Usage("window_ms=0: a window needs some time".into()));
        }
        let shares = (0..count).map(|index| tree.share(index, count, same)).collect::<Result<Vec<_>, _>>()?;
        let kind =
            if parameters.text("worker") == "thread" { WorkerKind::Thread } else { WorkerKind::Process };
        let tree = Arc::new(tree);
        let of_workers = Arc::clone(&tree);
        let one_each: Vec<Vec<usize>> = places.cpus.0.iter().map(|cpu| vec![*cpu]).collect();
        let workers = Workers::start(kind, &one_each, move |worker| {
            work(worker, access, &of_workers, &shares[worker.index])
        })?;
        Ok(Self {
            workers: Some(workers),
            released: false,
            window,
            places,
            counts: vec![0; count],
            stalls: 0,
            usage: Vec::new(),
            total: 0,
            tree,
            _unpinned: unpinned,
        })
    }

    /// One window; ns that it took and operations of all workers in it.
    fn window(&mut self, clock: Clock) -> Result<(u64, u64), Stop> {
        let window = self.window;
        let workers = self.running()?;
        let look =
            |workers: &Workers| -> Vec<u64> { workers.slots().iter().map(|slot| slot.get(COUNT)).collect() };
        let (before, start) = (look(workers), clock.now());
        std::thread::sleep(window);
        let (after, end) = (look(workers), clock.now());
        workers.check()?;
        let elapsed = end.wrapping_sub(start);
        let done: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
        let all: u64 = done.iter().sum();
        for (count, done) in self.counts.iter_mut().zip(&done) {
            *count += done;
        }
        self.stalls += u64::from(done.contains(&0));
        if all == 0 || elapsed == 0 {
            return Err(Stop::Failed(format!("nothing was opened in a window of {} ms", window.as_millis())));
        }
        Ok((elapsed, all))
    }

    fn running(&mut self) -> Result<&mut Workers, Stop> {
        self.workers.as_mut().ok_or_else(|| Stop::Bug("the session has ended".into()))
    }
}

/// The loop of one worker.
fn work(worker: &Worker<'_>, access: Access, tree: &Tree, targets: &[Target]) -> Result<(), Stop> {
    let mut accessor = Accessor::new(access, tree, targets)?;
    let slot = worker.slot();
    worker.ready()?;
    while !worker.stopping() {
        for index in 0..targets.len() {
            accessor.once(targets, index).map_err(|fault| fault.of(&targets[index]))?;
            slot.add(COUNT, 1);
        }
        slot.add(ELSEWHERE, u64::from(worker.cpu.is_none_or(|cpu| !cpu.runs_here())));
    }
    slot.add(ELSEWHERE, u64::from(!worker.affinity_holds()));
    Ok(())
}

impl Session for Scaling {
    fn facts(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        Ok(vec![
            ("depth", self.tree.depth),
            ("links", self.tree.links),
            ("files", self.tree.targets.len() as u64),
            ("on_physical_cores", self.places.physical),
            ("on_siblings", self.places.siblings),
            ("on_efficiency_cores", self.places.efficiency),
        ])
    }

    fn found(&mut self, median: &dyn Fn(&str, &str) -> Option<f64>) -> Vec<(&'static str, u64)> {
        let all: u64 = self.counts.iter().sum();
        let share = |count: Option<&u64>| per_million(count.copied().unwrap_or(0) as f64, all as f64);
        let mut facts = vec![
            ("smallest_share_ppm", share(self.counts.iter().min())),
            ("largest_share_ppm", share(self.counts.iter().max())),
            ("operations", self.total),
            ("voluntary_switches", self.usage.iter().map(|u| u.voluntary_switches).sum()),
            ("involuntary_switches", self.usage.iter().map(|u| u.involuntary_switches).sum()),
        ];
        let count = self.counts.len();
        let rate = |workers: usize| median(&format!("w{workers}"), "opens_per_s");
        if let (Some(one), Some(own)) = (rate(1), rate(count)) {
            facts.push(("efficiency_ppm", per_million(own, count as f64 * one)));
        }
        facts
    }

    fn frames(&self) -> Frames {
        super::FRAMES
    }

    fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
        let workers = self.workers.take().ok_or_else(|| Stop::Bug("the session has ended".into()))?;
        let slots = workers.lasting_slots();
        self.usage = workers.finish(END_LIMIT)?;
        self.total = slots.iter().map(|slot| slot.get(COUNT)).sum();
        let elsewhere: u64 = slots.iter().map(|slot| slot.get(ELSEWHERE)).sum();
        // The workers have ended and with them their hold on it.
        let left = Arc::get_mut(&mut self.tree).map(Tree::remove);
        Ok(vec![
            // Any other outcome has ended the run already.
            Condition::new(
                "operations",
                true,
                format!("{} operations, each with the content of the first", self.total),
            ),
            Condition::new("placement", true, self.places.to_string()),
            Condition::new(
                "affinity",
                elsewhere == 0,
                format!("CPUs {}, {elsewhere} passes over the files ended elsewhere", self.places.cpus),
            ),
            Condition::new(
                "progress",
                self.stalls == 0,
                format!("in {} windows a worker did not get on", self.stalls),
            ),
            Condition::new(
                "restored",
                left.as_ref().is_some_and(Vec::is_empty),
                format!("left behind: {:?}", left.unwrap_or_default()),
            ),
        ])
    }
}

impl Rounds for Scaling {
    fn round(&mut self, clock: Clock, round: u64, values: &mut [Value]) -> Result<(), Stop> {
        if !self.released {
            self.running()?.release()?;
            self.released = true;
        }
        if round == 1 {
            // What came before were warm-ups.
            self.counts.fill(0);
            self.stalls = 0;
        }
        let (elapsed, all) = self.window(clock)?;
        values[0] = Value { sum: all * SECOND, operations: elapsed };
        values[1] = Value { sum: elapsed * self.counts.len() as u64, operations: all };
        Ok(())
    }

    fn workers(&self) -> Vec<(nix::unistd::Pid, Option<usize>)> {
        let cpus = &self.places.cpus.0;
        let ids = self.workers.as_ref().map(Workers::thread_ids).unwrap_or_default();
        ids.into_iter().zip(cpus.iter().copied().map(Some)).collect()
    }

    fn done(&self) -> u64 {
        self.workers.iter().flat_map(Workers::slots).map(|slot| slot.get(COUNT)).sum()
    }
}

fn per_million(part: f64, whole: f64) -> u64 {
    if whole > 0.0 { (1e6 * part / whole).round() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{CpuList, Topology};
    use crate::measure::{ClockName, Cpu, allowed_cpus};
    use crate::workloads::{KERNFS_OPEN, Parameters};
    use nix::sched::{CpuSet, sched_setaffinity};
    use nix::sys::signal::{Signal, kill};
    use std::path::Path;

    fn parameters(asked: &[(&str, &str)]) -> Parameters {
        let asked: Vec<_> = asked.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned())).collect();
        Parameters::new(KERNFS_OPEN.parameters, &asked).expect("valid")
    }

    /// Two workers on these CPUs, with a file each in a directory that vanishes.
    fn two_workers(asked: &[(&str, &str)], cpus: &CpuList) -> (tempfile::TempDir, Result<Scaling, Stop>) {
        let place = tempfile::tempdir().expect("temporary directory");
        let files = ["a", "b"].map(|name| place.path().join(name));
        for file in &files {
            std::fs::write(file, "0\n").expect("writable");
        }
        let topology = Topology::read(Path::new("/sys")).limited_to(cpus);
        let parameters = parameters(&[&[("window_ms", "100")], asked].concat());
        let setting = Setting { arm: "w2", topology: &topology, cpu: Cpu(0), parameters: &parameters };
        let tree = Tree::of(&files, 1, 0).expect("readable");
        let session = Scaling::new(&setting, tree, Access::Open, 2);
        (place, session)
    }

    /// Two CPUs that may be used; `None` on a machine with one, which has no two workers.
    fn two_cpus() -> Option<CpuList> {
        Some(CpuList(allowed_cpus().expect("affinity").0.get(..2)?.to_vec()))
    }

    fn round(session: &mut Scaling) -> Result<[Value; 2], Stop> {
        let mut values = [Value::default(); 2];
        session.round(crate::measure::Clock::new(ClockName::MonotonicRaw, false), 1, &mut values)?;
        Ok(values)
    }

    fn failed(conditions: &[Condition]) -> Vec<&'static str> {
        conditions.iter().filter(|c| !c.pass).map(|c| c.name).collect()
    }

    #[test]
    fn a_window_yields_a_rate_and_the_time_of_each_operation() {
        let Some(cpus) = two_cpus() else { return };
        for worker in ["process", "thread"] {
            let (_place, session) = two_workers(&[("worker", worker)], &cpus);
            let mut session = session.expect("two CPUs and two files");
            let [rate, time] = round(&mut session).expect("they run");
            assert_eq!(rate.sum, time.operations * SECOND);
            assert_eq!(time.sum, 2 * rate.operations, "the time of both workers");
            assert!(rate.operations >= 100_000_000, "a window of 100 ms: {rate:?}");
            let median = |arm: &str, _: &str| (arm == "w1" || arm == "w2").then_some(100.0);
            let failed = failed(&session.finish().expect("they end"));
            // On a busy machine a worker may stand still for the whole of so short a window.
            assert!(failed.iter().all(|name| *name == "progress"), "{failed:?}");
            let found = session.found(&median);
            let fact = |name: &str| found.iter().find(|f| f.0 == name).map(|f| f.1);
            assert_eq!(fact("efficiency_ppm"), Some(500_000), "twice the workers at the same rate");
            let shares = fact("smallest_share_ppm").zip(fact("largest_share_ppm")).expect("both");
            assert!(shares.0 <= shares.1 && shares.0 + shares.1 == 1_000_000, "{shares:?}");
            assert_eq!(fact("operations"), Some(session.total));
        }
    }

    #[test]
    fn without_a_rate_of_one_worker_there_is_no_efficiency() {
        let Some(cpus) = two_cpus() else { return };
        let (_place, session) = two_workers(&[], &cpus);
        let mut session = session.expect("two CPUs and two files");
        round(&mut session).expect("they run");
        session.finish().expect("they end");
        assert!(session.found(&|_, _| None).iter().all(|fact| fact.0 != "efficiency_ppm"));
    }

    #[test]
    fn other_content_ends_the_run() {
        let Some(cpus) = two_cpus() else { return };
        let (place, session) = two_workers(&[], &cpus);
        let mut session = session.expect("two CPUs and two files");
        round(&mut session).expect("they run");
        std::fs::write(place.path().join("new"), "1\n").expect("writable");
        std::fs::rename(place.path().join("new"), place.path().join("b")).expect("same directory");
        // The worker sees it as soon as it runs.
        let clock = Clock::new(ClockName::MonotonicRaw, false);
        let end = (0..500).find_map(|_| session.window(clock).err()).expect("a worker has seen it");
        assert!(end.to_string().contains("/b reads otherwise"), "{end}");
    }

    #[test]
    fn a_worker_that_stands_still_is_no_progress() {
        let Some(cpus) = two_cpus() else { return };
        let (_place, session) = two_workers(&[], &cpus);
        let mut session = session.expect("two CPUs and two files");
        round(&mut session).expect("they run");
        let stopped = Rounds::workers(&session)[1].0;
        kill(stopped, Signal::SIGSTOP).expect("our child");
        // The signal arrives in the first of these windows at the latest.
        for _ in 0..2 {
            session.window(Clock::new(ClockName::MonotonicRaw, false)).expect("the other one runs");
        }
        kill(stopped, Signal::SIGCONT).expect("our child");
        assert!(failed(&session.finish().expect("they end")).contains(&"progress"));
    }

    #[test]
    fn a_worker_that_lost_its_cpu_is_seen() {
        let Some(cpus) = two_cpus() else { return };
        let (_place, session) = two_workers(&[], &cpus);
        let mut session = session.expect("two CPUs and two files");
        round(&mut session).expect("they run");
        let mut both = CpuSet::new();
        cpus.0.iter().for_each(|cpu| both.set(*cpu).expect("a CPU"));
        sched_setaffinity(Rounds::workers(&session)[0].0, &both).expect("our child");
        assert!(failed(&session.finish().expect("they end")).contains(&"affinity"));
    }

    #[test]
    fn too_few_cpus_no_window_and_too_few_files_are_told() {
        let one = CpuList(vec![allowed_cpus().expect("affinity").0[0]]);
        let (_place, session) = two_workers(&[], &one);
        let told = session.expect_err("one CPU").to_string();
        assert!(told.contains("2 workers need a CPU each, and there are 1"), "{told}");
        let Some(cpus) = two_cpus() else { return };
        let (_place, session) = two_workers(&[("window_ms", "0")], &cpus);
        assert!(matches!(session, Err(Stop::Usage(text)) if text.contains("window_ms")));
    }

    #[test]
    fn parts_of_nothing_are_nothing() {
        assert_eq!((per_million(1.0, 4.0), per_million(1.0, 0.0)), (250_000, 0));
    }
}
