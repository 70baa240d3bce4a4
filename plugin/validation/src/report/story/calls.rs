// SPDX-License-Identifier: GPL-2.0-or-later
//! Calls per operation that changed, the most telling first.

use crate::compare::Comparison;
use crate::findings::{CallChange, DeferredWork, Findings};
use crate::report::names::metric_name;
use crate::report::number::number;
use serde::Serialize;

/// Changed calls named in a mail.
const SHOWN: usize = 5;

/// A function whose calls per operation changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// `rmdir`.
    pub operation: String,
    /// Arm id.
    pub arm: String,
    /// The function.
    pub function: String,
    /// Its caller, where told apart.
    pub caller: Option<String>,
    /// Calls in base.
    pub before: String,
    /// Calls with the whole series.
    pub after: String,
    /// Calls that return NULL with the whole series, where known.
    pub null: Option<String>,
    /// Label of the patch that does most of it, where each patch has a build.
    pub patch: Option<String>,
    /// Calls by build.
    pub by_build: Vec<String>,
}

/// All changed calls.
pub fn all(findings: &Findings) -> Vec<Call> {
    findings.call_changes.iter().map(|c| call(findings, c)).collect()
}

/// The changed calls of the operation of a comparison, and how many more there are. A function
/// that is called from one more place is told with that place.
pub fn of_finding(findings: &Findings, comparison: Option<&Comparison>) -> (Vec<Call>, usize) {
    let Some(comparison) = comparison else { return (Vec::new(), 0) };
    let operation = metric_name(&comparison.workload, &comparison.metric).operation;
    let mut sums: Vec<&CallChange> = changes(findings, comparison, operation).collect();
    // Stable: within a group the largest difference stays first.
    sums.sort_by_key(|c| telling(findings, c));
    let more = sums.len().saturating_sub(SHOWN);
    let shown = sums.iter().take(SHOWN).map(|sum| {
        let mut told = call(findings, sum);
        if let Some(caller) = only_caller(findings, sum)
            && told.null.is_none()
            && sum.per_operation.first() != Some(&0.0)
        {
            let place = call(findings, caller);
            (told.before, told.after, told.caller) = (place.before, place.after, place.caller);
        }
        told
    });
    (shown.collect(), more)
}

/// `name: 0 -> 1 items per operation; one takes 12000 us, the last is done 20000 us after the operations`.
pub fn told_work(work: &DeferredWork) -> String {
    let counts: Vec<String> = work.per_operation.iter().map(|n| number(*n)).collect();
    let mut text = format!("{}: {} items per operation", work.function, counts.join(" -> "));
    let last = |values: &[Option<u64>]| values.last().copied().flatten();
    if let Some((each, drain)) = last(&work.duration_us).zip(last(&work.drain_us)) {
        text += &format!("; one takes {each} us, the last is done {drain} us after the operations");
    }
    text
}

/// Functions that the patched operation calls more often than the base.
pub fn grown<'a>(findings: &'a Findings, comparison: &Comparison, operation: &str) -> Vec<&'a str> {
    changes(findings, comparison, operation)
        .filter(|c| matches!((c.per_operation.first(), c.per_operation.last()), (Some(a), Some(b)) if b > a))
        .map(|c| c.function.as_str())
        .collect()
}

/// Whether the operation now looks inodes up: what kernfs does once for each superblock.
pub fn walks_superblocks(findings: &Findings, comparison: &Comparison) -> bool {
    let operation = metric_name(&comparison.workload, &comparison.metric).operation;
    grown(findings, comparison, operation).contains(&"ilookup")
}

/// Sums over callers of the operation and arm of a comparison.
fn changes<'a>(
    findings: &'a Findings,
    comparison: &Comparison,
    operation: &str,
) -> impl Iterator<Item = &'a CallChange> {
    let workload = comparison.workload.clone();
    // A metric without words of its own belongs to the traced operation of the same name.
    let bare = comparison.metric.rsplit_once('_').map_or(comparison.metric.as_str(), |(_, metric)| metric);
    let operation = if operation.is_empty() { bare.to_owned() } else { operation.to_owned() };
    // The arm of the metric; the default arm is the one that comes first.
    let arm = comparison
        .metric
        .rsplit_once('_')
        .map(|(arm, _)| arm.to_owned())
        .filter(|arm| findings.call_changes.iter().any(|c| c.arm == *arm))
        .or_else(|| findings.call_changes.iter().find(|c| c.workload == workload).map(|c| c.arm.clone()));
    findings.call_changes.iter().filter(move |c| {
        c.workload == workload
            && c.operation == operation
            && c.caller.is_none()
            && Some(&c.arm) == arm.as_ref()
    })
}

