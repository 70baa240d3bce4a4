// SPDX-License-Identifier: GPL-2.0-or-later
//! What a report tells, as values for the templates: which finding comes first,
//! which rows the table has, which calls changed. Wording stands in the templates.

use super::names::metric_name;
use super::wrap::shorten;
use crate::compare::{Comparison, VerdictName};
use crate::findings::Findings;
use crate::plan::Evidence;
use crate::verdict::Outcome;
use serde::Serialize;

/// Changed calls named in a mail.
const CALLS_SHOWN: usize = 6;

/// Everything the templates take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Story {
    /// `LONGER`, `SAME`, `NOT BUILT`, `INVALID` ...
    pub verdict: String,
    /// Whether the numbers are instructions of an emulator.
    pub path: bool,
    /// Title and version of the series.
    pub title: String,
    /// The metric that speaks first.
    pub finding: Option<Finding>,
    /// Its values by build.
    pub table: Option<Table>,
    /// Calls per operation that changed in the operation of the finding.
    pub calls: Vec<Call>,
    /// Changed calls that are not shown.
    pub more_calls: usize,
    /// All changed calls of all operations, for pages.
    pub all_calls: Vec<Call>,
    /// Metrics that stayed the same: (bound in percent, names).
    pub same: Vec<(String, String)>,
    /// Metrics that changed beside the finding, or are not decided.
    pub others: Vec<Other>,
    /// `Executed: 7 of the 8 functions you change; ...`.
    pub executed: String,
    /// None of the changed functions ran, and there are some, or there are none at all.
    pub nothing_executed: bool,
    /// How many functions the series changes.
    pub changed_functions: usize,
    /// Reasons of the verdict.
    pub reasons: Vec<String>,
    /// Workloads and arms that did not run.
    pub skips: Vec<(String, String)>,
    /// Observations that could not be made.
    pub not_available: Vec<(String, String)>,
    /// Why boards should measure it too.
    pub for_boards: Vec<String>,
    /// What builds did that no build should.
    pub tampering: Vec<(String, String)>,
    /// The console around trouble, escaped.
    pub excerpt: String,
    /// Tree and its commit.
    pub tree: String,
    /// The compiler, short.
    pub compiler: String,
    /// Boots that were compared.
    pub boots: usize,
    /// Order of one palindrome, as labels.
    pub order: String,
    /// First digits of the protocol hash.
    pub protocol: String,
    /// Command that repeats it.
    pub repeat: String,
    /// `about 5 minutes`.
    pub duration: String,
    /// Where the bundle is.
    pub bundle_url: Option<String>,
    /// Who runs this.
    pub operator: Option<String>,
    /// Version of kernmark.
    pub version: String,
}

/// The metric that speaks first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// `rmdir() of an empty cgroup`.
    pub operation: String,
    /// `rmdir()`.
    pub short: String,
    /// Instructions more or fewer, without sign.
    pub amount: String,
    /// `more` or `fewer`.
    pub direction: String,
    /// `+7.6%`.
    pub percent: String,
    /// `this patch` or `this series`.
    pub by: String,
    /// Label of the patch that does most of it; empty for the series as a whole.
    pub patch: String,
    /// What each object costs: (amount, how many, what).
    pub per_object: Option<(String, String, String)>,
    /// `grows with the number of kernfs nodes: 148 for each, and 182 that do not depend on it`.
    pub growth: Option<GrowthStory>,
    /// The operation sleeps where it did not before.
    pub new_waiting: bool,
    /// All seeds agree to the instruction.
    pub exact: bool,
}

/// The growth rule from two sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GrowthStory {
    /// `kernfs node`.
    pub object: String,
    /// Instructions for each object.
    pub per_object: String,
    /// Instructions whatever the number.
    pub constant: String,
    /// `19 and 26`.
    pub sizes: String,
}

/// Values of the finding's metric by build.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// `rmdir()`.
    pub short: String,
    /// Rows, base first.
    pub rows: Vec<Row>,
    /// Every boot of a build agrees.
    pub same_in_all_boots: bool,
}

/// One build's row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `base 6.12.117`, `+ 1/2 kernfs: keep attributes ..`.
    pub name: String,
    /// The median.
    pub value: String,
    /// Against the row above; empty for base.
    pub difference: String,
    /// The same in percent; empty for base.
    pub percent: String,
}

