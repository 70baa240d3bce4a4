// SPDX-License-Identifier: GPL-2.0-or-later
//! The loop over samples and operations. It allocates nothing and prints nothing.

use super::{Clock, Cpu, Timed};
use crate::emit::Emitter;
use crate::signals;
use crate::stop::Stop;
use crate::workloads::{Session, Workload};
use hdrhistogram::Histogram;
use kernmark_wire as wire;
use kernmark_wire::Record;

/// Single operations in one line of results.
const CHUNK: usize = 512;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Samples for each arm.
    pub samples: u64,
    /// Operations in each sample.
    pub operations: u64,
    /// Untimed operations before each sample.
    pub warmups: u64,
}

/// Measures one arm of one workload and reports it; how many sequences ended on another CPU.
///
/// # Errors
/// An operation failed, a signal came in, or results cannot be written.
pub fn measure(
    workload: &Workload,
    arm: &str,
    session: &mut dyn Session,
    (clock, cpu): (Clock, Cpu),
    amount: Amount,
    single: bool,
    out: &mut Emitter,
) -> Result<u64, Stop> {
    let operations = usize::try_from(amount.operations).expect("fits in memory");
    let total = operations * usize::try_from(amount.samples).expect("fits in memory");
    let metrics = workload.metrics.len();
    // One row for each metric; written once here so that no page fault falls into a timed window.
    let mut values = vec![vec![Timed { duration: 1, waiting: 1 }; total]; metrics];
    let mut times = vec![Timed::default(); metrics];
    let mut elsewhere = 0;
    for sample in 0..amount.samples {
        session.settle()?;
        out.progress(workload.id, arm, sample, amount.samples);
        let first = operations * usize::try_from(sample).expect("fits in memory");
        for _ in 0..amount.warmups {
            signals::check()?;
            session.sequence(clock, &mut times)?;
        }
        for operation in 0..operations {
            signals::check()?;
            session.sequence(clock, &mut times)?;
            elsewhere += u64::from(!cpu.runs_here());
            for (row, time) in values.iter_mut().zip(&times) {
                row[first + operation] = *time;
            }
        }
    }
    session.settle()?;
    for (metric, row) in workload.metrics.iter().zip(&values) {
        let of = |what: fn(&Timed) -> u64| row.iter().map(what).collect::<Vec<u64>>();
        for (number, block) in row.chunks(operations).enumerate() {
            out.emit(Record::Sample(wire::Sample {
                workload: workload.id.into(),
                arm: arm.into(),
                metric: metric.id.into(),
                unit: metric.unit.into(),
                better: metric.better.into(),
                sample: number as u64 + 1,
                operations: amount.operations,
                sum: block.iter().map(|t| t.duration).sum(),
            }))?;
        }
        if single {
            let (durations, waiting) = (of(|t| t.duration), of(|t| t.waiting));
            for first in (0..total).step_by(CHUNK) {
                let end = total.min(first + CHUNK);
                out.emit(Record::Operations(wire::Operations {
                    workload: workload.id.into(),
                    arm: arm.into(),
                    metric: metric.id.into(),
                    unit: metric.unit.into(),
                    better: metric.better.into(),
                    first: first as u64,
                    values: durations[first..end].to_vec(),
                    waiting: if clock.thread_cpu().is_some() { waiting[first..end].to_vec() } else { vec![] },
                }))?;
            }
        }
        out.emit(Record::Histogram(histogram(workload.id, arm, metric, row)))?;
    }
    Ok(elsewhere)
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
    use crate::measure::ClockName;
    use crate::workloads::Metric;

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

    /// Wraps a session and keeps the count of allocations at its first and last sequence.
    struct Watched(Box<dyn Session>, Option<u64>, u64);
    impl Session for Watched {
        fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop> {
            self.1.get_or_insert_with(|| ALLOCATIONS.get());
            let done = self.0.sequence(clock, times);
            self.2 = ALLOCATIONS.get();
            done
        }

        fn finish(&mut self) -> Result<Vec<wire::Check>, Stop> {
            self.0.finish()
        }
    }

    #[test]
    fn the_timed_loop_allocates_nothing() {
        let workload = &crate::workloads::CONTROL_GETPPID;
        let mut watched = Watched((workload.prepare)("plain").expect("needs nothing"), None, 0);
        let clock = Clock::new(ClockName::MonotonicRaw, true);
        let amount = Amount { samples: 1, operations: 100, warmups: 10 };
        let mut out = Emitter::collecting();
        measure(workload, "plain", &mut watched, (clock, Cpu(0)), amount, false, &mut out).expect("works");
        let first = watched.1.expect("ran");
        assert!(first > 0, "the counter counts");
        assert_eq!(watched.2, first);
    }

    const METRIC: Metric = Metric { id: "m", unit: "ns", better: "lower", primary: true };

    struct Counting(u64);
    impl Session for Counting {
        fn sequence(&mut self, _: Clock, times: &mut [Timed]) -> Result<(), Stop> {
            self.0 += 1;
            times[0] = Timed { duration: self.0, waiting: 0 };
            Ok(())
        }

        fn finish(&mut self) -> Result<Vec<wire::Check>, Stop> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn warmups_are_left_out_and_sums_are_exact() {
        let workload = Workload { metrics: &[METRIC], ..crate::workloads::CONTROL_GETPPID };
        let mut out = Emitter::collecting();
        let amount = Amount { samples: 2, operations: 3, warmups: 1 };
        let clock = Clock::new(ClockName::Tsc, false);
        let at = (clock, Cpu(usize::MAX));
        let elsewhere = measure(&workload, "arm", &mut Counting(0), at, amount, true, &mut out);
        assert_eq!(elsewhere.expect("nothing fails"), 6, "no thread runs on that CPU");
        let records = out.into_records();
        let sums: Vec<u64> = records
            .iter()
            .filter_map(|r| if let Record::Sample(s) = r { Some(s.sum) } else { None })
            .collect();
        assert_eq!(sums, [2 + 3 + 4, 6 + 7 + 8]);
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
}
