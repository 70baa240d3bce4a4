// SPDX-License-Identifier: GPL-2.0-or-later
//! How far a run is, for whoever waits: on a terminal one line that is written
//! over, elsewhere a line now and then.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Without a terminal an arm is named when it begins, and after this time again.
const NOW_AND_THEN: Duration = Duration::from_secs(10);
/// Before this part of the whole the plan knows better than the clock how long the rest takes.
const EARLY: f64 = 0.05;
/// Back to the first column, and the rest of the line away (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";

/// An arm that will be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedArm {
    /// Workload id.
    pub workload: &'static str,
    /// Arm id.
    pub arm: &'static str,
    /// About how long it takes.
    pub seconds: u64,
}

/// One sample that begins.
#[derive(Debug, Clone, Copy)]
pub struct Begun<'a> {
    /// Workload id.
    pub workload: &'a str,
    /// Arm id.
    pub arm: &'a str,
    /// Samples done before.
    pub done: u64,
    /// Samples in all.
    pub total: u64,
}

/// What is said on standard error.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each arm with the part of it that is done, 0 to 1.
    plan: Vec<(PlannedArm, f64)>,
    begun: Option<Instant>,
    said: Option<Instant>,
    /// A line stands on the terminal.
    standing: bool,
}

impl Progress {
    /// For standard error as it is.
    pub fn new() -> Self {
        // The console of a guest is a terminal that nobody looks at.
        let watched = std::process::id() != 1 && std::io::stderr().is_terminal();
        let able = std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
        Self { terminal: watched && able, state: RefCell::default() }
    }

    /// What will be measured, in order.
    pub fn plan(&self, arms: impl Iterator<Item = PlannedArm>) {
        self.state.borrow_mut().plan = arms.map(|arm| (arm, 0.0)).collect();
    }

    /// Says a line that stays.
    pub fn say(&self, line: &str) {
        self.clear();
        eprintln!("kernmark-board: {line}");
    }

    /// A sample begins.
    pub fn begin(&self, sample: Begun<'_>) {
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        let elapsed = now.duration_since(*state.begun.get_or_insert(now));
        state.take(sample);
        let line = line(sample, &state.plan, elapsed);
        if self.terminal {
            eprint!("{CLEAR}kernmark-board: {line}");
            state.standing = true;
        } else if sample.done == 0 || state.said.is_none_or(|said| now - said >= NOW_AND_THEN) {
            eprintln!("kernmark-board: {line}");
            state.said = Some(now);
        }
    }

    /// Takes the line away that stands on a terminal.
    pub fn clear(&self) {
        if std::mem::take(&mut self.state.borrow_mut().standing) {
            eprint!("{CLEAR}");
        }
    }
}

impl State {
    /// Workloads come one after the other, so all before this one are done, also those that were skipped.
    fn take(&mut self, sample: Begun<'_>) {
        let first = self.plan.iter().position(|(arm, _)| arm.workload == sample.workload);
        self.plan.iter_mut().take(first.unwrap_or(0)).for_each(|(_, done)| *done = 1.0);
        let own = self.plan.iter_mut().find(|(a, _)| (a.workload, a.arm) == (sample.workload, sample.arm));
        if let Some((_, done)) = own {
            *done = sample.done as f64 / sample.total.max(1) as f64;
        }
    }
}

fn line(sample: Begun<'_>, plan: &[(PlannedArm, f64)], elapsed: Duration) -> String {
    let Begun { workload, arm, done, total } = sample;
    let what = format!("{workload} {arm} sample {}/{total}", done + 1);
    let all: f64 = plan.iter().map(|(arm, _)| arm.seconds as f64).sum();
    if all == 0.0 {
        return what;
    }
    let part = plan.iter().map(|(arm, done)| arm.seconds as f64 * done).sum::<f64>() / all;
    let whole = if part < EARLY { all } else { elapsed.as_secs_f64() / part };
    format!("{what}, {:.0} %, about {:.0} s left", 100.0 * part, whole * (1.0 - part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned() -> State {
        let arm = |workload, arm, seconds| (PlannedArm { workload, arm, seconds }, 0.0);
        State { plan: vec![arm("a", "x", 10), arm("b", "x", 20), arm("b", "y", 20)], ..State::default() }
    }

    fn said(state: &mut State, workload: &str, arm: &str, done: u64, elapsed: u64) -> String {
        let sample = Begun { workload, arm, done, total: 4 };
        state.take(sample);
        line(sample, &state.plan, Duration::from_secs(elapsed))
    }

    #[test]
    fn the_rest_is_first_planned_and_then_measured() {
        let mut state = planned();
        assert_eq!(said(&mut state, "a", "x", 0, 0), "a x sample 1/4, 0 %, about 50 s left");
        // 5 of 50 planned seconds took 10.
        assert_eq!(said(&mut state, "a", "x", 2, 10), "a x sample 3/4, 10 %, about 90 s left");
        assert_eq!(said(&mut state, "b", "x", 1, 10), "b x sample 2/4, 30 %, about 23 s left");
        assert_eq!(said(&mut state, "b", "y", 3, 33), "b y sample 4/4, 60 %, about 22 s left");
    }

    #[test]
    fn what_was_skipped_is_behind_us() {
        let mut state = planned();
        assert_eq!(said(&mut state, "b", "x", 0, 20), "b x sample 1/4, 20 %, about 80 s left");
    }

    #[test]
    fn without_a_plan_only_the_sample_is_named() {
        assert_eq!(said(&mut State::default(), "a", "x", 0, 0), "a x sample 1/4");
    }

    #[test]
    fn where_nobody_looks_no_line_is_written_over() {
        let quiet = Progress { terminal: false, state: RefCell::default() };
        for done in 0..2 {
            quiet.begin(Begun { workload: "test", arm: "x", done, total: 2 });
            assert!(!quiet.state.borrow().standing);
        }
        let watched = Progress { terminal: true, state: RefCell::default() };
        watched.begin(Begun { workload: "test", arm: "x", done: 0, total: 2 });
        assert!(watched.state.borrow().standing);
        watched.say("the line is taken away first");
        assert!(!watched.state.borrow().standing);
    }
}
