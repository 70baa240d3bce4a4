// SPDX-License-Identifier: GPL-2.0-or-later
//! KCIDB JSON, schema v5.3 (formats.md 1.1 and 1.3): checkouts, builds and tests of every side.
//!
//! Upstream the first value of a field wins, so a run has ids of its own and a
//! rerun has new ones; and nobody shows `number`, so every number stands in the
//! comment and the log excerpt as well. LONGER is DONE, not FAIL: path length is
//! no time.

mod objects;
mod tests_of;

use super::{ReportError, Templates};
use crate::findings::Findings;
use crate::mail::Patch;
use crate::plan::{PlannedBuild, hex};
use crate::verdict::Outcome;
use objects::{Build, Checkout, Id, Report, Resource, Status, Text, Url, Version};
use sha2::{Digest, Sha256};

/// Why findings have no KCIDB form.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KcidbError {
    /// JSON has no NaN and no infinity; KCIDB would refuse the whole file.
    #[error(
        "report {what} to KCIDB: {value} is no finite number; run the experiment again, and report this as a bug of kernmark if it comes back"
    )]
    NotFinite {
        /// Which number.
        what: String,
        /// What it is instead.
        value: f64,
    },
    /// The bundle's address is none.
    #[error(
        "report to KCIDB: the address of the bundle {url:?} must start with https:// or http:// and a host"
    )]
    Url {
        /// As given.
        url: String,
    },
    /// An origin of other characters.
    #[error(
        "report to KCIDB: the origin {origin:?} may hold only a-z, 0-9 and _; use the name that KernelCI gave you"
    )]
    Origin {
        /// As given.
        origin: String,
    },
}

/// The report as indented JSON.
pub fn render(findings: &Findings, _: &Templates) -> Result<String, ReportError> {
    Ok(serde_json::to_string_pretty(&report(findings)?)? + "\n")
}

/// KCIDB's `patchset_hash`: SHA-256 over the digests of the patch files, one per line, in order;
/// empty without patches.
pub fn patchset_hash(patches: &[Patch]) -> String {
    if patches.is_empty() {
        return String::new();
    }
    let text: String = patches.iter().map(|p| format!("{}\n", p.diff_sha256)).collect();
    hex(&Sha256::digest(text.as_bytes()))
}

/// What all objects of a run share.
struct Run<'a> {
    findings: &'a Findings,
    origin: &'a str,
    /// RFC 3339, where the findings have it.
    started: Option<String>,
}

fn report(findings: &Findings) -> Result<Report, KcidbError> {
    let origin = findings.provenance.origin.as_str();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if origin.is_empty() || !origin.chars().all(plain) {
        return Err(KcidbError::Origin { origin: origin.to_owned() });
    }
    let time: Option<jiff::Timestamp> = findings.provenance.started.parse().ok();
    let run = Run { findings, origin, started: time.map(|t| t.to_string()) };
    let mut report = Report {
        version: Version { major: 5, minor: 3 },
        checkouts: Vec::new(),
        builds: Vec::new(),
        tests: Vec::new(),
    };
    for planned in &findings.plan.builds {
        let checkout = run.checkout(planned)?;
        let build = run.build(planned, &checkout.id);
        report.tests.extend(tests_of::tests(&run, planned, &build)?);
        report.checkouts.push(checkout);
        report.builds.push(build);
    }
    Ok(report)
}

