// SPDX-License-Identifier: GPL-2.0-or-later
//! The tests of one build: one for each metric, and one for whatever kept a
//! workload from being measured, by whose fault it was.

use super::objects::{Build, Environment, Id, Number, Status, Test, TestPath, Text, finite};
use super::{KcidbError, Run};
use crate::compare::{Comparison, VerdictName};
use crate::plan::{Evidence, PlannedBuild};
use crate::report::number::{bound, middle, number, percent};
use crate::verdict::Outcome;
use std::collections::BTreeMap;

/// All tests of a build.
pub fn tests(run: &Run<'_>, planned: &PlannedBuild, build: &Build) -> Result<Vec<Test>, KcidbError> {
    let mut tests = Vec::new();
    let mut measured: Vec<(&str, &str)> = Vec::new();
    for median in run.findings.medians.iter().filter(|m| m.build == planned.label) {
        let metric = (median.workload.as_str(), median.metric.as_str());
        if !measured.contains(&metric) {
            measured.push(metric);
            tests.push(measurement(run, planned, build, metric, &median.unit)?);
        }
    }
    tests.extend(missing(run, planned, build, &measured)?);
    if run.findings.plan.builds.last().is_some_and(|last| last.label == planned.label) {
        for (what, reason) in &run.findings.skips {
            let (workload, arm) = what.split_once(' ').unwrap_or((what, ""));
            let path = TestPath::new(&["kernmark", workload, arm]);
            tests.push(test(run, build, path, Status::Skip, format!("skipped: {reason}"))?);
        }
    }
    Ok(tests)
}

/// What was measured, and for a patched build what is claimed about it.
fn measurement(
    run: &Run<'_>,
    planned: &PlannedBuild,
    build: &Build,
    (workload, metric): (&str, &str),
    unit: &str,
) -> Result<Test, KcidbError> {
    let path = metric_path(run, workload, metric);
    let what = format!("{} of {}", path.as_str(), planned.label);
    let boots: Vec<_> = run
        .findings
        .medians
        .iter()
        .filter(|m| m.build == planned.label && m.workload == workload && m.metric == metric)
        .collect();
    let values = boots.iter().map(|m| finite(&what, m.median)).collect::<Result<Vec<f64>, _>>()?;
    let value = middle(&values).expect("a metric is known from its boots");
    let claim = claim(run, planned, workload, metric);
    let status = claim.map_or(Status::Done, |c| status(c.verdict.name));
    let mut comment = format!("{} {unit} per operation", number(value));
    let mut misc = BTreeMap::new();
    if let Some(comparison) = claim {
        let verdict = &comparison.verdict;
        for change in verdict.change_percent.iter().chain(verdict.interval_percent.iter().flatten()) {
            finite(&format!("the change of {what}"), *change)?;
        }
        comment.push_str(&format!(
            ": {} {} against {}",
            verdict.name,
            percent(verdict.change_percent),
            comparison.old_build
        ));
        if let Some(path) = &comparison.path {
            comment.push_str(&format!(
                " (bound {})",
                bound(finite(&format!("the bound of {what}"), path.bound_percent)?)
            ));
        }
        misc.insert("kernmark_verdict", Text::new(&verdict.name.to_string()));
        misc.extend(verdict.change_percent.map(|c| ("kernmark_change_percent", Text::new(&c.to_string()))));
    }
    if run.findings.plan.evidence == Evidence::Path {
        comment.push_str("; instructions counted in an emulator, not a time");
    }
    let excerpt: String = boots
        .iter()
        .map(|m| {
            let seed = m.seed.map_or_else(String::new, |s| format!(" seed {s}"));
            format!("boot {}{seed}: {} {unit}\n", m.boot, number(m.median))
        })
        .collect();
    let mut test = test(run, build, path, status, comment)?;
    test.number = Some(Number::new(&what, value, unit)?);
    test.log_excerpt = Some(Text::excerpt(&excerpt));
    test.misc.extend(misc);
    Ok(test)
}

/// FAIL only for a regression in time.
fn status(name: VerdictName) -> Status {
    match name {
        VerdictName::Slower => Status::Fail,
        VerdictName::Faster | VerdictName::NoChange => Status::Pass,
        VerdictName::Longer | VerdictName::Shorter | VerdictName::Same | VerdictName::Inconclusive => {
            Status::Done
        }
    }
}

