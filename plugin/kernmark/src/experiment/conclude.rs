// SPDX-License-Identifier: GPL-2.0-or-later
//! Logs to findings: every pure stage in its order.

use super::Request;
use super::kernels::Kernels;
use super::measure::Measured;
use super::prepare::Prepared;
use kernmark_validation::calls::{call_changes, executed, return_counts};
use kernmark_validation::changed::Executed;
use kernmark_validation::changed::boards::layout_or_locking;
use kernmark_validation::changed::config::Config;
use kernmark_validation::changed::fates::{Observed, fates};
use kernmark_validation::changed::system_map::SystemMap;
use kernmark_validation::compare::{
    ComparisonFile, ExecutedCount, Point, Values, compare_path, growth, median, sizes,
};
use kernmark_validation::findings::{BootMedian, Distribution, Findings, Provenance};
use kernmark_validation::plan::Evidence;
use kernmark_validation::samples::{PointIdentity, PointLog, metric_with_arm, to_point};
use kernmark_validation::verdict::decide;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Compares, decides and gathers everything a report can say.
pub fn conclude(
    request: &Request,
    prepared: Prepared,
    kernels: Kernels,
    measured: Measured,
    started: &str,
    elapsed: Duration,
) -> Findings {
    let points = points(&prepared, &measured);
    let comparisons = compare_path(&prepared.plan, &points);
    let base_log = measured.points.first().map(|p| &p.log);
    let growth = growth(&prepared.plan, &points, &comparisons, &base_log.map(sizes).unwrap_or_default());
    let executed = judge_functions(&prepared, &kernels, &measured);
    let count = ExecutedCount {
        changed: executed.changed(),
        compiled: executed.compiled(),
        executed: executed.executed(),
        not_executed: executed.not_executed().into_iter().map(str::to_owned).collect(),
    };
    let incidents: Vec<_> = kernels.incidents.iter().chain(&measured.incidents).cloned().collect();
    let verdict = decide(&prepared.plan, &comparisons, &growth, &incidents, Some(&count));
    let logs = observed_by_build(&kernels, &measured);
    let workloads: Vec<&str> = prepared.plan.workloads.iter().map(|w| w.id.as_str()).collect();
    let mut not_available = measured.not_available.clone();
    not_available.extend(measured.observed.iter().flat_map(|(label, log)| {
        log.not_available
            .iter()
            .map(move |n| (format!("{} of {} {} in {label}", n.what, n.workload, n.arm), n.reason.clone()))
    }));
    not_available
        .extend(prepared.code.problems.iter().map(|p| ("some changed functions".to_owned(), p.to_string())));
    Findings {
        protocol_sha256: prepared.plan.protocol_sha256(),
        builds: kernels.builds.iter().map(|b| b.record.clone()).collect(),
        comparison: ComparisonFile {
            version: 1,
            comparisons,
            executed: Some(count),
            reductions: Vec::new(),
            mechanism: Vec::new(),
            recovery: Vec::new(),
        },
        verdict,
        call_changes: logs
            .as_deref()
            .map(|l| workloads.iter().flat_map(|w| call_changes(w, l)).collect())
            .unwrap_or_default(),
        returns: logs
            .as_deref()
            .map(|l| workloads.iter().flat_map(|w| return_counts(w, l)).collect())
            .unwrap_or_default(),
        growth,
        medians: medians(&points),
        distributions: distributions(&points),
        default_arms: base_log
            .and_then(|l| l.start.as_ref())
            .map(|s| s.default_arms.clone().into_iter().collect())
            .unwrap_or_default(),
        facts: base_log.map(facts).unwrap_or_default(),
        skips: skips(&measured),
        not_available,
        for_boards: layout_or_locking(&prepared.code).iter().map(ToString::to_string).collect(),
        tampering: kernels.tampering,
        excerpt: measured.excerpt,
        environment: base_log.map(|l| l.environment_before.clone()).unwrap_or_default(),
        executed,
        provenance: Provenance {
            tool_version: env!("CARGO_PKG_VERSION").into(),
            tree: prepared.tree.title.clone(),
            base_commit: prepared.tree.commit.clone(),
            kernel_config: prepared.configuration.fragment().name().into(),
            repeat: request.repeat.clone(),
            started: started.to_owned(),
            duration_seconds: elapsed.as_secs(),
            operator: request.operator.clone(),
            bundle_url: None,
            origin: "kernmark".into(),
        },
        series: prepared.series,
        plan: prepared.plan,
    }
}

fn points(prepared: &Prepared, measured: &Measured) -> Vec<Point> {
    let planned = prepared.plan.points();
    measured
        .points
        .iter()
        .filter_map(|finished| {
            let place = planned.get(finished.record.index.checked_sub(1)?)?;
            let identity = PointIdentity {
                experiment: prepared.plan.experiment.clone(),
                point: finished.record.boot.name.clone(),
                build: prepared.plan.builds[place.build].label.clone(),
                boot: finished.record.index as u64,
                seed: Some(place.seed),
            };
            Some(to_point(&finished.log, &identity, Evidence::Path))
        })
        .collect()
}

/// What became of each changed function, from the images and the untimed boots of base and the last build.
fn judge_functions(prepared: &Prepared, kernels: &Kernels, measured: &Measured) -> Executed {
    let code = &prepared.code;
    let (Some(base), Some(last)) = (kernels.builds.first(), kernels.builds.last()) else {
        let nothing = Side::default();
        return fates(code.functions.clone(), code.outside.clone(), &nothing.observed(), &nothing.observed());
    };
    let side = |build: &crate::kernel::Build| {
        let booted = build.record.same_image_as.as_deref().unwrap_or(&build.record.label);
        let log = measured.observed.iter().find(|(label, _)| label == booted).map(|(_, log)| log);
        Side {
            objects: build.objects.clone(),
            system_map: SystemMap::parse(&build.system_map),
            config: Some(Config::parse(&build.config)),
            executed: log.and_then(executed),
        }
    };
    let (base, last) = (side(base), side(last));
    fates(code.functions.clone(), code.outside.clone(), &base.observed(), &last.observed())
}

/// One side as the judgement takes it.
#[derive(Default)]
struct Side {
    objects: BTreeSet<String>,
    system_map: SystemMap,
    config: Option<Config>,
    executed: Option<BTreeSet<String>>,
}

impl Side {
    fn observed(&self) -> Observed<'_> {
        Observed {
            objects: &self.objects,
            system_map: &self.system_map,
            object_symbols: None,
            config: self.config.as_ref(),
            executed: self.executed.as_ref(),
            traceable: None,
        }
    }
}

/// The untimed log of every build in plan order; `None` unless all are there.
fn observed_by_build<'a>(kernels: &Kernels, measured: &'a Measured) -> Option<Vec<&'a PointLog>> {
    kernels
        .builds
        .iter()
        .map(|build| {
            let booted = build.record.same_image_as.as_deref().unwrap_or(&build.record.label);
            measured.observed.iter().find(|(label, _)| label == booted).map(|(_, log)| log)
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

fn skips(measured: &Measured) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = measured
        .points
        .iter()
        .flat_map(|p| &p.log.skips)
        .map(|s| (format!("{} {}", s.workload, s.arm).trim_end().to_owned(), s.reason.clone()))
        .collect();
    found.sort();
    found.dedup();
    found
}
