// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be wrong with the chunks of a log.

use serde::{Deserialize, Serialize};

/// What is wrong with the chunks of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum ChunkProblem {
    /// A chunk whose checksum does not hold.
    Corrupted {
        /// 1-based number of its line.
        line: u64,
    },
    /// A chunk into which another line fell, or that was cut.
    Split {
        /// 1-based number of the line where it starts.
        line: u64,
        /// Whether its end was found, which the checksum proves.
        mended: bool,
    },
    /// A chunk that has come before.
    Repeated {
        /// 1-based number of its line.
        line: u64,
        /// Its number.
        index: u32,
    },
    /// A chunk that came after a later one.
    Reordered {
        /// 1-based number of its line.
        line: u64,
        /// Its number.
        index: u32,
        /// The later one.
        after: u32,
    },
    /// A chunk that says something else than another of its result.
    Contradicting {
        /// 1-based number of its line.
        line: u64,
        /// Its number.
        index: u32,
    },
    /// Chunks that did not come, or of which none came whole.
    Missing {
        /// Name of the result.
        result: String,
        /// First and last number of each run of them.
        missing: Vec<(u32, u32)>,
        /// How many there should be.
        total: u32,
    },
    /// All chunks are there, but joined they are not what was sent.
    WrongHash {
        /// Name of the result.
        result: String,
    },
    /// A line of a LAVA log that is no record of it.
    NoRecord {
        /// 1-based number of the line.
        line: u64,
    },
    /// More is wrong than is listed here.
    More,
}

impl std::fmt::Display for ChunkProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Corrupted { line } => {
                write!(
                    f,
                    "line {line} of the log: the checksum of a chunk does not match; check the serial line"
                )
            }
            Self::Split { line, mended: true } => {
                write!(f, "line {line} of the log: another line fell into a chunk; it was put together again")
            }
            Self::Split { line, mended: false } => write!(
                f,
                "line {line} of the log: a chunk is cut, and its end was not found; keep other programs off the \
                 console, or let LAVA use `lava-signal: kmsg`"
            ),
            Self::Repeated { line, index } => {
                write!(f, "line {line} of the log: chunk {index} is there twice")
            }
            Self::Reordered { line, index, after } => {
                write!(f, "line {line} of the log: chunk {index} came after chunk {after}")
            }
            Self::Contradicting { line, index } => write!(
                f,
                "line {line} of the log: chunk {index} says something else than before; something forges results"
            ),
            Self::Missing { result, missing, total } => {
                write!(f, "of the {total} chunks of result {result:.8} these did not come whole:")?;
                for (at, (first, last)) in missing.iter().enumerate() {
                    let separator = if at == 0 { " " } else { ", " };
                    match first == last {
                        true => write!(f, "{separator}{first}")?,
                        false => write!(f, "{separator}{first}-{last}")?,
                    }
                }
                write!(f, "; run the point again")
            }
            Self::WrongHash { result } => {
                write!(
                    f,
                    "the chunks of result {result:.8} do not give what was sent; something forges results"
                )
            }
            Self::NoRecord { line } => {
                write!(f, "line {line} of the log is no record of LAVA; fetch the log again")
            }
            Self::More => write!(f, "more is wrong with the chunks than is listed"),
        }
    }
}