/// A function whose calls per operation changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// `rmdir`.
    pub operation: String,
    /// The function.
    pub function: String,
    /// Its caller, where told apart.
    pub caller: Option<String>,
    /// Calls in base.
    pub before: String,
    /// Calls with the whole series.
    pub after: String,
    /// Calls that return NULL with the whole series, where known.
    pub null: Option<String>,
    /// Label of the patch that does most of it, with one build for each patch; else empty.
    pub patch: String,
    /// Calls by build.
    pub by_build: Vec<String>,
}

/// A metric beside the finding that did not stay the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Other {
    /// `mkdir()`.
    pub name: String,
    /// The claim.
    pub verdict: String,
    /// `+1.2%`, or the range.
    pub change: String,
    /// First reason, where there is one.
    pub reason: String,
}

impl Story {
    /// Tells `findings`.
    pub fn of(findings: &Findings) -> Self {
        let headline = headline(findings);
        let finding = headline.map(|h| finding(findings, h));
        let operation = headline.map(|h| metric_name(&h.workload, &h.metric).operation);
        let all_calls = calls(findings);
        let of_finding: Vec<Call> = all_calls
            .iter()
            .filter(|c| Some(c.operation.as_str()) == operation && c.caller.is_none())
            .cloned()
            .collect();
        let (same, others) = beside(findings, headline);
        let executed = &findings.executed;
        Self {
            verdict: verdict_word(&findings.verdict.outcome),
            path: findings.plan.evidence == Evidence::Path,
            title: format!("{} (v{})", findings.series.title, findings.series.version),
            table: headline.map(|h| table(findings, h)),
            finding,
            more_calls: of_finding.len().saturating_sub(CALLS_SHOWN),
            calls: of_finding.into_iter().take(CALLS_SHOWN).collect(),
            all_calls,
            same,
            others,
            executed: executed.sentence(),
            nothing_executed: executed.executed() == 0,
            changed_functions: executed.changed(),
            reasons: findings.verdict.reasons.clone(),
            skips: findings.skips.clone(),
            not_available: findings.not_available.clone(),
            for_boards: findings.for_boards.clone(),
            tampering: findings.tampering.clone(),
            excerpt: findings.excerpt.clone(),
            tree: tree(findings),
            compiler: findings.builds.first().map(|b| b.identity.compiler.clone()).unwrap_or_default(),
            boots: boots(findings),
            order: findings
                .plan
                .order
                .iter()
                .map(|i| findings.plan.builds[*i].label.as_str())
                .collect::<Vec<_>>()
                .join(", "),
            protocol: findings.protocol_sha256.chars().take(12).collect(),
            repeat: findings.provenance.repeat.clone(),
            duration: about(findings.provenance.duration_seconds),
            bundle_url: findings.provenance.bundle_url.clone(),
            operator: findings.provenance.operator.clone(),
            version: findings.provenance.tool_version.clone(),
        }
    }
}

/// `LONGER`, `NOT BUILT` ...
pub fn verdict_word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured { verdict, .. } => verdict.to_string(),
        Outcome::IdenticalImages => VerdictName::Same.to_string(),
        Outcome::NotBuilt { .. } => "NOT BUILT".into(),
        Outcome::Invalid { .. } => "INVALID".into(),
    }
}

/// The comparison that speaks first: the culprit's step where there is one build for each patch.
fn headline(findings: &Findings) -> Option<&Comparison> {
    let headline = findings.verdict.headline.as_ref()?;
    let of_metric: Vec<&Comparison> = findings
        .comparison
        .comparisons
        .iter()
        .filter(|c| c.workload == headline.workload && c.metric == headline.metric)
        .collect();
    let step = of_metric.iter().find(|c| c.new_build == headline.culprit && is_step(findings, c));
    step.or_else(|| of_metric.iter().find(|c| c.new_build == headline.culprit)).or(of_metric.last()).copied()
}

/// Whether a comparison is of neighbouring builds.
fn is_step(findings: &Findings, comparison: &Comparison) -> bool {
    let at = |label: &str| findings.plan.builds.iter().position(|b| b.label == label);
    match (at(&comparison.old_build), at(&comparison.new_build)) {
        (Some(old), Some(new)) => old + 1 == new,
        _ => false,
    }
}

