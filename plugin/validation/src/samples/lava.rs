// SPDX-License-Identifier: GPL-2.0-or-later
//! The console out of the log of a LAVA job: one YAML mapping a line with `dt`, `lvl` and `msg`, as
//! a list from the server (`- {...}`) or bare from lava-run. It is not JSON: the messages of other
//! levels have tags, and those of the console have YAML's own escapes.

use super::chunk_problem::ChunkProblem;
use super::chunks::{ConsoleLine, InBand, console_lines, results_among};
use serde::Deserialize;

/// Level of the lines that the board printed.
const CONSOLE: &str = "target";
/// What stands between the fields of every record; a line without it belongs to no LAVA log.
const LEVEL_KEY: &str = "\"lvl\": ";

/// The fields that matter of a record whose message is text.
#[derive(Debug, Deserialize)]
struct Entry {
    msg: String,
}

/// The results in the log of a LAVA job or in a plain console, whichever `log` is.
pub fn results_in_log(log: &[u8]) -> InBand {
    if !is_lava_log(log) {
        return results_among(&console_lines(log));
    }
    let (lines, strange) = console_of(log);
    let mut found = results_among(&lines);
    found.problems.extend(strange);
    found
}

/// Whether `log` is one of LAVA: its first line that is not empty is a record.
fn is_lava_log(log: &[u8]) -> bool {
    let first = log.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    first.is_some_and(|line| {
        let line = line.strip_prefix(b"- ").unwrap_or(line);
        line.starts_with(b"{\"dt\": ")
    })
}

/// The lines of the console in a LAVA log, and the lines that are no records.
pub fn console_of(log: &[u8]) -> (Vec<ConsoleLine>, Vec<ChunkProblem>) {
    let mut lines = Vec::new();
    let mut strange = Vec::new();
    for record in console_lines(log) {
        let text = record.text.trim();
        let text = text.strip_prefix("- ").unwrap_or(text);
        if text.is_empty() {
            continue;
        }
        let level = text.split_once(LEVEL_KEY).map(|(_, rest)| rest);
        let console = level.is_some_and(|rest| rest.trim_start_matches('"').starts_with(CONSOLE));
        match (level, console.then(|| serde_yaml::from_str::<Entry>(text))) {
            (Some(_), None) => {}
            (Some(_), Some(Ok(entry))) => lines.push(ConsoleLine { number: record.number, text: entry.msg }),
            (None, _) | (Some(_), Some(Err(_))) if strange.len() < MAX_STRANGE => {
                strange.push(ChunkProblem::NoRecord { line: record.number });
            }
            (None, _) | (Some(_), Some(Err(_))) => {}
        }
    }
    (lines, strange)
}

/// Lines that are no records and are listed for one log.
const MAX_STRANGE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// As `lava-run` and the server wrote them, down to escapes and tags.
    const RECORDS: &str = concat!(
        r#"{"dt": "2026-11-30T21:20:52.093953", "lvl": "results", "msg": {"case": "a", "endtc": ! "256", "measurement": ! "12.5"}}"#,
        "\n",
        r#"{"dt": "2026-11-30T21:20:52.469724", "lvl": "target", "msg": "\ec\e[?7l\xFC \"quoted\" \\ \t \u2028"}"#,
        "\n",
        r#"{"dt": "2026-11-30T21:20:52.470278", "lvl": "target", "msg": ""}"#,
        "\n",
        r#"{"dt": "2026-11-30T21:20:52.470279", "lvl": "input", "msg": "export SHELL=/bin/sh\n"}"#,
        "\n",
    );

    #[test]
    fn only_the_console_is_taken_with_its_escapes_undone() {
        let listed: String = RECORDS.lines().map(|line| format!("- {line}\n")).collect();
        for log in [RECORDS, &listed] {
            let (lines, strange) = console_of(log.as_bytes());
            assert_eq!(strange, []);
            assert_eq!(
                lines,
                [
                    ConsoleLine {
                        number: 2,
                        text: "\u{1b}c\u{1b}[?7l\u{fc} \"quoted\" \\ \t \u{2028}".into()
                    },
                    ConsoleLine { number: 3, text: String::new() },
                ]
            );
        }
    }

    #[test]
    fn lines_that_are_no_records_are_named() {
        let log = format!(
            "{RECORDS}<html>502 Bad Gateway</html>\n{{\"dt\": \"x\", \"lvl\": \"target\", \"msg\": \"a"
        );
        assert!(is_lava_log(log.as_bytes()));
        let (lines, strange) = console_of(log.as_bytes());
        assert_eq!(lines.len(), 2);
        assert_eq!(strange, [ChunkProblem::NoRecord { line: 5 }, ChunkProblem::NoRecord { line: 6 }]);
        assert_eq!(results_in_log(log.as_bytes()).problems, strange);
    }

    #[test]
    fn a_plain_console_is_none_of_lava() {
        for log in ["", "\n", "[    0.0] Linux version 6.12\r\n", "{\"dtx\": 1}\n"] {
            assert!(!is_lava_log(log.as_bytes()), "{log}");
            assert_eq!(results_in_log(log.as_bytes()), InBand::default());
        }
    }
}
