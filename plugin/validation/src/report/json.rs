// SPDX-License-Identifier: GPL-2.0-or-later
//! All findings as one JSON value.

use super::{ReportError, Templates};
use crate::findings::Findings;

/// `findings`, indented.
pub fn render(findings: &Findings, _: &Templates) -> Result<String, ReportError> {
    Ok(serde_json::to_string_pretty(findings)? + "\n")
}
