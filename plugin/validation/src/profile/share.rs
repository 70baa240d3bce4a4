// SPDX-License-Identifier: GPL-2.0-or-later
//! A part of a whole, exact.

use serde::Serialize;
use std::fmt;

/// Published percents have two decimals: hundredths of a percent in all.
pub const PUBLISHED_WHOLE: u64 = 10_000;

/// A share of samples: `part / whole`. Printed as percent with two decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Samples of the part, or hundredths of a percent.
    pub part: u64,
    /// All samples, or 10000.
    pub whole: u64,
}

impl Share {
    /// The sum of two shares of one whole.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { part: self.part.saturating_add(other.part), whole: self.whole }
    }

    /// Rounded half up; `scale` is 100 for whole percents. Of nothing it is 0.
    fn scaled(self, scale: u64) -> u128 {
        let whole = u128::from(self.whole);
        if whole == 0 {
            return 0;
        }
        (u128::from(self.part) * u128::from(scale) * 2 + whole) / (2 * whole)
    }

    /// Whole percents, as mails say it.
    pub fn rounded(self) -> u128 {
        self.scaled(100)
    }

    /// Reads a percent with at most two decimals.
    pub fn of_percent(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || decimals.len() > 2 || !digits(whole) || !digits(decimals) {
            return None;
        }
        let decimals: u64 = format!("{decimals:0<2}").parse().ok()?;
        let part = whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(decimals)?;
        (part <= PUBLISHED_WHOLE).then_some(Self { part, whole: PUBLISHED_WHOLE })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.scaled(PUBLISHED_WHOLE);
        f.pad(&format!("{}.{:02}", hundredths / 100, hundredths % 100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_exact_and_rounded_once() {
        for (part, whole, text, rounded) in [
            (3898 + 2883, 10_000, "67.81", 68),
            (1, 3, "33.33", 33),
            (2, 3, "66.67", 67),
            (1, 20_000, "0.01", 0),
            (5, 5, "100.00", 100),
            (0, 0, "0.00", 0),
            (u64::MAX, u64::MAX, "100.00", 100),
        ] {
            let share = Share { part, whole };
            assert_eq!((share.to_string().as_str(), share.rounded()), (text, rounded));
        }
    }

    #[test]
    fn only_percents_are_read() {
        for text in ["38.98", "0.58", "1.2", "100"] {
            assert!(Share::of_percent(text).is_some(), "{text}");
        }
        assert_eq!(Share::of_percent("1.2"), Some(Share { part: 120, whole: 10_000 }));
        for text in ["", ".5", "-1", "1.234", "1e1", "100.01", "+1", "1.-2", "99999999999999999999"] {
            assert_eq!(Share::of_percent(text), None, "{text}");
        }
    }
}
