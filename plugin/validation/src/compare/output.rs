// SPDX-License-Identifier: GPL-2.0-or-later
//! Comparisons as a table to read and as the comparison-summary columns of
//! an evidence bundle (protocol.md 8).

use super::{Comparison, ComparisonFile};
use std::fmt::Write;

/// The promised columns, then two of our own.
const COLUMNS: [&str; 18] = [
    "experiment",
    "arm",
    "metric",
    "contrast",
    "min_change_percent",
    "max_change_percent",
    "min_drop_first_percent",
    "max_drop_first_percent",
    "max_cv_percent",
    "old_drift_percent",
    "new_drift_percent",
    "stability_pass",
    "signal_direction",
    "signal_pass",
    "workload",
    "label",
    "verdict",
    "interval_percent",
];

/// Tab-separated with one header line. What does not exist is an empty cell;
/// `arm` is always empty, because `metric` carries the arm as its prefix.
pub fn tsv(comparisons: &[Comparison]) -> String {
    let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
    let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let mut text = COLUMNS.join("\t") + "\n";
    for c in comparisons {
        let interval = c.verdict.interval_percent.map(|[low, high]| format!("{low}..{high}"));
        let cells: [String; COLUMNS.len()] = [
            c.experiment.clone(),
            String::new(),
            c.metric.clone(),
            c.contrast.clone(),
            number(c.min_change_percent),
            number(c.max_change_percent),
            number(c.min_drop_first_percent),
            number(c.max_drop_first_percent),
            number(c.max_cv_percent),
            number(c.old_drift_percent),
            number(c.new_drift_percent),
            yes(c.stability_pass),
            c.signal_direction.clone(),
            yes(c.signal_pass),
            c.workload.clone(),
            c.label.clone().unwrap_or_default(),
            c.verdict.name.to_string(),
            interval.unwrap_or_default(),
        ];
        text += &(cells.join("\t") + "\n");
    }
    text
}

/// A table to read: one block for each metric, then what the orders add.
pub fn text(file: &ComparisonFile) -> String {
    let mut text = contrasts(&file.comparisons);
    for r in &file.reductions {
        let name = format!("{}: {} {}", r.experiment, r.workload, r.metric);
        line(&mut text, &format!("{name}: {} takes off {:.2} % of {}", r.build, r.reduction_percent, r.full));
    }
    for m in &file.mechanism {
        let name = format!("{}: {} {}", m.experiment, m.workload, m.metric);
        line(&mut text, &format!("{name}: mechanism {} (gap {:.2} points)", m.label, m.gap_points));
    }
    for r in &file.recovery {
        let name = format!("{}: {} {}", r.experiment, r.workload, r.metric);
        let label = r.label.as_ref().map(|label| format!(", {label}")).unwrap_or_default();
        line(
            &mut text,
            &format!(
                "{name}: {} recovers {:.2} % of {} over {} (step {:.2} %, left {:.2} %){label}",
                r.build, r.recovery_percent, r.child, r.parent, r.step_percent, r.residual_percent
            ),
        );
    }
    text
}

fn contrasts(comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    let mut heading = String::new();
    for c in comparisons {
        let own = format!(
            "{}: {} {} ({}, {} is better; {} gates)",
            c.experiment, c.workload, c.metric, c.unit, c.better, c.gates
        );
        if own != heading {
            if !heading.is_empty() {
                text.push('\n');
            }
            line(&mut text, &own);
            heading = own;
        }
        comparison(&mut text, c);
    }
    text
}

fn comparison(text: &mut String, c: &Comparison) {
    let range = |low: Option<f64>, high: Option<f64>| match (low, high) {
        (Some(low), Some(high)) => format!("{} .. {}", percent(low), percent(high)),
        (None, _) | (_, None) => "not available".into(),
    };
    let one = |value: Option<f64>| value.map_or_else(|| "n/a".into(), percent);
    line(text, &format!("  {}", c.contrast));
    line(text, &format!("    medians     {} -> {}", boots(c, |e| e.old), boots(c, |e| e.new)));
    line(text, &format!("    change      {}", range(c.min_change_percent, c.max_change_percent)));
    line(text, &format!("    drop-first  {}", range(c.min_drop_first_percent, c.max_drop_first_percent)));
    let cv = c.max_cv_percent.map_or_else(|| "n/a".into(), |cv| format!("{cv:.2} %"));
    let drifts = format!("{} / {}", one(c.old_drift_percent), one(c.new_drift_percent));
    line(text, &format!("    noise       CV up to {cv}, drift {drifts} (old / new)"));
    let stable = if c.stability_pass { "stable" } else { "not stable" };
    let label = c.label.as_ref().map(|label| format!(", {label}")).unwrap_or_default();
    line(text, &format!("    signal      {}, {stable}{label}", c.signal_direction));
    let estimate = c.verdict.change_percent.map(|change| format!(" {}", percent(change))).unwrap_or_default();
    let interval = c.verdict.interval_percent.map(|[low, high]| {
        let kind =
            c.verdict.confidence.map_or("range".to_owned(), |level| format!("{} % interval", 100.0 * level));
        format!(" ({kind} {} .. {})", percent(low), percent(high))
    });
    line(text, &format!("    verdict     {}{estimate}{}", c.verdict.name, interval.unwrap_or_default()));
    for reason in &c.verdict.reasons {
        line(text, &format!("                {reason}"));
    }
}

/// Point values of one side, each boot once, in boot order.
fn boots(comparison: &Comparison, side: impl Fn(&super::Endpoint) -> f64) -> String {
    let mut values: Vec<f64> = Vec::new();
    for endpoint in &comparison.endpoints {
        let value = side(endpoint);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.iter().map(|value| format!("{value:.3}")).collect::<Vec<_>>().join(", ")
}

fn percent(value: f64) -> String {
    format!("{value:+.2} %")
}

fn line(text: &mut String, content: &str) {
    writeln!(text, "{content}").expect("writing to a string");
}
