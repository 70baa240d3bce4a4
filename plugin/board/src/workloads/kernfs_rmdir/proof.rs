// SPDX-License-Identifier: GPL-2.0-or-later
//! What must hold of a run: conditions as plain values, so that each can be made to fail.

use crate::scx::Variant;
use crate::workloads::Condition;

/// Sequences whose callbacks are counted.
pub const SEQUENCES: u64 = 16;

/// What was found at the end of a sample.
#[derive(Debug, Clone)]
pub struct End {
    /// Sequences done, every one with all its return values checked.
    pub sequences: u64,
    /// Word of the file that is read between operations: at first, and now.
    pub state: (String, String),
    /// cpu.weight of the idle child; none in the arm without the controller.
    pub weight: Option<String>,
    /// Most dying groups that were waited for.
    pub dying_at_most: u64,
    /// What the root gives to its children: at first, and now.
    pub given: (String, String),
    /// Whether the parent group is still there.
    pub left: bool,
}

impl End {
    /// Each condition of it.
    pub fn conditions(&self) -> Vec<Condition> {
        let Self { sequences, state, weight, dying_at_most, given, left } = self;
        let weight_kept = weight.as_deref().is_none_or(|weight| weight == "100");
        let remains = if *left { "a group is left" } else { "no group is left" };
        vec![
            Condition::new(
                "operations",
                *sequences > 0,
                format!("{sequences} times mkdir, stat, rmdir and ENOENT"),
            ),
            Condition::new(
                "state",
                state.0 == state.1,
                format!("{} at first, {} in the end", state.0, state.1),
            ),
            Condition::new(
                "weight",
                weight_kept,
                format!("cpu.weight of the idle child: {}", weight.as_deref().unwrap_or("no cpu controller")),
            ),
            // Dying groups that do not go end the run.
            Condition::new("settled", true, format!("at most {dying_at_most} dying groups before a sample")),
            Condition::new(
                "restored",
                !left && given.0 == given.1,
                format!("{remains}; the root gave {:?} and gives {:?}", given.0, given.1),
            ),
        ]
    }
}

/// Runs of the two callbacks that every sequence must call once.
fn both(runs: &[(&'static str, u64)]) -> (u64, u64) {
    let of = |name: &str| runs.iter().find(|(callback, _)| *callback == name).map_or(0, |(_, runs)| *runs);
    (of("cgroup_init"), of("cgroup_exit"))
}

/// Numbers of the proof. Without a scheduler or without its callbacks there is no program that
/// could run, so 0 is what happened.
pub fn facts(runs: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
    let (made, removed) = both(runs);
    vec![("proof_operations", SEQUENCES), ("cgroup_init_runs", made), ("cgroup_exit_runs", removed)]
}

/// Whether the callbacks ran as often as the arm says: once for each operation, or never.
pub fn condition(variant: Option<Variant>, runs: &[(&'static str, u64)]) -> Condition {
    let (made, removed) = both(runs);
    let wanted = match variant {
        Some(Variant::WithCallbacks) => SEQUENCES,
        Some(Variant::WithoutCallbacks) | None => 0,
    };
    let detail = format!("{SEQUENCES} operations: cgroup_init ran {made} times, cgroup_exit {removed} times");
    Condition::new("callbacks", (made, removed) == (wanted, wanted), detail)
}
