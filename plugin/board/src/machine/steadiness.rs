// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the machine was quiet while it measured: from the environment records
//! before and after come conditions, which void the run when they do not hold,
//! and one line for people (workloads.md 1.5).

use super::Fields;
use kernmark_wire::Check;
use std::time::Duration;

/// Interrupts of devices on the measuring CPU for each second. At about a microsecond each, more
/// than this shifts a mean by more than a thousandth.
const MAX_DEVICE_INTERRUPTS_PER_S: u64 = 1000;
/// Share of its time that a virtual CPU waits for a real one from which on it is not steady, percent.
const STOLEN_PERCENT: u64 = 1;
/// Unit of /proc/stat (USER_HZ, the same on every x86 kernel).
const TICKS_PER_S: u64 = 100;

/// Two environment records and what lay between them.
#[derive(Debug, Clone, Copy)]
pub struct Interval<'a> {
    /// Recorded before the first sample.
    pub before: &'a Fields,
    /// Recorded after the last.
    pub after: &'a Fields,
    /// The measuring CPU.
    pub cpu: usize,
    /// Time between them.
    pub elapsed: Duration,
    /// On an emulated machine, time is not that of its interrupts.
    pub emulated: bool,
}

impl Interval<'_> {
    /// What must have held; what this machine does not tell is left out.
    pub fn conditions(&self) -> Vec<Check> {
        [self.taint(), self.throttling(), self.interrupts()].into_iter().flatten().collect()
    }

    /// How steady the machine was, in one line.
    pub fn sentence(&self) -> String {
        let failed: Vec<String> =
            self.conditions().into_iter().filter(|c| !c.pass).map(|c| c.detail).collect();
        let stolen = self.stolen_percent().unwrap_or(0);
        let mut parts = failed;
        if stolen >= STOLEN_PERCENT {
            parts.push(format!("the hypervisor took {stolen} % of the time from CPU {}", self.cpu));
        }
        if parts.is_empty() {
            parts.push("steady".to_owned());
        }
        if self.throttles().is_some_and(|(_, more)| more == 0) {
            parts.push("never throttled".into());
        }
        let of_cpu = |field: &str| self.growth(&format!("cpu{}.{field}", self.cpu));
        if let Some(count) = of_cpu("device_interrupts") {
            parts.push(format!("{} device interrupts/s on CPU {}", count / self.seconds(), self.cpu));
        }
        if let Some(count) = self.growth("load.involuntary_switches") {
            parts.push(format!("{count} involuntary switches"));
        }
        if let Some(load) = text(self.before, "load.average").and_then(|t| t.split(' ').next()) {
            parts.push(format!("load {load} before"));
        }
        if let Some(kind) = text(self.before, "machine.hypervisor").filter(|kind| *kind != "none") {
            parts.push(format!("virtual machine ({kind})"));
        }
        parts.join(", ")
    }

    fn taint(&self) -> Option<Check> {
        let (before, after) = (text(self.before, "kernel.taint")?, text(self.after, "kernel.taint")?);
        let detail = if before == after {
            format!("the kernel's taint stayed {before}")
        } else {
            format!("the kernel's taint went from {before} to {after}; see its log")
        };
        Some(check("taint", before == after, detail))
    }

    /// (counters found, growth) of all throttle counters of all CPUs.
    fn throttles(&self) -> Option<(usize, u64)> {
        const COUNTERS: [&str; 4] =
            [".core_throttles", ".package_throttles", ".core_throttle_ms", ".package_throttle_ms"];
        let keys =
            self.before.iter().map(|(key, _)| key).filter(|key| COUNTERS.iter().any(|c| key.ends_with(c)));
        let growths: Vec<u64> = keys.filter_map(|key| self.growth(key)).collect();
        (!growths.is_empty()).then(|| (growths.len(), growths.iter().sum()))
    }

    fn throttling(&self) -> Option<Check> {
        let (counters, more) = self.throttles()?;
        let detail = if more == 0 {
            format!("none of {counters} throttle counters moved")
        } else {
            format!(
                "the processor was throttled for its heat (counters grew by {more}); cool it, or turn turbo off"
            )
        };
        Some(check("throttling", more == 0, detail))
    }

    fn interrupts(&self) -> Option<Check> {
        let count = self.growth(&format!("cpu{}.device_interrupts", self.cpu))?;
        // A rate needs some time to be one.
        if self.emulated || self.elapsed < Duration::from_secs(1) {
            return None;
        }
        let rate = count / self.seconds();
        let detail = if rate <= MAX_DEVICE_INTERRUPTS_PER_S {
            format!("{count} of devices on CPU {}", self.cpu)
        } else {
            format!(
                "{rate} device interrupts/s on CPU {}, more than {MAX_DEVICE_INTERRUPTS_PER_S}; move them away \
                 (/proc/irq/*/smp_affinity_list) or measure elsewhere with --cpus",
                self.cpu
            )
        };
        Some(check("interrupts", rate <= MAX_DEVICE_INTERRUPTS_PER_S, detail))
    }

    /// Percent of the time in which the hypervisor ran something else. No condition: on a virtual
    /// machine that is its nature, and a reader must know.
    fn stolen_percent(&self) -> Option<u64> {
        let ticks = self.growth(&format!("cpu{}.stolen_ticks", self.cpu))?;
        Some(100 * ticks / (self.seconds() * TICKS_PER_S))
    }

    /// Whole seconds, at least one.
    fn seconds(&self) -> u64 {
        self.elapsed.as_secs().max(1)
    }

    /// By how much a counter grew; `None` where one of the records lacks it.
    fn growth(&self, field: &str) -> Option<u64> {
        let number = |fields| text(fields, field)?.parse::<u64>().ok();
        Some(number(self.after)?.saturating_sub(number(self.before)?))
    }
}

