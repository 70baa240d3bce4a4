// SPDX-License-Identifier: GPL-2.0-or-later
//! LAVA test case signals: one for each metric, check and skip.

use super::{median, summaries};
use kernmark_wire::Record;
use std::fmt::Write;

/// One `<LAVA_SIGNAL_TESTCASE ...>` line for each case; the last one says whether the run ended
/// as it should.
pub fn render(records: &[Record], status: &str) -> String {
    let mut text = String::new();
    for summary in summaries(records) {
        let case = case_name(&[&summary.workload, &summary.metric]);
        let value = median(summary.values).unwrap_or_default();
        let unit = &summary.unit;
        writeln!(
            text,
            "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={case} RESULT=pass UNITS={unit} MEASUREMENT={value:.3}>"
        )
        .expect("writing to a string");
    }
    for record in records {
        let (case, result) = match record {
            Record::Check(c) => {
                (case_name(&[&c.workload, &c.arm, &c.name]), if c.pass { "pass" } else { "fail" })
            }
            Record::Skip(s) => (case_name(&[&s.workload, &s.arm]), "skip"),
            _ => continue,
        };
        writeln!(text, "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={case} RESULT={result}>")
            .expect("writing to a string");
    }
    let result = if status == "ok" { "pass" } else { "fail" };
    writeln!(text, "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernmark-board RESULT={result}>")
        .expect("writing to a string");
    text
}

/// Parts joined by dots; whatever LAVA does not take in a name becomes `_`.
fn case_name(parts: &[&str]) -> String {
    let kept: Vec<String> = parts
        .iter()
        .filter(|p| !p.is_empty())
        .map(|p| {
            p.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
        })
        .collect();
    kept.join(".")
}

#[cfg(test)]
mod tests {
    #[test]
    fn metrics_and_skips_are_cases() {
        let text = super::render(&crate::emit::test_records::some(), "ok");
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernfs.rmdir.remove RESULT=pass UNITS=ns MEASUREMENT=100.250>",
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernfs.rmdir.bare_remove RESULT=pass UNITS=ns MEASUREMENT=75.000>",
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernfs.rmdir.scx-cb RESULT=skip>",
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernmark-board RESULT=pass>",
            ]
        );
    }

    #[test]
    fn odd_names_become_harmless() {
        assert_eq!(super::case_name(&["a b>", "", "c"]), "a_b_.c");
    }
}
