// SPDX-License-Identifier: GPL-2.0-or-later
//! Results recorded before, in another format: a board measures once, and a log, a test runner and
//! a person each want it their way.

use crate::emit::Emitter;
use crate::stop::{Exit, Stop};
use kernmark_wire::{Record, unframe};
use std::path::Path;

/// Writes the results in `file`, the JSON lines of a run, to `out`.
///
/// The last record is left to the caller, as after a run: an error here has the reason that stands
/// in the file.
///
/// # Errors
/// The file cannot be read or holds something else, or the run that wrote it failed.
pub fn show(file: &Path, out: &mut Emitter) -> Result<Exit, Stop> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Stop::Usage(format!("cannot read {}: {error}", file.display())))?;
    let mut status = None;
    for (line, due) in text.lines().zip(0..) {
        let wrong = |what: String| {
            Stop::Usage(format!("{}: line {}: {what}; run the measurement again", file.display(), due + 1))
        };
        let (number, record) = unframe(line).map_err(|problem| wrong(problem.to_string()))?;
        if number != due || status.is_some() {
            return Err(wrong(format!("record {number} is out of place")));
        }
        match record {
            Record::End(end) => status = Some(end.status),
            other => out.emit(other)?,
        }
    }
    match status.as_deref() {
        Some("ok") => Ok(Exit::Done),
        Some(status) => Err(Stop::Failed(status.trim_start_matches("failed: ").to_owned())),
        None => Err(Stop::Failed("the results stop early: whatever wrote them was ended".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::{Format, test_records};
    use std::io::Write;

    fn shown(text: &str) -> (Result<Exit, Stop>, usize) {
        let mut file = tempfile::NamedTempFile::new().expect("temporary file");
        file.write_all(text.as_bytes()).expect("written");
        let mut out = Emitter::collecting();
        let outcome = show(file.path(), &mut out);
        (outcome, out.into_records().len())
    }

    fn recorded(status: &str) -> String {
        let shared = test_records::Shared::default();
        let mut out = Emitter::new(Format::Jsonl, Box::new(shared.clone()), false);
        for record in test_records::some() {
            out.emit(record).expect("memory");
        }
        out.end(status).expect("memory");
        shared.text()
    }

    #[test]
    fn everything_recorded_is_shown_with_its_status() {
        let (outcome, records) = shown(&recorded("ok"));
        assert!(matches!(outcome, Ok(Exit::Done)), "{outcome:?}");
        assert_eq!(records, test_records::some().len());
        let (outcome, records) = shown(&recorded("failed: rmdir: EBUSY"));
        assert!(matches!(&outcome, Err(Stop::Failed(reason)) if reason == "rmdir: EBUSY"), "{outcome:?}");
        assert_eq!(records, test_records::some().len());
    }

    #[test]
    fn what_is_no_whole_result_is_named() {
        let whole = recorded("ok");
        let without_end: String = whole.split_inclusive('\n').take(2).collect();
        let without_first: String = whole.split_inclusive('\n').skip(1).collect();
        for (text, reason) in [
            ("", "stop early"),
            (&without_end, "stop early"),
            (&without_first, "line 1: record 1 is out of place"),
            (&whole.replace("400", "401"), "line 1: checksum"),
            ("hello\n", "line 1: not a result line"),
            (&format!("{whole}{whole}"), "is out of place"),
        ] {
            let (outcome, _) = shown(text);
            assert!(outcome.is_err_and(|stop| stop.to_string().contains(reason)), "{reason}");
        }
    }
}
