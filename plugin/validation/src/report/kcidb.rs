// SPDX-License-Identifier: GPL-2.0-or-later
//! KCIDB JSON, schema v5.3 (formats.md 1.1): checkouts, builds and tests of base and patched.
//!
//! LONGER is DONE, not FAIL: path length is no time. FAIL is for SLOWER.

use super::story::verdict_word;
use super::{ReportError, Templates};
use crate::compare::VerdictName;
use crate::findings::Findings;
use crate::mail::Patch;
use crate::plan::hex;
use crate::verdict::Outcome;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Longest log excerpt the schema takes, bytes.
const EXCERPT_BYTES: usize = 16_384;

/// Why findings have no KCIDB form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KcidbError {
    /// JSON has no NaN and no infinity; KCIDB would refuse the whole file.
    #[error("report {what} to KCIDB: the number is not finite; this is a bug of kernmark or a forged log")]
    NotFinite {
        /// Which number.
        what: String,
    },
}

/// The report as indented JSON.
pub fn render(findings: &Findings, _: &Templates) -> Result<String, ReportError> {
    Ok(serde_json::to_string_pretty(&report(findings)?)? + "\n")
}

/// SHA-256 over the patch digests, one per line: KCIDB's `patchset_hash`; empty without patches.
pub fn patchset_hash(patches: &[Patch]) -> String {
    if patches.is_empty() {
        return String::new();
    }
    let text: String = patches.iter().map(|p| format!("{}\n", p.diff_sha256)).collect();
    hex(&Sha256::digest(text.as_bytes()))
}

fn report(findings: &Findings) -> Result<Value, KcidbError> {
    let origin = origin(&findings.provenance.origin);
    let run = run_id(findings);
    let mut checkouts = Vec::new();
    let mut builds = Vec::new();
    let mut tests = Vec::new();
    for planned in &findings.plan.builds {
        let patches =
            &findings.series.patches[..(planned.patches as usize).min(findings.series.patches.len())];
        let place = planned.label.replace('/', "-of-");
        let checkout_id = format!("{origin}:ck-{run}-{place}");
        let build_id = format!("{origin}:b-{run}-{place}");
        checkouts.push(checkout(findings, &origin, &checkout_id, patches));
        let record = findings.builds.iter().find(|b| b.label == planned.label);
        let mut build = object(json!({
            "id": build_id, "origin": origin, "checkout_id": checkout_id, "architecture": "x86_64",
            "config_name": "kernmark-minimal", "start_time": findings.provenance.started,
            "status": if record.is_some() { "PASS" } else { "MISS" },
            "comment": format!("kernmark build {}", planned.label),
        }));
        if let Some(record) = record {
            build.insert("compiler".into(), record.identity.compiler.clone().into());
            build.insert(
                "misc".into(),
                json!({"image_sha256": record.image_sha256, "config_sha256": record.identity.config_sha256}),
            );
        }
        builds.push(Value::from(build));
        tests.extend(tests_of(findings, &origin, &run, &planned.label, &build_id)?);
    }
    if let Outcome::Invalid { place, reason } = &findings.verdict.outcome {
        attach_failure(findings, &mut builds, &mut tests, &origin, &run, place, reason);
    }
    Ok(json!({
        "version": {"major": 5, "minor": 3},
        "checkouts": checkouts, "builds": builds, "tests": tests,
    }))
}

fn checkout(findings: &Findings, origin: &str, id: &str, patches: &[Patch]) -> Value {
    let mut checkout = object(json!({
        "id": id, "origin": origin,
        // A tree name of its own: a patched checkout must not merge with its base upstream.
        "tree_name": if patches.is_empty() { "kernmark-base".to_owned() } else { "kernmark-patched".to_owned() },
        "patchset_hash": patchset_hash(patches),
        "start_time": findings.provenance.started, "valid": true,
        "comment": clean(&format!("{}, {} of {} patches of {}", findings.provenance.tree, patches.len(), findings.series.total, findings.series.title)),
    }));
    if let Some(commit) = &findings.provenance.base_commit {
        checkout.insert("git_commit_hash".into(), commit.clone().into());
    }
    if let Some(message_id) = patches.last().map(|p| p.message_id.as_str()).filter(|id| id.contains('@')) {
        checkout.insert("message_id".into(), clean(message_id).into());
    }
    Value::from(checkout)
}

