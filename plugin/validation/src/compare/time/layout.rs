// SPDX-License-Identifier: GPL-2.0-or-later
//! The layout gate (statistics.md 3.5, 3.8): a claim on time must agree in sign with the
//! instructions of the operation, where a run counted them beside the time.

use super::super::MetricVerdict;
use super::super::VerdictName;
use super::super::report_view::MetricSeries;
use super::super::summary::{change, median};
use super::FailedGate;
use super::boots::boot_values;

/// What a metric counted beside the time is called: `remove` and `remove_instructions`.
const INSTRUCTIONS: &str = "_instructions";
/// Instructions that change less than this did not change (statistics.md 3.10), percent.
const SAME_PERCENT: f64 = 0.1;

/// The gate, where `claim` on `series` says slower or faster and its instructions say otherwise.
pub(super) fn disagrees(
    all: &[&MetricSeries],
    series: &MetricSeries,
    (new, old): (&str, &str),
    claim: &MetricVerdict,
) -> Option<FailedGate> {
    let claimed = matches!(claim.name, VerdictName::Slower | VerdictName::Faster);
    let example = series.example;
    let counted = all.iter().find(|other| {
        other.example.workload == example.workload
            && other.example.metric.strip_suffix(INSTRUCTIONS) == Some(&example.metric)
    })?;
    let instructions = change(median(&boot_values(counted, new))?, median(&boot_values(counted, old))?)?;
    let time = claim.change_percent.filter(|_| claimed)?;
    // Of a rate, more is less time for each operation.
    let time = if example.better == "higher" { -time } else { time };
    let agree = instructions.abs() >= SAME_PERCENT && (instructions > 0.0) == (time > 0.0);
    (!agree).then(|| FailedGate::Layout {
        detail: format!(
            "{} {} changes by {time:+.2} % in time, its instructions by {instructions:+.2} %",
            example.workload, example.metric
        ),
    })
}