fn finding(findings: &Findings, comparison: &Comparison) -> Finding {
    let name = metric_name(&comparison.workload, &comparison.metric);
    let difference = comparison
        .path
        .as_ref()
        .map_or_else(|| comparison.endpoints.first().map_or(0.0, |e| e.new - e.old), |p| p.difference);
    let patch = findings
        .plan
        .builds
        .iter()
        .position(|b| b.label == comparison.new_build)
        .filter(|_| is_step(findings, comparison) && findings.series.total > 1)
        .map(|_| comparison.new_build.clone())
        .filter(|label| label.contains('/'));
    let alone = findings.series.total == 1;
    let growth = growth(findings, comparison);
    let nodes = findings.facts.get(&format!("{} nodes", comparison.workload)).copied();
    let per_object = growth.as_ref().filter(|_| comparison.metric == "remove").and_then(|g| {
        let per: f64 = g.per_object.parse().ok()?;
        (per.abs() >= 1.0).then(|| {
            (
                g.per_object.clone(),
                nodes.map_or_else(String::new, |n| n.to_string()),
                format!("{}s", g.object),
            )
        })
    });
    Finding {
        operation: name.long,
        short: name.short,
        amount: number(difference.abs()),
        direction: if difference >= 0.0 { "more" } else { "fewer" }.into(),
        percent: percent(comparison.verdict.change_percent),
        by: if patch.is_some() || alone { "this patch" } else { "this series" }.into(),
        patch: patch.unwrap_or_default(),
        per_object,
        growth,
        new_waiting: comparison.path.as_ref().and_then(|p| p.waiting).is_some_and(|w| w.new_waiting),
        exact: comparison.path.as_ref().is_some_and(|p| p.exact),
    }
}

/// What each object adds between the two builds of a comparison.
fn growth(findings: &Findings, comparison: &Comparison) -> Option<GrowthStory> {
    let bare = comparison.metric.rsplit_once('_').map_or(comparison.metric.as_str(), |(_, m)| m);
    let of = |build: &str| {
        findings
            .growth
            .iter()
            .find(|g| g.workload == comparison.workload && g.metric == bare && g.build == build)
    };
    let new = of(&comparison.new_build)?;
    let (old_per, old_constant) =
        of(&comparison.old_build).map_or((0.0, 0.0), |g| (g.per_object, g.constant));
    let mut sizes: Vec<u64> = new.sizes.iter().map(|s| s.0).collect();
    sizes.sort_unstable();
    Some(GrowthStory {
        object: new.object.clone(),
        per_object: number(new.per_object - old_per),
        constant: number(new.constant - old_constant),
        sizes: sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(" and "),
    })
}

fn table(findings: &Findings, comparison: &Comparison) -> Table {
    let medians = |label: &str| -> Vec<f64> {
        findings
            .medians
            .iter()
            .filter(|m| {
                m.build == label && m.workload == comparison.workload && m.metric == comparison.metric
            })
            .map(|m| m.median)
            .collect()
    };
    let mut rows = Vec::new();
    let mut last: Option<f64> = None;
    let mut same_in_all_boots = true;
    for build in &findings.plan.builds {
        let values = medians(&build.label);
        let Some(value) = middle(&values) else { continue };
        same_in_all_boots &= values.iter().all(|v| *v == value);
        let subject =
            findings.series.patches.iter().find(|p| p.index == build.patches && build.label.contains('/'));
        let name = match subject {
            Some(patch) => format!("+ {} {}", build.label, shorten(patch.short_subject(), 24)),
            None if build.patches == 0 => {
                let release =
                    findings.builds.first().map(|b| b.identity.release.as_str()).unwrap_or_default();
                format!("base {release}")
            }
            None => format!("+ all {} patches", build.patches),
        };
        let (difference, change) = match last {
            Some(before) => (signed(value - before), percent(Some(100.0 * (value / before - 1.0)))),
            None => (String::new(), String::new()),
        };
        rows.push(Row { name, value: number(value), difference, percent: change });
        last = Some(value);
    }
    Table { short: metric_name(&comparison.workload, &comparison.metric).short, rows, same_in_all_boots }
}

fn calls(findings: &Findings) -> Vec<Call> {
    findings
        .call_changes
        .iter()
        .map(|c| {
            let returns = findings
                .returns
                .iter()
                .find(|r| r.function == c.function && r.operation == c.operation && r.arm == c.arm);
            let whole = |v: &f64| number(*v);
            Call {
                operation: c.operation.clone(),
                function: c.function.clone(),
                caller: c.caller.clone(),
                before: c.per_operation.first().map(whole).unwrap_or_default(),
                after: c.per_operation.last().map(whole).unwrap_or_default(),
                null: returns
                    .and_then(|r| r.null_per_operation.last())
                    .filter(|n| **n > 0.0 && c.caller.is_none())
                    .map(whole),
                patch: step(findings, &c.per_operation),
                by_build: c.per_operation.iter().map(whole).collect(),
            }
        })
        .collect()
}

