// SPDX-License-Identifier: GPL-2.0-or-later
//! Plots as numbers for inline SVG: horizontal places in percent of the width, so
//! that a plot has any width with dots of one size.

use crate::findings::{Distribution, Findings};
use crate::report::names::metric_name;
use crate::report::number::{middle, number};
use serde::Serialize;

/// Places left and right of the outermost values, percent of the width.
const MARGIN: f64 = 3.0;
/// Bars of a histogram.
const BARS: usize = 48;
/// Height of the tallest bar, px.
const BAR_HEIGHT: f64 = 40.0;
/// Share of operations at which a histogram ends on either side; what lies beyond is told in words.
const SHOWN: f64 = 0.95;

/// One metric: a row for each build.
#[derive(Debug, Serialize)]
pub struct Plot {
    /// What it is.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Value at the left end.
    pub left: String,
    /// Value at the right end.
    pub right: String,
    /// It is one of the metrics that decide.
    pub primary: bool,
    /// Boots of each build.
    pub rows: Vec<PlotRow>,
    /// Single operations of one boot of each build; empty when not recorded.
    pub histogram: Option<Bars>,
}

/// Boots of one build.
#[derive(Debug, Serialize)]
pub struct PlotRow {
    /// Build label.
    pub label: String,
    /// Median of boots.
    pub median: String,
    /// One for each boot.
    pub dots: Vec<Dot>,
}

/// One boot.
#[derive(Debug, Serialize)]
pub struct Dot {
    /// Percent of the width.
    pub x: String,
    /// `boot 3, seed 1: 41844`.
    pub title: String,
}

/// Histograms of all builds over one range.
#[derive(Debug, Serialize)]
pub struct Bars {
    /// Value at the left end.
    pub left: String,
    /// Value at the right end.
    pub right: String,
    /// One for each build.
    pub rows: Vec<BarRow>,
}

/// Histogram of one build.
#[derive(Debug, Serialize)]
pub struct BarRow {
    /// Build label.
    pub label: String,
    /// Operations.
    pub count: u64,
    /// Operations left and right of the plot.
    pub beyond: u64,
    /// The smallest operation.
    pub min: u64,
    /// The largest operation.
    pub max: u64,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Serialize)]
pub struct Bar {
    /// Percent of the width.
    pub x: String,
    /// Percent of the width.
    pub width: String,
    /// px from the top.
    pub y: String,
    /// px.
    pub height: String,
}

