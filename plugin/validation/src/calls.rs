// SPDX-License-Identifier: GPL-2.0-or-later
//! Function calls per operation that differ between builds, from the untimed
//! boots (qemu.md section 6). Only whole differences count: background work
//! moves a count by fractions.

use crate::findings::{CallChange, ReturnCount};
use crate::samples::PointLog;
use std::collections::{BTreeMap, BTreeSet};

/// A difference of fewer calls per operation than this is background (qemu.md section 6).
const WHOLE: f64 = 0.9;

/// Calls of one function from one caller in one operation: (arm, operation, function, caller).
type Key = (String, String, String, String);

/// Functions that are called more or less often per operation in some build, largest
/// difference first; each as a sum, followed by the callers that differ. `logs` holds
/// the untimed boot of each build, in plan order.
pub fn call_changes(workload: &str, logs: &[&PointLog]) -> Vec<CallChange> {
    let counts: Vec<BTreeMap<Key, f64>> = logs.iter().map(|log| counts(workload, log)).collect();
    let observed: Vec<BTreeSet<(String, String)>> =
        logs.iter().map(|log| operations(workload, log)).collect();
    let mut sums: Vec<BTreeMap<(String, String, String), f64>> = Vec::new();
    for count in &counts {
        let mut sum = BTreeMap::new();
        for ((arm, operation, function, _), calls) in count {
            *sum.entry((arm.clone(), operation.clone(), function.clone())).or_insert(0.0) += calls;
        }
        sums.push(sum);
    }
    let keys: BTreeSet<_> = sums.iter().flat_map(BTreeMap::keys).cloned().collect();
    let mut found: Vec<(f64, Vec<CallChange>)> = Vec::new();
    for key in keys {
        let (arm, operation, function) = key.clone();
        // A build whose pass gave nothing says nothing about any function.
        if !observed.iter().all(|o| o.contains(&(arm.clone(), operation.clone()))) {
            continue;
        }
        let per_operation: Vec<f64> = sums.iter().map(|s| s.get(&key).copied().unwrap_or(0.0)).collect();
        let size = largest_difference(&per_operation);
        let change = |caller, per_operation| CallChange {
            workload: workload.to_owned(),
            arm: arm.clone(),
            operation: operation.clone(),
            function: function.clone(),
            caller,
            per_operation,
        };
        let callers: BTreeSet<&String> = counts
            .iter()
            .flat_map(BTreeMap::keys)
            .filter(|(a, o, f, _)| (a, o, f) == (&arm, &operation, &function))
            .map(|(.., caller)| caller)
            .collect();
        let by_caller: Vec<CallChange> = callers
            .into_iter()
            .filter_map(|caller| {
                let key = (arm.clone(), operation.clone(), function.clone(), caller.clone());
                let values: Vec<f64> = counts.iter().map(|c| c.get(&key).copied().unwrap_or(0.0)).collect();
                (largest_difference(&values) > WHOLE).then(|| change(Some(caller.clone()), values))
            })
            .collect();
        if size > WHOLE {
            let mut changes = vec![change(None, per_operation)];
            changes.extend(by_caller);
            found.push((size, changes));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1[0].function.cmp(&b.1[0].function)));
    found.into_iter().flat_map(|(_, changes)| changes).collect()
}

/// NULL and other returns per operation in each build, for functions that were called at all.
pub fn return_counts(workload: &str, logs: &[&PointLog]) -> Vec<ReturnCount> {
    let mut keys: BTreeSet<(String, String, String)> = BTreeSet::new();
    for returns in logs.iter().flat_map(|l| &l.returns).filter(|r| r.workload == workload) {
        keys.insert((returns.arm.clone(), returns.operation.clone(), returns.function.clone()));
    }
    keys.into_iter()
        .filter_map(|(arm, operation, function)| {
            let of = |log: &&PointLog| {
                let found = log.returns.iter().find(|r| {
                    r.workload == workload
                        && r.arm == arm
                        && r.operation == operation
                        && r.function == function
                })?;
                let n = found.operations.max(1) as f64;
                Some((found.null as f64 / n, found.other as f64 / n))
            };
            // Not observed in one build: not comparable, so not reported.
            let all: Vec<(f64, f64)> = logs.iter().map(of).collect::<Option<_>>()?;
            let called = all.iter().any(|(null, other)| null + other > 0.0);
            called.then(|| ReturnCount {
                workload: workload.to_owned(),
                arm,
                operation,
                function,
                null_per_operation: all.iter().map(|a| a.0).collect(),
                other_per_operation: all.iter().map(|a| a.1).collect(),
            })
        })
        .collect()
}

