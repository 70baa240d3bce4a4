// SPDX-License-Identifier: GPL-2.0-or-later
//! The page `docs/workloads.md`.

use kernmark_wire::catalogue::{Amount, Arm, Workload};
use std::fmt::Write;

const HEAD: &str = "\
<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Made by `kernmark-board list --format markdown`; a test compares it, and UPDATE_GOLDEN=1 writes it anew. -->
# Workloads

A run without options measures the arms marked *board*; the deterministic emulator those marked *emulator*. Others run when asked for with `--arm`.
Metrics in **bold** may decide a verdict. In tables and LAVA test cases (`WORKLOAD.METRIC`) a metric of the first arm of a workload has its own name, one of
another arm has the arm in front (`ARM_METRIC`); KCIDB paths always name the arm (`kernmark.WORKLOAD.ARM.METRIC`).
Metrics of arms with several workers never decide in the emulator, where virtual CPUs take turns and nothing competes.
";

/// The whole page.
pub fn page(workloads: &[Workload]) -> String {
    let mut text = HEAD.to_owned();
    for workload in workloads {
        section(workload, &mut text).expect("writing to a string");
    }
    text
}

fn section(workload: &Workload, text: &mut String) -> std::fmt::Result {
    writeln!(text, "\n## {}\n\n{}.\n", workload.id, cell(&workload.summary))?;
    let needs = if workload.needs.is_empty() { "nothing".to_owned() } else { workload.needs.join("; ") };
    writeln!(text, "Needs: {}.", cell(&needs))?;
    if let Some(preemption) = &workload.preemption {
        writeln!(text, "Preemption: {preemption}, where the kernel has a choice.")?;
    }
    let Amount { samples, operations, warmups } = workload.emulator;
    writeln!(
        text,
        "In the emulator each arm measures {samples} x {operations} operations after {warmups} warm-ups.\n"
    )?;
    writeln!(
        text,
        "| arm | is | metrics | samples x operations, warm-ups | runs in |\n|---|---|---|---|---|"
    )?;
    for arm in &workload.arms {
        let Amount { samples, operations, warmups } = arm.amount;
        writeln!(
            text,
            "| `{}` | {} | {} | {samples} x {operations}, {warmups}; about {} s | {} |",
            arm.id,
            cell(&arm.summary),
            metrics(arm),
            arm.seconds,
            places(arm)
        )?;
    }
    if !workload.parameters.is_empty() {
        writeln!(text, "\n| `--set` | values | default | is |\n|---|---|---|---|")?;
    }
    for parameter in &workload.parameters {
        let values = match &parameter.values[..] {
            [] => "a whole number".to_owned(),
            values => values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", "),
        };
        writeln!(
            text,
            "| `{}` | {values} | `{}` | {} |",
            parameter.id,
            parameter.default,
            cell(&parameter.summary)
        )?;
    }
    Ok(())
}

/// Names, units and directions.
fn metrics(arm: &Arm) -> String {
    let one = |metric: &kernmark_wire::catalogue::Metric| {
        let name = if metric.primary { format!("**{}**", metric.id) } else { metric.id.clone() };
        format!("{name} ({}, {} is better)", metric.unit, metric.better)
    };
    arm.metrics.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Where an arm runs without being asked for.
fn places(arm: &Arm) -> String {
    let named =
        [(arm.on_boards, "board"), (arm.in_emulator, "emulator"), (arm.many_workers, "several workers")];
    let kept: Vec<&str> = named.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    if kept.is_empty() { "-".to_owned() } else { kept.join(", ") }
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_wire::catalogue::{Metric, Parameter};

    #[test]
    fn nothing_that_can_be_asked_for_is_left_out() {
        let metric =
            |id: &str, primary| Metric { id: id.into(), unit: "ns".into(), better: "lower".into(), primary };
        let amount = Amount { samples: 9, operations: 128, warmups: 16 };
        let arm = |id: &str, on_boards| Arm {
            id: id.into(),
            summary: "a or | b".into(),
            amount,
            seconds: 3,
            on_boards,
            in_emulator: false,
            many_workers: false,
            metrics: vec![metric("create", false), metric("remove", true)],
        };
        let text = page(&[Workload {
            id: "kernfs.rmdir".into(),
            summary: "removes".into(),
            needs: vec!["root".into(), "cgroup2".into()],
            preemption: Some("full".into()),
            emulator: Amount { samples: 1, operations: 64, warmups: 4 },
            arms: vec![arm("scx-off", true), arm("bare", false)],
            parameters: vec![Parameter {
                id: "pace_ms".into(),
                summary: "a pause".into(),
                default: "0".into(),
                values: vec!["0".into(), "50".into()],
            }],
        }]);
        for part in [
            "## kernfs.rmdir\n\nremoves.\n",
            "Needs: root; cgroup2.\nPreemption: full,",
            "1 x 64 operations after 4 warm-ups",
            "| `scx-off` | a or \\| b | create (ns, lower is better), **remove** (ns, lower is better) \
             | 9 x 128, 16; about 3 s | board |",
            "16; about 3 s | - |",
            "| `pace_ms` | `0`, `50` | `0` | a pause |",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
