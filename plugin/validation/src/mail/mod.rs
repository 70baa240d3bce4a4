// SPDX-License-Identifier: GPL-2.0-or-later
//! Mail bytes to patch series: message, thread, series. Never panics; whatever
//! is wrong with the input becomes a problem in the result.

mod series;

pub use series::{CoverLetter, Patch, Series, SeriesFile};
