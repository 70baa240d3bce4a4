// SPDX-License-Identifier: GPL-2.0-or-later
//! What a report tells, as values for the templates: which finding comes first,
//! which rows the table has, which calls changed. Wording stands in the templates.

mod beside;
mod calls;
mod finding;
mod gates;
mod table;

pub use beside::{AtMost, Other, Same};
pub use calls::Call;
pub use finding::{Finding, answered};
pub use gates::Gate;
pub use table::Table;

use super::names::metric_name;
use super::number::about;
use super::wrap::one_line;
use crate::attribution;
use crate::changed::Fate;
use crate::compare::{Comparison, VerdictName};
use crate::findings::Findings;
use crate::plan::{Attribution, Evidence};
use crate::verdict::{Incident, Outcome};
use serde::Serialize;

/// Everything the templates take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Story {
    /// `LONGER`, `SAME`, `NOT BUILT`, `INVALID` ...
    pub verdict: String,
    /// What the text is about: `finding`, `same`, `identical`, `inconclusive`, `not_built`, `invalid`.
    pub kind: &'static str,
    /// Whether the numbers are instructions of an emulator.
    pub path: bool,
    /// Title and version of the series.
    pub title: String,
    /// The metric that speaks first.
    pub finding: Option<Finding>,
    /// Its values by build.
    pub table: Option<Table>,
    /// Calls per operation that changed in the operation of the finding, the most telling first.
    pub calls: Vec<Call>,
    /// Changed calls of that operation that are not among `calls`.
    pub more_calls: usize,
    /// All changed calls of all operations, for pages.
    pub all_calls: Vec<Call>,
    /// Functions that some builds leave more work items to than others: `name: 0 -> 1 items per operation, ...`.
    pub deferred_work: Vec<String>,
    /// Metrics that stayed the same, by bound.
    pub same: Vec<Same>,
    /// Metrics that changed beside the finding, or are not decided.
    pub others: Vec<Other>,
    /// `time` evidence: the largest change that each other metric may have.
    pub at_most: Vec<AtMost>,
    /// Why something is not decided, not built or not usable, each for a person.
    pub obstacles: Vec<String>,
    /// What became of the changed functions.
    pub coverage: Coverage,
    /// Reasons of the verdict.
    pub reasons: Vec<String>,
    /// Conditions on validity.
    pub gates: Vec<Gate>,
    /// Workloads and arms that did not run.
    pub skips: Vec<(String, String)>,
    /// Observations that could not be made.
    pub not_available: Vec<(String, String)>,
    /// What builds did that no build should.
    pub tampering: Vec<(String, String)>,
    /// Why only boards can tell what this costs: changed locking or structure layout.
    pub for_boards: Vec<String>,
    /// The console around trouble, escaped.
    pub excerpt: String,
    /// `time` evidence: how far repeats are apart.
    pub noise: Vec<String>,
    /// `time` evidence: the machine.
    pub board: String,
    /// Tree and its commit.
    pub tree: String,
    /// The tree's commit is the one that the series names.
    pub own_base: bool,
    /// Name of the emulator's kernel configuration.
    pub kernel_config: String,
    /// The compiler, short; empty when nothing was built.
    pub compiler: String,
    /// Boots that were compared.
    pub boots: usize,
    /// Order of one palindrome, in words.
    pub order: String,
    /// Palindromes of the deterministic runner.
    pub seeds: usize,
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

/// What became of the changed functions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    /// Functions the series changes.
    pub changed: usize,
    /// Of them in the image.
    pub compiled: usize,
    /// Of them executed.
    pub executed: usize,
    /// `executed: 2 of 3 changed functions`, or that it is not known.
    pub count: String,
    /// Which did not run, and why; empty when all ran.
    pub missing: Vec<String>,
    /// Counted as part of a caller: `a() in b()`.
    pub merged: Vec<String>,
    /// Files with changed lines outside functions.
    pub outside: Vec<String>,
    /// There are changed functions, and none of them was executed.
    pub nothing: bool,
}

