// SPDX-License-Identifier: GPL-2.0-or-later
//! Work items that operations leave to workqueues, by build, from the untimed
//! boots (workloads.md 5.4).

use crate::findings::DeferredWork;
use crate::samples::PointLog;
use std::collections::{BTreeMap, BTreeSet};

/// Beginning of the facts about work items: `work.operations`, `work.FUNCTION.items` ...
const PREFIX: &str = "work.";

/// Facts about work items of one boot, by (arm, name without prefix).
fn facts<'a>(workload: &str, log: &'a PointLog) -> BTreeMap<(&'a str, &'a str), u64> {
    log.facts
        .iter()
        .filter(|fact| fact.workload == workload)
        .filter_map(|fact| Some(((fact.arm.as_str(), fact.name.strip_prefix(PREFIX)?), fact.value)))
        .collect()
}

/// Every function that operations of `workload` leave work items to, by arm and name. `logs` holds the
/// untimed boot of each build, in plan order. An arm that was not observed in every build says nothing.
pub fn deferred_work(workload: &str, logs: &[&PointLog]) -> Vec<DeferredWork> {
    let facts: Vec<_> = logs.iter().map(|log| facts(workload, log)).collect();
    let functions: BTreeSet<(&str, &str)> = facts
        .iter()
        .flat_map(BTreeMap::keys)
        .filter_map(|(arm, name)| Some((*arm, name.strip_suffix(".items")?)))
        .collect();
    functions
        .into_iter()
        .filter_map(|(arm, function)| {
            let operations = facts.iter().map(|f| f.get(&(arm, "operations")).copied().filter(|n| *n > 0));
            let operations = operations.collect::<Option<Vec<u64>>>()?;
            let each = |what: &str| -> Vec<Option<u64>> {
                let name = format!("{function}.{what}");
                facts.iter().map(|f| f.get(&(arm, name.as_str())).copied()).collect()
            };
            let items = each("items");
            Some(DeferredWork {
                workload: workload.to_owned(),
                arm: arm.to_owned(),
                function: function.to_owned(),
                per_operation: items
                    .iter()
                    .zip(operations)
                    .map(|(items, operations)| items.unwrap_or(0) as f64 / operations as f64)
                    .collect(),
                duration_us: each("duration_us"),
                drain_us: each("drain_us"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_wire::Fact;

    fn log(facts: &[(&str, u64)]) -> PointLog {
        let fact = |(name, value): &(&str, u64)| Fact {
            workload: "shrinker.umount".into(),
            arm: "lat".into(),
            name: (*name).into(),
            value: *value,
        };
        PointLog { facts: facts.iter().map(fact).collect(), ..PointLog::default() }
    }

    #[test]
    fn a_function_that_one_build_lacks_has_no_items_there() {
        let base = log(&[
            ("work.operations", 16),
            ("work.a.items", 16),
            ("work.a.duration_us", 9),
            ("memory_groups", 1),
        ]);
        let patched = log(&[
            ("work.operations", 16),
            ("work.a.items", 16),
            ("work.a.duration_us", 9),
            ("work.b.items", 8),
            ("work.b.duration_us", 12_000),
            ("work.b.drain_us", 20_000),
        ]);
        let found = deferred_work("shrinker.umount", &[&base, &patched]);
        let told: Vec<_> = found.iter().map(|w| (w.function.as_str(), w.per_operation.as_slice())).collect();
        assert_eq!(told, [("a", &[1.0, 1.0][..]), ("b", &[0.0, 0.5][..])]);
        assert_eq!(found[1].duration_us, [None, Some(12_000)]);
        assert_eq!(found[1].drain_us, [None, Some(20_000)]);
        assert!(deferred_work("kernfs.rmdir", &[&base, &patched]).is_empty());
    }

    #[test]
    fn where_one_build_was_not_observed_nothing_is_said() {
        let observed = log(&[("work.operations", 16), ("work.a.items", 16)]);
        assert!(deferred_work("shrinker.umount", &[&observed, &log(&[])]).is_empty());
    }
}
