// SPDX-License-Identifier: GPL-2.0-or-later
//! On which processors a pass runs.

use super::machine::note;
use crate::cli::PlaceArguments;
use crate::emit::Emitter;
use crate::machine::{CpuList, Topology};
use crate::measure::{Cpu, allowed_cpus, ordinary_policy, pin};
use crate::stop::Stop;
use crate::workloads::{Arm, Parameters, Setting};
use kernmark_wire as wire;
use kernmark_wire::Record;

/// The processors of this machine, and which of them measures.
pub struct Place {
    /// What may be used of them.
    usable: Topology,
    /// The CPU that this thread is pinned to.
    pub cpu: Cpu,
}

impl Place {
    /// Pins this thread where asked, and records where that is.
    ///
    /// # Errors
    /// The CPUs are not those asked for, or not free to be used.
    pub fn take(asked: &PlaceArguments, out: &mut Emitter) -> Result<Self, Stop> {
        let topology = Topology::read(&asked.sysfs);
        if let Some(expected) = asked.expect_cpus {
            let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
            if online != i64::try_from(expected).ok() {
                return Err(Stop::Failed(format!(
                    "{} CPUs are online where {expected} were expected; an emulated machine without ACPI needs \
                     -smp {expected},sockets={expected}",
                    online.unwrap_or_default()
                )));
            }
        }
        let allowed = allowed_cpus()?;
        let usable = asked.cpus.as_ref().map_or_else(|| allowed.clone(), |list| list.within(&allowed));
        let cpu = match &asked.cpus {
            Some(list) => pin(&list.0, false)?,
            None => pin(&topology.physical_performance.0, true)?,
        };
        for (key, value) in [
            ("harness.cpu", cpu.0.to_string()),
            ("cpu.performance", topology.performance.to_string()),
            ("cpu.efficiency", topology.efficiency.to_string()),
            ("cpu.physical_performance", topology.physical_performance.to_string()),
            ("cpu.filling_order", listed(&topology.filling_order())),
            ("cpu.usable", usable.to_string()),
            ("cpu.kinds_from", topology.source.to_owned()),
        ] {
            note("before", key, &value, out)?;
        }
        require(ordinary_policy(), "start it without nice, chrt and the like", out)?;
        Ok(Self { usable: topology.limited_to(&usable), cpu })
    }

    /// An arm on these processors.
    pub fn setting<'b>(&'b self, arm: &'static Arm, parameters: &'b Parameters) -> Setting<'b> {
        Setting { arm: arm.id, topology: &self.usable, cpu: self.cpu, parameters }
    }
}

/// Reports a condition of the machine as a whole, without which nothing is worth measuring.
///
/// # Errors
/// It does not hold, or results cannot be written.
pub fn require(check: wire::Check, advice: &str, out: &mut Emitter) -> Result<(), Stop> {
    let missed = (!check.pass).then(|| Stop::Failed(format!("{}; {advice}", check.detail)));
    out.emit(Record::Check(check))?;
    missed.map_or(Ok(()), Err)
}

/// In the order they are in, not in ranges.
fn listed(cpus: &CpuList) -> String {
    cpus.0.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_of_the_machine_that_does_not_hold_ends_the_run_and_is_reported() {
        for pass in [true, false] {
            let mut out = Emitter::collecting();
            let (workload, arm) = (String::new(), String::new());
            let check = wire::Check { workload, arm, name: "policy".into(), pass, detail: "nice 5".into() };
            let done = require(check, "start it without nice", &mut out);
            let said = |stop: &Stop| stop.to_string().contains("nice 5; start it without nice");
            assert_eq!(done.as_ref().err().is_some_and(said), !pass);
            assert_eq!(out.into_records().len(), 1);
        }
    }
}
