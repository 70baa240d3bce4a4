// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures of one boot and changes between two (protocol.md 7). All changes,
//! drifts and CVs are in percent; what does not exist is `None`, never 0.

/// Middle value, or the mean of the two middle ones.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

/// Arithmetic mean.
pub fn mean(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() { None } else { Some(samples.iter().sum::<f64>() / samples.len() as f64) }
}

/// Nearest-rank quantile: the smallest sample that `share` of all do not exceed.
pub fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Coefficient of variation with n - 1, percent (fsnotify and others).
pub fn cv_sample(samples: &[f64]) -> Option<f64> {
    cv(samples, samples.len().checked_sub(1)?)
}

/// Coefficient of variation with n, percent (kernfs).
pub fn cv_population(samples: &[f64]) -> Option<f64> {
    cv(samples, samples.len())
}

fn cv(samples: &[f64], divisor: usize) -> Option<f64> {
    let middle = mean(samples)?;
    if divisor == 0 || middle == 0.0 {
        return None;
    }
    let squares: f64 = samples.iter().map(|x| (x - middle).powi(2)).sum();
    Some(100.0 * (squares / divisor as f64).sqrt() / middle)
}

/// 100 (new/old - 1); `None` when old is 0.
pub fn change(new: f64, old: f64) -> Option<f64> {
    if old == 0.0 { None } else { Some(100.0 * (new / old - 1.0)) }
}

/// Drift of a pair of boots of one build, earlier first: 100 (b/a - 1) (kernfs).
pub fn drift_signed(a: f64, b: f64) -> Option<f64> {
    change(b, a)
}

/// Drift of a pair of boots of one build: 100 |a - b| / midpoint (fsnotify).
pub fn drift_absolute(a: f64, b: f64) -> Option<f64> {
    let middle = f64::midpoint(a, b);
    if middle == 0.0 { None } else { Some(100.0 * (a - b).abs() / middle) }
}

/// Smallest and largest; `None` without values.
pub fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_take_the_middle_or_both_middles() {
        for (samples, expected) in [
            (&[][..], None),
            (&[3.0], Some(3.0)),
            (&[9.0, 1.0, 5.0], Some(5.0)),
            (&[4.0, 1.0, 2.0, 9.0], Some(3.0)),
        ] {
            assert_eq!(median(samples), expected);
        }
    }

    #[test]
    fn the_two_cv_formulas_differ_by_the_divisor() {
        let samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(cv_population(&samples), Some(40.0));
        let sample = cv_sample(&samples).expect("eight samples");
        assert!((sample / 40.0 - (8.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((cv_sample(&[1.0]), cv_sample(&[]), cv_population(&[])), (None, None, None));
    }

    #[test]
    fn quantiles_are_samples() {
        let samples: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(quantile(&samples, 0.99), Some(198.0));
        assert_eq!(
            (quantile(&[7.0], 0.99), quantile(&[7.0], 0.0), quantile(&[], 0.5)),
            (Some(7.0), Some(7.0), None)
        );
    }

    #[test]
    fn drifts_and_changes() {
        assert_eq!(change(3.0, 2.0), Some(50.0));
        assert_eq!((change(3.0, 0.0), drift_absolute(0.0, 0.0)), (None, None));
        assert_eq!((drift_signed(4.0, 3.0), drift_absolute(5.0, 3.0)), (Some(-25.0), Some(50.0)));
        assert_eq!((range([2.0, -1.0, 3.0]), range([])), (Some((-1.0, 3.0)), None));
    }
}
