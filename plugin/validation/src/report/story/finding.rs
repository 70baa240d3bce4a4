// SPDX-License-Identifier: GPL-2.0-or-later
//! The metric that speaks first: how much, by which patch, for each what.

use super::{calls, first_with, headline, is_whole, patch_of, whole};
use crate::compare::Comparison;
use crate::findings::Findings;
use crate::plan::Evidence;
use crate::report::names::{MetricName, metric_name};
use crate::report::number::{decimals_for, microseconds, number, percent, signed};
use serde::Serialize;

/// The metric that speaks first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// `rmdir() of an empty cgroup`.
    pub operation: String,
    /// `rmdir()`.
    pub short: String,
    /// Difference without sign: `3040` instructions, or `2.6` us.
    pub amount: String,
    /// With sign.
    pub difference: String,
    /// `more` or `fewer`.
    pub direction: &'static str,
    /// `+7.6%`.
    pub percent: String,
    /// Value before: instructions or us.
    pub before: String,
    /// Value with the change.
    pub after: String,
    /// `this patch`, `this patch (2/3)`, `patch 2/3` where the reply is not to that patch, or `this series`.
    pub by: String,
    /// Label of the patch, where it is one of several.
    pub patch: Option<String>,
    /// The whole series, where the finding is one patch of several.
    pub whole: Option<Whole>,
    /// What each object costs.
    pub per_object: Option<PerObject>,
    /// The growth rule.
    pub growth: Option<GrowthStory>,
    /// The operation waits where it did not before.
    pub new_waiting: bool,
    /// What it waits for, where the calls tell.
    pub waits_for: Option<String>,
    /// All seeds agree to the instruction.
    pub exact: bool,
    /// `+35.3% .. +40.2%`; only where low and high differ.
    pub interval: Option<String>,
    /// `99`, percent.
    pub confidence: Option<String>,
    /// `time` evidence: CPU share of 1000 operations a second more, percent.
    pub scale: Option<String>,
}

/// A step that makes up at least this share of the whole change is answered at its patch, a
/// smaller one at the cover letter.
const SHARE_OF_ONE_PATCH: f64 = 0.5;

/// Number of the one patch that the reply answers; `None` when it is about the series.
pub fn answered(findings: &Findings) -> Option<u32> {
    let comparison = headline(findings)?;
    let step = comparison.verdict.change_percent?;
    let series = findings.verdict.headline.as_ref()?.change_percent;
    let waits = comparison.path.as_ref().and_then(|p| p.waiting).is_some_and(|w| w.new_waiting);
    (waits || step.abs() >= SHARE_OF_ONE_PATCH * series.abs())
        .then(|| patch_of(findings, comparison))
        .flatten()
}

/// The whole series beside one patch of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Whole {
    /// Difference with sign.
    pub difference: String,
    /// The same in percent.
    pub percent: String,
}

/// What each object costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PerObject {
    /// Instructions or us for each.
    pub amount: String,
    /// How many there are here.
    pub objects: u64,
    /// `kernfs nodes`.
    pub name: String,
}

/// The growth rule from two sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GrowthStory {
    /// `kernfs node`.
    pub object: String,
    /// For each object.
    pub per_object: String,
    /// Whatever the number; empty when it is nothing.
    pub constant: String,
    /// `19 and 26`.
    pub sizes: String,
    /// Superblocks at hand, where the cost is once for each of them too.
    pub superblocks: Option<u64>,
}

/// Tells one comparison.
pub fn finding(findings: &Findings, comparison: &Comparison) -> Finding {
    let name = metric_name(&comparison.workload, &comparison.metric);
    let time = findings.plan.evidence == Evidence::Time;
    let (old, new) = values(comparison);
    let difference = match &comparison.path {
        Some(path) => path.difference,
        None => new - old,
    };
    let amount = |value: f64| if time { microseconds(value, decimals_for(value)) } else { number(value) };
    let with_sign = |value: f64| {
        if !time {
            signed(value)
        } else if value >= 0.0 {
            format!("+{} us", amount(value))
        } else {
            format!("{} us", amount(value))
        }
    };
    let patch = patch_of(findings, comparison);
    let build = first_with(findings, comparison);
    let alone = findings.series.patches.len() == 1;
    let growth = growth(findings, comparison);
    let interval = comparison.verdict.interval_percent.filter(|[low, high]| low != high);
    Finding {
        amount: amount(difference.abs()),
        difference: with_sign(difference),
        direction: if difference < 0.0 { "fewer" } else { "more" },
        percent: percent(comparison.verdict.change_percent),
        before: amount(old),
        after: amount(new),
        by: match patch {
            _ if alone && findings.plan.is_of_series() => "this patch".into(),
            Some(_) if answered(findings).is_some() => format!("this patch ({build})"),
            Some(_) => format!("patch {build}"),
            None if !findings.plan.is_of_series() => comparison.new_build.clone(),
            None if is_whole(findings, comparison) => "this series".into(),
            None => format!("the patches after {} up to {build}", comparison.old_build),
        },
        patch: patch.filter(|_| !alone).map(|_| build.to_owned()),
        whole: patch.filter(|_| !alone).and_then(|_| whole(findings, comparison)).map(|w| {
            let (old, new) = values(w);
            let difference = w.path.as_ref().map_or(new - old, |p| p.difference);
            Whole { difference: with_sign(difference), percent: percent(w.verdict.change_percent) }
        }),
        per_object: per_object(findings, comparison, growth.as_ref(), &amount),
        growth: growth.map(|g| g.told(findings, comparison, &amount)),
        new_waiting: comparison.path.as_ref().and_then(|p| p.waiting).is_some_and(|w| w.new_waiting),
        waits_for: waits_for(findings, comparison, &name),
        exact: comparison.path.as_ref().is_some_and(|p| p.exact),
        interval: interval.map(|[low, high]| format!("{} .. {}", percent(Some(low)), percent(Some(high)))),
        confidence: interval.and(comparison.verdict.confidence).map(|c| number(100.0 * c)),
        // Nanoseconds times 1000 a second are 1e-4 percent of one CPU.
        scale: time.then(|| percent(Some(difference * 1e-4))),
        operation: name.long,
        short: name.short,
    }
}

