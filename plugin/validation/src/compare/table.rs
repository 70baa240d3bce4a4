// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples and points tables (interfaces.md) to points: one row at a time.
//!
//! A table may come from any tool, so everything that would make a comparison
//! meaningless is refused here or in [`super::assemble`], with file and line.

use super::assemble::assemble;
use super::table_error::TableFault;
use super::{Point, TableError};

/// The columns that both kinds of table have.
const SHARED: [&str; 8] = ["experiment", "point", "build", "boot", "workload", "metric", "unit", "better"];
/// The columns that only a samples table has.
const SAMPLES: [&str; 2] = ["sample", "value"];
/// The columns that only a points table has.
const POINTS: [&str; 2] = ["median", "cv_percent"];

/// Where a row was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the table, as handed in.
    pub file: String,
    /// 1-based line number.
    pub line: usize,
}

impl Place {
    /// An error at this line.
    pub(super) fn error(&self, fault: TableFault) -> TableError {
        TableError { place: self.to_string(), fault }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) place: Place,
    pub(super) experiment: String,
    pub(super) point: String,
    pub(super) build: String,
    pub(super) boot: u64,
    pub(super) workload: String,
    pub(super) metric: String,
    pub(super) unit: String,
    pub(super) better: String,
    pub(super) content: Content,
}

/// What a row states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Content {
    /// One sample of a point.
    Sample { number: u64, value: f64 },
    /// A whole point.
    Summary { median: f64, cv_percent: Option<f64> },
}

/// Reads tables, given as (name, text). A point may be spread over several
/// tables; experiments stay apart, and two experiments under one name are an error.
pub fn read_tables(tables: &[(&str, &str)]) -> Result<Vec<Point>, TableError> {
    let mut rows = Vec::new();
    for (file, text) in tables {
        read_rows(file, text, &mut rows)?;
    }
    assemble(&rows)
}

fn read_rows(file: &str, text: &str, rows: &mut Vec<Row>) -> Result<(), TableError> {
    let empty = || TableError { place: file.into(), fault: TableFault::Empty };
    let mut lines =
        text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let (number, header) = lines.next().ok_or_else(empty)?;
    let columns =
        Columns::parse(header).map_err(|fault| Place { file: file.into(), line: number + 1 }.error(fault))?;
    let before = rows.len();
    for (number, line) in lines {
        let place = Place { file: file.into(), line: number + 1 };
        rows.push(columns.row(&place, line).map_err(|fault| place.error(fault))?);
    }
    if rows.len() == before { Err(empty()) } else { Ok(()) }
}

/// The header of a table: the name of each column.
struct Columns<'a> {
    names: Vec<&'a str>,
    has_samples: bool,
}

impl<'a> Columns<'a> {
    fn parse(header: &'a str) -> Result<Self, TableFault> {
        let names: Vec<&str> = header.split('\t').map(str::trim).collect();
        let known = [&SHARED[..], &SAMPLES, &POINTS].concat();
        for (n, name) in names.iter().enumerate() {
            if !known.contains(name) {
                return Err(TableFault::UnknownColumn(name.escape_debug().to_string()));
            }
            if names[..n].contains(name) {
                return Err(TableFault::RepeatedColumn((*name).into()));
            }
        }
        let has = |wanted: &[&str]| wanted.iter().any(|column| names.contains(column));
        let has_samples = has(&SAMPLES);
        if has_samples && has(&POINTS) {
            return Err(TableFault::BothKinds);
        }
        let wanted = if has_samples { SAMPLES } else { POINTS };
        let missing: Vec<&str> =
            SHARED.into_iter().chain(wanted).filter(|column| !names.contains(column)).collect();
        if missing.is_empty() {
            Ok(Self { names, has_samples })
        } else {
            Err(TableFault::MissingColumns(missing.join(" ")))
        }
    }

    fn row(&self, place: &Place, line: &str) -> Result<Row, TableFault> {
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        if cells.len() != self.names.len() {
            return Err(TableFault::CellCount { expected: self.names.len(), found: cells.len() });
        }
        let cell = |column: &'static str| -> Result<&str, TableFault> {
            let at = self.names.iter().position(|name| *name == column).expect("header was checked");
            let text = cells[at];
            if text.is_empty() && column != "cv_percent" {
                Err(TableFault::EmptyCell(column))
            } else if text.chars().any(char::is_control) {
                Err(TableFault::ControlCharacter(column))
            } else {
                Ok(text)
            }
        };
        let content = if self.has_samples {
            Content::Sample {
                number: whole("sample", cell("sample")?)?,
                value: number("value", cell("value")?)?,
            }
        } else {
            let cv = cell("cv_percent")?;
            let cv_percent = if cv.is_empty() { None } else { Some(number("cv_percent", cv)?) };
            Content::Summary { median: number("median", cell("median")?)?, cv_percent }
        };
        let better = cell("better")?;
        if better != "lower" && better != "higher" {
            return Err(TableFault::Better(better.into()));
        }
        Ok(Row {
            place: place.clone(),
            experiment: cell("experiment")?.into(),
            point: cell("point")?.into(),
            build: cell("build")?.into(),
            boot: whole("boot", cell("boot")?)?,
            workload: cell("workload")?.into(),
            metric: cell("metric")?.into(),
            unit: cell("unit")?.into(),
            better: better.into(),
            content,
        })
    }
}

/// A measured number: finite and not negative.
pub(super) fn number(column: &'static str, text: &str) -> Result<f64, TableFault> {
    let found = text.to_owned();
    match text.parse::<f64>() {
        Err(_) => Err(TableFault::NotANumber { column, found }),
        Ok(value) if !value.is_finite() => Err(TableFault::NotFinite { column, found }),
        Ok(value) if value < 0.0 => Err(TableFault::Negative { column, found }),
        Ok(value) => Ok(value),
    }
}

/// A 1-based counter.
pub(super) fn whole(column: &'static str, text: &str) -> Result<u64, TableFault> {
    match text.parse::<u64>() {
        Ok(value) if value > 0 => Ok(value),
        Ok(_) | Err(_) => Err(TableFault::NotWhole { column, found: text.into() }),
    }
}
