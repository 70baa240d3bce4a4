// SPDX-License-Identifier: GPL-2.0-or-later
//! The verdict view of `time` evidence: the boot is the unit (statistics.md 3.3).

use super::reason::Reason;
use super::report_view::BootFigures;
use super::summary::mean;
use super::{MetricVerdict, VerdictName};
use crate::plan::Evidence;

/// Degrees of freedom that a board's history must have before it may decide (statistics.md 3.9b).
pub const CALIBRATED_DEGREES: u32 = 30;

/// What can be said without any history of the machine: the best estimate,
/// 100 (exp(mean log new - mean log old) - 1), and no claim.
pub(super) fn uncalibrated(new: &[BootFigures], old: &[BootFigures]) -> MetricVerdict {
    let logs = |side: &[BootFigures]| mean(&side.iter().map(|f| f.median.ln()).collect::<Vec<f64>>());
    let effect = logs(new).zip(logs(old)).map(|(new, old)| new - old).filter(|effect| effect.is_finite());
    MetricVerdict {
        evidence: Evidence::Time,
        name: VerdictName::Inconclusive,
        change_percent: effect.map(|effect| 100.0 * effect.exp_m1()),
        interval_percent: None,
        confidence: None,
        reasons: vec![Reason::Uncalibrated { degrees: 0 }.to_string()],
    }
}
