// SPDX-License-Identifier: GPL-2.0-or-later
//! Logs to findings: every pure stage in its order. The same function concludes an experiment
//! and verifies its bundle later.

use crate::builds::BuildRecord;
use crate::calls::{call_changes, return_counts};
use crate::changed::Executed;
use crate::compare::time::{Calibration, failed_conditions};
use crate::compare::{
    Comparison, ComparisonFile, ExecutedCount, Point, Values, compare_path, compare_time, gates_named,
    growth, median, path_orders, sizes,
};
use crate::deferred::deferred_work;
use crate::findings::{BootMedian, Distribution, Findings, Provenance};
use crate::mail::Series;
use crate::plan::{Evidence, Plan};
use crate::samples::{PointIdentity, PointLog, metric_with_arm, to_point};
use crate::verdict::{Incident, decide};
use std::collections::BTreeMap;

/// What an experiment knows besides its logs.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The series.
    pub series: Series,
    /// The frozen plan.
    pub plan: Plan,
    /// Every build there is.
    pub builds: Vec<BuildRecord>,
    /// Changed functions and whether they ran.
    pub executed: Executed,
    /// What went wrong.
    pub incidents: Vec<Incident>,
    /// Observations that could not be made, besides those that logs name: (what, reason).
    pub not_available: Vec<(String, String)>,
    /// Why boards should measure this.
    pub for_boards: Vec<String>,
    /// What builds did that no build should.
    pub tampering: Vec<(String, String)>,
    /// The console around trouble.
    pub excerpt: String,
    /// Where this came from.
    pub provenance: Provenance,
}

/// The log of one measured boot.
#[derive(Debug, Clone, Copy)]
pub struct BootLog<'a> {
    /// 1-based place in the order.
    pub index: usize,
    /// Name of the point.
    pub name: &'a str,
    /// What it says.
    pub log: &'a PointLog,
}

