// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a run ends, and the exit code that says so.

use std::process::ExitCode;

/// Why a workload, or the whole run, does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The command line asks for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// Something the workload needs is not here. Reported as `skip`.
    #[error("{0}")]
    Missing(String),
    /// An operation failed, or a condition did not hold: the numbers are void.
    #[error("{0}")]
    Failed(String),
    /// SIGINT, SIGTERM or SIGHUP.
    #[error("interrupted by a signal; everything changed was put back")]
    Interrupted,
    /// Results cannot be written.
    #[error("cannot write results: {0}")]
    Output(#[from] std::io::Error),
    /// This program is wrong.
    #[error("a mistake in kernmark-board, please report it: {0}")]
    Bug(String),
}

impl Stop {
    /// A failed condition with the operation and the system's own words.
    pub fn failed(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{what}: {error}"))
    }
}

/// Exit codes, the same as those of `kernmark`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Usage or bad input.
    Usage = 2,
    /// Results missing: something was skipped that was asked for, or interrupted.
    Missing = 3,
    /// An operation failed or the machine would not do as asked.
    Machine = 4,
    /// This program is wrong.
    Bug = 70,
}

impl Exit {
    /// What the exit code of a process of ours means.
    pub fn of_code(code: i32) -> Self {
        let all = [Self::Done, Self::Usage, Self::Missing, Self::Machine, Self::Bug];
        // 101 is that of a panic that nobody caught.
        all.into_iter().find(|exit| *exit as i32 == code).unwrap_or(Self::Bug)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<&Stop> for Exit {
    fn from(stop: &Stop) -> Self {
        match stop {
            Stop::Usage(_) => Self::Usage,
            Stop::Missing(_) | Stop::Interrupted => Self::Missing,
            Stop::Failed(_) | Stop::Output(_) => Self::Machine,
            Stop::Bug(_) => Self::Bug,
        }
    }
}
