// SPDX-License-Identifier: GPL-2.0-or-later
//! When the data may be looked at, and how much chance of error each look
//! spends (statistics.md 3.6, Haybittle and Peto).

/// A pre-registered look, by boots of the two sides together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// After 4 boots.
    First,
    /// After 8 boots.
    Second,
    /// After 12 boots.
    Last,
}

/// Boots at which there is a look.
pub(super) const LOOKS: [(usize, Look); 3] = [(4, Look::First), (8, Look::Second), (12, Look::Last)];

impl Look {
    /// The look after this many boots, if one was registered there.
    pub fn after(boots: usize) -> Option<Self> {
        LOOKS.iter().find(|(n, _)| *n == boots).map(|(_, look)| *look)
    }

    /// Share of alpha that this look spends.
    pub fn share(self) -> f64 {
        match self {
            Self::First | Self::Second => 0.1,
            Self::Last => 0.8,
        }
    }

    /// Boots at the next look; `None` after the last.
    pub fn next_boots(self) -> Option<usize> {
        match self {
            Self::First => Some(8),
            Self::Second => Some(12),
            Self::Last => None,
        }
    }
}

/// The first look after more than `boots` boots.
pub(super) fn upcoming(boots: usize) -> Option<usize> {
    LOOKS.iter().map(|(n, _)| *n).find(|n| *n > boots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_looks_spend_all_of_alpha_and_no_more() {
        let spent: f64 = LOOKS.iter().map(|(_, look)| look.share()).sum();
        assert!((spent - 1.0).abs() < 1e-12);
        // Four primaries at family alpha .01: 99.975, 99.975 and 99.8 % (statistics.md 3.9b).
        let levels: Vec<f64> = LOOKS.iter().map(|(_, look)| 1.0 - 0.01 / 4.0 * look.share()).collect();
        for (level, expected) in levels.iter().zip([0.99975, 0.99975, 0.998]) {
            assert!((level - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn there_is_no_look_in_between() {
        assert_eq!((Look::after(4), Look::after(5), Look::after(16)), (Some(Look::First), None, None));
        assert_eq!((upcoming(3), upcoming(4), upcoming(12)), (Some(4), Some(8), None));
        assert_eq!((Look::First.next_boots(), Look::Last.next_boots()), (Some(8), None));
    }
}
