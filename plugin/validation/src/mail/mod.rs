// SPDX-License-Identifier: GPL-2.0-or-later
//! Mail bytes to patch series: message, thread, series. Never panics; whatever
//! is wrong with the input becomes a problem in the result.

mod assemble;
mod body;
mod message;
mod series;
mod split;
mod subject;

pub use series::{CoverLetter, Patch, Series, SeriesFile};

/// Longest mail file that is read, bytes: no series on a list comes near it.
pub const MAX_BYTES: usize = 64 << 20;
/// Most messages of one file that are looked at.
const MAX_MESSAGES: usize = 2000;

/// Why a file holds no series at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSeries {
    /// Larger than [`MAX_BYTES`].
    #[error("the file is larger than {} MiB; save only the thread of the series", MAX_BYTES >> 20)]
    TooLarge,
    /// More than the messages of one thread.
    #[error("the file holds more than {MAX_MESSAGES} messages; save only the thread of the series")]
    TooMany,
    /// No message in it has a mail header.
    #[error(
        "this is not a mail: no From, Subject or Date header was found; save the series as mbox (for instance with b4 am, or git format-patch --stdout)"
    )]
    NotAMail,
    /// Mails, but no patch among them.
    #[error("there is no patch in these mails; save the whole thread, with the patches")]
    NoPatch,
}

/// Every series in a mail file.
///
/// # Errors
/// The file holds none; see [`NoSeries`]. What is wrong with a series that is there stands in its problems.
pub fn read_series(bytes: &[u8]) -> Result<SeriesFile, NoSeries> {
    if bytes.len() > MAX_BYTES {
        return Err(NoSeries::TooLarge);
    }
    let raw = split::split(bytes);
    if raw.len() > MAX_MESSAGES {
        return Err(NoSeries::TooMany);
    }
    let messages: Vec<message::Message> = raw.iter().filter_map(|m| message::read(m)).collect();
    if messages.is_empty() {
        return Err(NoSeries::NotAMail);
    }
    let series = assemble::assemble(messages);
    if series.is_empty() { Err(NoSeries::NoPatch) } else { Ok(SeriesFile { version: 1, series }) }
}
