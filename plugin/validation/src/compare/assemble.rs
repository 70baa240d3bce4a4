// SPDX-License-Identifier: GPL-2.0-or-later
//! Rows of tables to points: refuses what cannot be compared.

use super::summary::median;
use super::table::{Content, Row};
use super::table_error::TableFault;
use super::{Measurement, Point, TableError, Values};
use std::collections::BTreeMap;

/// The rows of one metric of one point, in the order read.
struct Series<'a> {
    first: &'a Row,
    rows: Vec<&'a Row>,
}

impl Series<'_> {
    fn error(&self, fault: TableFault) -> TableError {
        let Row { experiment, boot, point, workload, metric, .. } = self.first;
        TableError { place: format!("{experiment}, boot {boot} ({point}), {workload} {metric}"), fault }
    }
}

/// The rows of one point.
struct Draft<'a> {
    first: &'a Row,
    series: Vec<Series<'a>>,
}

/// Points in the order of their first row, metrics in theirs.
pub(super) fn assemble(rows: &[Row]) -> Result<Vec<Point>, TableError> {
    check_series(rows)?;
    let mut drafts: Vec<Draft> = Vec::new();
    for row in rows {
        check_identity(&drafts, row)?;
        let known = drafts
            .iter()
            .position(|d| (&d.first.experiment, &d.first.point) == (&row.experiment, &row.point));
        let draft = match known {
            Some(at) => &mut drafts[at],
            None => {
                drafts.push(Draft { first: row, series: Vec::new() });
                drafts.last_mut().expect("just pushed")
            }
        };
        match draft
            .series
            .iter_mut()
            .find(|s| (&s.first.workload, &s.first.metric) == (&row.workload, &row.metric))
        {
            Some(series) => series.rows.push(row),
            None => draft.series.push(Series { first: row, rows: vec![row] }),
        }
    }
    let points = drafts.iter().map(finish).collect::<Result<Vec<Point>, TableError>>()?;
    check_sides(&points)?;
    Ok(points)
}

/// One unit, direction and kind for each metric of an experiment.
fn check_series(rows: &[Row]) -> Result<(), TableError> {
    let mut first: BTreeMap<(&str, &str, &str), &Row> = BTreeMap::new();
    for row in rows {
        let before = *first.entry((&row.experiment, &row.workload, &row.metric)).or_insert(row);
        for (what, found, expected) in [
            ("unit", row.unit.as_str(), before.unit.as_str()),
            ("better", &row.better, &before.better),
            ("kind", kind(row), kind(before)),
        ] {
            if found != expected {
                let fault = TableFault::Mixed { what, found: found.into(), expected: expected.into() };
                return Err(TableError {
                    place: format!("{}: {} {}", row.place, row.workload, row.metric),
                    fault,
                });
            }
        }
    }
    Ok(())
}

fn kind(row: &Row) -> &'static str {
    match row.content {
        Content::Sample { .. } => "samples",
        Content::Summary { .. } => "medians",
    }
}

/// A point is one boot of one build, and a place in the order holds one point.
fn check_identity(drafts: &[Draft], row: &Row) -> Result<(), TableError> {
    let conflict =
        drafts.iter().map(|d| d.first).filter(|f| f.experiment == row.experiment).find_map(|first| {
            if first.point == row.point && first.boot != row.boot {
                Some(format!("point {} is boot {} and boot {}", row.point, first.boot, row.boot))
            } else if first.point == row.point && first.build != row.build {
                Some(format!("point {} is build {} and build {}", row.point, first.build, row.build))
            } else if first.point != row.point && first.boot == row.boot {
                Some(format!("boot {} is point {} and point {}", row.boot, first.point, row.point))
            } else {
                None
            }
        });
    conflict.map_or(Ok(()), |conflict| Err(pooled(row, conflict)))
}

fn pooled(row: &Row, conflict: String) -> TableError {
    row.place.error(TableFault::Pooled(format!("{}: {conflict}", row.experiment)))
}

fn finish(draft: &Draft) -> Result<Point, TableError> {
    let first = draft.first;
    let measurements = draft.series.iter().map(measurement).collect::<Result<_, _>>()?;
    Ok(Point {
        experiment: first.experiment.clone(),
        point: first.point.clone(),
        build: first.build.clone(),
        boot: first.boot,
        seed: None,
        measurements,
    })
}

fn measurement(series: &Series) -> Result<Measurement, TableError> {
    let first = series.first;
    let name = format!("{} {}", first.workload, first.metric);
    let mut samples: BTreeMap<u64, f64> = BTreeMap::new();
    let mut summary = None;
    for row in &series.rows {
        match row.content {
            Content::Sample { number, value } => {
                if samples.insert(number, value).is_some() {
                    return Err(pooled(
                        row,
                        format!("sample {number} of {name} is there twice in {}", row.point),
                    ));
                }
            }
            Content::Summary { median, cv_percent } => {
                if summary.replace(Values::Summary { median, cv_percent }).is_some() {
                    return Err(pooled(row, format!("{name} is there twice in {}", row.point)));
                }
            }
        }
    }
    let values = summary.unwrap_or_else(|| Values::Samples(samples.into_values().collect()));
    let middle = match &values {
        Values::Samples(samples) => median(samples),
        Values::Summary { median, .. } => Some(*median),
    };
    if middle == Some(0.0) {
        return Err(series.error(TableFault::ZeroMedian));
    }
    Ok(Measurement {
        workload: first.workload.clone(),
        metric: first.metric.clone(),
        unit: first.unit.clone(),
        better: first.better.clone(),
        values,
        waiting: Vec::new(),
    })
}

/// Every boot of an experiment has the same metrics and as many samples, and there are two builds.
fn check_sides(points: &[Point]) -> Result<(), TableError> {
    for point in points {
        let peers = || points.iter().filter(|p| p.experiment == point.experiment);
        if peers().all(|p| p.build == point.build) {
            return Err(TableError {
                place: point.experiment.clone(),
                fault: TableFault::OneBuild(point.build.clone()),
            });
        }
        for wanted in &point.measurements {
            if let Some(lacking) = peers().find(|p| find(p, wanted).is_none()) {
                return Err(fault_at(lacking, wanted, TableFault::Unmeasured));
            }
            let expected = peers().next().and_then(|p| find(p, wanted)).map_or(0, count);
            if count(wanted) != expected {
                return Err(fault_at(
                    point,
                    wanted,
                    TableFault::UnequalSamples { found: count(wanted), expected },
                ));
            }
            if matches!(&wanted.values, Values::Samples(samples) if samples.len() == 1) {
                return Err(fault_at(point, wanted, TableFault::SingleSample));
            }
        }
    }
    Ok(())
}

fn fault_at(point: &Point, measurement: &Measurement, fault: TableFault) -> TableError {
    let place = format!(
        "{}, boot {} ({}), {} {}",
        point.experiment, point.boot, point.point, measurement.workload, measurement.metric
    );
    TableError { place, fault }
}

fn find<'a>(point: &'a Point, wanted: &Measurement) -> Option<&'a Measurement> {
    point.measurements.iter().find(|m| (&m.workload, &m.metric) == (&wanted.workload, &wanted.metric))
}

fn count(measurement: &Measurement) -> usize {
    match &measurement.values {
        Values::Samples(samples) => samples.len(),
        Values::Summary { .. } => 1,
    }
}
