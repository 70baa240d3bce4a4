// SPDX-License-Identifier: GPL-2.0-or-later
//! The loops over samples, arms, rounds and operations. The timed parts allocate and print nothing.

use super::{Clock, Disturbances, Timed};
use crate::emit::{Begun, Emitter, median};
use crate::settle::pause;
use crate::signals;
use crate::stop::Stop;
use crate::workloads::{Arm, Condition, Operations, Prepared, Rounds, Setting, Value, Workload};
use hdrhistogram::Histogram;
use kernmark_wire as wire;
use kernmark_wire::Record;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Single operations in one line of results.
const CHUNK: usize = 512;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Samples, or rounds, for each arm.
    pub samples: u64,
    /// Operations in each sample. A workload with rounds of its own size may take less notice.
    pub operations: u64,
    /// Before each sample untimed operations; before the first round untimed rounds.
    pub warmups: u64,
}

/// How it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// The clock.
    pub clock: Clock,
    /// Whether each operation is reported too.
    pub single_operations: bool,
    /// Pause before each sample but the first.
    pub between: Duration,
    /// All samples of an arm in one set-up, arm after arm: in the deterministic emulator nothing
    /// drifts, and every set-up anew would add its own placement in memory to the numbers.
    pub one_set_up: bool,
}

/// An arm to be measured.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    /// Which.
    pub arm: &'static Arm,
    /// How much.
    pub amount: Amount,
    /// Where and with what.
    pub setting: Setting<'a>,
}

/// What became of an arm: the conditions of its validity, or why it was not measured.
pub type Outcome = Result<Vec<Condition>, Stop>;

