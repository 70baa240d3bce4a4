// SPDX-License-Identifier: GPL-2.0-or-later
//! One record per line: prefix, sequence number, CRC-32, JSON.
//!
//! `@kernmark 17 9ae0daaf {"record":"fact",...}`
//!
//! The checksum (CRC-32, IEEE 802.3) covers the text `17 {"record"...}`: the
//! sequence number and the JSON, so that neither can be exchanged alone. It
//! protects against a lossy console, not against a hostile kernel.

use crate::record::Record;

/// Start of every result line.
pub const PREFIX: &str = "@kernmark ";

/// Longest accepted line in bytes; the board keeps its lines well below.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// Why a result line was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineProblem {
    /// The line does not start with [`PREFIX`]: it is no result line at all.
    NotAResult,
    /// Longer than [`MAX_LINE_BYTES`].
    TooLong,
    /// Sequence number or checksum field is missing or malformed.
    Malformed,
    /// The checksum does not match: the line was cut or altered.
    Checksum,
    /// The checksum holds but the JSON is no known record.
    Json(String),
}

impl std::fmt::Display for LineProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAResult => write!(f, "not a result line"),
            Self::TooLong => write!(f, "result line longer than {MAX_LINE_BYTES} bytes"),
            Self::Malformed => write!(f, "result line without sequence number or checksum"),
            Self::Checksum => write!(f, "checksum of result line does not match"),
            Self::Json(error) => write!(f, "result line holds no known record: {error}"),
        }
    }
}

/// Renders `record` as one line, without the line end.
///
/// `sequence` counts the lines of one boot from 0; a gap shows a lost line.
pub fn frame(sequence: u64, record: &Record) -> String {
    let json = serde_json::to_string(record).expect("records hold only strings and integers");
    let covered = format!("{sequence} {json}");
    let checksum = crc32fast::hash(covered.as_bytes());
    format!("{PREFIX}{sequence} {checksum:08x} {json}")
}

/// Reads one line back. Never panics; the line is hostile text.
///
/// # Errors
/// Says which [`LineProblem`] the line has.
pub fn unframe(line: &str) -> Result<(u64, Record), LineProblem> {
    let rest = line.strip_prefix(PREFIX).ok_or(LineProblem::NotAResult)?;
    if line.len() > MAX_LINE_BYTES {
        return Err(LineProblem::TooLong);
    }
    let rest = rest.trim_end_matches(['\r', '\n']);
    let (sequence, rest) = rest.split_once(' ').ok_or(LineProblem::Malformed)?;
    let (checksum, json) = rest.split_once(' ').ok_or(LineProblem::Malformed)?;
    // Lower case only: whatever else reads as the same number is an altered line.
    let hexadecimal = checksum.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if checksum.len() != 8 || !hexadecimal || !sequence.bytes().all(|b| b.is_ascii_digit()) {
        return Err(LineProblem::Malformed);
    }
    let number: u64 = sequence.parse().map_err(|_| LineProblem::Malformed)?;
    let expected = u32::from_str_radix(checksum, 16).map_err(|_| LineProblem::Malformed)?;
    if crc32fast::hash(format!("{sequence} {json}").as_bytes()) != expected {
        return Err(LineProblem::Checksum);
    }
    let record = serde_json::from_str(json).map_err(|e| LineProblem::Json(e.to_string()))?;
    Ok((number, record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{End, Fact};

    fn fact() -> Record {
        Record::Fact(Fact {
            workload: "kernfs.rmdir".into(),
            arm: "scx-off".into(),
            name: "nodes".into(),
            value: 26,
        })
    }

    #[test]
    fn a_line_round_trips() {
        let line = frame(17, &fact());
        assert_eq!(unframe(&line), Ok((17, fact())));
        assert_eq!(unframe(&format!("{line}\r\n")), Ok((17, fact())));
    }

    #[test]
    fn every_single_byte_change_is_seen() {
        let line = frame(3, &Record::End(End { records: 3, status: "ok".into() }));
        for (at, change) in (0..line.len()).flat_map(|at| (1..=255_u8).map(move |change| (at, change))) {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= change;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            assert!(unframe(&text).is_err(), "change at byte {at} went unnoticed: {text}");
        }
    }

    #[test]
    fn cut_and_foreign_lines_have_their_own_problem() {
        let line = frame(0, &fact());
        for (text, problem) in [
            ("[    0.1] Linux version", LineProblem::NotAResult),
            ("@kernmark ", LineProblem::Malformed),
            ("@kernmark x 00000000 {}", LineProblem::Malformed),
            (&line[..line.len() - 1], LineProblem::Checksum),
        ] {
            assert_eq!(unframe(text), Err(problem), "{text}");
        }
    }

    #[test]
    fn nan_is_no_record() {
        let json = r#"{"record":"fact","workload":"w","arm":"a","name":"n","value":NaN}"#;
        let covered = format!("0 {json}");
        let line = format!("{PREFIX}0 {:08x} {json}", crc32fast::hash(covered.as_bytes()));
        assert!(matches!(unframe(&line), Err(LineProblem::Json(_))));
    }
}
