// SPDX-License-Identifier: GPL-2.0-or-later
//! Result lines to a [`PointLog`]. Never fails and never panics: whatever does
//! not hold becomes a problem with its place, and the rest is still read.

use super::collect::Collector;
use super::excerpt::escape;
use super::{LogProblem, PointLog};
use kernmark_wire::{FORMAT, LineProblem, PREFIX, Record, Start, unframe};

/// Longest log that is read; a run prints well below 1 MB.
pub const MAX_LOG_BYTES: usize = 32 * 1024 * 1024;

/// Problems of one kind that are listed for one log; the rest is [`LogProblem::More`].
const MAX_ALIKE: usize = 8;

/// What the log should say of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected<'a> {
    /// Point name handed to the board binary.
    pub point: &'a str,
    /// Protocol hash handed to the board binary.
    pub protocol: &'a str,
}

/// Reads the results of one boot.
///
/// `results` is what came over the results port, `console` what came over the
/// console, both as recorded; both are hostile. A console that itself carries
/// the results (boards with one serial port) is passed as `results`, with an
/// empty `console`, after its other lines were left out.
pub fn parse_log(results: &[u8], console: &[u8], expected: Expected<'_>) -> PointLog {
    let mut reader = Reader::default();
    if results.len() > MAX_LOG_BYTES {
        reader.problem(LogProblem::TooLarge { bytes: results.len() as u64 });
    }
    let results = &results[..results.len().min(MAX_LOG_BYTES)];
    let (lines, rest) = match results.iter().rposition(|&byte| byte == b'\n') {
        Some(last) => (&results[..=last], &results[last + 1..]),
        None => (&results[..0], results),
    };
    let mut number = 0;
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        number += 1;
        reader.line(number, line);
    }
    if !rest.is_empty() && reader.ended {
        reader.bad_line(number + 1, "text after the last record".into());
    }
    reader.finish(results.is_empty(), expected);
    reader.console(console);
    let mut log = std::mem::take(&mut reader.collector).into_log();
    for problem in std::mem::take(&mut log.problems) {
        reader.problem(problem);
    }
    log.problems = reader.problems;
    if reader.more {
        log.problems.push(LogProblem::More);
    }
    log
}

#[derive(Debug, Default)]
struct Reader {
    collector: Collector,
    problems: Vec<LogProblem>,
    /// Some are not listed.
    more: bool,
    /// Records accepted.
    records: u64,
    /// Sequence number due next.
    due: u64,
    ended: bool,
}

impl Reader {
    fn problem(&mut self, problem: LogProblem) {
        let kind = std::mem::discriminant(&problem);
        let alike = self.problems.iter().filter(|known| std::mem::discriminant(*known) == kind).count();
        if alike < MAX_ALIKE {
            self.problems.push(problem);
        } else {
            self.more = true;
        }
    }

    fn bad_line(&mut self, line: u64, reason: String) {
        self.problem(LogProblem::BadLine { line, reason });
    }

    fn line(&mut self, number: u64, bytes: &[u8]) {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return self.bad_line(number, "not UTF-8".into());
        };
        match unframe(text) {
            Err(LineProblem::NotAResult) => {
                let shown = escape(text.trim_end_matches(['\r', '\n']).as_bytes());
                self.bad_line(number, format!("no result: {shown:.60}"));
            }
            Err(problem) => self.bad_line(number, escape(problem.to_string().as_bytes())),
            Ok((sequence, record)) => self.record(number, sequence, record),
        }
    }

    fn record(&mut self, line: u64, sequence: u64, record: Record) {
        if sequence != self.due {
            self.problem(LogProblem::Sequence { expected: self.due, found: sequence });
        }
        self.due = sequence.saturating_add(1);
        if self.ended {
            return self.bad_line(line, "a record after the last one".into());
        }
        if self.records == 0 && !matches!(record, Record::Start(_)) {
            self.bad_line(line, "the first record is not the start of a boot".into());
        }
        self.records += 1;
        if let Record::End(end) = &record {
            self.ended = true;
            if end.records != sequence {
                self.problem(LogProblem::Sequence { expected: end.records, found: sequence });
            }
        }
        if let Err(problem) = self.collector.take(record) {
            match problem {
                LogProblem::BadLine { reason, .. } => self.bad_line(line, reason),
                other => self.problem(other),
            }
        }
    }

    fn finish(&mut self, nothing: bool, expected: Expected<'_>) {
        if nothing {
            self.problem(LogProblem::Empty);
        } else if !self.ended {
            self.problem(LogProblem::Truncated { records: self.records });
        }
        if self.records > 0 {
            let wrong = match self.collector.start() {
                None => Some("its first record is missing".to_owned()),
                Some(start) => difference(start, expected),
            };
            if let Some(reason) = wrong {
                self.problem(LogProblem::WrongPoint { reason });
            }
        }
    }

    fn console(&mut self, console: &[u8]) {
        let prefix = PREFIX.as_bytes();
        for (number, line) in console.split(|&byte| byte == b'\n').enumerate() {
            if line.windows(prefix.len()).any(|part| part == prefix) {
                return self.problem(LogProblem::ForgedOnConsole { line: number as u64 + 1 });
            }
        }
    }
}

fn difference(start: &Start, expected: Expected<'_>) -> Option<String> {
    if start.format != FORMAT {
        return Some(format!("record format {}, this program reads {FORMAT}", start.format));
    }
    if start.point != expected.point {
        return Some(format!("point {}, expected {}", escape(start.point.as_bytes()), expected.point));
    }
    if start.protocol != expected.protocol {
        return Some(format!(
            "protocol {}, expected {}",
            escape(start.protocol.as_bytes()),
            expected.protocol
        ));
    }
    None
}

#[cfg(test)]
mod tests;
