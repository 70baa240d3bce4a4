// SPDX-License-Identifier: GPL-2.0-or-later
//! The report for a terminal.

use super::story::Story;
use super::wrap::ascii;
use super::{ReportError, Templates};
use crate::findings::Findings;

/// The whole text; printable ASCII.
pub fn render(findings: &Findings, templates: &Templates) -> Result<String, ReportError> {
    Ok(ascii(&templates.render("text/report.txt.j2", &Story::of(findings))?))
}