/// Functions that ran in an untimed boot, by itself or through others.
pub fn executed(log: &PointLog) -> Option<BTreeSet<String>> {
    if log.profiles.is_empty() {
        return None;
    }
    let profiled =
        log.profiles.iter().flat_map(|p| &p.functions).filter(|(_, hits)| *hits > 0).map(|(f, _)| f);
    let called = log.calls.iter().flat_map(|c| &c.calls).filter(|(.., n)| *n > 0).map(|(f, ..)| f);
    Some(profiled.chain(called).cloned().collect())
}

/// (arm, operation) pairs that were traced.
fn operations(workload: &str, log: &PointLog) -> BTreeSet<(String, String)> {
    log.calls
        .iter()
        .filter(|c| c.workload == workload)
        .map(|c| (c.arm.clone(), c.operation.clone()))
        .collect()
}

fn counts(workload: &str, log: &PointLog) -> BTreeMap<Key, f64> {
    let mut found = BTreeMap::new();
    for calls in log.calls.iter().filter(|c| c.workload == workload) {
        for (function, caller, count) in &calls.calls {
            let key = (calls.arm.clone(), calls.operation.clone(), c_name(function), c_name(caller));
            *found.entry(key).or_insert(0.0) += *count as f64 / calls.operations.max(1) as f64;
        }
    }
    found
}

/// The C identifier: `.part.0` and the like come and go with the compiler's mood.
fn c_name(symbol: &str) -> String {
    symbol.split('.').next().unwrap_or(symbol).to_owned()
}

fn largest_difference(values: &[f64]) -> f64 {
    let high = values.iter().copied().fold(f64::MIN, f64::max);
    let low = values.iter().copied().fold(f64::MAX, f64::min);
    if values.is_empty() { 0.0 } else { high - low }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_wire::{Calls, Profile, Returns};

    fn log(calls: &[(&str, &str, u64)]) -> PointLog {
        PointLog {
            calls: vec![Calls {
                workload: "w".into(),
                arm: "a".into(),
                operation: "rmdir".into(),
                operations: 4,
                calls: calls.iter().map(|(f, c, n)| ((*f).into(), (*c).into(), *n)).collect(),
            }],
            ..PointLog::default()
        }
    }

    #[test]
    fn whole_differences_are_found_with_their_callers() {
        let base = log(&[("down_write", "remove.part.0", 104), ("noise", "irq", 3)]);
        let patched = log(&[("down_write", "remove", 104), ("down_write", "mark", 104), ("noise", "irq", 1)]);
        let changes = call_changes("w", &[&base, &patched]);
        let told: Vec<_> = changes
            .iter()
            .map(|c| (c.function.as_str(), c.caller.as_deref(), c.per_operation.clone()))
            .collect();
        assert_eq!(
            told,
            [("down_write", None, vec![26.0, 52.0]), ("down_write", Some("mark"), vec![0.0, 26.0])]
        );
    }

    #[test]
    fn a_build_that_was_not_observed_says_nothing() {
        assert!(call_changes("w", &[&PointLog::default(), &log(&[("f", "g", 40)])]).is_empty());
    }

    #[test]
    fn returns_need_every_build() {
        let with = |null, other| PointLog {
            returns: vec![Returns {
                workload: "w".into(),
                arm: "a".into(),
                operation: "rmdir".into(),
                operations: 4,
                function: "ilookup".into(),
                null,
                other,
            }],
            ..PointLog::default()
        };
        let counts = return_counts("w", &[&with(0, 0), &with(100, 4)]);
        assert_eq!(counts[0].null_per_operation, [0.0, 25.0]);
        assert_eq!(counts[0].other_per_operation, [0.0, 1.0]);
        assert!(return_counts("w", &[&PointLog::default(), &with(100, 4)]).is_empty());
        assert!(return_counts("w", &[&with(0, 0)]).is_empty());
    }

    #[test]
    fn without_a_profile_nothing_is_known_to_have_run() {
        assert_eq!(executed(&log(&[("f", "g", 1)])), None);
        let mut profiled = log(&[("f", "g", 1)]);
        profiled.profiles.push(Profile {
            workload: "w".into(),
            arm: "a".into(),
            section: "workload".into(),
            operations: 0,
            functions: vec![("h".into(), 2), ("i".into(), 0)],
        });
        assert_eq!(executed(&profiled), Some(["f".to_owned(), "h".to_owned()].into()));
    }
}