/// A plot of each metric that was measured, deciding ones first.
pub fn plots(findings: &Findings) -> Vec<Plot> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for median in &findings.medians {
        let key = (median.workload.as_str(), median.metric.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut plots: Vec<Plot> =
        keys.into_iter().map(|(workload, metric)| plot(findings, workload, metric)).collect();
    plots.sort_by_key(|p| !p.primary);
    plots
}

fn plot(findings: &Findings, workload: &str, metric: &str) -> Plot {
    let boots: Vec<_> = findings
        .medians
        .iter()
        .filter(|m| m.workload == workload && m.metric == metric && m.median.is_finite())
        .collect();
    let low = boots.iter().map(|m| m.median).fold(f64::MAX, f64::min);
    let high = boots.iter().map(|m| m.median).fold(f64::MIN, f64::max);
    let rows = findings
        .plan
        .builds
        .iter()
        .filter_map(|build| {
            let of_build: Vec<_> = boots.iter().filter(|m| m.build == build.label).collect();
            let median = middle(&of_build.iter().map(|m| m.median).collect::<Vec<_>>())?;
            let dots = of_build.iter().map(|m| {
                let seed = m.seed.map_or_else(String::new, |s| format!(", seed {s}"));
                Dot {
                    x: format!("{:.2}", place(m.median, low, high)),
                    title: format!("boot {}{seed}: {}", m.boot, number(m.median)),
                }
            });
            Some(PlotRow { label: build.label.clone(), median: number(median), dots: dots.collect() })
        })
        .collect();
    Plot {
        title: metric_name(workload, metric).long,
        unit: boots.first().map(|m| m.unit.clone()).unwrap_or_default(),
        left: if boots.is_empty() { String::new() } else { number(low) },
        right: if boots.is_empty() { String::new() } else { number(high) },
        primary: findings.plan.policy.primaries.contains(&format!("{workload} {metric}")),
        rows,
        histogram: histogram(findings, workload, metric),
    }
}

/// Percent of the width; equal values stand in the middle.
fn place(value: f64, low: f64, high: f64) -> f64 {
    if high > low { MARGIN + (value - low) / (high - low) * (100.0 - 2.0 * MARGIN) } else { 50.0 }
}

fn histogram(findings: &Findings, workload: &str, metric: &str) -> Option<Bars> {
    let of_metric: Vec<&Distribution> = findings
        .distributions
        .iter()
        .filter(|d| d.workload == workload && d.metric == metric && !d.buckets.is_empty())
        .collect();
    let low = of_metric.iter().map(|d| quantile(d, 1.0 - SHOWN)).min()?;
    let high = of_metric.iter().map(|d| quantile(d, SHOWN)).max()?.max(low.saturating_add(1));
    let rows: Vec<BarRow> = of_metric.iter().map(|d| bar_row(d, low, high)).collect();
    Some(Bars { left: low.to_string(), right: high.to_string(), rows })
}

fn quantile(distribution: &Distribution, share: f64) -> u64 {
    let count: u64 = distribution.buckets.iter().map(|b| b.1).sum();
    let mut seen = 0;
    for (value, operations) in &distribution.buckets {
        seen += operations;
        if seen as f64 >= share * count as f64 {
            return *value;
        }
    }
    distribution.max
}

fn bar_row(distribution: &Distribution, low: u64, high: u64) -> BarRow {
    let mut counts = [0_u64; BARS];
    let mut beyond = 0;
    for (value, operations) in &distribution.buckets {
        if !(low..=high).contains(value) {
            beyond += operations;
            continue;
        }
        let share = (value - low) as f64 / (high - low) as f64;
        // In range: a share of 1 belongs to the last bar.
        let index = ((share * BARS as f64) as usize).min(BARS - 1);
        counts[index] += operations;
    }
    let tallest = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    let width = (100.0 - 2.0 * MARGIN) / BARS as f64;
    let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, count)| {
        // At least 1 px: one operation is seen.
        let height = (*count as f64 / tallest * BAR_HEIGHT).max(1.0);
        Bar {
            x: format!("{:.2}", MARGIN + index as f64 * width),
            width: format!("{width:.2}"),
            y: format!("{:.1}", BAR_HEIGHT - height),
            height: format!("{height:.1}"),
        }
    });
    BarRow {
        label: distribution.build.clone(),
        count: distribution.buckets.iter().map(|b| b.1).sum(),
        beyond,
        min: distribution.min,
        max: distribution.max,
        bars: bars.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(buckets: &[(u64, u64)]) -> Distribution {
        Distribution {
            build: "base".into(),
            workload: "w".into(),
            metric: "m".into(),
            unit: "ns".into(),
            buckets: buckets.to_vec(),
            min: buckets[0].0,
            max: buckets[buckets.len() - 1].0,
        }
    }

    #[test]
    fn equal_values_stand_in_the_middle() {
        assert_eq!(place(5.0, 5.0, 5.0), 50.0);
        assert_eq!((place(0.0, 0.0, 10.0), place(10.0, 0.0, 10.0)), (MARGIN, 100.0 - MARGIN));
    }

    #[test]
    fn no_operation_is_lost() {
        let wide = distribution(&[(3, 1), (100, 89), (200, 9), (100_000, 1)]);
        assert_eq!((quantile(&wide, 1.0 - SHOWN), quantile(&wide, SHOWN)), (100, 200));
        let row = bar_row(&wide, 100, 200);
        assert_eq!((row.count, row.beyond, row.min, row.max, row.bars.len()), (100, 2, 3, 100_000, 2));
        assert_eq!((row.bars[0].height.as_str(), row.bars[1].height.as_str()), ("40.0", "4.0"));
    }
}
