// SPDX-License-Identifier: GPL-2.0-or-later
//! Every reason a verdict gives, in one place; each says what to do next.

use super::time::CALIBRATED_DEGREES;

/// Why a verdict is what it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// `time` evidence of a board whose spread is not known.
    Uncalibrated {
        /// Degrees of freedom of the board's history.
        degrees: u32,
    },
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uncalibrated { degrees } => write!(
                f,
                "uncalibrated: the boot-to-boot spread of this machine is known from {degrees} degrees of freedom, \
                 a time verdict needs {CALIBRATED_DEGREES}; boot one kernel repeatedly on it to build a history, \
                 or read the change at every endpoint"
            ),
        }
    }
}
