// SPDX-License-Identifier: GPL-2.0-or-later
//! A workload set up in one arm: what the passes ask of it.

use crate::measure::{Clock, Timed};
use crate::observe::{Frames, LockNames};
use crate::stop::Stop;
use nix::unistd::Pid;

/// A workload set up in one arm. Dropping it puts everything back.
pub trait Session {
    /// Waits until nothing of earlier samples is left to be done.
    ///
    /// # Errors
    /// It did not end in time.
    fn settle(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    /// Whole numbers about the set-up.
    ///
    /// # Errors
    /// The set-up cannot be looked at.
    fn facts(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        Ok(Vec::new())
    }

    /// Whole numbers known only once all is measured and finished; `median` has the medians of
    /// the arms with rounds so far, this one included, by arm and metric.
    fn found(&mut self, _median: &dyn Fn(&str, &str) -> Option<f64>) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Untimed operations that prove what the arm is about, in the observation pass only; what they
    /// found. Conditions come with [`Session::finish`].
    ///
    /// # Errors
    /// An operation failed, or it cannot be looked at.
    fn prove(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        Ok(Vec::new())
    }

    /// The operations that an observation tells apart, in the order of one sequence.
    fn operations(&self) -> &'static [&'static str] {
        &[]
    }

    /// One sequence with `mark(Edge)` around each of [`Session::operations`].
    ///
    /// # Errors
    /// An operation failed, or the mark could not be set.
    fn observe(&mut self, _mark: &mut dyn FnMut(Edge) -> Result<(), Stop>) -> Result<(), Stop> {
        Ok(())
    }

    /// Functions to count where all of them are too many for the trace buffer.
    fn functions(&self) -> &'static [&'static str] {
        &[]
    }

    /// Functions whose NULL returns matter.
    fn returns(&self) -> &'static [&'static str] {
        &[]
    }

    /// Locking functions whose calls are told apart by lock.
    fn locks(&self) -> LockNames {
        LockNames::default()
    }

    /// What a sampling profile tells apart.
    fn frames(&self) -> Frames {
        Frames::default()
    }

    /// The function of the work item that ends what one sequence leaves to a workqueue, where it
    /// leaves any: such items are observed until the last of them is done.
    fn last_work(&self) -> Option<&'static str> {
        None
    }

    /// Puts everything back and says which conditions held.
    ///
    /// # Errors
    /// Something could not be put back.
    fn finish(&mut self) -> Result<Vec<Condition>, Stop>;
}

/// A session whose operations are timed one by one.
pub trait Operations: Session {
    /// One whole sequence of operations; `times` has one place for each metric.
    ///
    /// # Errors
    /// An operation failed or did not do what it should.
    fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop>;
}

/// A session that times a whole round of operations, by one worker or by many.
pub trait Rounds: Session {
    /// One round, one sample; `values` has one place for each metric. `round` counts from 1,
    /// warm-ups and measured rounds each for themselves.
    ///
    /// # Errors
    /// An operation failed or did not do what it should.
    fn round(&mut self, clock: Clock, round: u64, values: &mut [Value]) -> Result<(), Stop>;

    /// Thread and CPU of each worker, for a profile; none where they do not outlive a round.
    fn workers(&self) -> Vec<(Pid, Option<usize>)> {
        Vec::new()
    }

    /// Operations of these workers since they were started.
    fn done(&self) -> u64 {
        0
    }
}

/// What a workload hands out when it is set up.
pub enum Prepared {
    /// To be timed one by one.
    Operations(Box<dyn Operations>),
    /// To be timed by rounds.
    Rounds(Box<dyn Rounds>),
}

impl Prepared {
    /// What both kinds have.
    pub fn session(&mut self) -> &mut dyn Session {
        match self {
            Self::Operations(session) => session.as_mut(),
            Self::Rounds(session) => session.as_mut(),
        }
    }
}

/// One number of one round: `sum / operations`, in the unit of its metric. For a ratio these
/// are numerator and denominator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Value {
    /// Sum over the operations.
    pub sum: u64,
    /// Operations.
    pub operations: u64,
}

/// Start or end of an observed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The operation of this name starts.
    Begin(&'static str),
    /// It has ended.
    End(&'static str),
}

/// A condition of validity and whether it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `restored`, one word.
    pub name: &'static str,
    /// Whether it held.
    pub pass: bool,
    /// What was seen.
    pub detail: String,
}

impl Condition {
    /// A condition and what was seen.
    pub fn new(name: &'static str, pass: bool, detail: impl Into<String>) -> Self {
        Self { name, pass, detail: detail.into() }
    }
}