impl Story {
    /// Tells `findings`.
    pub fn of(findings: &Findings) -> Self {
        let verdict = &findings.verdict;
        let headline = match &verdict.outcome {
            Outcome::Measured { .. } => headline(findings),
            // Numbers of an experiment that is not usable speak for nothing.
            Outcome::IdenticalImages | Outcome::NotBuilt { .. } | Outcome::Invalid { .. } => None,
        };
        let finding = headline.map(|h| finding::finding(findings, h));
        let (calls, more_calls) = calls::of_finding(findings, headline);
        let beside = beside::beside(findings, headline);
        let provenance = &findings.provenance;
        Self {
            verdict: verdict_word(&verdict.outcome),
            kind: kind(&verdict.outcome, finding.is_some()),
            path: findings.plan.evidence == Evidence::Path,
            title: title(findings),
            table: headline.map(|h| table::table(findings, h)),
            finding,
            calls,
            more_calls,
            all_calls: calls::all(findings),
            deferred_work: findings
                .deferred_work
                .iter()
                .filter(|w| w.differs())
                .map(calls::told_work)
                .collect(),
            same: beside.same,
            others: beside.others,
            at_most: beside.at_most,
            obstacles: obstacles(findings),
            coverage: coverage(findings),
            reasons: verdict.reasons.clone(),
            gates: gates::gates(findings),
            skips: findings.skips.clone(),
            not_available: findings.not_available.clone(),
            tampering: findings.tampering.clone(),
            for_boards: findings.for_boards.clone(),
            excerpt: findings.excerpt.clone(),
            noise: gates::noise(findings, headline),
            board: board(findings),
            tree: tree(findings),
            own_base: provenance.base_commit.is_some()
                && provenance.base_commit == findings.series.base_commit,
            kernel_config: one_line(&provenance.kernel_config),
            compiler: findings.builds.first().map(|b| compiler(&b.identity.compiler)).unwrap_or_default(),
            boots: boots(findings),
            order: order(findings),
            seeds: findings.plan.seeds.len(),
            protocol: findings.protocol_sha256.chars().take(12).collect(),
            repeat: one_line(&provenance.repeat),
            duration: about(provenance.duration_seconds),
            bundle_url: provenance.bundle_url.clone(),
            operator: provenance.operator.as_deref().map(one_line),
            version: provenance.tool_version.clone(),
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
pub fn headline(findings: &Findings) -> Option<&Comparison> {
    let headline = findings.verdict.headline.as_ref()?;
    let of_metric = || {
        findings
            .comparison
            .comparisons
            .iter()
            .filter(|c| c.workload == headline.workload && c.metric == headline.metric)
    };
    of_metric()
        .find(|c| first_with(findings, c) == headline.culprit && is_step(findings, c))
        .or_else(|| of_metric().find(|c| first_with(findings, c) == headline.culprit))
        .or_else(|| of_metric().next_back())
}

/// Places in the plan between which the change of a comparison happened.
fn step(findings: &Findings, comparison: &Comparison) -> Option<(usize, usize)> {
    let twins: Vec<(&str, &str)> = findings
        .builds
        .iter()
        .filter_map(|b| Some((b.label.as_str(), b.same_image_as.as_deref()?)))
        .collect();
    attribution::step(&findings.plan, &twins, &comparison.old_build, &comparison.new_build)
}

/// The build that first has what the new side of a comparison has.
pub fn first_with<'a>(findings: &'a Findings, comparison: &'a Comparison) -> &'a str {
    match step(findings, comparison) {
        Some((_, new)) => &findings.plan.builds[new].label,
        None => &comparison.new_build,
    }
}

/// The number of the one patch whose step a comparison is, where it is one.
pub fn patch_of(findings: &Findings, comparison: &Comparison) -> Option<u32> {
    let (old, new) = step(findings, comparison)?;
    let of_series = |at: usize| Some(&findings.plan.builds[at]).filter(|b| b.source.is_none());
    let (old, new) = (of_series(old)?.patches, of_series(new)?.patches);
    (old + 1 == new).then_some(new)
}

/// The comparison of the whole series for the metric of another one.
pub fn whole<'a>(findings: &'a Findings, comparison: &Comparison) -> Option<&'a Comparison> {
    findings
        .comparison
        .comparisons
        .iter()
        .find(|c| c.workload == comparison.workload && c.metric == comparison.metric && is_whole(findings, c))
}

/// Whether a comparison is of the last build against the base.
pub fn is_whole(findings: &Findings, comparison: &Comparison) -> bool {
    let builds = &findings.plan.builds;
    builds.first().is_some_and(|b| b.label == comparison.old_build)
        && builds.last().is_some_and(|b| b.label == comparison.new_build)
}

/// Whether a comparison is of neighbouring builds.
fn is_step(findings: &Findings, comparison: &Comparison) -> bool {
    step(findings, comparison).is_some_and(|(old, new)| old + 1 == new)
}

fn kind(outcome: &Outcome, finding: bool) -> &'static str {
    match outcome {
        Outcome::Measured { verdict: VerdictName::Inconclusive, .. } => "inconclusive",
        Outcome::Measured { .. } if finding => "finding",
        Outcome::Measured { verdict: VerdictName::Same | VerdictName::NoChange, .. } => "same",
        // A claim without a metric to show: the reasons speak.
        Outcome::Measured { .. } => "inconclusive",
        Outcome::IdenticalImages => "identical",
        Outcome::NotBuilt { .. } => "not_built",
        Outcome::Invalid { .. } => "invalid",
    }
}

fn title(findings: &Findings) -> String {
    let series = &findings.series;
    if series.version > 1 { format!("{} (v{})", series.title, series.version) } else { series.title.clone() }
}

