// SPDX-License-Identifier: GPL-2.0-or-later
//! The table for people: median, spread and range of the samples of each metric.

use super::{median, summaries};
use kernmark_wire::Record;
use std::fmt::Write;

/// The whole text.
pub fn render(records: &[Record], status: &str) -> String {
    let mut text = String::new();
    let mut line = |l: String| writeln!(text, "{l}").expect("writing to a string");
    let summaries = summaries(records);
    // Beside numbers, the record of the machine would bury them.
    let only_environment = records.iter().all(|r| matches!(r, Record::Environment(_)));
    if !summaries.is_empty() {
        line(format!(
            "{:<18} {:<16} {:>12} {:>7} {:>12} {:>12} unit",
            "workload", "metric", "median", "CV %", "min", "max"
        ));
    }
    for s in summaries {
        let (low, high) = s.values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        let cv = coefficient_of_variation_percent(&s.values)
            .map_or_else(|| "-".to_owned(), |cv| format!("{cv:.2}"));
        let middle = median(s.values).unwrap_or_default();
        line(format!(
            "{:<18} {:<16} {middle:>12.3} {cv:>7} {low:>12.3} {high:>12.3} {}",
            s.workload, s.metric, s.unit
        ));
    }
    for record in records {
        match record {
            Record::Fact(f) => line(format!("{} {}: {} = {}", f.workload, f.arm, f.name, f.value)),
            Record::Calls(c) => {
                for (function, caller, count) in &c.calls {
                    let per = *count as f64 / c.operations.max(1) as f64;
                    line(format!(
                        "{} {} {}: {per:.3} x {function} <- {caller}",
                        c.workload, c.arm, c.operation
                    ));
                }
            }
            Record::Returns(r) => {
                line(format!(
                    "{} {} {}: {} returned NULL {} times, something {} times",
                    r.workload, r.arm, r.operation, r.function, r.null, r.other
                ));
            }
            Record::NotAvailable(n) => {
                line(format!("{} {}: {} not available: {}", n.workload, n.arm, n.what, n.reason))
            }
            Record::Check(c) if !c.pass => {
                line(format!("FAILED {} {} {}: {}", c.workload, c.arm, c.name, c.detail))
            }
            Record::Skip(s) => line(format!("skip {} {}: {}", s.workload, s.arm, s.reason)),
            // Numbers of a clock that is not what it should be are not to be taken at face value.
            Record::Environment(e)
                if e.key == "clock.instead" || (e.key == "clock.gate" && e.value != "pass") =>
            {
                line(format!("caution: {} {}", e.key, e.value));
            }
            Record::Environment(e) if only_environment => line(format!("{} = {}", e.key, e.value)),
            _ => {}
        }
    }
    if status != "ok" {
        line(status.to_owned());
    }
    text
}

/// Sample CV; `None` of fewer than two values or a mean of zero.
fn coefficient_of_variation_percent(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some(100.0 * (squares / (n - 1.0)).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_person_sees_numbers_and_what_is_missing() {
        let mut records = crate::emit::test_records::some();
        for (key, value) in [("clock.gate", "fail: hpet"), ("kernel.release", "6.12")] {
            let (when, key, value) = ("before".into(), key.into(), value.into());
            records.push(kernmark_wire::Record::Environment(kernmark_wire::Environment { when, key, value }));
        }
        let text = super::render(&records, "failed: gone");
        assert!(!text.contains("kernel.release"), "buries the numbers:\n{text}");
        for expected in [
            "median",
            "100.250",
            "bare_remove",
            "skip kernfs.rmdir scx-cb: no sched_ext",
            "caution: clock.gate fail: hpet",
            "failed: gone",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
    }

    #[test]
    fn spread_needs_two_values() {
        assert_eq!(super::coefficient_of_variation_percent(&[1.0]), None);
        let cv = super::coefficient_of_variation_percent(&[1.0, 3.0]).expect("two values");
        assert!((cv - 70.710_678).abs() < 1e-5);
    }
}