/// Measures the arms of one workload and reports their numbers; what became of each, in order.
///
/// Operations timed one by one: each sample is set up anew, and the order of the arms rotates
/// from sample to sample (workloads.md 2.2); but see [`Manner::one_set_up`]. Rounds: all of one
/// arm, in one set-up.
///
/// # Errors
/// A signal came in, or results cannot be written.
pub fn measure(
    workload: &Workload,
    planned: &[Planned<'_>],
    manner: Manner,
    out: &mut Emitter,
) -> Result<Vec<Outcome>, Stop> {
    let mut arms: Vec<Progress> = planned.iter().map(Progress::new).collect();
    let most = planned.iter().map(|p| p.amount.samples).max().unwrap_or(0);
    let rounds = if manner.one_set_up { 1 } else { most };
    for round in 0..rounds {
        for turn in 0..arms.len() {
            let at = (turn + usize::try_from(round).expect("fits in memory")) % arms.len();
            let plan = &planned[at];
            let samples = if manner.one_set_up { 0..plan.amount.samples } else { round..round + 1 };
            if arms[at].stopped.is_some() || samples.end > plan.amount.samples || arms[at].rounds {
                continue;
            }
            if (round, turn) != (0, 0) {
                pause(manner.between)?;
            }
            let earlier = medians(&arms, planned);
            let arm = &mut arms[at];
            if let Err(stop) = arm.samples(workload, plan, samples, (manner, &earlier), out) {
                if matches!(stop, Stop::Interrupted | Stop::Output(_)) {
                    return Err(stop);
                }
                arm.stopped = Some(stop);
            }
        }
    }
    let mut outcomes = Vec::new();
    for (arm, plan) in arms.into_iter().zip(planned) {
        outcomes.push(match arm.stopped {
            Some(stop) => Err(stop),
            None => {
                report_facts(workload.id, plan.arm.id, &arm.facts, out)?;
                arm.numbers.report(workload, plan, manner, out)?;
                Ok(arm.conditions)
            }
        });
    }
    Ok(outcomes)
}

/// Reports what a workload states about its set-up.
///
/// # Errors
/// Results cannot be written.
pub fn report_facts(
    workload: &str,
    arm: &str,
    facts: &[(impl AsRef<str>, u64)],
    out: &mut Emitter,
) -> Result<(), Stop> {
    for (name, value) in facts {
        out.emit(Record::Fact(wire::Fact {
            workload: workload.into(),
            arm: arm.into(),
            name: name.as_ref().into(),
            value: *value,
        }))?;
    }
    Ok(())
}

/// One arm under way.
struct Progress {
    facts: Vec<(&'static str, u64)>,
    numbers: Numbers,
    conditions: Vec<Condition>,
    stopped: Option<Stop>,
    /// Its rounds were all measured in one set-up.
    rounds: bool,
    /// Of all samples so far.
    disturbances: Disturbances,
}

/// Medians of rounds by arm and metric.
type Medians = BTreeMap<(&'static str, &'static str), f64>;

fn medians(arms: &[Progress], planned: &[Planned<'_>]) -> Medians {
    arms.iter().zip(planned).flat_map(|(arm, plan)| arm.numbers.medians(plan.arm)).collect()
}

/// What was measured, one row for each metric.
enum Numbers {
    Operations(Vec<Vec<Timed>>),
    Rounds(Vec<Vec<Value>>),
}

impl Progress {
    fn new(plan: &Planned<'_>) -> Self {
        let total = plan.amount.operations * plan.amount.samples;
        // Written once here so that no page fault falls into a timed window.
        let row = vec![Timed { duration: 1, waiting: 1 }; usize::try_from(total).expect("fits in memory")];
        let rows = vec![row; plan.arm.metrics.len()];
        Self {
            facts: Vec::new(),
            numbers: Numbers::Operations(rows),
            conditions: Vec::new(),
            stopped: None,
            rounds: false,
            disturbances: Disturbances::default(),
        }
    }

    /// These samples in a set-up of their own; all samples of an arm that has rounds.
    fn samples(
        &mut self,
        workload: &Workload,
        plan: &Planned<'_>,
        samples: Range<u64>,
        (manner, earlier): (Manner, &Medians),
        out: &Emitter,
    ) -> Result<(), Stop> {
        let mut prepared = (workload.prepare)(&plan.setting)?;
        if samples.start == 0 {
            self.facts = prepared.session().facts()?;
        }
        match (&mut prepared, &mut self.numbers) {
            (Prepared::Operations(session), Numbers::Operations(rows)) => {
                let done = samples.end * plan.amount.operations;
                let mut elsewhere = 0;
                for sample in samples {
                    session.settle()?;
                    let (arm, total) = (plan.arm.id, plan.amount.samples);
                    out.progress(Begun { workload: workload.id, arm, done: sample, total });
                    let first = usize::try_from(sample * plan.amount.operations).expect("fits in memory");
                    let disturbances = &mut self.disturbances;
                    elsewhere += one_by_one(session.as_mut(), plan, manner.clock, rows, first, disturbances)?;
                }
                let cpu = plan.setting.cpu;
                let detail = format!("CPU {}, {elsewhere} operations ended elsewhere", cpu.0);
                self.condition(Condition::new("affinity", elsewhere == 0 && cpu.is_here(), detail));
                for condition in self.disturbances.conditions(done) {
                    self.condition(condition);
                }
            }
            (Prepared::Rounds(session), numbers) => {
                session.settle()?;
                *numbers = Numbers::Rounds(rounds(session.as_mut(), workload, plan, manner.clock, out)?);
                self.rounds = true;
            }
            (Prepared::Operations(_), Numbers::Rounds(_)) => {
                return Err(Stop::Bug(format!("{} changed its kind", workload.id)));
            }
        }
        prepared.session().settle()?;
        for condition in prepared.session().finish()? {
            self.condition(condition);
        }
        let own = self.numbers.medians(plan.arm);
        let median = |arm: &str, metric: &str| {
            let known = own.iter().chain(earlier).find(|((a, m), _)| *a == arm && *m == metric);
            known.map(|(_, value)| *value)
        };
        self.facts.extend(prepared.session().found(&median));
        Ok(())
    }

    /// A condition holds if it held in each sample; what was seen is that of the first failure,
    /// else of the last sample.
    fn condition(&mut self, condition: Condition) {
        match self.conditions.iter_mut().find(|c| c.name == condition.name) {
            Some(known) if known.pass => *known = condition,
            Some(_) => {}
            None => self.conditions.push(condition),
        }
    }
}

/// One sample; how many sequences ended on another CPU. What disturbed them is added to `disturbances`.
fn one_by_one(
    session: &mut dyn Operations,
    plan: &Planned<'_>,
    clock: Clock,
    rows: &mut [Vec<Timed>],
    first: usize,
    disturbances: &mut Disturbances,
) -> Result<u64, Stop> {
    let mut times = vec![Timed::default(); rows.len()];
    let mut elsewhere = 0;
    for _ in 0..plan.amount.warmups {
        signals::check()?;
        session.sequence(clock, &mut times)?;
    }
    let operations = usize::try_from(plan.amount.operations).expect("fits in memory");
    let before = Disturbances::so_far();
    for operation in first..first + operations {
        signals::check()?;
        session.sequence(clock, &mut times)?;
        elsewhere += u64::from(!plan.setting.cpu.runs_here());
        for (row, time) in rows.iter_mut().zip(&times) {
            row[operation] = *time;
        }
    }
    disturbances.add_since(before);
    Ok(elsewhere)
}

fn rounds(
    session: &mut dyn Rounds,
    workload: &Workload,
    plan: &Planned<'_>,
    clock: Clock,
    out: &Emitter,
) -> Result<Vec<Vec<Value>>, Stop> {
    let metrics = plan.arm.metrics.len();
    let mut values = vec![Value::default(); metrics];
    let mut rows = vec![Vec::new(); metrics];
    for (count, measured) in [(plan.amount.warmups, false), (plan.amount.samples, true)] {
        for round in 1..=count {
            signals::check()?;
            if measured {
                let (arm, done) = (plan.arm.id, round - 1);
                out.progress(Begun { workload: workload.id, arm, done, total: count });
            }
            session.round(clock, round, &mut values)?;
            if measured {
                rows.iter_mut().zip(&values).for_each(|(row, value)| row.push(*value));
            }
        }
    }
    Ok(rows)
}

impl Numbers {
    /// Of rounds; none of operations, which the host summarises.
    fn medians(&self, arm: &Arm) -> Medians {
        let Self::Rounds(rows) = self else { return Medians::new() };
        let of_row = |row: &Vec<Value>| {
            median(row.iter().map(|v| v.sum as f64 / v.operations.max(1) as f64).collect())
        };
        arm.metrics
            .iter()
            .zip(rows)
            .filter_map(|(metric, row)| Some(((arm.id, metric.id), of_row(row)?)))
            .collect()
    }

    fn report(
        &self,
        workload: &Workload,
        plan: &Planned<'_>,
        manner: Manner,
        out: &mut Emitter,
    ) -> Result<(), Stop> {
        let (id, arm) = (workload.id, plan.arm);
        match self {
            Self::Operations(rows) => {
                let operations = usize::try_from(plan.amount.operations).expect("fits in memory");
                for (metric, row) in arm.metrics.iter().zip(rows) {
                    for (number, block) in row.chunks(operations).enumerate() {
                        let sum = block.iter().map(|t| t.duration).sum();
                        let value = Value { sum, operations: plan.amount.operations };
                        out.emit(sample(id, arm, metric, number, value))?;
                    }
                    if manner.single_operations {
                        report_single(id, arm.id, metric, row, manner.clock, out)?;
                    }
                    out.emit(Record::Histogram(histogram(id, arm.id, metric, row)))?;
                }
            }
            Self::Rounds(rows) => {
                for (metric, row) in arm.metrics.iter().zip(rows) {
                    for (number, value) in row.iter().enumerate() {
                        out.emit(sample(id, arm, metric, number, *value))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn sample(
    workload: &str,
    arm: &Arm,
    metric: &crate::workloads::Metric,
    number: usize,
    value: Value,
) -> Record {
    Record::Sample(wire::Sample {
        workload: workload.into(),
        arm: arm.id.into(),
        metric: metric.id.into(),
        unit: metric.unit.into(),
        better: metric.better.into(),
        sample: number as u64 + 1,
        operations: value.operations,
        sum: value.sum,
    })
}

fn report_single(
    workload: &str,
    arm: &str,
    metric: &crate::workloads::Metric,
    row: &[Timed],
    clock: Clock,
    out: &mut Emitter,
) -> Result<(), Stop> {
    let waits = clock.thread_cpu().is_some();
    for (number, part) in row.chunks(CHUNK).enumerate() {
        out.emit(Record::Operations(wire::Operations {
            workload: workload.into(),
            arm: arm.into(),
            metric: metric.id.into(),
            unit: metric.unit.into(),
            better: metric.better.into(),
            first: (number * CHUNK) as u64,
            values: part.iter().map(|t| t.duration).collect(),
            waiting: if waits { part.iter().map(|t| t.waiting).collect() } else { vec![] },
        }))?;
    }
    Ok(())
}

fn histogram(workload: &str, arm: &str, metric: &crate::workloads::Metric, row: &[Timed]) -> wire::Histogram {
    let mut histogram = Histogram::<u64>::new(3).expect("3 significant digits are supported");
    for time in row {
        histogram.record(time.duration).expect("the histogram grows as needed");
    }
    wire::Histogram {
        workload: workload.into(),
        arm: arm.into(),
        metric: metric.id.into(),
        unit: metric.unit.into(),
        buckets: histogram.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect(),
        min: row.iter().map(|t| t.duration).min().unwrap_or(0),
        max: row.iter().map(|t| t.duration).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Topology;
    use crate::measure::ClockName;
    use crate::measure::Cpu;
    use crate::workloads::{Metric, Parameters, Session};

    /// Counts allocations of each thread, to show that the timed loop makes none.
    struct CountingAllocator;

    thread_local! {
        static ALLOCATIONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    // SAFETY: everything is handed on to the system's allocator unchanged.
    unsafe impl std::alloc::GlobalAlloc for CountingAllocator {
        unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
            ALLOCATIONS.with(|count| count.set(count.get() + 1));
            // SAFETY: the caller keeps the same contract.
            unsafe { std::alloc::System.alloc(layout) }
        }

        unsafe fn dealloc(&self, place: *mut u8, layout: std::alloc::Layout) {
            // SAFETY: the caller keeps the same contract; the place came from `alloc` above.
            unsafe { std::alloc::System.dealloc(place, layout) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    const METRIC: Metric = Metric { id: "m", unit: "ns", better: "lower", primary: true };
    const AMOUNT: Amount = Amount { samples: 2, operations: 3, warmups: 1 };
    const ARM: Arm = Arm {
        id: "arm",
        summary: "",
        metrics: &[METRIC],
        amount: AMOUNT,
        seconds: 1,
        on_boards: true,
        in_emulator: true,
        many_workers: false,
    };
    const OTHER: Arm = Arm { id: "other", ..ARM };
    const ROUNDS: Arm = Arm { id: "rounds", ..ARM };
    const LACKING: Arm = Arm { id: "lacking", ..ARM };
    const WORKLOAD: Workload = Workload {
        arms: &[ARM, OTHER, ROUNDS, LACKING],
        prepare: |setting| match setting.arm {
            "rounds" => Ok(Prepared::Rounds(Box::new(Counting::new(setting.arm)))),
            "lacking" => Err(Stop::Missing("nothing here".into())),
            _ => Ok(Prepared::Operations(Box::new(Counting::new(setting.arm)))),
        },
        ..crate::workloads::CONTROL_GETPPID
    };

    thread_local! {
        /// Sequences of all sessions, and the arms in the order in which they were set up.
        static SEQUENCES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
        static SET_UP: std::cell::RefCell<Vec<&'static str>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    struct Counting;
    impl Counting {
        fn new(arm: &'static str) -> Self {
            SET_UP.with_borrow_mut(|arms| arms.push(arm));
            Self
        }

        fn next() -> u64 {
            SEQUENCES.set(SEQUENCES.get() + 1);
            SEQUENCES.get()
        }
    }
    impl Operations for Counting {
        fn sequence(&mut self, _: Clock, times: &mut [Timed]) -> Result<(), Stop> {
            times[0] = Timed { duration: Self::next(), waiting: 0 };
            Ok(())
        }
    }
    impl Rounds for Counting {
        fn round(&mut self, _: Clock, round: u64, values: &mut [Value]) -> Result<(), Stop> {
            values[0] = Value { sum: Self::next(), operations: round };
            Ok(())
        }
    }
    impl Session for Counting {
        fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
            Ok(vec![Condition::new("early", SEQUENCES.get() <= 4, format!("{}", SEQUENCES.get()))])
        }
    }

    fn measured(arms: &[&'static Arm], cpu: Cpu, one_set_up: bool, out: &mut Emitter) -> Vec<Outcome> {
        let (topology, parameters) = (Topology::default(), Parameters::default());
        SEQUENCES.set(0);
        SET_UP.take();
        let planned: Vec<Planned<'_>> = arms
            .iter()
            .map(|arm| {
                let setting = Setting { arm: arm.id, topology: &topology, cpu, parameters: &parameters };
                Planned { arm, amount: arm.amount, setting }
            })
            .collect();
        let manner = Manner {
            clock: Clock::new(ClockName::Tsc, false),
            single_operations: true,
            one_set_up,
            between: Duration::ZERO,
        };
        measure(&WORKLOAD, &planned, manner, out).expect("no signal")
    }

    fn sums(records: &[Record]) -> Vec<(&str, u64, u64)> {
        records
            .iter()
            .filter_map(|r| match r {
                Record::Sample(s) => Some((s.arm.as_str(), s.sum, s.operations)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn the_timed_loop_allocates_nothing() {
        let mut session = Counting;
        let (topology, parameters) = (Topology::default(), Parameters::default());
        let setting = Setting { arm: "arm", topology: &topology, cpu: Cpu(0), parameters: &parameters };
        let amount = Amount { samples: 1, operations: 100, warmups: 10 };
        let plan = Planned { arm: &ARM, amount, setting };
        let clock = Clock::new(ClockName::MonotonicRaw, true);
        let mut rows = vec![vec![Timed::default(); 100]];
        let before = ALLOCATIONS.get();
        one_by_one(&mut session, &plan, clock, &mut rows, 0, &mut Disturbances::default()).expect("works");
        // The buffer of one sequence's times, made before the loop.
        assert_eq!(ALLOCATIONS.get(), before + 1);
    }

    #[test]
    fn warmups_are_left_out_and_sums_are_exact() {
        let mut out = Emitter::collecting();
        let outcomes = measured(&[&ARM], Cpu(usize::MAX), false, &mut out);
        let conditions = outcomes[0].as_ref().expect("measured");
        assert_eq!(
            conditions[0],
            Condition::new("affinity", false, format!("CPU {}, 3 operations ended elsewhere", usize::MAX))
        );
        let early = conditions.iter().find(|c| c.name == "early").expect("it is one of the session");
        assert_eq!(*early, Condition::new("early", false, "8"), "the first failure is kept");
        let records = out.into_records();
        assert_eq!(sums(&records), [("arm", 2 + 3 + 4, 3), ("arm", 6 + 7 + 8, 3)]);
        let values: Vec<u64> = records
            .iter()
            .filter_map(|r| if let Record::Operations(o) = r { Some(o.values.clone()) } else { None })
            .flatten()
            .collect();
        assert_eq!(values, [2, 3, 4, 6, 7, 8]);
        let Some(Record::Histogram(histogram)) = records.last() else { panic!("no histogram") };
        assert_eq!((histogram.min, histogram.max), (2, 8));
        assert_eq!(histogram.buckets.iter().map(|b| b.1).sum::<u64>(), 6);
    }

    #[test]
    fn the_order_of_arms_rotates_and_each_sample_is_set_up_anew() {
        let mut out = Emitter::collecting();
        let outcomes = measured(&[&ARM, &LACKING, &OTHER, &ROUNDS], Cpu(0), false, &mut out);
        assert!(matches!(&outcomes[1], Err(Stop::Missing(reason)) if reason == "nothing here"));
        assert_eq!(SET_UP.take(), ["arm", "other", "rounds", "other", "arm"]);
        let records = out.into_records();
        let found: Vec<&str> = sums(&records).iter().map(|s| s.0).collect();
        assert_eq!(found, ["arm", "arm", "other", "other", "rounds", "rounds"]);
        // Rounds: one warm-up, then two in the same set-up, counted from 1.
        assert_eq!(sums(&records)[4..], [("rounds", 10, 1), ("rounds", 11, 2)]);
    }

    #[test]
    fn in_the_emulator_an_arm_is_set_up_once() {
        let mut out = Emitter::collecting();
        let outcomes = measured(&[&ARM, &OTHER], Cpu(0), true, &mut out);
        assert!(outcomes.iter().all(Result::is_ok));
        assert_eq!(SET_UP.take(), ["arm", "other"]);
        let records = out.into_records();
        assert_eq!(sums(&records)[..2], [("arm", 2 + 3 + 4, 3), ("arm", 6 + 7 + 8, 3)]);
    }
}
