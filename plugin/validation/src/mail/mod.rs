// SPDX-License-Identifier: GPL-2.0-or-later
//! Mail bytes to patch series: split, message, body, thread, series. Never panics;
//! whatever is wrong with the input becomes a problem in the result.
//!
//! The input is a stranger's: sizes, counts and nesting are bounded, and work
//! grows with the length of the input only.

mod assemble;
mod body;
mod diff;
mod flowed;
mod message;
mod mime;
mod paths;
mod series;
mod split;
mod subject;
mod thread;

pub use series::{CoverLetter, Patch, Series, SeriesFile, short_subject};

/// Most bytes of mail that are read, all files together: no series on a list comes near it.
pub const MAX_BYTES: usize = 64 << 20;
/// Longest single message, bytes; lists accept far less.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Most messages that are looked at.
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
    /// Every message is larger than any list accepts.
    #[error(
        "the mail is larger than {} MiB, more than any list accepts; save the mail of the patch alone",
        MAX_MESSAGE_BYTES >> 20
    )]
    MessageTooLarge,
    /// Neither a mail header nor a diff.
    #[error(
        "this is not a mail: no From, Subject or Date header and no diff was found; save the series as mbox (for instance with b4 am, or git format-patch --stdout)"
    )]
    NotAMail,
    /// Mails, but no patch among them.
    #[error("there is no patch in these mails; save the whole thread, with the patches")]
    NoPatch,
}

/// Every series in one mail file: a mailbox, a single mail, a patch from `git format-patch`, or a bare diff.
///
/// # Errors
/// The file holds none; see [`NoSeries`]. What is wrong with a series that is there stands in its problems.
pub fn read_series(bytes: &[u8]) -> Result<SeriesFile, NoSeries> {
    read_files(&[bytes])
}

/// Every series in several mail files, read as one mailbox. Bare diffs, when there
/// is no mail at all, are one series in the order of the files.
///
/// # Errors
/// The files hold none; see [`NoSeries`].
pub fn read_files<T: AsRef<[u8]>>(files: &[T]) -> Result<SeriesFile, NoSeries> {
    if files.iter().map(|f| f.as_ref().len()).sum::<usize>() > MAX_BYTES {
        return Err(NoSeries::TooLarge);
    }
    let mut messages = Vec::new();
    let mut bare = Vec::new();
    let mut too_large = 0;
    let mut count = 0;
    for file in files {
        let raw = split::split(file.as_ref(), MAX_MESSAGES + 1);
        count += raw.len();
        if count > MAX_MESSAGES {
            return Err(NoSeries::TooMany);
        }
        for raw in raw {
            if raw.len() > MAX_MESSAGE_BYTES {
                too_large += 1;
                continue;
            }
            match message::read(&raw) {
                Some(message) => messages.push(message),
                None => bare.extend(message::read_bare(&raw)),
            }
        }
    }
    let mut problems = Vec::new();
    if too_large > 0 {
        let limit = MAX_MESSAGE_BYTES >> 20;
        problems.push(format!("{too_large} mails larger than {limit} MiB were not read"));
    }
    if messages.is_empty() {
        if bare.is_empty() {
            return Err(if too_large > 0 { NoSeries::MessageTooLarge } else { NoSeries::NotAMail });
        }
        return Ok(SeriesFile { version: 1, series: vec![assemble::bare_series(bare)], problems });
    }
    if !bare.is_empty() {
        problems.push(format!("{} diffs without a mail header were not read", bare.len()));
    }
    let series = assemble::assemble(messages);
    if series.is_empty() { Err(NoSeries::NoPatch) } else { Ok(SeriesFile { version: 1, series, problems }) }
}
