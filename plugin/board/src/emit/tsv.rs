// SPDX-License-Identifier: GPL-2.0-or-later
//! The samples table. Experiment, point, build and boot of a run by hand are `-`
//! or 1; `kernmark` fills them in for its own points.

use super::metric_with_arm;
use kernmark_wire::Record;
use std::fmt::Write;

/// The table with its header line; skipped workloads and a failure are comments.
pub fn render(records: &[Record], status: &str) -> String {
    let mut text =
        String::from("experiment\tpoint\tbuild\tboot\tworkload\tmetric\tunit\tbetter\tsample\tvalue\n");
    let mut point = "-";
    for record in records {
        match record {
            Record::Start(start) if !start.point.is_empty() => point = &start.point,
            Record::Sample(s) => {
                let metric = metric_with_arm(&s.workload, &s.arm, &s.metric);
                let value = s.sum as f64 / s.operations.max(1) as f64;
                let (workload, unit, better, sample) = (&s.workload, &s.unit, &s.better, s.sample);
                writeln!(text, "-\t{point}\t-\t1\t{workload}\t{metric}\t{unit}\t{better}\t{sample}\t{value}")
                    .expect("writing to a string");
            }
            Record::Skip(skip) => {
                writeln!(text, "# skip {} {}: {}", skip.workload, skip.arm, skip.reason)
                    .expect("writing to a string");
            }
            _ => {}
        }
    }
    if status != "ok" {
        writeln!(text, "# {status}").expect("writing to a string");
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_sample_is_a_row() {
        let text = super::render(&crate::emit::test_records::some(), "failed: gone");
        let rows: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            rows,
            [
                "-\t-\t-\t1\tkernfs.rmdir\tremove\tns\tlower\t1\t100",
                "-\t-\t-\t1\tkernfs.rmdir\tremove\tns\tlower\t2\t100.5",
                "-\t-\t-\t1\tkernfs.rmdir\tbare_remove\tns\tlower\t1\t75",
                "# skip kernfs.rmdir scx-cb: no sched_ext",
                "# failed: gone",
            ]
        );
    }
}