/// What stands in the way of a claim.
fn obstacles(findings: &Findings) -> Vec<String> {
    match &findings.verdict.outcome {
        Outcome::Measured { verdict: VerdictName::Inconclusive, .. } => {
            let undecided: Vec<String> = findings
                .comparison
                .comparisons
                .iter()
                .filter(|c| c.verdict.name == VerdictName::Inconclusive && is_whole(findings, c))
                .map(|c| {
                    let name = metric_name(&c.workload, &c.metric).short;
                    match c.verdict.reasons.as_slice() {
                        [] => format!("{name} is not decided"),
                        reasons => format!("{name}: {}", reasons.join("; ")),
                    }
                })
                .collect();
            if undecided.is_empty() { findings.verdict.reasons.clone() } else { undecided }
        }
        Outcome::Measured { .. } | Outcome::IdenticalImages => findings
            .incidents
            .iter()
            .filter(|i| matches!(i, Incident::BuildFailed { .. }))
            .map(ToString::to_string)
            .collect(),
        Outcome::NotBuilt { file, option, reason } => {
            let option = option.as_ref().map_or_else(String::new, |o| format!(" ({o})"));
            vec![format!("{file}{option} is not compiled into the kernels that are measured: {reason}")]
        }
        Outcome::Invalid { place, reason } => vec![format!("{place}: {reason}")],
    }
}

fn coverage(findings: &Findings) -> Coverage {
    let executed = &findings.executed;
    // Where a boot failed, nobody saw what ran.
    let unknown = matches!(findings.verdict.outcome, Outcome::Invalid { .. }) && executed.executed() == 0;
    let reason = |fate: Fate| match fate {
        Fate::NotCompiled => " (not compiled)",
        Fate::Inlined => " (merged into callers that did not run, or unused)",
        Fate::NotExecuted => "",
        Fate::Executed => "",
        Fate::Unknown => " (cannot be observed)",
    };
    Coverage {
        changed: executed.changed(),
        compiled: executed.compiled(),
        executed: executed.executed(),
        count: if unknown { "executed: not known".into() } else { executed.summary() },
        missing: executed
            .functions
            .iter()
            .filter(|f| !f.ran())
            .map(|f| format!("{}(){}", f.changed.function, reason(f.fate)))
            .collect(),
        merged: executed
            .through_callers()
            .into_iter()
            .map(|(function, caller)| format!("{function}() in {caller}()"))
            .collect(),
        outside: executed.outside_functions.iter().map(|(file, _)| file.clone()).collect(),
        nothing: executed.changed() > 0 && executed.executed() == 0 && !unknown,
    }
}

fn tree(findings: &Findings) -> String {
    match &findings.provenance.base_commit {
        Some(commit) if !findings.provenance.tree.contains(&short_commit(commit)) => {
            format!("{} {}", findings.provenance.tree, short_commit(commit))
        }
        _ => findings.provenance.tree.clone(),
    }
}

/// First 12 digits of a commit.
pub fn short_commit(commit: &str) -> String {
    commit.chars().take(12).collect()
}

/// `gcc 12.2.0` of `gcc (Debian 12.2.0-14+deb12u1) 12.2.0`.
fn compiler(version: &str) -> String {
    let words: Vec<&str> = version.split_whitespace().collect();
    match (words.first(), words.last()) {
        (Some(first), Some(last)) if words.len() > 2 && last.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{first} {last}")
        }
        _ => version.to_owned(),
    }
}

/// Processor and the settings that decide time.
fn board(findings: &Findings) -> String {
    let value = |key: &str| findings.environment.get(key).filter(|v| *v != "absent").map(String::as_str);
    let mut parts: Vec<String> = value("cpu.model").map(str::to_owned).into_iter().collect();
    parts.extend(value("harness.cpu").map(|cpu| format!("CPU {cpu}")));
    parts.extend(value("setting.turbo").map(|turbo| format!("turbo {turbo}")));
    parts.extend(value("setting.scaling_governor").map(|governor| format!("governor {governor}")));
    parts.extend(value("setting.preemption").map(|word| format!("preempt {word}")));
    parts.join(", ")
}

fn boots(findings: &Findings) -> usize {
    let mut boots: Vec<u64> = findings.medians.iter().map(|m| m.boot).collect();
    boots.sort_unstable();
    boots.dedup();
    boots.len()
}

/// `base, 1/2, 2/2 and back`; any other order as it is.
fn order(findings: &Findings) -> String {
    /// Labels that are named one by one.
    const NAMED: usize = 6;
    let plan = &findings.plan;
    let labels: Vec<&str> =
        plan.order.iter().filter_map(|i| plan.builds.get(*i)).map(|b| b.label.as_str()).collect();
    let half = labels.len() / 2;
    let mirrored = labels.len().is_multiple_of(2) && labels.iter().eq(labels.iter().rev());
    let shown = if mirrored { &labels[..half] } else { &labels[..] };
    let list = match shown {
        [first, .., last] if shown.len() > NAMED => format!("{first} to {last}"),
        _ => shown.join(", "),
    };
    let list = if mirrored { format!("{list} and back") } else { list };
    match plan.attribution {
        Attribution::EveryBuild => list,
        Attribution::Bisection => format!("{list}, builds by bisection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_short() {
        for (version, short) in [
            ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "gcc 12.2.0"),
            ("clang version 19.1.7", "clang 19.1.7"),
            ("cc", "cc"),
            ("", ""),
        ] {
            assert_eq!(compiler(version), short);
        }
    }
}
