// SPDX-License-Identifier: GPL-2.0-or-later
//! The finding's metric by build, in plan order.

use super::{first_with, short_commit};
use crate::compare::Comparison;
use crate::findings::Findings;
use crate::plan::{Evidence, PlannedBuild};
use crate::report::names::metric_name;
use crate::report::number::{microseconds, middle, number, percent, signed};
use serde::Serialize;

/// Boots of one build that have a column of their own.
const COLUMNS: usize = 2;

/// Values of the finding's metric by build.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// `rmdir()`.
    pub short: String,
    /// `instructions` or `us`.
    pub unit: &'static str,
    /// Rows, base first.
    pub rows: Vec<Row>,
    /// Every boot of a build agrees.
    pub same_in_all_boots: bool,
    /// Each row has a column for each boot.
    pub by_boot: bool,
    /// `99`, percent, where the rows have intervals.
    pub confidence: Option<String>,
}

/// One build's row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `base`, `+ 1/2`, `+ all 3`.
    pub label: String,
    /// Commit or version of the base, subject of a patch.
    pub subject: String,
    /// Median over boots.
    pub value: String,
    /// The value of each boot, where there are few.
    pub boots: Vec<String>,
    /// Against the row above; empty for base.
    pub difference: String,
    /// The same in percent; empty for base.
    pub percent: String,
    /// `+35.3% .. +40.2%`; empty for base and where both ends are the same.
    pub interval: String,
    /// Rows left out before this one.
    pub skipped: usize,
}

/// The table of the metric of `comparison`.
pub fn table(findings: &Findings, comparison: &Comparison) -> Table {
    let time = findings.plan.evidence == Evidence::Time;
    let told = |value: f64| if time { microseconds(value, 3) } else { number(value) };
    let mut rows = Vec::new();
    let mut above: Option<(&str, f64)> = None;
    let mut same_in_all_boots = true;
    let mut by_boot = true;
    let mut confidence = None;
    for build in &findings.plan.builds {
        let values = medians(findings, comparison, &build.label);
        let Some(value) = middle(&values) else { continue };
        same_in_all_boots &= values.iter().all(|v| *v == value);
        by_boot &= values.len() == COLUMNS;
        let step = above.and_then(|(old, _)| contrast(findings, comparison, old, &build.label));
        confidence = confidence.or(step.and_then(|s| s.verdict.confidence));
        let (difference, change) = match above {
            Some((_, before)) => {
                let change = step.and_then(|s| s.verdict.change_percent);
                (signed(value - before), percent(change.or(Some(100.0 * (value / before - 1.0)))))
            }
            None => (String::new(), String::new()),
        };
        // A later build with the image of an earlier one stands for that.
        let first = step.map_or(build.label.as_str(), |step| first_with(findings, step));
        let shown = findings.plan.builds.iter().find(|b| b.label == first).unwrap_or(build);
        let (label, subject) = row_name(findings, shown);
        rows.push(Row {
            label,
            subject,
            value: told(value),
            boots: values.iter().map(|v| told(*v)).collect(),
            difference,
            percent: change,
            interval: step
                .and_then(|s| s.verdict.interval_percent)
                .filter(|[low, high]| low != high)
                .map_or_else(String::new, |[low, high]| {
                    format!("{} .. {}", percent(Some(low)), percent(Some(high)))
                }),
            skipped: 0,
        });
        above = Some((&build.label, value));
    }
    Table {
        short: metric_name(&comparison.workload, &comparison.metric).short,
        unit: if time { "us" } else { "instructions" },
        rows,
        same_in_all_boots,
        by_boot: by_boot && time,
        confidence: confidence.map(|c| number(100.0 * c)),
    }
}

impl Table {
    /// Keeps at most `rows` of at least 3 rows: the first, the last, and those with the largest steps.
    pub fn shorten(&mut self, rows: usize) {
        let step = |row: &Row| row.difference.parse::<f64>().map_or(0.0, f64::abs);
        while self.rows.len() > rows.max(3) {
            let inner = 1..self.rows.len() - 1;
            let Some(smallest) = inner.min_by(|a, b| step(&self.rows[*a]).total_cmp(&step(&self.rows[*b])))
            else {
                return;
            };
            let gone = self.rows.remove(smallest);
            self.rows[smallest].skipped += gone.skipped + 1;
        }
    }
}

fn medians(findings: &Findings, comparison: &Comparison, label: &str) -> Vec<f64> {
    findings
        .medians
        .iter()
        .filter(|m| m.build == label && m.workload == comparison.workload && m.metric == comparison.metric)
        .map(|m| m.median)
        .collect()
}

fn contrast<'a>(
    findings: &'a Findings,
    comparison: &Comparison,
    old: &str,
    new: &str,
) -> Option<&'a Comparison> {
    findings.comparison.comparisons.iter().find(|c| {
        c.workload == comparison.workload
            && c.metric == comparison.metric
            && c.old_build == old
            && c.new_build == new
    })
}

/// What a row is called, and what people know it by.
fn row_name(findings: &Findings, build: &PlannedBuild) -> (String, String) {
    if let Some(source) = &build.source {
        return (build.label.clone(), source.to_string());
    }
    if build.patches == 0 {
        let commit = findings.provenance.base_commit.as_deref().map(short_commit);
        let release = || {
            let record = findings.builds.iter().find(|b| b.label == build.label);
            record.map(|b| b.identity.release.clone()).unwrap_or_default()
        };
        return (build.label.clone(), commit.unwrap_or_else(release));
    }
    let subject = |index: u32| {
        let patch = findings.series.patches.iter().find(|p| p.index == index);
        patch.map(|p| p.short_subject().to_owned()).unwrap_or_default()
    };
    let alone = findings.series.patches.len() == 1;
    if build.label.contains('/') || alone {
        (format!("+ {}", build.label), subject(build.patches))
    } else {
        (format!("+ {}", build.label), format!("all {} patches", build.patches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, difference: &str) -> Row {
        Row {
            label: label.into(),
            subject: String::new(),
            value: String::new(),
            boots: Vec::new(),
            difference: difference.into(),
            percent: String::new(),
            interval: String::new(),
            skipped: 0,
        }
    }

    #[test]
    fn the_smallest_steps_go_first() {
        let mut table = Table {
            short: "rmdir()".into(),
            unit: "instructions",
            rows: [("base", ""), ("1/5", "+1"), ("2/5", "-40"), ("3/5", "+2"), ("4/5", "0"), ("5/5", "+0.5")]
                .map(|(l, d)| row(l, d))
                .to_vec(),
            same_in_all_boots: true,
            by_boot: false,
            confidence: None,
        };
        table.shorten(4);
        let left: Vec<_> = table.rows.iter().map(|r| (r.label.as_str(), r.skipped)).collect();
        assert_eq!(left, [("base", 0), ("2/5", 1), ("3/5", 0), ("5/5", 1)]);
        table.shorten(0);
        assert_eq!(table.rows.len(), 3);
    }
}
