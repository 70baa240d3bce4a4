// SPDX-License-Identifier: GPL-2.0-or-later
//! The clock of a run (workloads.md 1.2).

use kernmark_wire::Check;
use nix::time::{ClockId, clock_gettime};
use std::arch::x86_64::_rdtsc;

/// Reads that calibrate the clock.
const CALIBRATION_READS: usize = 100_000;
/// A clock whose median read takes longer than this is a system call, not a read.
const MAX_MEDIAN_READ: u64 = 100;
/// A clock that advances in larger steps times nothing that is measured here; the kernel falls
/// back to one that counts timer ticks (4 ms) when it trusts no other.
const MAX_STEP: u64 = 1_000;
/// How long the time stamp counter is held against CLOCK_MONOTONIC_RAW, ns.
const RATE_WINDOW_NS: u64 = 2_000_000;
/// The rate at which one tick is one ns, and in the emulator one instruction.
const NANOSECOND_HZ: u64 = 1_000_000_000;
/// Iterations of the loops that tell instructions from cycles.
const LOOP: u64 = 10_000;

/// Which clock times operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ClockName {
    /// CLOCK_MONOTONIC_RAW, ns.
    MonotonicRaw,
    /// The time stamp counter, if it counts ns. In the emulator with an instruction
    /// clock it counts executed instructions.
    Tsc,
}

/// A clock ready to be read, always in ns.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: Source,
    asked: ClockName,
    waiting: bool,
    tsc_hz: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Posix(ClockId),
    Tsc,
}

impl Clock {
    /// Takes the clock asked for. CLOCK_MONOTONIC where the raw one is refused; the raw one
    /// where the time stamp counter does not count ns. [`Clock::name`] says which it became.
    pub fn new(name: ClockName, waiting: bool) -> Self {
        let raw = ClockId::CLOCK_MONOTONIC_RAW;
        let posix = if clock_gettime(raw).is_ok() { raw } else { ClockId::CLOCK_MONOTONIC };
        let tsc_hz = tsc_rate(posix);
        let source = match name {
            ClockName::Tsc if counts_nanoseconds(tsc_hz) => Source::Tsc,
            ClockName::Tsc | ClockName::MonotonicRaw => Source::Posix(posix),
        };
        Self { source, asked: name, waiting, tsc_hz }
    }

    /// `monotonic_raw`, `monotonic` or `tsc`.
    pub fn name(self) -> &'static str {
        match self.source {
            Source::Tsc => "tsc",
            Source::Posix(id) if id == ClockId::CLOCK_MONOTONIC_RAW => "monotonic_raw",
            Source::Posix(_) => "monotonic",
        }
    }

    /// Now, ns.
    #[inline(always)]
    pub fn now(self) -> u64 {
        match self.source {
            Source::Tsc => ticks(),
            Source::Posix(id) => nanoseconds(id),
        }
    }

    /// CPU time of this thread in ns, when waiting is to be told apart.
    #[inline(always)]
    pub fn thread_cpu(self) -> Option<u64> {
        self.waiting.then(|| nanoseconds(ClockId::CLOCK_THREAD_CPUTIME_ID))
    }

    /// What the clock is worth: (field, value) pairs for the environment record, and whether it
    /// is fine enough to measure with at all.
    pub fn examine(self) -> (Vec<(&'static str, String)>, Check) {
        let Calibration { minimum, median, step } = self.calibrate();
        let source =
            std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .unwrap_or_default();
        let source = source.trim();
        let mut facts = vec![
            ("clock.read_minimum", minimum.to_string()),
            ("clock.read_median", median.to_string()),
            ("clock.step", step.map_or_else(|| "none seen".to_owned(), |step| step.to_string())),
            ("clock.tsc_hz", self.tsc_hz.to_string()),
            ("clock.tsc_counts", if tsc_counts_instructions() { "instructions" } else { "time" }.into()),
            ("clock.gate", self.gate(median, source)),
        ];
        if self.asked == ClockName::Tsc && self.source != Source::Tsc {
            let reason =
                format!("{}, because the time stamp counter runs at {} Hz", self.name(), self.tsc_hz);
            facts.push(("clock.instead", reason));
        }
        (facts, self.fineness(step, source))
    }

    fn fineness(self, step: Option<u64>, source: &str) -> Check {
        let steps =
            step.map_or_else(|| "longer than could be seen".to_owned(), |step| format!("of {step} ns"));
        Check {
            workload: String::new(),
            arm: String::new(),
            name: "clock".into(),
            pass: step.is_some_and(|step| step <= MAX_STEP),
            detail: format!("{} advances in steps {steps}, the clock source is {source}", self.name()),
        }
    }

    fn gate(self, median: u64, source: &str) -> String {
        if median > MAX_MEDIAN_READ {
            return format!("fail: a read takes {median} ns, more than {MAX_MEDIAN_READ}");
        }
        match self.source {
            Source::Tsc => "pass".into(),
            Source::Posix(_) if source == "tsc" => "pass".into(),
            Source::Posix(_) => format!("fail: the clock source is {source}, not tsc"),
        }
    }

    fn calibrate(self) -> Calibration {
        let mut differences = vec![0_u64; CALIBRATION_READS];
        let mut last = self.now();
        for difference in &mut differences {
            let now = self.now();
            *difference = now.wrapping_sub(last);
            last = now;
        }
        differences.sort_unstable();
        Calibration {
            minimum: differences[0],
            median: differences[CALIBRATION_READS / 2],
            step: differences.into_iter().find(|d| *d > 0),
        }
    }
}

