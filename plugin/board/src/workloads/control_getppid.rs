// SPDX-License-Identifier: GPL-2.0-or-later
//! The cheapest system call, as a control: it must not move unless the whole
//! machine, or the system call entry, does.

use super::{Arm, Condition, Edge, Metric, Operations, Prepared, Session, Workload};
use crate::measure::{Amount, Clock, Timed, timed};
use crate::stop::Stop;
use nix::unistd::{Pid, getppid};

/// getppid(2), timed one by one.
pub const CONTROL_GETPPID: Workload = Workload {
    id: "control.getppid",
    summary: "getppid(2), the cheapest system call: a control that a change elsewhere must not move",
    arms: &[Arm {
        id: "plain",
        summary: "one process, pinned",
        metrics: &[Metric { id: "call", unit: "ns", better: "lower", primary: false }],
        amount: Amount { samples: 9, operations: 1024, warmups: 64 },
        seconds: 1,
        on_boards: true,
        in_emulator: true,
        many_workers: false,
    }],
    emulator: Amount { samples: 4, operations: 128, warmups: 16 },
    parameters: &[],
    needs: &[],
    preemption: None,
    prepare: |_| Ok(Prepared::Operations(Box::new(Getppid { parent: getppid() }))),
};

struct Getppid {
    parent: Pid,
}

impl Operations for Getppid {
    fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop> {
        let (time, parent) = timed(clock, getppid);
        times[0] = time;
        if parent == self.parent {
            Ok(())
        } else {
            Err(Stop::Failed(format!("getppid() said {parent} after {}", self.parent)))
        }
    }
}

impl Session for Getppid {
    fn operations(&self) -> &'static [&'static str] {
        &["call"]
    }

    fn observe(&mut self, mark: &mut dyn FnMut(Edge) -> Result<(), Stop>) -> Result<(), Stop> {
        mark(Edge::Begin("call"))?;
        std::hint::black_box(getppid());
        mark(Edge::End("call"))
    }

    fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
        let detail = format!("every call returned {}", self.parent);
        Ok(vec![Condition::new("parent", getppid() == self.parent, detail)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_parent_ends_or_voids_the_run() {
        let mut times = [Timed::default()];
        for (parent, holds) in [(getppid(), true), (nix::unistd::getpid(), false)] {
            let mut session = Getppid { parent };
            let clock = Clock::new(crate::measure::ClockName::MonotonicRaw, false);
            assert_eq!(session.sequence(clock, &mut times).is_ok(), holds);
            assert_eq!(session.finish().expect("it ends")[0].pass, holds);
        }
    }
}
