// SPDX-License-Identifier: GPL-2.0-or-later
//! Where and how an arm is set up: processors and parameters.

use crate::machine::Topology;
use crate::measure::Cpu;
use crate::stop::Stop;
use std::collections::BTreeMap;

/// What a workload is told when it is set up.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// Id of the arm.
    pub arm: &'static str,
    /// The processors that may be used: those asked for on the command line, else all that the
    /// machine allows to this process.
    pub topology: &'a Topology,
    /// The one that the measuring thread is pinned to.
    pub cpu: Cpu,
    /// Values of all parameters.
    pub parameters: &'a Parameters,
}

/// Something that `--set ID=VALUE` changes.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// `pace_ms`.
    pub id: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The value without `--set`.
    pub default: &'static str,
    /// The values there are; none means any whole number.
    pub values: &'static [&'static str],
}

impl Parameter {
    /// Whether `value` is one.
    ///
    /// # Errors
    /// It is none; the error says what would be.
    pub fn check(&self, value: &str) -> Result<(), Stop> {
        let good =
            if self.values.is_empty() { value.parse::<u64>().is_ok() } else { self.values.contains(&value) };
        if good {
            return Ok(());
        }
        let wanted = if self.values.is_empty() {
            "a whole number".to_owned()
        } else {
            format!("one of {}", self.values.join(", "))
        };
        Err(Stop::Usage(format!("{}={value}: the value must be {wanted}", self.id)))
    }
}

/// Values of the parameters of one workload, each checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    /// The defaults of `known`, with what was `asked` for; names of other workloads are left alone.
    ///
    /// # Errors
    /// A value is none.
    pub fn new(known: &[Parameter], asked: &[(String, String)]) -> Result<Self, Stop> {
        let mut values = BTreeMap::new();
        for parameter in known {
            let value = asked.iter().rev().find(|(id, _)| id == parameter.id);
            let value = value.map_or(parameter.default, |(_, value)| value.as_str());
            parameter.check(value)?;
            values.insert(parameter.id, value.to_owned());
        }
        Ok(Self(values))
    }

    /// The value of a parameter that the workload lists.
    pub fn text(&self, id: &str) -> &str {
        self.0.get(id).map_or("", String::as_str)
    }

    /// The same as a number; 0 for one that is not a number.
    pub fn number(&self, id: &str) -> u64 {
        self.text(id).parse().unwrap_or(0)
    }

    /// All of them, by id.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(id, value)| (*id, value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Parameter] = &[
        Parameter { id: "pace_ms", summary: "pause", default: "0", values: &[] },
        Parameter { id: "tree", summary: "where", default: "cpu", values: &["cpu", "cgroup"] },
    ];

    fn asked(pairs: &[(&str, &str)]) -> Result<Parameters, Stop> {
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Parameters::new(KNOWN, &pairs)
    }

    #[test]
    fn what_is_asked_for_replaces_the_default_and_is_checked() {
        let found = asked(&[("tree", "cgroup"), ("other", "7")]).expect("valid");
        assert_eq!((found.number("pace_ms"), found.text("tree")), (0, "cgroup"));
        assert_eq!(asked(&[("pace_ms", "1"), ("pace_ms", "50")]).expect("valid").number("pace_ms"), 50);
        for (pair, wanted) in [(("tree", "ib"), "cpu, cgroup"), (("pace_ms", "fast"), "whole number")] {
            let error = asked(&[pair]).expect_err("no value").to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