/// Differences of back-to-back reads, ns.
struct Calibration {
    minimum: u64,
    median: u64,
    /// The smallest that is not zero; `None` when the clock stood still.
    step: Option<u64>,
}

#[inline(always)]
fn nanoseconds(id: ClockId) -> u64 {
    clock_gettime(id).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the time stamp counter; reading it has no side effect.
    unsafe { _rdtsc() }
}

/// Ticks of the time stamp counter in a second of `clock`.
fn tsc_rate(clock: ClockId) -> u64 {
    let (start_ns, start) = (nanoseconds(clock), ticks());
    loop {
        let (now_ns, now) = (nanoseconds(clock), ticks());
        let elapsed = now_ns.saturating_sub(start_ns);
        if elapsed >= RATE_WINDOW_NS {
            let ticks = u128::from(now.wrapping_sub(start));
            return u64::try_from(ticks * u128::from(NANOSECOND_HZ) / u128::from(elapsed))
                .unwrap_or(u64::MAX);
        }
    }
}

/// Within a percent: the kernel's idea of the rate is itself a measurement.
fn counts_nanoseconds(hz: u64) -> bool {
    hz.abs_diff(NANOSECOND_HZ) <= NANOSECOND_HZ / 100
}

/// Whether the time stamp counter advances by one for each instruction, as only an emulator
/// with an instruction clock does: two loops of known length must both show theirs.
fn tsc_counts_instructions() -> bool {
    // SAFETY: each block changes only the register it counts down in.
    let short = quickest(|| unsafe {
        std::arch::asm!("2: dec {0}", "jnz 2b", inout(reg) LOOP => _, options(nomem, nostack));
    });
    // SAFETY: as above.
    let long = quickest(|| unsafe {
        std::arch::asm!(
            "2: nop", "nop", "nop", "nop", "nop", "nop", "dec {0}", "jnz 2b",
            inout(reg) LOOP => _, options(nomem, nostack)
        );
    });
    // Reading the counter takes some instructions itself.
    let is = |ticks: u64, instructions: u64| (instructions..instructions + 64).contains(&ticks);
    is(short, 2 * LOOP) && is(long, 8 * LOOP)
}

/// Ticks of the quickest of some runs: one without an interrupt.
fn quickest(work: impl Fn()) -> u64 {
    (0..8)
        .map(|_| {
            let start = ticks();
            work();
            ticks().wrapping_sub(start)
        })
        .min()
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(source: Source, tsc_hz: u64) -> Clock {
        Clock { source, asked: ClockName::Tsc, waiting: false, tsc_hz }
    }

    #[test]
    fn clocks_go_forward_and_have_a_name() {
        let clock = Clock::new(ClockName::MonotonicRaw, false);
        assert_eq!(clock.name(), "monotonic_raw");
        let first = clock.now();
        assert!(clock.now() >= first);
        assert_eq!(clock.thread_cpu(), None);
    }

    #[test]
    fn a_counter_that_does_not_count_nanoseconds_is_no_clock() {
        for (hz, fit) in [(1_000_000_000, true), (999_700_000, true), (2_400_000_000, false), (0, false)] {
            assert_eq!(counts_nanoseconds(hz), fit, "{hz}");
        }
        let clock = Clock::new(ClockName::Tsc, false);
        assert_eq!(clock.name() == "tsc", counts_nanoseconds(clock.tsc_hz));
        let instead = clock.examine().0.iter().any(|(key, _)| *key == "clock.instead");
        assert_eq!(instead, clock.name() != "tsc");
    }

    #[test]
    fn the_gate_wants_a_quick_clock_from_the_counter() {
        let raw = Source::Posix(ClockId::CLOCK_MONOTONIC_RAW);
        for (source, median, name, passes) in [
            (raw, 25, "tsc", true),
            (raw, 25, "hpet", false),
            (raw, 101, "tsc", false),
            (Source::Tsc, 12, "refined-jiffies", true),
        ] {
            assert_eq!(clock(source, 0).gate(median, name) == "pass", passes, "{median} {name}");
        }
    }

    #[test]
    fn a_clock_of_timer_ticks_is_refused() {
        let raw = clock(Source::Posix(ClockId::CLOCK_MONOTONIC_RAW), 0);
        for (step, fine) in [(Some(1), true), (Some(1_000), true), (Some(4_000_250), false), (None, false)] {
            assert_eq!(raw.fineness(step, "refined-jiffies").pass, fine, "{step:?}");
        }
    }

    #[test]
    fn calibration_orders_minimum_and_median() {
        let found = Clock::new(ClockName::MonotonicRaw, false).calibrate();
        assert!(found.minimum <= found.median);
        assert!(found.step.is_some_and(|step| step > 0), "a clock that stands still");
    }

    #[test]
    fn thread_time_advances_with_work() {
        let clock = Clock::new(ClockName::MonotonicRaw, true);
        let before = clock.thread_cpu().expect("asked for");
        std::hint::black_box((0..2_000_000_u64).fold(0_u64, |a, b| a.wrapping_mul(31).wrapping_add(b)));
        assert!(clock.thread_cpu().expect("asked for") > before);
    }
}
