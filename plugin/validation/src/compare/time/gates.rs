// SPDX-License-Identifier: GPL-2.0-or-later
//! Gates on the boots of a `time` experiment (statistics.md 3.5). A failed
//! gate makes INCONCLUSIVE, never a quiet rerun.

use super::super::Reason;
use super::super::summary::median;
use super::judge::Sides;
use super::spread::History;
use super::{Spread, TimeRules, f_exceeds};
use serde::{Deserialize, Serialize};

/// A condition that others check and that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "gate", rename_all = "snake_case")]
pub enum FailedGate {
    /// An operation failed, or a count is not what it must be.
    Correctness {
        /// What was seen.
        detail: String,
    },
    /// The builds or boots differ in something else than the source.
    Identity {
        /// What differs.
        detail: String,
    },
    /// Governor, turbo, throttling, load, failed units, taint.
    Environment {
        /// What was seen.
        detail: String,
    },
    /// Instructions per operation moved against the time.
    Layout {
        /// What was seen.
        detail: String,
    },
}

impl std::fmt::Display for FailedGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Correctness { detail } => {
                write!(
                    f,
                    "correctness gate: {detail}; the operations did not do what they must, see the checks"
                )
            }
            Self::Identity { detail } => {
                write!(f, "identity gate: {detail}; build and boot all sides alike and run again")
            }
            Self::Environment { detail } => {
                write!(f, "environment gate: {detail}; put the machine in order and run again")
            }
            Self::Layout { detail } => {
                write!(f, "layout gate: {detail}; add a pair of builds that align functions to 64 bytes")
            }
        }
    }
}

/// A boot far away from the others of its side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WildBoot {
    /// On the new side.
    pub new_side: bool,
    /// 0-based place on its side; `None` when two boots disagree and nothing tells which is wild.
    pub place: Option<usize>,
    /// Distance from the rest of its side, in sigma of the history.
    pub sigmas: f64,
}

/// The first gate that the boots of one metric fail: a wild boot, a spread
/// beyond the history's, or drifting base boots.
pub(super) fn failing(sides: &Sides, history: &History, rules: &TimeRules) -> Option<Reason> {
    let sigma = history.variance.sqrt();
    if let Some(wild) = wild_boot(sides, sigma, rules.wild_sigmas) {
        return Some(Reason::WildBoot { side: if wild.new_side { "new" } else { "old" }, wild });
    }
    let run = Spread::within(&sides.old_logs(), &sides.new_logs())?;
    let chance = f_exceeds(run, history);
    if chance < rules.suspect_probability {
        return Some(Reason::BoardSuspect { chance });
    }
    let limit = rules.drift_sigmas * std::f64::consts::SQRT_2 * sigma;
    let drift = sides.old_logs().chunks_exact(2).map(|pair| (pair[1] - pair[0]).abs()).max_by(f64::total_cmp);
    drift.filter(|drift| *drift > limit).map(|drift| Reason::BaseDrift {
        drift_percent: 100.0 * drift.exp_m1(),
        limit_percent: 100.0 * limit.exp_m1(),
    })
}

/// The boot furthest from its side, if it is further than `limit` sigma. With
/// three boots or more the distance is from the side's median; two boots are
/// each half their difference from the mean.
pub(super) fn wild_boot(sides: &Sides, sigma: f64, limit: f64) -> Option<WildBoot> {
    let of_side = |logs: &[f64], new_side| {
        let middle = median(logs)?;
        let (place, distance) = logs
            .iter()
            .map(|log| (log - middle).abs())
            .enumerate()
            .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let place = Some(place).filter(|_| logs.len() > 2);
        Some(WildBoot { new_side, place, sigmas: distance / sigma })
    };
    [of_side(&sides.old_logs(), false), of_side(&sides.new_logs(), true)]
        .into_iter()
        .flatten()
        .filter(|wild| wild.sigmas > limit)
        .max_by(|a, b| a.sigmas.total_cmp(&b.sigmas))
}

/// A negative control that moved: the whole machine did.
pub(super) fn control_moved(name: &str, sides: &Sides, rules: &TimeRules) -> Option<Reason> {
    let change_percent = 100.0 * sides.effect()?.exp_m1();
    (change_percent.abs() >= rules.control_percent).then(|| Reason::ControlMoved {
        metric: name.into(),
        change_percent,
        limit_percent: rules.control_percent,
    })
}
