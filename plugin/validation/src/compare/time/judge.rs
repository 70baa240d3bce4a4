// SPDX-License-Identifier: GPL-2.0-or-later
//! The claim about one metric: SLOWER, FASTER, NO CHANGE within a bound, or
//! INCONCLUSIVE with what would settle it (statistics.md 3.6).

use super::super::summary::mean;
use super::super::{MetricVerdict, Next, Reason, VerdictName};
use super::gates::failing;
use super::looks::{Look, upcoming};
use super::replacement::replaced;
use super::spread::{History, Spread, t_quantile, t_two_sided};
use super::{CALIBRATED_DEGREES, TimeRules};
use crate::plan::Evidence;

/// Confidence of the printed interval.
const PRINTED_CONFIDENCE: f64 = 0.99;
/// Confidence of the interval that must lie within the bound of NO CHANGE.
const EQUIVALENCE_CONFIDENCE: f64 = 0.90;
/// Power at which the detectable effect is stated.
const STATED_POWER: f64 = 0.90;

/// One value for each boot of both builds, in boot order.
#[derive(Debug, Clone, PartialEq)]
pub struct Sides {
    /// Boots of the old build.
    pub old: Vec<f64>,
    /// Boots of the new build.
    pub new: Vec<f64>,
    /// Larger values are better.
    pub higher_is_better: bool,
}

impl Sides {
    pub(super) fn old_logs(&self) -> Vec<f64> {
        self.old.iter().map(|value| value.ln()).collect()
    }

    pub(super) fn new_logs(&self) -> Vec<f64> {
        self.new.iter().map(|value| value.ln()).collect()
    }

    /// Mean log of the new boots minus mean log of the old; `None` without boots or with a 0.
    pub(super) fn effect(&self) -> Option<f64> {
        let effect = mean(&self.new_logs())? - mean(&self.old_logs())?;
        effect.is_finite().then_some(effect)
    }

    /// Spread of the run pooled with the history, and the standard error of the effect.
    fn error(&self, history: &History) -> Option<(Spread, f64)> {
        let spread = Spread::within(&self.old_logs(), &self.new_logs())?.pooled(history);
        let share = 1.0 / self.old.len() as f64 + 1.0 / self.new.len() as f64;
        Some((spread, spread.sigma() * share.sqrt()))
    }

    /// Chance of an effect at least this large without any true one.
    pub(super) fn p_value(&self, history: &History) -> Option<f64> {
        let (spread, error) = self.error(history)?;
        (error > 0.0).then_some(t_two_sided(self.effect()? / error, spread.degrees))
    }
}

/// The claim about one metric.
///
/// `alpha` is this metric's share of the family's chance of error.
/// `discovered` is set for a secondary metric: whether false-discovery control
/// found it. `stops` are gates that failed elsewhere; any makes INCONCLUSIVE.
pub fn judge(
    sides: &Sides,
    history: Option<&History>,
    rules: &TimeRules,
    alpha: f64,
    discovered: Option<bool>,
    stops: &[Reason],
) -> MetricVerdict {
    let effect = sides.effect();
    let open = |interval, reasons: &[Reason]| claim(VerdictName::Inconclusive, effect, interval, reasons);
    let calibrated = history.filter(|h| h.degrees >= CALIBRATED_DEGREES);
    if let Some(history) = calibrated
        && let Some((kept, replaced)) = replaced(sides, history.variance.sqrt(), rules.wild_sigmas)
    {
        let mut verdict = judge(&kept, Some(history), rules, alpha, discovered, stops);
        verdict.reasons.push(replaced.to_string());
        return verdict;
    }
    let Some(history) = calibrated else {
        let degrees = history.map_or(0, |h| h.degrees);
        return open(None, &[&[Reason::Uncalibrated { degrees }], stops].concat());
    };
    let Some((estimate, (spread, error))) = effect.zip(sides.error(history)) else {
        return open(None, &[&[Reason::NextLook { boots: 4 }], stops].concat());
    };
    let around = |confidence: f64| {
        let half = t_quantile(1.0 - (1.0 - confidence) / 2.0, spread.degrees) * error;
        [estimate - half, estimate + half]
    };
    let printed = Some(around(PRINTED_CONFIDENCE));
    let mut reasons = stops.to_vec();
    let gate = failing(sides, history, rules);
    let wild = match &gate {
        Some(Reason::WildBoot { side, .. }) => Some(*side),
        _ => None,
    };
    reasons.extend(gate);
    let boots = sides.old.len() + sides.new.len();
    let look = match Look::after(boots) {
        Some(look) => look,
        None => {
            let next = upcoming(boots).map(|boots| Next::Look { boots });
            reasons.push(
                upcoming(boots).map_or(Reason::LooksSpent { boots }, |boots| Reason::NextLook { boots }),
            );
            return MetricVerdict { next, ..open(printed, &reasons) };
        }
    };
    if !reasons.is_empty() {
        // A wild boot alone can be replaced, once.
        let next = wild.filter(|_| reasons.len() == 1).map(|side| Next::Replace { side: side.to_owned() });
        return MetricVerdict { next, ..open(printed, &reasons) };
    }
    let deciding = around(1.0 - alpha * look.share());
    let clears = |percent: f64| {
        let floor = (percent / 100.0).ln_1p();
        deciding[0] > floor || deciding[1] < -floor
    };
    let moved = discovered.unwrap_or_else(|| clears(rules.speak_percent));
    if moved {
        let worse = (estimate > 0.0) != sides.higher_is_better;
        let name = if worse { VerdictName::Slower } else { VerdictName::Faster };
        let placement = (!clears(rules.headline_percent))
            .then_some(Reason::CodePlacement { headline_percent: rules.headline_percent });
        return claim(name, effect, printed, placement.as_slice());
    }
    let bound = (rules.equivalence_percent / 100.0).ln_1p();
    let equivalence = around(EQUIVALENCE_CONFIDENCE);
    if equivalence[0] > -bound && equivalence[1] < bound {
        let reason = Reason::Equivalent { bound_percent: rules.equivalence_percent };
        return claim(VerdictName::NoChange, effect, printed, &[reason]);
    }
    let reason = look.next_boots().map_or_else(
        || {
            let level = t_quantile(1.0 - alpha * look.share() / 2.0, spread.degrees);
            let power = t_quantile(STATED_POWER, spread.degrees);
            let effect = (rules.speak_percent / 100.0).ln_1p() + (level + power) * error;
            Reason::Undecided { boots, detectable_percent: 100.0 * effect.exp_m1() }
        },
        |boots| Reason::NextLook { boots },
    );
    let next = look.next_boots().map(|boots| Next::Look { boots });
    MetricVerdict { next, ..open(printed, &[reason]) }
}

fn claim(
    name: VerdictName,
    effect: Option<f64>,
    interval: Option<[f64; 2]>,
    reasons: &[Reason],
) -> MetricVerdict {
    let percent = |log: f64| 100.0 * log.exp_m1();
    MetricVerdict {
        evidence: Evidence::Time,
        name,
        change_percent: effect.map(percent),
        interval_percent: interval.map(|[low, high]| [percent(low), percent(high)]),
        confidence: interval.map(|_| PRINTED_CONFIDENCE),
        reasons: reasons.iter().map(Reason::to_string).collect(),
        next: None,
    }
}
