// SPDX-License-Identifier: GPL-2.0-or-later
//! Why a table is refused: where, what is wrong, what to do.

/// Why a samples or points table is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct TableError {
    /// `FILE:LINE`, or the experiment, boot and metric.
    pub place: String,
    /// What is wrong there.
    #[source]
    pub fault: TableFault,
}

/// What is wrong with a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableFault {
    /// No header or no rows.
    #[error("no rows; a table is one header line and at least one row for each boot, tab-separated")]
    Empty,
    /// A column that neither kind of table has; its name, escaped.
    #[error(
        "unknown column `{0}`; known are experiment point build boot workload metric unit better, then \
         sample value (samples table) or median cv_percent (points table), separated by tabs"
    )]
    UnknownColumn(String),
    /// A column named twice.
    #[error("column `{0}` is there twice; keep one")]
    RepeatedColumn(String),
    /// Columns that must be there.
    #[error("the header lacks {0}; add what is missing")]
    MissingColumns(String),
    /// Columns of a samples table and of a points table.
    #[error("columns of a samples and of a points table; keep sample and value, or median and cv_percent")]
    BothKinds,
    /// A row with another number of cells than the header.
    #[error("{found} cells where the header has {expected}; separate cells by single tabs")]
    CellCount {
        /// Columns of the header.
        expected: usize,
        /// Cells of the row.
        found: usize,
    },
    /// A cell without content.
    #[error("empty {0}; only cv_percent may be empty")]
    EmptyCell(&'static str),
    /// A control character, which could steer a terminal.
    #[error("control character in {0}; use plain text")]
    ControlCharacter(&'static str),
    /// Text where a number belongs.
    #[error("{column} `{found}` is not a number; use digits with a decimal point")]
    NotANumber {
        /// The column.
        column: &'static str,
        /// The text.
        found: String,
    },
    /// NaN or an infinity.
    #[error("{column} `{found}` is not finite; leave the boot out or measure it again")]
    NotFinite {
        /// The column.
        column: &'static str,
        /// The text.
        found: String,
    },
    /// A negative measurement.
    #[error("{column} `{found}` is negative; a change in percent needs positive numbers")]
    Negative {
        /// The column.
        column: &'static str,
        /// The text.
        found: String,
    },
    /// A counter that does not count.
    #[error("{column} `{found}` is not a whole number from 1 up; count boots and samples from 1")]
    NotWhole {
        /// The column.
        column: &'static str,
        /// The text.
        found: String,
    },
    /// A direction other than the two known.
    #[error("better `{0}`; say lower or higher")]
    Better(String),
    /// One metric in two units, directions or kinds of table.
    #[error("mixed {what}: `{found}` here, `{expected}` before; convert one of them")]
    Mixed {
        /// `unit`, `better` or `kind`.
        what: &'static str,
        /// What the row has.
        found: String,
        /// What rows before have.
        expected: String,
    },
    /// Rows that cannot be of one experiment; what is there twice.
    #[error(
        "{0}; these look like two experiments under one name. Experiments are never pooled: give each its own name"
    )]
    Pooled(String),
    /// A metric that other boots of the experiment have.
    #[error("unequal sides: not measured, though other boots have it; measure it in every boot or in none")]
    Unmeasured,
    /// Another number of samples than in the first boot.
    #[error("unequal sides: {found} samples, the first boot has {expected}; give every boot the same number")]
    UnequalSamples {
        /// Samples there.
        found: usize,
        /// Samples of the first point.
        expected: usize,
    },
    /// A samples table with one sample for a boot.
    #[error("a single sample shows no spread; give at least two, or write medians as a points table")]
    SingleSample,
    /// An experiment with one build; its name.
    #[error("only build {0}; a comparison needs two builds in one experiment")]
    OneBuild(String),
    /// A header that is not that of a blocks table; the columns it must have.
    #[error("not a blocks table; its columns are {0}, in this order and separated by tabs")]
    NotBlocks(String),
    /// A block of no time or no work.
    #[error("{0} is 0; a block in which nothing ran is a failure and no measurement, leave it out")]
    NothingMeasured(&'static str),
    /// A median of zero, of which nothing is a percentage.
    #[error("the median is 0; a change in percent of 0 does not exist, leave the metric out")]
    ZeroMedian,
}
