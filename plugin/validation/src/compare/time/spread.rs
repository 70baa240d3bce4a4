// SPDX-License-Identifier: GPL-2.0-or-later
//! The spread of boots: the run's own, pooled with the board's history, and
//! the quantiles that go with it (statistics.md 3.3).

use super::super::summary::mean;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, FisherSnedecor, StudentsT};

/// Spread of one metric over boots of one kernel on one board.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Variance of the natural logarithm of boot values.
    pub variance: f64,
    /// Degrees of freedom it rests on.
    pub degrees: u32,
}

/// Variance of log boot values with its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Variance of the natural logarithm of boot values.
    pub variance: f64,
    /// Degrees of freedom.
    pub degrees: u32,
}

impl Spread {
    /// Spread within the two sides of a run; `None` below one degree of freedom.
    pub fn within(old_logs: &[f64], new_logs: &[f64]) -> Option<Self> {
        let squares = |side: &[f64]| {
            let middle = mean(side).unwrap_or(0.0);
            side.iter().map(|x| (x - middle).powi(2)).sum::<f64>()
        };
        let degrees = (old_logs.len() + new_logs.len()).checked_sub(2).filter(|d| *d > 0)?;
        let variance = (squares(old_logs) + squares(new_logs)) / degrees as f64;
        Some(Self { variance, degrees: u32::try_from(degrees).ok()? })
    }

    /// Pooled with a history, weighted by degrees of freedom.
    pub fn pooled(self, history: &History) -> Self {
        let degrees = self.degrees + history.degrees;
        let sum = self.variance * f64::from(self.degrees) + history.variance * f64::from(history.degrees);
        Self { variance: sum / f64::from(degrees), degrees }
    }

    /// Standard deviation of log boot values.
    pub fn sigma(self) -> f64 {
        self.variance.sqrt()
    }
}

/// Quantile of Student's t: `probability` lies below it.
pub fn t_quantile(probability: f64, degrees: u32) -> f64 {
    student(degrees).inverse_cdf(probability)
}

/// Chance that |t| is at least this large.
pub(super) fn t_two_sided(t: f64, degrees: u32) -> f64 {
    2.0 * student(degrees).sf(t.abs())
}

fn student(degrees: u32) -> StudentsT {
    StudentsT::new(0.0, 1.0, f64::from(degrees.max(1))).expect("degrees are positive")
}

/// Chance that the run's spread exceeds the history's as much as it does, if
/// the board is what it was; 1 when the history has no spread to compare with.
pub fn f_exceeds(run: Spread, history: &History) -> f64 {
    if history.variance <= 0.0 || history.degrees == 0 || run.degrees == 0 {
        return 1.0;
    }
    FisherSnedecor::new(f64::from(run.degrees), f64::from(history.degrees))
        .expect("degrees are positive")
        .sf(run.variance / history.variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the printed tables of Student's t and F.
    #[test]
    fn quantiles_agree_with_the_tables() {
        for (probability, degrees, expected) in [
            (0.975, 2, 4.302_652_73),
            (0.995, 2, 9.924_843_2),
            (0.95, 10, 1.812_461_12),
            (0.995, 30, 2.749_995_65),
            (0.975, 60, 2.000_297_82),
            (0.9995, 30, 3.645_958_63),
        ] {
            let found = t_quantile(probability, degrees);
            assert!((found / expected - 1.0).abs() < 1e-6, "t({probability}, {degrees}) = {found}");
            assert!((t_two_sided(found, degrees) - 2.0 * (1.0 - probability)).abs() < 1e-9);
            assert!((t_quantile(1.0 - probability, degrees) + found).abs() < 1e-9 * found);
        }
        let history = History { variance: 1.0, degrees: 10 };
        for (ratio, degrees, chance) in [(4.102_821, 2, 0.05), (5.636_326, 5, 0.01)] {
            let found = f_exceeds(Spread { variance: ratio, degrees }, &history);
            assert!((found - chance).abs() < 1e-6, "F({ratio}) = {found}");
        }
    }

    #[test]
    fn pooling_weighs_by_degrees() {
        let run = Spread::within(&[1.0, 3.0], &[5.0, 7.0]).expect("four boots");
        assert_eq!(run, Spread { variance: 2.0, degrees: 2 });
        let pooled = run.pooled(&History { variance: 1.0, degrees: 30 });
        assert_eq!(pooled, Spread { variance: 34.0 / 32.0, degrees: 32 });
        assert_eq!(Spread::within(&[1.0], &[2.0]), None);
    }
}