/// Old and new value of a comparison: medians over seeds, else means of its boots.
fn values(comparison: &Comparison) -> (f64, f64) {
    if let Some(path) = &comparison.path {
        return (path.old.median, path.new.median);
    }
    let n = comparison.endpoints.len().max(1) as f64;
    let mean =
        |of: fn(&crate::compare::Endpoint) -> f64| comparison.endpoints.iter().map(of).sum::<f64>() / n;
    (mean(|e| e.old), mean(|e| e.new))
}

/// What each object adds between the two builds of a comparison.
struct Growing {
    object: String,
    per_object: f64,
    constant: f64,
    sizes: Vec<u64>,
}

fn growth(findings: &Findings, comparison: &Comparison) -> Option<Growing> {
    let of = |build: &str| {
        findings
            .growth
            .iter()
            .find(|g| g.workload == comparison.workload && g.metric == comparison.metric && g.build == build)
    };
    let new = of(&comparison.new_build)?;
    let (old_per, old_constant) =
        of(&comparison.old_build).map_or((0.0, 0.0), |g| (g.per_object, g.constant));
    let mut sizes: Vec<u64> = new.sizes.iter().map(|s| s.0).collect();
    sizes.sort_unstable();
    let per_object = new.per_object - old_per;
    // Less than one instruction or nanosecond for each is no growth.
    (per_object.is_finite() && per_object.abs() >= 1.0).then(|| Growing {
        object: new.object.clone(),
        per_object,
        constant: new.constant - old_constant,
        sizes,
    })
}

impl Growing {
    fn told(
        self,
        findings: &Findings,
        comparison: &Comparison,
        amount: &impl Fn(f64) -> String,
    ) -> GrowthStory {
        let superblocks = findings.facts.get(&format!("{} superblocks", comparison.workload)).copied();
        GrowthStory {
            per_object: amount(self.per_object),
            constant: if self.constant.abs() < 1.0 { String::new() } else { amount(self.constant) },
            sizes: self.sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(" and "),
            superblocks: superblocks.filter(|_| calls::walks_superblocks(findings, comparison)),
            object: self.object,
        }
    }
}

/// The number of objects at hand is the fact named like the object: `nodes` for `kernfs node`.
fn per_object(
    findings: &Findings,
    comparison: &Comparison,
    growth: Option<&Growing>,
    amount: &impl Fn(f64) -> String,
) -> Option<PerObject> {
    let growth = growth?;
    let noun = growth.object.rsplit(' ').next()?;
    let objects = *findings.facts.get(&format!("{} {noun}s", comparison.workload))?;
    Some(PerObject { amount: amount(growth.per_object), objects, name: format!("{}s", growth.object) })
}

/// Functions in which a task waits, and what for.
const WAITS: &[(&str, &str)] = &[
    ("synchronize_rcu", "an RCU grace period"),
    ("synchronize_srcu", "an SRCU grace period"),
    ("rcu_barrier", "all pending RCU callbacks"),
    ("synchronize_rcu_expedited", "an expedited RCU grace period"),
    ("synchronize_srcu_expedited", "an expedited SRCU grace period"),
    ("flush_work", "a work item"),
    ("msleep", "a sleep"),
    ("schedule_timeout", "a timeout"),
    ("wait_for_completion", "a completion"),
];

fn waits_for(findings: &Findings, comparison: &Comparison, name: &MetricName) -> Option<String> {
    let grown = calls::grown(findings, comparison, name.operation);
    WAITS.iter().find(|(function, _)| grown.contains(function)).map(|(_, what)| (*what).to_owned())
}