impl<'a> Run<'a> {
    fn patches(&self, build: &PlannedBuild) -> &'a [Patch] {
        let patches = &self.findings.series.patches;
        if build.source.is_some() {
            // Not so many patches of the series: its description says what it is.
            return &[];
        }
        &patches[..(build.patches as usize).min(patches.len())]
    }

    /// Digits that are the same for the same run and new for the next one.
    fn key(&self) -> [&'a str; 2] {
        [&self.findings.protocol_sha256, &self.findings.provenance.started]
    }

    fn checkout(&self, planned: &PlannedBuild) -> Result<Checkout, KcidbError> {
        let findings = self.findings;
        let patches = self.patches(planned);
        let hash = patchset_hash(patches);
        let tree = &findings.provenance.tree;
        // Listings upstream merge checkouts of one tree, branch and commit whatever their patches,
        // so each set of patches is a branch of its own.
        let branch = match (&planned.source, hash.get(..12)) {
            (Some(_), _) => format!("kernmark-{}", planned.label),
            (None, Some(digits)) => format!("kernmark-{digits}"),
            (None, None) => "kernmark-base".to_owned(),
        };
        let own = planned.source.as_ref().and_then(|s| s.commit.clone());
        let commit = own.or_else(|| findings.provenance.base_commit.clone()).filter(|c| is_commit(c));
        let [protocol, started] = self.key();
        let parts = [tree, &branch, commit.as_deref().unwrap_or_default(), &hash, protocol, started];
        let series = &findings.series;
        let mail = match (&series.cover, patches) {
            (_, []) => None,
            (Some(cover), _) => Some(cover.message_id.as_str()),
            (None, [.., last]) => Some(last.message_id.as_str()),
        };
        let comment = if let Some(source) = &planned.source {
            format!("{tree}, {}: {source}, of: {}", planned.label, series.title)
        } else if patches.is_empty() {
            format!("{tree}, the base of: {}", series.title)
        } else {
            format!("{tree} with {} of {} patches of: {}", patches.len(), series.total, series.title)
        };
        Ok(Checkout {
            id: Id::new(self.origin, "ck", &parts),
            origin: self.origin.to_owned(),
            tree_name: Text::new(tree.split_whitespace().next().unwrap_or("unknown")),
            git_commit_hash: commit,
            git_repository_branch: Text::new(&branch),
            patchset_files: self.patch_files(patches)?,
            patchset_hash: hash,
            message_id: mail.filter(|id| id.contains('@')).map(Text::new),
            comment: Text::new(&comment),
            start_time: self.started.clone(),
            valid: true,
            misc: [("kernmark_protocol_sha256", Text::new(protocol))].into(),
        })
    }

    /// A file of the bundle; none of a private run.
    fn file(&self, name: &str, path: &str) -> Result<Option<Resource>, KcidbError> {
        let Some(bundle) = &self.findings.provenance.bundle_url else { return Ok(None) };
        Ok(Some(Resource { name: name.to_owned(), url: Url::new(bundle, path)? }))
    }

    fn patch_files(&self, patches: &[Patch]) -> Result<Vec<Resource>, KcidbError> {
        let file = |patch: &Patch| {
            let name = format!("{:04}.patch", patch.index);
            self.file(&name, &format!("patches/{name}")).transpose()
        };
        patches.iter().filter_map(file).collect()
    }

    fn build(&self, planned: &PlannedBuild, checkout: &Id) -> Build {
        let findings = self.findings;
        let record = findings.builds.iter().find(|b| b.label == planned.label);
        let failed = match &findings.verdict.outcome {
            Outcome::Invalid { place, reason } if record.is_none() && *place == planned.label => Some(reason),
            Outcome::Invalid { .. }
            | Outcome::Measured { .. }
            | Outcome::IdenticalImages
            | Outcome::NotBuilt { .. } => None,
        };
        let status = match (record, failed, &findings.verdict.outcome) {
            (Some(_), ..) => Status::Pass,
            (None, Some(_), _) => Status::Fail,
            (None, None, Outcome::NotBuilt { .. }) => Status::Skip,
            (None, None, _) => Status::Miss,
        };
        let compiler = record.map(|r| r.identity.compiler.as_str());
        let config = record.map_or("", |r| r.identity.config_sha256.as_str());
        let architecture = (findings.plan.runner == "qemu").then_some("x86_64");
        let [protocol, started] = self.key();
        let parts = [
            checkout.as_str(),
            architecture.unwrap_or_default(),
            config,
            compiler.unwrap_or_default(),
            protocol,
            started,
            &planned.label,
        ];
        let misc = record.map(|r| {
            [
                ("image_sha256", Text::new(&r.image_sha256)),
                ("config_sha256", Text::new(&r.identity.config_sha256)),
                ("kernel_release", Text::new(&r.identity.release)),
            ]
        });
        let comment = match failed {
            Some(reason) => format!("kernmark build {}: {reason}", planned.label),
            None => format!("kernmark build {}", planned.label),
        };
        Build {
            id: Id::new(self.origin, "b", &parts),
            origin: self.origin.to_owned(),
            checkout_id: checkout.clone(),
            comment: Text::new(&comment),
            start_time: self.started.clone(),
            architecture,
            compiler: compiler.map(Text::new),
            config_name: (findings.plan.runner == "qemu")
                .then(|| Text::new(&format!("kernmark-{}", findings.provenance.kernel_config))),
            log_excerpt: failed.map(|reason| Text::excerpt(reason)),
            status,
            misc: misc.into_iter().flatten().collect(),
        }
    }

    fn output_files(&self) -> Result<Vec<Resource>, KcidbError> {
        let names = ["report.html", "findings.json", "comparison.json"];
        names.iter().filter_map(|name| self.file(name, name).transpose()).collect()
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patchset_hash_follows_the_recipe() {
        let patch = |n: char| Patch { diff_sha256: n.to_string().repeat(64), ..Patch::default() };
        assert_eq!(patchset_hash(&[]), "");
        // printf '%s\n' aaa... bbb... | sha256sum
        assert_eq!(
            patchset_hash(&[patch('a'), patch('b')]),
            "913f9338fb6c17253f3a14816fc08d52522454bfc19a8c99538a197cfb23fb41"
        );
    }
}
