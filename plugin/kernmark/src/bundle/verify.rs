// SPDX-License-Identifier: GPL-2.0-or-later
//! Verification of a finished bundle by somebody else: every digest, the order
//! and identity of every boot, and every number once more from the recorded logs.
//! Runs no workload and builds nothing.

use super::manifest::Manifest;
use super::{Bundle, BundleError, file};
use crate::runners::{Outcome, StoredPoint, broken_repeats, judge, read_point};
use kernmark_validation::attribution::{self, next_builds};
use kernmark_validation::builds::BuildRecord;
use kernmark_validation::compare::Point;
use kernmark_validation::conclude::{self, BootLog, Known, conclude, named_by_logs};
use kernmark_validation::findings::Findings;
use kernmark_validation::plan::hex;
use kernmark_validation::report::{FORMATS, Templates};
use kernmark_validation::samples::PointLog;
use kernmark_validation::verdict::Incident;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// What was checked and holds, for a person.
    pub holds: Vec<String>,
    /// What does not, each with its place.
    pub problems: Vec<String>,
    /// One digest over all files.
    pub fingerprint: String,
}

/// One boot read back.
struct Boot {
    point: StoredPoint,
    log: PointLog,
}

/// Verifies a bundle.
///
/// # Errors
/// The experiment is not finished, or a file cannot be read at all.
pub fn verify(bundle: &Bundle, templates: &Templates) -> Result<Verified, BundleError> {
    let mut found = Verified::default();
    let recorded = Manifest::read(bundle.path())?;
    let now = Manifest::of(bundle.path())?;
    found.fingerprint = now.fingerprint();
    found.all(
        format!("{} files have the digests of the manifest", recorded.files.len()),
        recorded.differences(&now),
    );
    let findings = match bundle.findings() {
        Ok(findings) => findings,
        Err(error) => {
            found.problems.push(error.to_string());
            return Ok(found);
        }
    };
    found.holds.push("every file of a stage agrees with the findings".into());
    let planned = findings.plan.points();
    let booted: Vec<usize> = planned
        .iter()
        .enumerate()
        .filter(|(_, p)| record_at(&findings, p.build).is_some_and(|b| b.same_image_as.is_none()))
        .map(|(at, _)| at + 1)
        .collect();
    let points = found.boots(bundle, "points", &booted, &findings);
    let made: Vec<usize> = (0..findings.plan.builds.len())
        .filter(|at| record_at(&findings, *at).is_some())
        .map(|at| at + 1)
        .collect();
    let observations = found.boots(bundle, "observations", &made, &findings);
    found.order(&findings, &points, &observations);
    found.initramfs(bundle, &points)?;
    found.numbers(&findings, &points, &observations);
    let mut reports = Vec::new();
    for format in FORMATS {
        let text = (format.render)(&findings, templates)?;
        if recorded.files.get(format.file).is_some_and(|digest| *digest != hex(&Sha256::digest(&text))) {
            reports.push(format!("{}: it does not follow from findings.json", format.file));
        }
    }
    found.all(format!("{} reports follow from the findings", FORMATS.len()), reports);
    Ok(found)
}

impl Verified {
    /// Notes that something holds, unless there are problems.
    fn all(&mut self, holds: String, problems: Vec<String>) {
        if problems.is_empty() {
            self.holds.push(holds);
        }
        self.problems.extend(problems);
    }

    /// Reads the boots below `kind`. An experiment that ended early has fewer than planned.
    fn boots(&mut self, bundle: &Bundle, kind: &str, indices: &[usize], findings: &Findings) -> Vec<Boot> {
        let directory = bundle.path().join(kind);
        let ended_early = findings.incidents.iter().any(|i| !matches!(i, Incident::IdenticalImage { .. }));
        let mut boots = Vec::new();
        let mut problems = Vec::new();
        for &index in indices {
            let there = directory.join(index.to_string()).exists();
            match read_point(&directory, index) {
                Ok(point) => {
                    let key = &point.record.boot;
                    let (outcome, log) =
                        judge(&key.name, &key.protocol, &point.record.end, &point.results, &point.console);
                    if outcome != point.record.outcome {
                        problems.push(format!(
                            "{kind}/{index}/point.json: it says {}, the logs say {outcome}",
                            point.record.outcome
                        ));
                    }
                    boots.push(Boot { point, log });
                }
                // The manifest knows whether a point was ever there.
                Err(_) if !there && (ended_early || kind == "observations") => {}
                Err(reason) => problems.push(reason),
            }
        }
        self.all(format!("{} boots in {kind} are as recorded", boots.len()), problems);
        boots
    }

    fn order(&mut self, findings: &Findings, points: &[Boot], observations: &[Boot]) {
        let planned = findings.plan.points();
        let mut problems = Vec::new();
        for boot in points.iter().chain(observations) {
            let record = &boot.point.record;
            if record.boot.protocol != findings.protocol_sha256 {
                problems.push(format!("{}: it ran under another protocol", record.boot.name));
            }
        }
        for boot in points {
            let record = &boot.point.record;
            let Some(place) = planned.get(record.index.wrapping_sub(1)) else { continue };
            let image = record_at(findings, place.build).map_or("", |b| &b.image_sha256);
            if record.boot.image_sha256 != image || record.boot.seed != place.seed {
                problems.push(format!(
                    "points/{}: the order wants build {} with seed {} there",
                    record.index, findings.plan.builds[place.build].label, place.seed
                ));
            }
        }
        for broken in broken_repeats(points.iter().map(|b| &b.point.record)) {
            problems.push(broken.to_string());
        }
        // Equal boots have equal ids in the emulator; different ones must not (invariant 7).
        let mut ids: BTreeMap<&str, (&str, u64)> = BTreeMap::new();
        for boot in points {
            let Some(start) = &boot.log.start else { continue };
            let this = (boot.point.record.boot.image_sha256.as_str(), boot.point.record.boot.seed);
            if ids.insert(&start.boot_id, this).is_some_and(|other| other != this) {
                problems.push(format!("points/{}: its boot_id was seen before", boot.point.record.index));
            }
        }
        self.all("order, images, seeds, protocol and boot ids are those of the plan".into(), problems);
    }

