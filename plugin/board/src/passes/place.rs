// SPDX-License-Identifier: GPL-2.0-or-later
//! On which processors a pass runs.

use super::machine::note;
use crate::cli::PlaceArguments;
use crate::emit::Emitter;
use crate::machine::{CpuList, Topology};
use crate::measure::{Cpu, ordinary_policy, pin};
use crate::stop::Stop;
use crate::workloads::{Arm, Parameters, Setting};
use kernmark_wire as wire;
use kernmark_wire::Record;

/// The processors of this machine, and which of them measures.
pub struct Place<'a> {
    topology: Topology,
    /// The CPU that this thread is pinned to.
    pub cpu: Cpu,
    asked_cpus: Option<&'a CpuList>,
}

impl<'a> Place<'a> {
    /// Pins this thread where asked, and records where that is.
    ///
    /// # Errors
    /// The CPUs are not those asked for, or not free to be used.
    pub fn take(asked: &'a PlaceArguments, out: &mut Emitter) -> Result<Self, Stop> {
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
            ("cpu.kinds_from", topology.source.to_owned()),
        ] {
            note("before", key, &value, out)?;
        }
        require(ordinary_policy(), "start it without nice, chrt and the like", out)?;
        Ok(Self { topology, cpu, asked_cpus: asked.cpus.as_ref() })
    }

    /// An arm on these processors.
    pub fn setting<'b>(&'b self, arm: &'static Arm, parameters: &'b Parameters) -> Setting<'b> {
        Setting {
            arm: arm.id,
            topology: &self.topology,
            asked_cpus: self.asked_cpus,
            cpu: self.cpu,
            parameters,
        }
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