/// Smaller tells more: known returns, new calls, more calls; the other half of a lock says nothing new.
fn telling(findings: &Findings, change: &CallChange) -> u8 {
    const ECHOES: [&str; 5] = ["unlock", "up_read", "up_write", "_fast", "_slow"];
    if ECHOES.iter().any(|echo| change.function.contains(echo)) {
        4
    } else if findings.returns.iter().any(|r| r.function == change.function) {
        0
    } else if change.per_operation.first() != Some(&0.0) && only_caller(findings, change).is_some() {
        1
    } else if change.per_operation.first() == Some(&0.0) {
        2
    } else {
        3
    }
}

/// The caller that accounts for the whole change, where it is one.
fn only_caller<'a>(findings: &'a Findings, sum: &CallChange) -> Option<&'a CallChange> {
    let size = |c: &CallChange| c.per_operation.last().zip(c.per_operation.first()).map(|(b, a)| b - a);
    let mut callers = findings.call_changes.iter().filter(|c| {
        c.caller.is_some()
            && (&c.workload, &c.arm, &c.operation, &c.function)
                == (&sum.workload, &sum.arm, &sum.operation, &sum.function)
    });
    let first = callers.next()?;
    (callers.next().is_none() && size(first) == size(sum)).then_some(first)
}

fn call(findings: &Findings, change: &CallChange) -> Call {
    let returns = findings.returns.iter().find(|r| {
        (&r.workload, &r.arm, &r.operation, &r.function)
            == (&change.workload, &change.arm, &change.operation, &change.function)
    });
    let told = |v: &f64| number(*v);
    Call {
        operation: change.operation.clone(),
        arm: change.arm.clone(),
        function: change.function.clone(),
        caller: change.caller.clone(),
        before: change.per_operation.first().map(told).unwrap_or_default(),
        after: change.per_operation.last().map(told).unwrap_or_default(),
        null: returns
            .and_then(|r| r.null_per_operation.last())
            .filter(|n| **n > 0.0 && change.caller.is_none())
            .map(told),
        patch: step(findings, &change.per_operation),
        by_build: change.per_operation.iter().map(told).collect(),
    }
}

/// Label of the build with the largest step, where that is the step of one patch of several.
fn step(findings: &Findings, values: &[f64]) -> Option<String> {
    let planned = |label: &str| findings.plan.builds.iter().find(|b| b.label == label);
    let size = |pair: &[f64]| (pair[1] - pair[0]).abs();
    let (index, _) = values.windows(2).enumerate().max_by(|(_, a), (_, b)| size(a).total_cmp(&size(b)))?;
    // There is a value for each build that was made.
    let (old, new) =
        (planned(&findings.builds.get(index)?.label)?, planned(&findings.builds.get(index + 1)?.label)?);
    let several = findings.plan.builds.len() > 2 && findings.plan.is_of_series();
    (several && old.patches + 1 == new.patches).then(|| new.label.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_by_build_and_of_the_last_build_how_long_it_takes() {
        let mut work = DeferredWork {
            workload: "shrinker.umount".into(),
            arm: "lat".into(),
            function: "shrinker_free_workfn".into(),
            per_operation: vec![0.0, 0.0, 1.0],
            duration_us: vec![None, None, Some(12_000)],
            drain_us: vec![None, None, Some(20_000)],
        };
        assert_eq!(
            told_work(&work),
            "shrinker_free_workfn: 0 -> 0 -> 1 items per operation; one takes 12000 us, the last is done 20000 us \
             after the operations"
        );
        work.per_operation = vec![1.0, 0.0, 0.0];
        work.duration_us = vec![Some(9), None, None];
        assert_eq!(told_work(&work), "shrinker_free_workfn: 1 -> 0 -> 0 items per operation");
    }
}
