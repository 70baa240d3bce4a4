// SPDX-License-Identifier: GPL-2.0-or-later
//! What there is to measure, for people and for programs.

mod markdown;

use crate::measure::Amount;
use crate::workloads::{Arm, WORKLOADS, Workload};
use kernmark_wire::catalogue;
use std::fmt::Write;

/// How the list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// The page `docs/workloads.md`.
    Markdown,
}

/// The whole list.
pub fn render(format: Format) -> String {
    let list = || -> Vec<catalogue::Workload> { WORKLOADS.iter().map(|w| entry(w)).collect() };
    match format {
        Format::Text => WORKLOADS.iter().map(|w| text(w)).collect(),
        Format::Json => format!("{}\n", serde_json::to_string(&list()).expect("whole numbers and strings")),
        Format::Markdown => markdown::page(&list()),
    }
}

/// A workload as other programs see it.
fn entry(workload: &Workload) -> catalogue::Workload {
    catalogue::Workload {
        id: workload.id.into(),
        summary: workload.summary.into(),
        needs: workload.needs.iter().map(|n| (*n).into()).collect(),
        preemption: workload.preemption.map(Into::into),
        emulator: amount(workload.emulator),
        arms: workload.arms.iter().map(arm).collect(),
        parameters: workload
            .parameters
            .iter()
            .map(|p| catalogue::Parameter {
                id: p.id.into(),
                summary: p.summary.into(),
                default: p.default.into(),
                values: p.values.iter().map(|v| (*v).into()).collect(),
            })
            .collect(),
    }
}

fn arm(arm: &Arm) -> catalogue::Arm {
    catalogue::Arm {
        id: arm.id.into(),
        summary: arm.summary.into(),
        amount: amount(arm.amount),
        seconds: arm.seconds,
        on_boards: arm.on_boards,
        in_emulator: arm.in_emulator,
        many_workers: arm.many_workers,
        metrics: arm
            .metrics
            .iter()
            .map(|m| catalogue::Metric {
                id: m.id.into(),
                unit: m.unit.into(),
                better: m.better.into(),
                primary: m.primary,
            })
            .collect(),
    }
}

fn amount(Amount { samples, operations, warmups }: Amount) -> catalogue::Amount {
    catalogue::Amount { samples, operations, warmups }
}

fn text(workload: &Workload) -> String {
    let mut lines = String::new();
    let mut line = |l: String| writeln!(lines, "{l}").expect("writing to a string");
    line(format!("{}: {}", workload.id, workload.summary));
    for arm in workload.arms {
        let Amount { samples, operations, warmups } = arm.amount;
        let usual = if arm.on_boards { "" } else { " (only when asked for)" };
        line(format!("  arm {}: {}{usual}", arm.id, arm.summary));
        line(format!(
            "    {samples} samples of {operations} operations, {warmups} warm-ups; about {} s",
            arm.seconds
        ));
        for metric in arm.metrics {
            let decides = if metric.primary { ", decides a verdict" } else { "" };
            line(format!("    metric {}: {}, {} is better{decides}", metric.id, metric.unit, metric.better));
        }
    }
    for parameter in workload.parameters {
        let values =
            if parameter.values.is_empty() { "a number".to_owned() } else { parameter.values.join("|") };
        line(format!(
            "  parameter {}={values}: {}; {} by default",
            parameter.id, parameter.summary, parameter.default
        ));
    }
    for need in workload.needs {
        line(format!("  needs {need}"));
    }
    lines
}