/// The init system must be up with all its units, where there is one; `None` where it does not say.
pub fn units(fields: &Fields) -> Option<Check> {
    let failed = text(fields, "init.failed_units")?;
    let state = text(fields, "init.state").unwrap_or("unknown");
    let detail =
        format!("the init system is {state}, {failed} of its units have failed (systemctl --failed)");
    Some(check("failed_units", failed == "0", detail))
}

fn text<'a>(fields: &'a Fields, key: &str) -> Option<&'a str> {
    fields.iter().find(|(field, _)| field == key).map(|(_, value)| value.as_str())
}

fn check(name: &str, pass: bool, detail: String) -> Check {
    Check { workload: String::new(), arm: String::new(), name: name.into(), pass, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// Conditions that fail and the sentence after 10 s in which one field went from `before` to `after`.
    fn after(field: &str, before: &str, after: &str) -> (Vec<String>, String) {
        let (before, after) = (fields(&[(field, before)]), fields(&[(field, after)]));
        let interval = Interval {
            before: &before,
            after: &after,
            cpu: 2,
            elapsed: Duration::from_secs(10),
            emulated: false,
        };
        let conditions = interval.conditions();
        (conditions.into_iter().filter(|c| !c.pass).map(|c| c.name).collect(), interval.sentence())
    }

    #[test]
    fn every_condition_can_fail_and_can_hold() {
        for (field, before, good, bad, name) in [
            ("kernel.taint", "0", "0", "512", "taint"),
            ("cpu7.core_throttles", "3", "3", "4", "throttling"),
            ("cpu0.package_throttle_ms", "3", "3", "9", "throttling"),
            ("cpu2.device_interrupts", "500", "10500", "20500", "interrupts"),
        ] {
            assert_eq!(after(field, before, good).0, Vec::<String>::new(), "{field} {good}");
            assert_eq!(after(field, before, bad).0, [name], "{field} {bad}");
        }
        assert_eq!(after("cpu1.device_interrupts", "0", "99999999").0, Vec::<String>::new(), "another CPU");
    }

    #[test]
    fn the_sentence_says_what_was_wrong_or_how_quiet_it_was() {
        let (_, quiet) = after("cpu2.device_interrupts", "0", "30");
        assert_eq!(quiet, "steady, 3 device interrupts/s on CPU 2");
        let (failed, stolen) = after("cpu2.stolen_ticks", "0", "25");
        assert_eq!((failed.len(), stolen.as_str()), (0, "the hypervisor took 2 % of the time from CPU 2"));
        let (_, hot) = after("cpu0.core_throttles", "0", "2");
        assert!(hot.contains("throttled for its heat") && !hot.contains("steady"), "{hot}");
    }

    #[test]
    fn failed_units_fail() {
        let found = |count| units(&fields(&[("init.state", "degraded"), ("init.failed_units", count)]));
        assert!(found("0").is_some_and(|c| c.pass));
        assert!(found("2").is_some_and(|c| !c.pass && c.detail.contains("degraded")));
        assert_eq!(units(&Fields::new()), None);
    }
}
