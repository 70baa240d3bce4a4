// SPDX-License-Identifier: GPL-2.0-or-later
//! Test cases: one for each metric, check and skip. As lines of a `result.txt` for those who
//! follow the test-definitions of Linaro, and as signals for LAVA.

use super::{median, summaries};
use kernmark_wire::Record;
use std::fmt::{self, Write};

/// Name of the case that says whether the run ended as it should.
const WHOLE_RUN: &str = "kernmark-board";

/// Significant digits of a measurement; medians of integers over some hundred operations have no more.
const DIGITS: usize = 9;

/// What became of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Letters, digits, `-`, `_` and dots.
    pub name: String,
    /// `pass`, `fail` or `skip`.
    pub result: &'static str,
    /// Decimal number and its unit.
    pub measurement: Option<(String, String)>,
}

/// Every case; the last one says whether the run ended as it should.
pub fn cases(records: &[Record], status: &str) -> Vec<Case> {
    let judged = |good: bool| if good { "pass" } else { "fail" };
    let mut cases: Vec<Case> = summaries(records)
        .into_iter()
        .filter_map(|summary| {
            let value = median(summary.values)?;
            Some(Case {
                name: case_name(&[&summary.workload, &summary.metric]),
                result: "pass",
                measurement: Some((decimal(value), word(&summary.unit))),
            })
        })
        .collect();
    cases.extend(records.iter().filter_map(|record| {
        let (name, result) = match record {
            Record::Check(c) => (case_name(&[&c.workload, &c.arm, &c.name]), judged(c.pass)),
            Record::Skip(s) => (case_name(&[&s.workload, &s.arm]), "skip"),
            _ => return None,
        };
        Some(Case { name, result, measurement: None })
    }));
    cases.push(Case { name: WHOLE_RUN.into(), result: judged(status == "ok"), measurement: None });
    cases
}

/// Lines of a `result.txt`: name, result, measurement and unit, separated by blanks.
pub fn render(records: &[Record], status: &str) -> String {
    lines(records, status, |case, text| {
        write!(text, "{} {}", case.name, case.result)?;
        case.measurement.as_ref().map_or(Ok(()), |(value, unit)| write!(text, " {value} {unit}"))
    })
}

/// `<LAVA_SIGNAL_TESTCASE ...>` lines. Newer LAVA ends a whole definition at one it cannot read,
/// so no value has a blank, an equals sign or an angle bracket.
pub fn render_signals(records: &[Record], status: &str) -> String {
    lines(records, status, |case, text| {
        write!(text, "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={} RESULT={}", case.name, case.result)?;
        if let Some((value, unit)) = &case.measurement {
            write!(text, " UNITS={unit} MEASUREMENT={value}")?;
        }
        write!(text, ">")
    })
}

fn lines(
    records: &[Record],
    status: &str,
    line: impl Fn(&Case, &mut String) -> Result<(), fmt::Error>,
) -> String {
    let mut text = String::new();
    for case in cases(records, status) {
        line(&case, &mut text).expect("writing to a string");
        text.push('\n');
    }
    text
}

/// Parts joined by dots.
fn case_name(parts: &[&str]) -> String {
    let kept: Vec<String> = parts.iter().filter(|p| !p.is_empty()).map(|p| word(p)).collect();
    kept.join(".")
}

/// Whatever LAVA does not take in a name becomes `_`.
fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

/// Plain decimal notation with [`DIGITS`] significant digits. LAVA keeps 20 digits before the point
/// and 10 behind it, so a ratio of 1 to 1000 arrives as it is.
fn decimal(value: f64) -> String {
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    // -300 to 308: fits.
    let behind = (DIGITS as i32 - 1 - magnitude as i32).clamp(0, 10) as usize;
    let text = format!("{value:.behind$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_and_skips_are_cases() {
        let records = crate::emit::test_records::some();
        assert_eq!(
            render_signals(&records, "ok").lines().collect::<Vec<_>>(),
            [
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernfs.rmdir.remove RESULT=pass UNITS=ns MEASUREMENT=100.25>",
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernfs.rmdir.bare_remove RESULT=pass UNITS=ns MEASUREMENT=75>",
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernfs.rmdir.scx-cb RESULT=skip>",
                "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=kernmark-board RESULT=pass>",
            ]
        );
        assert_eq!(
            render(&records, "failed: gone").lines().collect::<Vec<_>>(),
            [
                "kernfs.rmdir.remove pass 100.25 ns",
                "kernfs.rmdir.bare_remove pass 75 ns",
                "kernfs.rmdir.scx-cb skip",
                "kernmark-board fail",
            ]
        );
    }

    #[test]
    fn odd_names_become_harmless() {
        assert_eq!(case_name(&["a b>", "", "c"]), "a_b_.c");
        assert_eq!(word("ns per op=<x>"), "ns_per_op__x_");
    }

    #[test]
    fn numbers_are_decimal_and_keep_their_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1_234.567_891_234, "1234.56789"),
            (0.012_345_678_912, "0.0123456789"),
            (18_446_744_073_709_551_615.0, "18446744073709551616"),
            (1e-12, "0"),
            (-2.5, "-2.5"),
            (400.0, "400"),
        ] {
            assert_eq!(decimal(value), text);
        }
    }
}
