// SPDX-License-Identifier: GPL-2.0-or-later
//! The published orders of boots (protocol.md 6.3, statistics.md 3.4).

use super::ExperimentProblem;
use crate::plan::palindrome;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An order of boots with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedOrder {
    /// parent child parent.
    Sandwich,
    /// Every build, then every build backwards.
    Palindrome,
    /// full lock-only full nolist full.
    Diagnostic,
    /// parent child probe ... last probe ... probe child parent.
    Nested,
    /// old new old; the builds are different commits, their configurations may differ.
    ReleaseWindow,
    /// A B B A, then B A A B: what drifts linearly or quadratically cancels.
    AbbaBaab,
}

impl NamedOrder {
    /// The order as places in a list of `builds`.
    ///
    /// # Errors
    /// The order is not made for so many builds.
    pub fn places(self, builds: usize) -> Result<Vec<usize>, ExperimentProblem> {
        let fits = match self {
            Self::Sandwich | Self::ReleaseWindow | Self::AbbaBaab => builds == 2,
            Self::Diagnostic => builds == 3,
            Self::Nested => builds >= 3,
            Self::Palindrome => builds >= 2,
        };
        if !fits {
            return Err(ExperimentProblem::OrderOf { order: self, builds });
        }
        Ok(match self {
            Self::Sandwich | Self::ReleaseWindow => vec![0, 1, 0],
            Self::Palindrome => palindrome(builds),
            Self::Diagnostic => vec![0, 1, 0, 2, 0],
            Self::Nested => (0..builds).chain((0..builds - 1).rev()).collect(),
            Self::AbbaBaab => vec![0, 1, 1, 0, 1, 0, 0, 1],
        })
    }

    /// How many builds it is for, for a person.
    pub(super) fn wants(self) -> &'static str {
        match self {
            Self::Sandwich | Self::ReleaseWindow | Self::AbbaBaab => "2 builds",
            Self::Diagnostic => "3 builds: the full one, lock only, no list",
            Self::Nested => "3 builds or more: parent, child, probes",
            Self::Palindrome => "2 builds or more",
        }
    }

    /// Whether the builds are releases, whose configurations cannot be the same.
    pub fn is_release_window(self) -> bool {
        self == Self::ReleaseWindow
    }
}

impl fmt::Display for NamedOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sandwich => "sandwich",
            Self::Palindrome => "palindrome",
            Self::Diagnostic => "diagnostic",
            Self::Nested => "nested",
            Self::ReleaseWindow => "release-window",
            Self::AbbaBaab => "abba-baab",
        })
    }
}
