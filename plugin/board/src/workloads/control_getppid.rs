// SPDX-License-Identifier: GPL-2.0-or-later
//! The cheapest system call, as a control: it must not move unless the whole
//! machine, or the system call entry, does.

use super::{Arm, Edge, Metric, Session, Workload};
use crate::measure::{Amount, Clock, Timed, timed};
use crate::stop::Stop;
use kernmark_wire::Check;
use nix::unistd::{Pid, getppid};

/// getppid(2), timed one by one.
pub const CONTROL_GETPPID: Workload = Workload {
    id: "control.getppid",
    summary: "getppid(2), the cheapest system call: a control that a change elsewhere must not move",
    metrics: &[Metric { id: "call", unit: "ns", better: "lower", primary: false }],
    arms: &[Arm { id: "plain", summary: "one process, pinned" }],
    amount: Amount { samples: 9, operations: 1024, warmups: 64 },
    needs: &[],
    preemption: None,
    prepare: |_| Ok(Box::new(Getppid { parent: getppid() })),
};

struct Getppid {
    parent: Pid,
}

impl Session for Getppid {
    fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop> {
        let (time, parent) = timed(clock, getppid);
        times[0] = time;
        if parent == self.parent {
            Ok(())
        } else {
            Err(Stop::Failed(format!("getppid() said {parent} after {}", self.parent)))
        }
    }

    fn operations(&self) -> &'static [&'static str] {
        &["call"]
    }

    fn observe(&mut self, mark: &mut dyn FnMut(Edge) -> Result<(), Stop>) -> Result<(), Stop> {
        mark(Edge::Begin("call"))?;
        std::hint::black_box(getppid());
        mark(Edge::End("call"))
    }

    fn finish(&mut self) -> Result<Vec<Check>, Stop> {
        Ok(vec![Check {
            workload: CONTROL_GETPPID.id.into(),
            arm: "plain".into(),
            name: "parent".into(),
            pass: getppid() == self.parent,
            detail: format!("every call returned {}", self.parent),
        }])
    }
}