/// Compares, decides and gathers everything a report can say. `observed` has the untimed log of
/// each build that was booted, by label.
pub fn conclude(known: Known, boots: &[BootLog<'_>], observed: &[(&str, &PointLog)]) -> Findings {
    let Known { series, plan, builds, executed, incidents, .. } = known;
    let points = points(&plan, boots);
    let comparisons = comparisons(&plan, boots, &points);
    let base_log = boots.first().map(|b| b.log);
    let growth = growth(&plan, &points, &comparisons, &base_log.map(sizes).unwrap_or_default());
    // Builds that are not made of patches change no function that could be named.
    let count = (!series.patches.is_empty()).then(|| ExecutedCount {
        changed: executed.changed(),
        compiled: executed.compiled(),
        executed: executed.executed(),
        not_executed: executed.not_executed().into_iter().map(str::to_owned).collect(),
    });
    let verdict = decide(&plan, &comparisons, &growth, &incidents, count.as_ref());
    let (reductions, mechanism, recovery) = path_orders(&plan, &points);
    let logs = observed_by_build(&builds, observed).unwrap_or_default();
    let workloads: Vec<&str> = plan.workloads.iter().map(|w| w.id.as_str()).collect();
    let mut not_available = named_by_logs(observed);
    not_available.extend(known.not_available);
    Findings {
        protocol_sha256: plan.protocol_sha256(),
        comparison: ComparisonFile {
            version: 1,
            comparisons,
            executed: count,
            reductions,
            mechanism,
            recovery,
        },
        verdict,
        call_changes: workloads.iter().flat_map(|w| call_changes(w, &logs)).collect(),
        returns: workloads.iter().flat_map(|w| return_counts(w, &logs)).collect(),
        deferred_work: workloads.iter().flat_map(|w| deferred_work(w, &logs)).collect(),
        growth,
        medians: medians(&points),
        distributions: distributions(&points),
        default_arms: base_log
            .and_then(|l| l.start.as_ref())
            .map(|s| s.default_arms.clone().into_iter().collect())
            .unwrap_or_default(),
        facts: base_log.map(facts).unwrap_or_default(),
        skips: skips(boots),
        not_available,
        for_boards: known.for_boards,
        tampering: known.tampering,
        excerpt: known.excerpt,
        environment: base_log.map(|l| l.environment_before.clone()).unwrap_or_default(),
        provenance: known.provenance,
        series,
        plan,
        builds,
        executed,
        incidents,
    }
}

/// Every contrast by the rules of the plan's kind of evidence.
fn comparisons(plan: &Plan, boots: &[BootLog<'_>], points: &[Point]) -> Vec<Comparison> {
    match plan.evidence {
        Evidence::Path => compare_path(plan, points),
        Evidence::Time => {
            let logs: Vec<(&str, &str, &PointLog)> = boots
                .iter()
                .zip(points)
                .map(|(boot, point)| (boot.name, point.build.as_str(), boot.log))
                .collect();
            let gates = plan.gates.as_deref().and_then(gates_named);
            compare_time(points, gates, &calibration(plan, &logs))
        }
    }
}

/// What was frozen about the board, with the conditions that did not hold.
fn calibration(plan: &Plan, logs: &[(&str, &str, &PointLog)]) -> Calibration {
    let primaries = plan.policy.primaries.clone();
    let Some(time) = &plan.time else { return Calibration { primaries, ..Calibration::default() } };
    Calibration {
        histories: time.histories.clone(),
        primaries,
        rules: time.rules,
        failed: failed_conditions(logs, &time.rules),
    }
}

/// Observations that could not be made, as the logs of untimed boots name them: (what, reason).
pub fn named_by_logs(observed: &[(&str, &PointLog)]) -> Vec<(String, String)> {
    let of = |(label, log): &(&str, &PointLog)| -> Vec<(String, String)> {
        let what =
            |n: &kernmark_wire::NotAvailable| format!("{} of {} {} in {label}", n.what, n.workload, n.arm);
        log.not_available.iter().map(|n| (what(n), n.reason.clone())).collect()
    };
    observed.iter().flat_map(of).collect()
}

/// The boots of a plan as the comparison takes them.
pub fn points(plan: &Plan, boots: &[BootLog<'_>]) -> Vec<Point> {
    let planned = plan.points();
    boots
        .iter()
        .filter_map(|boot| {
            let place = planned.get(boot.index.checked_sub(1)?)?;
            let identity = PointIdentity {
                experiment: plan.experiment.clone(),
                point: boot.name.to_owned(),
                build: plan.builds[place.build].label.clone(),
                boot: boot.index as u64,
                seed: (plan.evidence == Evidence::Path).then_some(place.seed),
            };
            Some(to_point(boot.log, &identity, plan.evidence))
        })
        .collect()
}

/// The untimed log of every build in plan order; `None` unless all are there.
fn observed_by_build<'a>(
    builds: &[BuildRecord],
    observed: &[(&str, &'a PointLog)],
) -> Option<Vec<&'a PointLog>> {
    builds
        .iter()
        .map(|build| {
            let booted = build.same_image_as.as_deref().unwrap_or(&build.label);
            observed.iter().find(|(label, _)| *label == booted).map(|(_, log)| *log)
        })
        .collect()
}

fn medians(points: &[Point]) -> Vec<BootMedian> {
    points
        .iter()
        .flat_map(|point| {
            point.measurements.iter().filter_map(|m| {
                let value = match &m.values {
                    Values::Samples(values) => median(values)?,
                    Values::Summary { median, .. } => *median,
                };
                Some(BootMedian {
                    boot: point.boot,
                    build: point.build.clone(),
                    seed: point.seed,
                    workload: m.workload.clone(),
                    metric: m.metric.clone(),
                    unit: m.unit.clone(),
                    median: value,
                })
            })
        })
        .collect()
}

/// Distributions of the first boot of each build.
fn distributions(points: &[Point]) -> Vec<Distribution> {
    let is_first = |(at, point): &(usize, &Point)| points[..*at].iter().all(|p| p.build != point.build);
    points
        .iter()
        .enumerate()
        .filter(is_first)
        .flat_map(|(_, point)| point.measurements.iter().filter_map(|m| Distribution::of(&point.build, m)))
        .collect()
}

/// Facts by `workload name`, the arm as prefix unless it is the default one.
fn facts(log: &PointLog) -> BTreeMap<String, u64> {
    log.facts
        .iter()
        .map(|f| (format!("{} {}", f.workload, metric_with_arm(log, &f.workload, &f.arm, &f.name)), f.value))
        .collect()
}

fn skips(boots: &[BootLog<'_>]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = boots
        .iter()
        .flat_map(|b| &b.log.skips)
        .map(|s| (format!("{} {}", s.workload, s.arm).trim_end().to_owned(), s.reason.clone()))
        .collect();
    found.sort();
    found.dedup();
    found
}