/// One test for each metric of one build: what was measured there, and for the
/// last build what the verdict says.
fn tests_of(
    findings: &Findings,
    origin: &str,
    run: &str,
    label: &str,
    build_id: &str,
) -> Result<Vec<Value>, KcidbError> {
    let mut tests: Vec<Value> = Vec::new();
    let mut metrics: Vec<(&str, &str, &str)> = Vec::new();
    for median in findings.medians.iter().filter(|m| m.build == label) {
        let metric = (median.workload.as_str(), median.metric.as_str(), median.unit.as_str());
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    for (workload, metric, unit) in metrics {
        let path = test_path(workload, metric);
        let mut values: Vec<f64> = findings
            .medians
            .iter()
            .filter(|m| m.build == label && m.workload == workload && m.metric == metric)
            .map(|m| m.median)
            .collect();
        if values.iter().any(|v| !v.is_finite()) {
            return Err(KcidbError::NotFinite { what: format!("{path} of {label}") });
        }
        values.sort_by(f64::total_cmp);
        let value = values[values.len() / 2];
        let comparison = findings.comparison.comparisons.iter().find(|c| {
            c.workload == workload
                && c.metric == metric
                && c.new_build == label
                && findings.plan.builds.first().is_some_and(|b| b.label == c.old_build)
        });
        let name = comparison.map(|c| c.verdict.name);
        let status = if name == Some(VerdictName::Slower) { "FAIL" } else { "DONE" };
        let claim = match comparison.and_then(|c| Some((c.verdict.name, c.verdict.change_percent?))) {
            Some((_, change)) if !change.is_finite() => {
                return Err(KcidbError::NotFinite { what: format!("change of {path} of {label}") });
            }
            Some((name, change)) => format!(", {name} {change:+.3}% against base"),
            None => String::new(),
        };
        let mut number = object(json!({"value": value, "unit": unit_of(unit)}));
        if unit == "ns" {
            number.insert("value".into(), (value * 1e-9).into());
            number.insert("prefix".into(), "metric".into());
        }
        tests.push(json!({
            "id": format!("{origin}:t-{run}-{}-{path}", label.replace('/', "-of-")),
            "origin": origin, "build_id": build_id, "path": path, "status": status,
            "number": number, "start_time": findings.provenance.started,
            "comment": clean(&format!("{value} {unit} per operation{claim}")),
            "environment": {"compatible": [platform(findings)], "comment": clean(&environment(findings))},
            "misc": {"platform": platform(findings), "runtime": findings.plan.runner, "protocol_sha256": findings.protocol_sha256},
        }));
    }
    if findings.plan.builds.last().is_some_and(|b| b.label == label) {
        for (what, reason) in &findings.skips {
            let path = test_path(
                what.split(' ').next().unwrap_or_default(),
                what.split(' ').nth(1).unwrap_or("skipped"),
            );
            tests.push(json!({
                "id": format!("{origin}:t-{run}-{}-skip-{path}", label.replace('/', "-of-")),
                "origin": origin, "build_id": build_id, "path": path, "status": "SKIP", "comment": clean(reason),
            }));
        }
    }
    Ok(tests)
}

/// Says with a build or boot that failed whose fault it was.
fn attach_failure(
    findings: &Findings,
    builds: &mut [Value],
    tests: &mut Vec<Value>,
    origin: &str,
    run: &str,
    place: &str,
    reason: &str,
) {
    let place = place.replace('/', "-of-");
    let build =
        builds.iter_mut().find(|b| b["id"].as_str().is_some_and(|id| id.ends_with(&format!("-{place}"))));
    let excerpt: String = findings.excerpt.chars().take(EXCERPT_BYTES / 4).collect();
    match build {
        // A kernel that was built and does not run: the boot failed.
        Some(build) if build["status"] == "PASS" => tests.push(json!({
            "id": format!("{origin}:t-{run}-{place}-boot"), "origin": origin, "build_id": build["id"], "path": "boot",
            "status": "FAIL", "comment": clean(reason), "log_excerpt": clean(&excerpt),
        })),
        Some(build) => {
            build["status"] = "FAIL".into();
            build["log_excerpt"] = clean(reason).into();
        }
        None => {}
    }
}

/// Digits that are the same for the same run and new for a rerun: the first value wins upstream.
fn run_id(findings: &Findings) -> String {
    let text = format!(
        "{}|{}|{}|{}",
        findings.protocol_sha256,
        patchset_hash(&findings.series.patches),
        findings.provenance.tree,
        findings.provenance.started
    );
    hex(&Sha256::digest(text.as_bytes()))[..24].to_owned()
}

/// `kernmark.kernfs.rmdir.scx-off.remove`; whatever the schema does not take becomes `_`.
fn test_path(workload: &str, metric: &str) -> String {
    let (arm, bare) = metric.rsplit_once('_').map_or((None, metric), |(arm, bare)| (Some(arm), bare));
    let parts = ["kernmark", workload].into_iter().chain(arm).chain([bare]);
    let kept: Vec<String> = parts
        .flat_map(|p| p.split('.'))
        .map(|p| {
            p.chars()
                .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' })
                .collect::<String>()
        })
        .filter(|p| !p.is_empty())
        .collect();
    kept.join(".")
}

fn unit_of(unit: &str) -> &str {
    if unit == "ns" { "s" } else { unit }
}

fn platform(findings: &Findings) -> String {
    if findings.plan.runner == "qemu" { "qemu-x86_64-icount".into() } else { findings.plan.runner.clone() }
}

fn environment(findings: &Findings) -> String {
    findings.environment.get("cpu.model").cloned().unwrap_or_else(|| verdict_word(&findings.verdict.outcome))
}

fn origin(asked: &str) -> String {
    let kept: String =
        asked.to_ascii_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if kept.is_empty() { "kernmark".into() } else { kept }
}

fn clean(text: &str) -> String {
    text.replace('\0', "")
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patchset_hash_follows_the_recipe() {
        let patch = |n: char| Patch { diff_sha256: n.to_string().repeat(64), ..Patch::default() };
        assert_eq!(patchset_hash(&[]), "");
        // printf '%s\n' aaa... bbb... | sha256sum
        let expected = hex(&Sha256::digest(format!("{}\n{}\n", "a".repeat(64), "b".repeat(64))));
        assert_eq!(patchset_hash(&[patch('a'), patch('b')]), expected);
    }

    #[test]
    fn paths_hold_only_what_the_schema_takes() {
        for (workload, metric, path) in [
            ("kernfs.rmdir", "remove", "kernmark.kernfs.rmdir.remove"),
            ("kernfs.rmdir", "bare_remove", "kernmark.kernfs.rmdir.bare.remove"),
            ("a b..c", "x/y", "kernmark.a_b.c.x_y"),
        ] {
            assert_eq!(test_path(workload, metric), path);
        }
    }
}
