// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether two builds may be compared (protocol.md 6.1): everything but the source must be equal,
//! unless the plan says beforehand what may differ; that is then listed.

use super::config::{canonical_sha256, differences};
use super::error::BuildError;
use super::image::Build;
use kernmark_validation::builds::{BuildIdentity, IdentityField};

/// At most this many differing symbols are named.
const NAMED: usize = 8;

/// Refuses `build` where it differs from `reference` in more than its source and `may_differ`;
/// notes the differences that are allowed.
///
/// # Errors
/// It differs elsewhere; the error names the fields.
pub fn agree(reference: &Build, build: &mut Build, may_differ: &[IdentityField]) -> Result<(), BuildError> {
    if !build.config.is_empty() && !reference.config.is_empty() {
        // Options that the reference has never heard of are part of the source.
        build.record.identity.config_sha256 = canonical_sha256(&build.config, Some(&reference.config));
    }
    let (one, other) = (&reference.record.identity, &build.record.identity);
    let differing = one.differences(other);
    let (allowed, refused): (Vec<IdentityField>, Vec<IdentityField>) =
        differing.into_iter().partition(|field| may_differ.contains(field));
    if !refused.is_empty() {
        let mut fields: Vec<String> = refused.iter().map(ToString::to_string).collect();
        fields.extend(symbols(reference, build));
        let (side, reference) = (build.record.label.clone(), reference.record.label.clone());
        return Err(BuildError::Identity { side, reference, fields });
    }
    let mut told: Vec<String> = Vec::new();
    for field in allowed {
        match field {
            IdentityField::Config => {
                told.push(field.to_string());
                told.extend(symbols(reference, build));
            }
            _ => told.push(format!(
                "{field} ({} in {}, {} here)",
                value(one, field),
                reference.record.label,
                value(other, field)
            )),
        }
    }
    build.record.allowed_differences = told;
    Ok(())
}

fn value(identity: &BuildIdentity, field: IdentityField) -> String {
    match field {
        IdentityField::Compiler => identity.compiler.clone(),
        IdentityField::Config => identity.config_sha256.clone(),
        IdentityField::Timestamp => identity.timestamp.clone(),
        IdentityField::User => identity.user.clone(),
        IdentityField::Host => identity.host.clone(),
        IdentityField::ReleaseLength => identity.release_length.to_string(),
    }
}

/// The symbols that differ, where both configurations are known.
fn symbols(reference: &Build, build: &Build) -> Vec<String> {
    if reference.config.is_empty() || build.config.is_empty() {
        return Vec::new();
    }
    let mut all = differences(&reference.config, &build.config);
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    if more > 0 {
        all.push(format!("and {more} more symbols"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_validation::builds::BuildRecord;

    fn build(label: &str, config: &str, release: &str) -> Build {
        Build {
            record: BuildRecord {
                label: label.into(),
                patches: 0,
                source: "a tree".into(),
                identity: BuildIdentity {
                    compiler: "gcc 12".into(),
                    config_sha256: canonical_sha256(config, None),
                    timestamp: "t".into(),
                    user: "u".into(),
                    host: "h".into(),
                    release_length: u32::try_from(release.len()).expect("short"),
                    release: release.into(),
                },
                image_sha256: String::new(),
                system_map_sha256: String::new(),
                same_image_as: None,
                allowed_differences: vec![],
            },
            image: "image".into(),
            system_map: String::new(),
            config: config.into(),
            objects: [].into(),
            tampered: vec![],
        }
    }

    #[test]
    fn what_the_plan_allows_is_listed_and_everything_else_refused() {
        let base = build("base", "CONFIG_A=y\n# CONFIG_B is not set\n", "6.12.1");
        let config = "CONFIG_A=m\n# CONFIG_B is not set\nCONFIG_NEW=y\n";
        let mut other = build("1/2", config, "6.12.10");
        let error = agree(&base, &mut other, &[]).expect_err("differs").to_string();
        assert_eq!(
            error,
            "1/2 cannot be compared with base: they differ in canonical config, release string length, \
             CONFIG_A (y in base, m here), CONFIG_NEW (n in base, y here)"
        );
        let config_only =
            agree(&base, &mut other, &[IdentityField::Config]).expect_err("differs").to_string();
        assert!(config_only.contains("differ in release string length"), "{config_only}");
        agree(&base, &mut other, &[IdentityField::Config, IdentityField::ReleaseLength]).expect("allowed");
        assert_eq!(
            other.record.allowed_differences,
            [
                "canonical config",
                "CONFIG_A (y in base, m here)",
                "CONFIG_NEW (n in base, y here)",
                "release string length (6 in base, 7 here)"
            ]
        );
    }

    #[test]
    fn a_series_may_add_options() {
        let base = build("base", "CONFIG_A=y\n", "6.12.1");
        let mut same = build("patched", "CONFIG_A=y\nCONFIG_NEW=y\n", "6.12.2");
        agree(&base, &mut same, &[]).expect("an added option and a release of equal length");
        assert!(same.record.allowed_differences.is_empty());
    }
}
