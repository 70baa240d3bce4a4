// SPDX-License-Identifier: GPL-2.0-or-later
//! The verdict view of `time` evidence: the boot is the unit, effects are
//! differences of logarithms, and the spread of a board is learnt beforehand
//! (statistics.md 3.3 to 3.7).

mod boots;
mod conditions;
mod gates;
mod judge;
mod layout;
mod looks;
mod replacement;
mod secondaries;
mod spread;

pub use conditions::failed_conditions;
pub use gates::{FailedGate, WildBoot};
pub use judge::{Sides, judge};
pub use looks::Look;
pub use secondaries::discoveries;
pub use spread::{History, Spread, f_exceeds, t_quantile};

use super::report_view::MetricSeries;
use super::{MetricVerdict, Reason};
use boots::{boot_values, worst_block_error_percent};
use gates::control_moved;
use layout::disagrees;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Degrees of freedom that a board's history must have before it may decide (statistics.md 3.9b).
pub const CALIBRATED_DEGREES: u32 = 30;
/// Workloads with this prefix are negative controls: no patch touches them.
const CONTROL: &str = "control.";

/// What is frozen before the first boot of a `time` experiment (statistics.md 3.5, 3.6).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeRules {
    /// Chance of any wrong verdict over all primaries and contrasts.
    pub family_alpha: f64,
    /// An effect must clear this to be spoken of, percent.
    pub speak_percent: f64,
    /// An effect must clear this for a headline: code placement alone can do less, percent.
    pub headline_percent: f64,
    /// NO CHANGE means within plus/minus this, percent.
    pub equivalence_percent: f64,
    /// Largest change of a negative control, percent.
    pub control_percent: f64,
    /// Largest standard error of the mean of blocks within a boot, percent.
    pub block_error_percent: f64,
    /// Base boots of one palindrome may differ by this many times sqrt(2) sigma.
    pub drift_sigmas: f64,
    /// A boot further from its side than this many sigma is wild.
    pub wild_sigmas: f64,
    /// The run's own spread may exceed the history's with this probability.
    pub suspect_probability: f64,
    /// False discovery rate over the secondary metrics.
    pub discovery_rate: f64,
    /// Largest load average before a measurement.
    pub load_limit: f64,
}

impl Default for TimeRules {
    fn default() -> Self {
        Self {
            family_alpha: 0.01,
            speak_percent: 1.0,
            headline_percent: 3.0,
            equivalence_percent: 3.0,
            control_percent: 1.0,
            block_error_percent: 0.5,
            drift_sigmas: 3.0,
            wild_sigmas: 5.0,
            suspect_probability: 0.001,
            discovery_rate: 0.05,
            load_limit: 1.0,
        }
    }
}

/// What is known about the board before the experiment, and the rules of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    /// Spread by `workload metric`.
    pub histories: BTreeMap<String, History>,
    /// The metrics that decide, as `workload metric`; all others are secondary.
    /// Empty makes every metric decide.
    pub primaries: Vec<String>,
    /// The frozen rules.
    pub rules: TimeRules,
    /// Conditions on correctness, identity and environment that did not hold.
    pub failed: Vec<FailedGate>,
}

impl Calibration {
    fn history(&self, series: &MetricSeries) -> Option<&History> {
        self.histories.get(&name(series))
    }

    fn decides(&self, series: &MetricSeries) -> bool {
        self.primaries.is_empty() || self.primaries.contains(&name(series))
    }
}

fn name(series: &MetricSeries) -> String {
    format!("{} {}", series.example.workload, series.example.metric)
}

/// The claims about one contrast, for each metric of one experiment in order.
///
/// `contrasts` is how many contrasts the experiment has: the chance of error
/// is shared out over them and over the primaries. Secondary metrics get a
/// claim by false-discovery control, at a look as the primaries.
pub(super) fn claims(
    all: &[&MetricSeries],
    (new, old): (&str, &str),
    contrasts: usize,
    calibration: &Calibration,
) -> Vec<MetricVerdict> {
    let rules = &calibration.rules;
    let sides: Vec<Sides> = all
        .iter()
        .map(|series| Sides {
            old: boot_values(series, old),
            new: boot_values(series, new),
            higher_is_better: series.example.better == "higher",
        })
        .collect();
    let deciding: BTreeSet<String> = all.iter().filter(|s| calibration.decides(s)).map(|s| name(s)).collect();
    let alpha = rules.family_alpha / (deciding.len().max(1) * contrasts.max(1)) as f64;
    let control = all
        .iter()
        .zip(&sides)
        .filter(|(series, _)| series.example.workload.starts_with(CONTROL))
        .find_map(|(series, sides)| control_moved(&name(series), sides, rules));
    let secondary = |series: &MetricSeries| !calibration.decides(series);
    let p_values: Vec<Option<f64>> = all
        .iter()
        .zip(&sides)
        .map(
            |(series, sides)| {
                if secondary(series) { sides.p_value(calibration.history(series)?) } else { None }
            },
        )
        .collect();
    let found = discoveries(&p_values, rules.discovery_rate);
    let mut claims = Vec::new();
    for (n, (series, sides)) in all.iter().zip(&sides).enumerate() {
        let mut stops: Vec<Reason> = calibration.failed.iter().cloned().map(Reason::GateFailed).collect();
        stops.extend(control.clone().filter(|_| !series.example.workload.starts_with(CONTROL)));
        stops.extend(
            worst_block_error_percent(series, &[new, old]).filter(|e| *e > rules.block_error_percent).map(
                |error_percent| Reason::NoisyBlocks {
                    error_percent,
                    limit_percent: rules.block_error_percent,
                },
            ),
        );
        let discovered = secondary(series).then_some(found[n]);
        let judged =
            |stops: &[Reason]| judge(sides, calibration.history(series), rules, alpha, discovered, stops);
        let claim = judged(&stops);
        // Code that is placed otherwise takes other time for the same instructions.
        let layout = disagrees(all, series, (new, old), &claim);
        claims.push(match layout {
            Some(gate) => judged(&[Reason::GateFailed(gate)]),
            None => claim,
        });
    }
    claims
}