/// The comparison of a build with the base.
fn claim<'a>(run: &Run<'a>, planned: &PlannedBuild, workload: &str, metric: &str) -> Option<&'a Comparison> {
    let base = run.findings.plan.builds.first()?;
    run.findings.comparison.comparisons.iter().find(|c| {
        c.workload == workload
            && c.metric == metric
            && c.new_build == planned.label
            && c.old_build == base.label
    })
}

/// Workloads of the plan without any number from this build: nothing came (MISS), the boot went
/// wrong (ERROR), or there was nothing to boot (SKIP).
fn missing(
    run: &Run<'_>,
    planned: &PlannedBuild,
    build: &Build,
    measured: &[(&str, &str)],
) -> Result<Vec<Test>, KcidbError> {
    let findings = run.findings;
    let twin =
        findings.builds.iter().find(|b| b.label == planned.label).and_then(|b| b.same_image_as.clone());
    let (status, reason) = match (&findings.verdict.outcome, twin) {
        (_, Some(twin)) => (Status::Skip, format!("the image is the same as that of {twin}")),
        (Outcome::NotBuilt { file, reason, .. }, None) => (Status::Skip, format!("{file}: {reason}")),
        (Outcome::Invalid { place, reason }, None) if is_of(place, &planned.label) => {
            (Status::Error, format!("{place}: {reason}"))
        }
        (Outcome::Invalid { .. } | Outcome::Measured { .. } | Outcome::IdenticalImages, None) => {
            (Status::Miss, "nothing came".to_owned())
        }
    };
    findings
        .plan
        .workloads
        .iter()
        .filter(|w| !measured.iter().any(|(workload, _)| *workload == w.id))
        .map(|w| {
            let mut test = test(run, build, TestPath::new(&["kernmark", &w.id]), status, reason.clone())?;
            if status == Status::Error && !findings.excerpt.is_empty() {
                test.log_excerpt = Some(Text::excerpt(&findings.excerpt));
            }
            Ok(test)
        })
        .collect()
}

/// Whether a build or point is of the build `label`: points are named `1-of-2-seed1`.
fn is_of(place: &str, label: &str) -> bool {
    let name = label.replace('/', "-of-");
    place == label || place == name || place.strip_prefix(&name).is_some_and(|rest| rest.starts_with('-'))
}

fn test(
    run: &Run<'_>,
    build: &Build,
    path: TestPath,
    status: Status,
    comment: String,
) -> Result<Test, KcidbError> {
    Ok(Test {
        id: Id::new(run.origin, "t", &[build.id.as_str(), path.as_str(), &comment]),
        origin: run.origin.to_owned(),
        build_id: build.id.clone(),
        environment: environment(run),
        path,
        comment: Text::new(&comment),
        log_excerpt: None,
        status,
        number: None,
        start_time: run.started.clone(),
        output_files: run.output_files()?,
        misc: [
            ("runtime", Text::new(&run.findings.plan.runner)),
            ("kernmark_protocol_sha256", Text::new(&run.findings.protocol_sha256)),
        ]
        .into(),
    })
}

fn environment(run: &Run<'_>) -> Environment {
    let findings = run.findings;
    let emulated = findings.plan.runner == "qemu";
    let model = findings.environment.get("cpu.model").map_or("", String::as_str);
    Environment {
        compatible: if emulated { vec!["qemu,x86_64-icount", "qemu,x86_64"] } else { Vec::new() },
        comment: Text::new(model),
        misc: [("platform", Text::new(if emulated { "qemu-x86_64" } else { &findings.plan.runner }))].into(),
    }
}

/// `kernmark.kernfs.rmdir.scx-off.remove`: the arm always, the default one too.
fn metric_path(run: &Run<'_>, workload: &str, metric: &str) -> TestPath {
    let findings = run.findings;
    let planned = findings.plan.workloads.iter().find(|w| w.id == workload).map_or(&[][..], |w| &w.arms);
    let prefixed =
        metric.rsplit_once('_').filter(|(arm, _)| planned.is_empty() || planned.iter().any(|a| a == arm));
    let default = || {
        let known = findings.default_arms.get(workload).or(planned.first());
        known.map_or("default", String::as_str)
    };
    let (arm, bare) = prefixed.unwrap_or_else(|| (default(), metric));
    TestPath::new(&["kernmark", workload, arm, bare])
}