    /// Nothing more is asked for by what was measured: bisection did not stop early.
    fn complete(&mut self, findings: &Findings, points: &[Point]) {
        let failed: Vec<String> = findings
            .incidents
            .iter()
            .filter_map(|incident| match incident {
                Incident::BuildFailed { build, .. } => Some(build.clone()),
                Incident::IdenticalImage { .. } | Incident::NotBuilt { .. } | Incident::BootFailed { .. } => {
                    None
                }
            })
            .collect();
        let known =
            attribution::Known { plan: &findings.plan, builds: &findings.builds, failed: &failed, points };
        let made = |at: &usize| record_at(findings, *at).is_some();
        let ended_early = findings
            .incidents
            .iter()
            .any(|i| matches!(i, Incident::NotBuilt { .. } | Incident::BootFailed { .. }));
        let missing: Vec<String> = next_builds(&known)
            .into_iter()
            .filter(|at| !made(at) && !ended_early)
            .map(|at| {
                format!(
                    "build {} should have been measured, and is not there",
                    findings.plan.builds[at].label
                )
            })
            .collect();
        self.all("every build that the plan asks for was made".into(), missing);
    }

    fn initramfs(&mut self, bundle: &Bundle, points: &[Boot]) -> Result<(), BundleError> {
        if points.is_empty() {
            return Ok(());
        }
        let path = bundle.path().join("initramfs.cpio.gz");
        let digest = hex(&Sha256::digest(std::fs::read(&path).map_err(|e| crate::cache::at(&path, e))?));
        let other = points.iter().filter(|b| b.point.record.boot.initramfs_sha256 != digest);
        let problems = other
            .map(|b| format!("points/{}: it measured with another program", b.point.record.index))
            .collect();
        self.all("one measuring program in all boots".into(), problems);
        Ok(())
    }

    /// Every number once more, from the logs.
    fn numbers(&mut self, findings: &Findings, points: &[Boot], observations: &[Boot]) {
        let boots: Vec<BootLog<'_>> = points
            .iter()
            .map(|b| BootLog { index: b.point.record.index, name: &b.point.record.boot.name, log: &b.log })
            .collect();
        let label = |b: &Boot| record_at(findings, b.point.record.index - 1).map_or("", |build| &build.label);
        let observed: Vec<(&str, &PointLog)> = observations
            .iter()
            .filter(|b| b.point.record.outcome == Outcome::Done && b.log.failed_check().is_none())
            .map(|b| (label(b), &b.log))
            .collect();
        self.complete(findings, &conclude::points(&findings.plan, &boots));
        let by_logs = named_by_logs(&observed);
        let known = Known {
            series: findings.series.clone(),
            plan: findings.plan.clone(),
            builds: findings.builds.clone(),
            executed: findings.executed.clone(),
            incidents: findings.incidents.clone(),
            not_available: findings.not_available.iter().filter(|n| !by_logs.contains(n)).cloned().collect(),
            for_boards: findings.for_boards.clone(),
            tampering: findings.tampering.clone(),
            excerpt: findings.excerpt.clone(),
            provenance: findings.provenance.clone(),
        };
        let (recorded, again) = (json(findings), json(&conclude(known, &boots, &observed)));
        let mut problems = Vec::new();
        differences("findings.json: ", &recorded, &again, &mut problems);
        self.all(format!("{} numbers come out of the logs again", count(&again)), problems);
    }
}

/// The build at a place in the plan, where it was made.
fn record_at(findings: &Findings, place: usize) -> Option<&BuildRecord> {
    let label = &findings.plan.builds.get(place)?.label;
    findings.builds.iter().find(|b| b.label == *label)
}

fn json(findings: &Findings) -> Value {
    file::as_read(findings).expect("findings hold finite numbers and strings")
}

fn count(value: &Value) -> usize {
    match value {
        Value::Number(_) => 1,
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::String(_) => 0,
    }
}

/// Where two values differ, with both.
fn differences(place: &str, recorded: &Value, again: &Value, found: &mut Vec<String>) {
    let step = |key: &str| format!("{}{}{key}", place, if place.ends_with(' ') { "" } else { "." });
    match (recorded, again) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let of =
                    |side: &serde_json::Map<String, Value>| side.get(key).cloned().unwrap_or(Value::Null);
                differences(&step(key), &of(a), &of(b), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (one, other)) in a.iter().zip(b).enumerate() {
                differences(&format!("{place}[{at}]"), one, other, found);
            }
        }
        _ if recorded == again => {}
        _ => found.push(format!("{place} is {}, the logs give {}", short(recorded), short(again))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 80 { text } else { text.chars().take(77).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_has_its_place_and_both_values() {
        let mut found = Vec::new();
        let recorded = json!({"a": [{"b": 1.5}, {"b": 2}], "c": "x", "d": 1});
        let again = json!({"a": [{"b": 1.5}, {"b": 3}], "c": "y"});
        differences("findings.json: ", &recorded, &again, &mut found);
        assert_eq!(
            found,
            [
                "findings.json: a[1].b is 2, the logs give 3",
                "findings.json: c is \"x\", the logs give \"y\"",
                "findings.json: d is 1, the logs give null"
            ]
        );
        assert_eq!(count(&recorded), 3);
    }
}
