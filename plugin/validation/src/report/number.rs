// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers as people read them. What is no number is "not known", never 0.

/// A value that is missing, or not finite.
const NOT_KNOWN: &str = "not known";

/// A whole number as such, anything else with one decimal.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        NOT_KNOWN.into()
    } else if (value - value.round()).abs() < 1e-6 {
        format!("{:.0}", value.round() + 0.0)
    } else {
        format!("{value:.1}")
    }
}

/// The same with its sign.
pub fn signed(value: f64) -> String {
    let text = number(value);
    if value >= 0.0 && value.is_finite() { format!("+{text}") } else { text }
}

/// `+7.6%`; two decimals below 0.1 %, three for what would read as zero.
pub fn percent(value: Option<f64>) -> String {
    match value {
        None => NOT_KNOWN.into(),
        Some(v) if !v.is_finite() => NOT_KNOWN.into(),
        Some(0.0) => "0.000%".into(),
        Some(v) if v.abs() < 0.01 => format!("{v:+.3}%"),
        Some(v) if v.abs() < 0.1 => format!("{v:+.2}%"),
        Some(v) => format!("{v:+.1}%"),
    }
}

/// A bound, without a sign and without zeros at its end: `0.1%`, `0.27%`.
pub fn bound(percent: f64) -> String {
    if !percent.is_finite() {
        return NOT_KNOWN.into();
    }
    let text = format!("{percent:.3}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Nanoseconds as microseconds: three decimals in tables, fewer in sentences.
pub fn microseconds(nanoseconds: f64, decimals: usize) -> String {
    if nanoseconds.is_finite() { format!("{:.decimals$}", nanoseconds / 1000.0) } else { NOT_KNOWN.into() }
}

/// The smallest number of decimals, at most 3, that shows two digits of a duration in microseconds.
pub fn decimals_for(nanoseconds: f64) -> usize {
    match nanoseconds.abs() {
        v if v >= 1000.0 => 1,
        v if v >= 100.0 => 2,
        _ => 3,
    }
}

/// `about 45 seconds`, `about 4 minutes`.
pub fn about(seconds: u64) -> String {
    match seconds {
        0..90 => format!("about {seconds} seconds"),
        90..5400 => format!("about {} minutes", seconds.div_ceil(60)),
        _ => format!("about {} hours", seconds.div_ceil(3600)),
    }
}

/// Median; the mean of the two in the middle of an even number.
pub fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_percentages_are_short() {
        for (value, text) in [
            (3040.0, "3040"),
            (27.5, "27.5"),
            (-19.0, "-19"),
            (-0.0, "0"),
            (f64::NAN, "not known"),
            (1e300_f64.powi(2), "not known"),
        ] {
            assert_eq!(number(value), text);
        }
        for (value, text) in [
            (Some(7.605), "+7.6%"),
            (Some(0.475), "+0.5%"),
            (Some(0.0), "0.000%"),
            (Some(-0.004), "-0.004%"),
            (Some(f64::INFINITY), "not known"),
            (None, "not known"),
        ] {
            assert_eq!(percent(value), text);
        }
        for (value, text) in [(0.1, "0.1%"), (0.27, "0.27%"), (20.0, "20%"), (3.0004, "3%")] {
            assert_eq!(bound(value), text);
        }
        assert_eq!(signed(3.0), "+3");
        assert_eq!(signed(f64::NAN), "not known");
    }

    #[test]
    fn durations_keep_two_digits() {
        for (ns, text) in [(9553.0, "9.6"), (2631.0, "2.6"), (100.0, "0.10"), (16.0, "0.016")] {
            assert_eq!(microseconds(ns, decimals_for(ns)), text);
        }
        for (seconds, text) in [(45, "about 45 seconds"), (200, "about 4 minutes"), (7000, "about 2 hours")] {
            assert_eq!(about(seconds), text);
        }
    }

    #[test]
    fn the_middle_of_an_even_number_is_a_mean() {
        assert_eq!(middle(&[3.0, 1.0]), Some(2.0));
        assert_eq!(middle(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(middle(&[]), None);
    }
}
