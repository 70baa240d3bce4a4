// SPDX-License-Identifier: GPL-2.0-or-later
//! Conditions on validity, as far as the findings show them, and the noise of
//! `time` evidence.

use super::is_whole;
use crate::builds::IdentityField;
use crate::compare::Comparison;
use crate::findings::Findings;
use crate::plan::Evidence;
use crate::report::names::metric_name;
use crate::report::number::{bound, percent};
use serde::Serialize;
use std::collections::BTreeMap;

/// A condition, and whether it held.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// `build identity` ...
    pub name: &'static str,
    /// Whether it held.
    pub pass: bool,
    /// What was seen.
    pub detail: String,
}

/// Every condition that the findings show.
pub fn gates(findings: &Findings) -> Vec<Gate> {
    let mut gates = vec![protocol(findings)];
    gates.extend(identity(findings));
    gates.extend(boots(findings));
    gates.extend(match findings.plan.evidence {
        Evidence::Path => determinism(findings),
        Evidence::Time => stability(findings),
    });
    gates.extend(control(findings));
    if !findings.tampering.is_empty() {
        let detail: Vec<String> =
            findings.tampering.iter().map(|(label, what)| format!("{label} {what}")).collect();
        gates.push(Gate { name: "builds kept to themselves", pass: false, detail: detail.join("; ") });
    }
    gates
}

fn protocol(findings: &Findings) -> Gate {
    let recomputed = findings.plan.protocol_sha256();
    Gate {
        name: "protocol frozen",
        pass: recomputed == findings.protocol_sha256,
        detail: if recomputed == findings.protocol_sha256 {
            "the plan has the hash that the boots carry".into()
        } else {
            "the plan has another hash than the boots carry: it was changed after they ran".into()
        },
    }
}

fn identity(findings: &Findings) -> Option<Gate> {
    let (base, others) = findings.builds.split_first()?;
    let (mut different, mut allowed) = (Vec::new(), Vec::new());
    for build in others {
        let planned = findings.plan.builds.iter().find(|b| b.label == build.label);
        let may = planned.and_then(|b| b.source.as_ref()).map_or(&[][..], |s| &s.may_differ);
        let fields = base.identity.differences(&build.identity);
        let told = |fields: Vec<&IdentityField>| {
            let names: Vec<String> = fields.iter().map(ToString::to_string).collect();
            (!names.is_empty()).then(|| format!("{} differs in {}", build.label, names.join(", ")))
        };
        different.extend(told(fields.iter().filter(|f| !may.contains(f)).collect()));
        if let Some(told) = told(fields.iter().filter(|f| may.contains(f)).collect()) {
            allowed.push(format!("{told}, as the plan allows: {}", build.allowed_differences.join(", ")));
        }
    }
    let pass = different.is_empty();
    different.extend(allowed);
    Some(Gate {
        name: "build identity",
        pass,
        detail: if different.is_empty() {
            "compiler, configuration and build names are equal on all sides".into()
        } else {
            different.join("; ")
        },
    })
}

fn boots(findings: &Findings) -> Option<Gate> {
    let planned = findings
        .plan
        .points()
        .iter()
        .filter(|p| {
            let label = findings.plan.builds.get(p.build).map(|b| b.label.as_str());
            let record = findings.builds.iter().find(|b| Some(b.label.as_str()) == label);
            // Bisection makes only the builds that it asks for.
            let asked = record.is_some() || findings.plan.attribution.is_every_build();
            asked && record.is_none_or(|b| b.same_image_as.is_none())
        })
        .count();
    let done = super::boots(findings);
    (planned > 0).then(|| Gate {
        name: "boots in their order",
        pass: done == planned,
        detail: format!("{done} of {planned} boots gave results"),
    })
}

/// Two boots of one image and seed must agree.
fn determinism(findings: &Findings) -> Option<Gate> {
    let mut repeats: BTreeMap<(&str, Option<u64>, &str, &str), Vec<f64>> = BTreeMap::new();
    for m in &findings.medians {
        repeats.entry((&m.build, m.seed, &m.workload, &m.metric)).or_default().push(m.median);
    }
    let repeated = repeats.values().filter(|v| v.len() > 1).count();
    let broken = repeats.values().filter(|v| v.iter().any(|x| *x != v[0])).count();
    (repeated > 0).then(|| Gate {
        name: "repeats identical",
        pass: broken == 0,
        detail: if broken == 0 {
            "every pair of boots of one image and seed gave the same medians".into()
        } else {
            format!("{broken} medians differ between boots of one image and seed: the runner is broken")
        },
    })
}

fn stability(findings: &Findings) -> Option<Gate> {
    let unstable: Vec<String> = findings
        .comparison
        .comparisons
        .iter()
        .filter(|c| is_whole(findings, c) && !c.stability_pass)
        .map(|c| metric_name(&c.workload, &c.metric).short)
        .collect();
    (!findings.comparison.comparisons.is_empty()).then(|| Gate {
        name: "spread and drift",
        pass: unstable.is_empty(),
        detail: if unstable.is_empty() {
            "every metric is within its gates".into()
        } else {
            format!("beyond their gates: {}", unstable.join(", "))
        },
    })
}

/// The negative control must not move by 1 % (statistics.md 3.5).
fn control(findings: &Findings) -> Option<Gate> {
    const LIMIT_PERCENT: f64 = 1.0;
    let control = control_of(findings)?;
    let change = control.verdict.change_percent?;
    Some(Gate {
        name: "negative control",
        pass: change.abs() < LIMIT_PERCENT,
        detail: format!(
            "{} {}",
            metric_name(&control.workload, &control.metric).short,
            percent(Some(change))
        ),
    })
}

fn control_of(findings: &Findings) -> Option<&Comparison> {
    findings
        .comparison
        .comparisons
        .iter()
        .find(|c| is_whole(findings, c) && c.workload.starts_with("control."))
}

/// `time` evidence: how far repeats are apart, one phrase each.
pub fn noise(findings: &Findings, headline: Option<&Comparison>) -> Vec<String> {
    if findings.plan.evidence != Evidence::Time {
        return Vec::new();
    }
    let mut parts = Vec::new();
    if let Some(drift) = headline.and_then(|h| super::whole(findings, h).unwrap_or(h).old_drift_percent) {
        parts.push(format!("base boots {} apart", bound(round_up(drift.abs()))));
    }
    if let Some((control, change)) = control_of(findings).and_then(|c| Some((c, c.verdict.change_percent?))) {
        let name = metric_name(&control.workload, &control.metric).short;
        parts.push(format!("{name} {}", percent(Some(change))));
    }
    let cv = findings.comparison.comparisons.iter().filter_map(|c| c.max_cv_percent).fold(0.0, f64::max);
    if cv > 0.0 {
        parts.push(format!("sample CV at most {}", bound(round_up(cv))));
    }
    parts
}

/// To one decimal, away from 0, so that a bound holds.
fn round_up(percent: f64) -> f64 {
    (percent * 10.0).ceil() / 10.0
}
