// SPDX-License-Identifier: GPL-2.0-or-later
//! Every metric beside the finding, each with its own bound.

use super::is_whole;
use crate::compare::{Comparison, VerdictName};
use crate::findings::Findings;
use crate::plan::Evidence;
use crate::report::names::metric_name;
use crate::report::number::{bound, percent};
use serde::Serialize;

/// Metrics that stayed the same within one bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Same {
    /// `0.1%`.
    pub bound: String,
    /// What they are called, with their change where it is not nothing.
    pub names: Vec<String>,
    /// The bound is so wide that nobody would call this the same.
    pub coarse: bool,
}

/// From this bound on nothing is claimed, percent: the operation's own spread is too wide.
const COARSE_PERCENT: f64 = 3.0;

/// A metric beside the finding that did not stay the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Other {
    /// `mkdir()`.
    pub name: String,
    /// The claim.
    pub verdict: String,
    /// `+1.2%`, or the range.
    pub change: String,
    /// First reason, where there is one.
    pub reason: String,
    /// Whether it is one of those that decide.
    pub primary: bool,
    /// It waits where it did not before.
    pub new_waiting: bool,
}

/// The largest change that a metric may have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AtMost {
    /// `mkdir()`.
    pub name: String,
    /// `0.9%`.
    pub bound: String,
}

/// What stands beside a finding.
#[derive(Debug, Default)]
pub struct Beside {
    /// Stayed the same, by bound.
    pub same: Vec<Same>,
    /// Did not.
    pub others: Vec<Other>,
    /// `time` evidence: the end of the interval that is further from 0.
    pub at_most: Vec<AtMost>,
}

/// Metrics of the whole series beside the one that speaks first.
pub fn beside(findings: &Findings, headline: Option<&Comparison>) -> Beside {
    let mut beside = Beside::default();
    let time = findings.plan.evidence == Evidence::Time;
    for comparison in findings.comparison.comparisons.iter().filter(|c| is_whole(findings, c)) {
        let spoken =
            headline.is_some_and(|h| h.workload == comparison.workload && h.metric == comparison.metric);
        if spoken {
            continue;
        }
        let name = metric_name(&comparison.workload, &comparison.metric).short;
        match comparison.verdict.name {
            VerdictName::Same | VerdictName::NoChange if time => {
                beside.at_most.push(AtMost { name, bound: bound(own_bound(comparison)) });
            }
            VerdictName::Same | VerdictName::NoChange => beside.add_same(comparison, name),
            VerdictName::Slower
            | VerdictName::Faster
            | VerdictName::Longer
            | VerdictName::Shorter
            | VerdictName::Inconclusive => beside.others.push(other(findings, comparison, name)),
        }
    }
    beside
}

impl Beside {
    fn add_same(&mut self, comparison: &Comparison, name: String) {
        let name = match comparison.verdict.change_percent {
            Some(0.0) | None => name,
            change => format!("{name} ({})", percent(change)),
        };
        let percent = own_bound(comparison);
        let (bound, coarse) = (bound(percent), percent > COARSE_PERCENT);
        match self.same.iter_mut().find(|s| s.bound == bound) {
            Some(same) => same.names.push(name),
            None => self.same.push(Same { bound, names: vec![name], coarse }),
        }
    }
}

/// Path: the frozen bound. Time: the end of the interval that is further from 0.
fn own_bound(comparison: &Comparison) -> f64 {
    let interval = comparison.verdict.interval_percent;
    comparison
        .path
        .as_ref()
        .map_or_else(|| interval.map_or(f64::NAN, |[l, h]| l.abs().max(h.abs())), |p| p.bound_percent)
}

fn other(findings: &Findings, comparison: &Comparison, name: String) -> Other {
    let key = format!("{} {}", comparison.workload, comparison.metric);
    Other {
        name,
        verdict: comparison.verdict.name.to_string(),
        change: match comparison.verdict.interval_percent {
            Some([low, high]) if low != high => format!("{} .. {}", percent(Some(low)), percent(Some(high))),
            _ => percent(comparison.verdict.change_percent),
        },
        reason: comparison.verdict.reasons.first().cloned().unwrap_or_default(),
        primary: findings.plan.policy.primaries.contains(&key),
        new_waiting: comparison.path.as_ref().and_then(|p| p.waiting).is_some_and(|w| w.new_waiting),
    }
}
