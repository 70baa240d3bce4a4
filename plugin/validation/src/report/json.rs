// SPDX-License-Identifier: GPL-2.0-or-later
//! Everything as one JSON value for programs. `comparisons` and `executed` are those of
//! `kernmark compare --format json`; a value that does not exist is null.

use super::story::{Gate, Story};
use super::{ReportError, Templates};
use crate::builds::BuildRecord;
use crate::changed::FunctionFate;
use crate::compare::{Comparison, ExecutedCount};
use crate::findings::{
    BootMedian, CallChange, DeferredWork, Distribution, Findings, Growth, Provenance, ReturnCount,
};
use crate::plan::Plan;
use crate::verdict::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    /// Line 1 of the text report.
    summary: String,
    verdict: &'a Verdict,
    comparisons: &'a [Comparison],
    executed: Option<&'a ExecutedCount>,
    functions: &'a [FunctionFate],
    outside_functions: &'a [(String, u32)],
    calls: &'a [CallChange],
    returns: &'a [ReturnCount],
    #[serde(skip_serializing_if = "<[DeferredWork]>::is_empty")]
    deferred_work: &'a [DeferredWork],
    growth: &'a [Growth],
    medians: &'a [BootMedian],
    distributions: &'a [Distribution],
    facts: &'a BTreeMap<String, u64>,
    gates: Vec<Gate>,
    skips: &'a [(String, String)],
    not_available: &'a [(String, String)],
    tampering: &'a [(String, String)],
    excerpt: &'a str,
    series: Series<'a>,
    plan: &'a Plan,
    protocol_sha256: &'a str,
    builds: &'a [BuildRecord],
    environment: &'a BTreeMap<String, String>,
    provenance: &'a Provenance,
}

/// What the series is, without its text.
#[derive(Serialize)]
struct Series<'a> {
    title: &'a str,
    version: u32,
    total: u32,
    cover: Option<&'a str>,
    base_commit: Option<&'a str>,
    patches: Vec<Patch<'a>>,
}

#[derive(Serialize)]
struct Patch<'a> {
    index: u32,
    subject: &'a str,
    message_id: &'a str,
    author: &'a str,
    files: &'a [String],
    diff_sha256: &'a str,
}

/// The report, indented.
pub fn render(findings: &Findings, templates: &Templates) -> Result<String, ReportError> {
    let text = super::text::render(findings, templates)?;
    let series = &findings.series;
    let report = Report {
        version: 1,
        summary: text.lines().next().unwrap_or_default().to_owned(),
        verdict: &findings.verdict,
        comparisons: &findings.comparison.comparisons,
        executed: findings.comparison.executed.as_ref(),
        functions: &findings.executed.functions,
        outside_functions: &findings.executed.outside_functions,
        calls: &findings.call_changes,
        returns: &findings.returns,
        deferred_work: &findings.deferred_work,
        growth: &findings.growth,
        medians: &findings.medians,
        distributions: &findings.distributions,
        facts: &findings.facts,
        gates: Story::of(findings).gates,
        skips: &findings.skips,
        not_available: &findings.not_available,
        tampering: &findings.tampering,
        excerpt: &findings.excerpt,
        series: Series {
            title: &series.title,
            version: series.version,
            total: series.total,
            cover: series.cover.as_ref().map(|c| c.message_id.as_str()),
            base_commit: series.base_commit.as_deref(),
            patches: series
                .patches
                .iter()
                .map(|p| Patch {
                    index: p.index,
                    subject: &p.subject,
                    message_id: &p.message_id,
                    author: &p.author,
                    files: &p.files,
                    diff_sha256: &p.diff_sha256,
                })
                .collect(),
        },
        plan: &findings.plan,
        protocol_sha256: &findings.protocol_sha256,
        builds: &findings.builds,
        environment: &findings.environment,
        provenance: &findings.provenance,
    };
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}
