// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole results out of a log that carries other lines too (see [`kernmark_wire::chunk_line`]). Never
//! fails and never panics: a log is hostile text, and every line that does not hold becomes a
//! problem with its place. The name of a result is its hash, so whatever is returned is whole.

use super::MAX_LOG_BYTES;
use super::chunk_problem::ChunkProblem;
use crate::plan::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use kernmark_wire::{CHUNK_PREFIX, ChunkHeader, RESULT_NAME_DIGITS, chunk_header};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;

/// Lines after a chunk in which the rest of it is looked for.
const LINES_BETWEEN: usize = 16;
/// Problems that are listed for one log; [`ChunkProblem::More`] stands for the rest.
const MAX_PROBLEMS: usize = 64;
/// Results of one log: a board job has far fewer points.
const MAX_RESULTS: usize = 256;

/// One line of a console, with its place in the log it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleLine {
    /// 1-based number of the line in the log.
    pub number: u64,
    /// Text without the line end; what is not UTF-8 is replaced.
    pub text: String,
}

/// The results that travelled in a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InBand {
    /// Whole ones, in the order in which their first chunks came.
    pub results: Vec<InBandResult>,
    /// What is wrong with the chunks. A result that is in `results` is whole nevertheless.
    pub problems: Vec<ChunkProblem>,
}

/// One whole result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InBandResult {
    /// Its name, the first digits of the SHA-256 of `lines`.
    pub name: String,
    /// What the board binary writes as JSON lines, ready for [`super::parse_log`].
    pub lines: Vec<u8>,
}

/// The lines of a console as it was recorded.
pub fn console_lines(console: &[u8]) -> Vec<ConsoleLine> {
    let lines = console.split(|&byte| byte == b'\n');
    lines
        .zip(1..)
        .map(|(line, number)| {
            let end = line.iter().rposition(|&byte| byte != b'\r').map_or(0, |at| at + 1);
            ConsoleLine { number, text: String::from_utf8_lossy(&line[..end]).into_owned() }
        })
        .collect()
}

/// Finds and joins the chunks among `lines`.
pub fn results_among(lines: &[ConsoleLine]) -> InBand {
    let mut search = Search::default();
    for (at, line) in lines.iter().enumerate() {
        search.line(line, &lines[at + 1..]);
    }
    search.finish()
}

#[derive(Debug, Default)]
struct Search {
    parts: Vec<Parts>,
    problems: Vec<ChunkProblem>,
}

/// What has come of one result.
#[derive(Debug)]
struct Parts {
    name: String,
    total: u32,
    payloads: BTreeMap<u32, String>,
    /// Highest number that has come so far.
    highest: u32,
}

impl Search {
    fn problem(&mut self, problem: ChunkProblem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else if self.problems.len() == MAX_PROBLEMS {
            self.problems.push(ChunkProblem::More);
        }
    }

    fn line(&mut self, line: &ConsoleLine, following: &[ConsoleLine]) {
        let mut rest = line.text.as_str();
        while let Some((_, after)) = rest.split_once(CHUNK_PREFIX) {
            rest = after;
            let Some((header, text)) = chunk_header(after) else {
                self.problem(ChunkProblem::Corrupted { line: line.number });
                continue;
            };
            rest = text;
            let body = base64_start(text);
            match body.get(..header.length) {
                Some(payload) if header.holds(payload) => {
                    rest = &text[header.length..];
                    self.chunk(line.number, &header, payload.to_owned());
                }
                // As long as it should be: letters were exchanged, nothing was put in between.
                Some(_) => self.problem(ChunkProblem::Corrupted { line: line.number }),
                None if text.len() == header.length => {
                    self.problem(ChunkProblem::Corrupted { line: line.number });
                }
                None => {
                    let mended = mended(&header, body, following);
                    self.problem(ChunkProblem::Split { line: line.number, mended: mended.is_some() });
                    if let Some(payload) = mended {
                        self.chunk(line.number, &header, payload);
                    }
                }
            }
        }
    }

    /// Takes a chunk whose checksum holds.
    fn chunk(&mut self, line: u64, header: &ChunkHeader, payload: String) {
        let index = header.index;
        let parts = match self.parts.iter_mut().position(|parts| parts.name == header.result) {
            Some(at) => &mut self.parts[at],
            None if self.parts.len() == MAX_RESULTS => return self.problem(ChunkProblem::More),
            None => {
                self.parts.push(Parts {
                    name: header.result.clone(),
                    total: header.total,
                    payloads: BTreeMap::new(),
                    highest: 0,
                });
                self.parts.last_mut().expect("just pushed")
            }
        };
        let known = parts.payloads.get(&index);
        if parts.total != header.total || known.is_some_and(|known| *known != payload) {
            return self.problem(ChunkProblem::Contradicting { line, index });
        }
        if known.is_some() {
            return self.problem(ChunkProblem::Repeated { line, index });
        }
        let after = parts.highest;
        parts.highest = after.max(index);
        parts.payloads.insert(index, payload);
        if index < after {
            self.problem(ChunkProblem::Reordered { line, index, after });
        }
    }

    fn finish(mut self) -> InBand {
        let mut results = Vec::new();
        for parts in std::mem::take(&mut self.parts) {
            let missing = missing(&parts);
            if !missing.is_empty() {
                self.problem(ChunkProblem::Missing { result: parts.name, missing, total: parts.total });
            } else if let Some(lines) = unpacked(&parts) {
                results.push(InBandResult { name: parts.name, lines });
            } else {
                self.problem(ChunkProblem::WrongHash { result: parts.name });
            }
        }
        InBand { results, problems: self.problems }
    }
}

/// The characters of base64 at the start of `text`.
fn base64_start(text: &str) -> &str {
    let end = text.bytes().position(|b| !(b.is_ascii_alphanumeric() || b"+/=".contains(&b)));
    &text[..end.unwrap_or(text.len())]
}

/// The payload of a chunk into which another line fell: its start, and its end at the start of one
/// of the lines that follow. The checksum says whether they belong together.
fn mended(header: &ChunkHeader, start: &str, following: &[ConsoleLine]) -> Option<String> {
    following.iter().take(LINES_BETWEEN).find_map(|line| {
        let end = base64_start(&line.text);
        let end = &end[..end.len().min(header.length)];
        let payload = format!("{}{end}", start.get(..header.length - end.len())?);
        header.holds(&payload).then_some(payload)
    })
}

/// First and last number of each run of chunks that did not come.
fn missing(parts: &Parts) -> Vec<(u32, u32)> {
    let mut missing = Vec::new();
    let mut due = 1;
    for &index in parts.payloads.keys() {
        if index > due {
            missing.push((due, index - 1));
        }
        due = index.saturating_add(1);
    }
    if due <= parts.total {
        missing.push((due, parts.total));
    }
    missing
}

/// The lines of a result of which every chunk came; `None` where they are not what was sent.
fn unpacked(parts: &Parts) -> Option<Vec<u8>> {
    let payload: String = parts.payloads.values().map(String::as_str).collect();
    let packed = STANDARD.decode(payload).ok()?;
    let mut lines = Vec::new();
    let limit = MAX_LOG_BYTES as u64 + 1;
    GzDecoder::new(&packed[..]).take(limit).read_to_end(&mut lines).ok()?;
    let name = hex(&Sha256::digest(&lines));
    (lines.len() <= MAX_LOG_BYTES && name[..RESULT_NAME_DIGITS] == parts.name).then_some(lines)
}

#[cfg(test)]
#[path = "chunks_tests.rs"]
mod tests;
