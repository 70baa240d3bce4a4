// SPDX-License-Identifier: GPL-2.0-or-later
//! Exit codes: whose fault it is. A promise to other programs.

/// What a run of kernmark ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, nothing slower or longer.
    Clean = 0,
    /// Regression found.
    Regression = 1,
    /// Usage or bad input.
    Usage = 2,
    /// Results missing, inconclusive or NOT BUILT.
    Missing = 3,
    /// Lab or host failed.
    Host = 4,
    /// Our bug.
    Bug = 70,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A failure with whose fault it was; the text says what to do next.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Exit code this failure ends the command with.
    pub exit: Exit,
    /// For a person.
    pub message: String,
}

impl Failure {
    /// Bad input or usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// Results missing or inconclusive: the kernel's fault or nobody's.
    pub fn missing(message: impl Into<String>) -> Self {
        Self { exit: Exit::Missing, message: message.into() }
    }

    /// Something that cannot happen did: a bug of ours.
    pub fn bug(message: impl Into<String>) -> Self {
        let message = format!("{}; this is a bug of kernmark, please report it", message.into());
        Self { exit: Exit::Bug, message }
    }

    /// The lab or this machine failed.
    pub fn host(message: impl Into<String>) -> Self {
        Self { exit: Exit::Host, message: message.into() }
    }
}
