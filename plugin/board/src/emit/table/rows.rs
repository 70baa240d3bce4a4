// SPDX-License-Identifier: GPL-2.0-or-later
//! Rows of the table: median, spread and range of the samples of each metric.

use super::scale::{Scale, scaled};
use crate::emit::median;
use kernmark_wire::Record;

/// One metric of one arm.
pub struct Row {
    workload: String,
    arm: String,
    metric: String,
    unit: String,
    /// Sample values: mean over the operations of a sample.
    values: Vec<f64>,
}

/// Every metric among `records`, those of one arm together, in the order of their first sample.
pub fn rows(records: &[Record]) -> Vec<Row> {
    let mut found: Vec<Row> = Vec::new();
    for record in records {
        let Record::Sample(s) = record else { continue };
        let value = s.sum as f64 / s.operations.max(1) as f64;
        let same = |row: &&mut Row| row.workload == s.workload && row.arm == s.arm && row.metric == s.metric;
        match found.iter_mut().find(same) {
            Some(row) => row.values.push(value),
            None => found.push(Row {
                workload: s.workload.clone(),
                arm: s.arm.clone(),
                metric: s.metric.clone(),
                unit: s.unit.clone(),
                values: vec![value],
            }),
        }
    }
    found
}

/// Header and rows, aligned; a name that is that of the row above is left out.
pub fn lines(rows: &[Row]) -> Vec<String> {
    let header = ["workload", "arm", "metric", "median", "CV", "range", "samples"].map(str::to_owned);
    let mut cells = vec![header];
    for (number, row) in rows.iter().enumerate() {
        let above = number.checked_sub(1).map(|n| &rows[n]);
        let same_workload = above.is_some_and(|a| a.workload == row.workload);
        let same_arm = same_workload && above.is_some_and(|a| a.arm == row.arm);
        let shown = |name: &str, hide: bool| if hide { String::new() } else { name.to_owned() };
        let [middle, spread, range] = numbers(row);
        cells.push([
            shown(&row.workload, same_workload),
            shown(&row.arm, same_arm),
            row.metric.clone(),
            middle,
            spread,
            range,
            row.values.len().to_string(),
        ]);
    }
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let line = |row: &[String; 7]| {
        let cell = |(at, (text, width)): (usize, (&String, &usize))| {
            // Names to the left, numbers to the right.
            if at < 3 { format!("{text:<width$}") } else { format!("{text:>width$}") }
        };
        row.iter().zip(&widths).enumerate().map(cell).collect::<Vec<_>>().join("  ")
    };
    cells.iter().map(line).collect()
}

/// Median, coefficient of variation and range.
fn numbers(row: &Row) -> [String; 3] {
    let middle = median(row.values.clone()).unwrap_or_default();
    let (low, high) = row.values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
    let spread = coefficient_of_variation_percent(&row.values)
        .map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %"));
    let scale = Scale::of(&row.unit, middle);
    let range = if row.values.len() == 1 {
        scale.with_unit(low)
    } else {
        format!("{} .. {}", scale.number(low), scale.with_unit(high))
    };
    [scaled(&row.unit, middle), spread, range]
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
    use super::*;

    #[test]
    fn spread_needs_two_values() {
        assert_eq!(coefficient_of_variation_percent(&[1.0]), None);
        let cv = coefficient_of_variation_percent(&[1.0, 3.0]).expect("two values");
        assert!((cv - 70.710_678).abs() < 1e-5);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |workload: &str, arm: &str, values: &[f64]| Row {
            workload: workload.into(),
            arm: arm.into(),
            metric: "remove".into(),
            unit: "ns".into(),
            values: values.to_vec(),
        };
        let rows = [
            row("kernfs.rmdir", "scx-off", &[6500.0, 6600.0, 6551.0]),
            row("kernfs.rmdir", "scx-off", &[12.0]),
            row("control.getppid", "plain", &[1_234_567.0, 1_300_000.0]),
        ];
        let lines = lines(&rows);
        let expected = [
            "workload         arm      metric    median     CV              range  samples",
            "kernfs.rmdir     scx-off  remove   6.55 us  0.8 %    6.50 .. 6.60 us        3",
            "                          remove  12.00 ns      -           12.00 ns        1",
            "control.getppid  plain    remove   1.27 ms  3.7 %    1.23 .. 1.30 ms        2",
        ];
        let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            lines.iter().map(|l| squeeze(l)).collect::<Vec<_>>(),
            expected.iter().map(|l| squeeze(l)).collect::<Vec<_>>()
        );
        let lengths: Vec<usize> = lines.iter().map(|line| line.len()).collect();
        assert!(lengths.iter().all(|length| *length == lengths[0]), "{lines:#?}");
    }
}