/// Label of the build with the largest step, where each patch has a build.
fn step(findings: &Findings, values: &[f64]) -> String {
    let largest = values
        .windows(2)
        .enumerate()
        .max_by(|(_, a), (_, b)| (a[1] - a[0]).abs().total_cmp(&(b[1] - b[0]).abs()));
    let label = largest.and_then(|(index, _)| findings.plan.builds.get(index + 1)).map(|b| b.label.as_str());
    label.filter(|l| l.contains('/')).unwrap_or_default().to_owned()
}

/// Metrics beside the finding, for the whole series: those that stayed the same by bound, and the rest.
fn beside(findings: &Findings, headline: Option<&Comparison>) -> (Vec<(String, String)>, Vec<Other>) {
    let last = findings.plan.builds.last().map(|b| b.label.as_str()).unwrap_or_default();
    let first = findings.plan.builds.first().map(|b| b.label.as_str()).unwrap_or_default();
    let mut same: Vec<(String, Vec<String>)> = Vec::new();
    let mut others = Vec::new();
    for comparison in &findings.comparison.comparisons {
        if comparison.new_build != last || comparison.old_build != first {
            continue;
        }
        let spoken =
            headline.is_some_and(|h| h.workload == comparison.workload && h.metric == comparison.metric);
        if spoken {
            continue;
        }
        let name = metric_name(&comparison.workload, &comparison.metric).short;
        match comparison.verdict.name {
            VerdictName::Same | VerdictName::NoChange => {
                let bound = comparison.path.as_ref().map_or_else(
                    || comparison.verdict.interval_percent.map_or(0.0, |[l, h]| l.abs().max(h.abs())),
                    |p| p.bound_percent,
                );
                let bound = format!("{bound}%");
                match same.iter_mut().find(|(b, _)| *b == bound) {
                    Some((_, names)) => names.push(name),
                    None => same.push((bound, vec![name])),
                }
            }
            VerdictName::Slower
            | VerdictName::Faster
            | VerdictName::Longer
            | VerdictName::Shorter
            | VerdictName::Inconclusive => others.push(Other {
                name,
                verdict: comparison.verdict.name.to_string(),
                change: match comparison.verdict.interval_percent {
                    Some([low, high]) if low != high => {
                        format!("{} .. {}", percent(Some(low)), percent(Some(high)))
                    }
                    _ => percent(comparison.verdict.change_percent),
                },
                reason: comparison.verdict.reasons.first().cloned().unwrap_or_default(),
            }),
        }
    }
    (same.into_iter().map(|(bound, names)| (bound, names.join(", "))).collect(), others)
}

fn tree(findings: &Findings) -> String {
    match &findings.provenance.base_commit {
        Some(commit) if !findings.provenance.tree.contains(commit.as_str()) => {
            format!("{} {}", findings.provenance.tree, &commit[..commit.len().min(12)])
        }
        _ => findings.provenance.tree.clone(),
    }
}

fn boots(findings: &Findings) -> usize {
    let mut boots: Vec<u64> = findings.medians.iter().map(|m| m.boot).collect();
    boots.sort_unstable();
    boots.dedup();
    boots.len()
}

fn about(seconds: u64) -> String {
    match seconds {
        0..90 => format!("about {seconds} seconds"),
        _ => format!("about {} minutes", seconds.div_ceil(60)),
    }
}

/// A whole number as such, anything else with one decimal.
pub fn number(value: f64) -> String {
    if (value - value.round()).abs() < 1e-6 {
        format!("{}", value.round() as i64)
    } else {
        format!("{value:.1}")
    }
}

fn signed(value: f64) -> String {
    if value >= 0.0 { format!("+{}", number(value)) } else { number(value) }
}

/// `+7.6%`; two decimals below 0.1 %, three for what would read as zero.
pub fn percent(value: Option<f64>) -> String {
    match value {
        None => "not known".into(),
        Some(0.0) => "0.000%".into(),
        Some(v) if v.abs() < 0.01 => format!("{v:+.3}%"),
        Some(v) if v.abs() < 0.1 => format!("{v:+.2}%"),
        Some(v) => format!("{v:+.1}%"),
    }
}

fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_percentages_are_short() {
        for (value, text) in [(3040.0, "3040"), (27.5, "27.5"), (-19.0, "-19")] {
            assert_eq!(number(value), text);
        }
        for (value, text) in [
            (Some(7.605), "+7.6%"),
            (Some(0.475), "+0.5%"),
            (Some(0.0), "0.000%"),
            (Some(-0.004), "-0.004%"),
            (None, "not known"),
        ] {
            assert_eq!(percent(value), text);
        }
        assert_eq!(about(45), "about 45 seconds");
        assert_eq!(about(200), "about 4 minutes");
    }
}
