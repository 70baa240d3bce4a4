// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the bundle of an experiment goes: the same experiment continues in the
//! same directory until it is finished; then the next one gets a number.

use super::Request;
use super::prepare::Prepared;
use crate::bundle::{Bundle, BundleError};
use crate::exit::Failure;
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Longest part of a title in a directory name.
const TITLE_LENGTH: usize = 40;

/// The bundle to work in.
///
/// # Errors
/// The directory asked for holds another experiment, or cannot be made.
pub fn bundle(request: &Request, prepared: &Prepared) -> Result<Bundle, Failure> {
    if let Some(path) = &request.out {
        let bundle = Bundle::open(path);
        let protocol = prepared.plan.protocol_sha256();
        if let Some(plan) = bundle.plan()
            && (bundle.is_finished() || plan.protocol_sha256() != protocol)
        {
            return Err(Failure::usage(format!(
                "--out {}: there is {} in it; choose another directory",
                path.display(),
                if bundle.is_finished() {
                    "a finished experiment"
                } else {
                    "another experiment, not finished,"
                }
            )));
        }
        return Ok(Bundle::create(path)?);
    }
    let stem = format!("kernmark-{}-{}", slug(&prepared.series.title), &digest(prepared)[..8]);
    let mut number = 1;
    loop {
        let name = if number == 1 { stem.clone() } else { format!("{stem}.{number}") };
        let path = PathBuf::from(name);
        if !Bundle::open(&path).is_finished() {
            return Bundle::create(&path).map_err(|e: BundleError| e.into());
        }
        number += 1;
    }
}

/// Digits that are the same for the same experiment.
fn digest(prepared: &Prepared) -> String {
    let mut hash = Sha256::new();
    hash.update(prepared.plan.protocol_sha256());
    hash.update(&prepared.tree.key);
    for patch in &prepared.series.patches {
        hash.update(&patch.diff_sha256);
    }
    hex(&hash.finalize())
}

/// Lower-case letters, digits and single dashes of a title.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for character in title.chars() {
        if character.is_ascii_alphanumeric() {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
        if slug.len() >= TITLE_LENGTH {
            break;
        }
    }
    let slug = slug.trim_matches('-').to_owned();
    if slug.is_empty() { "series".into() } else { slug }
}

#[cfg(test)]
mod tests {
    #[test]
    fn titles_become_plain_names() {
        for (title, expected) in [
            ("kernfs: tell inode watchers when", "kernfs-tell-inode-watchers-when"),
            ("../../etc/passwd\u{1b}[2J", "etc-passwd-2j"),
            ("\u{f6}\u{f6}", "series"),
        ] {
            assert_eq!(super::slug(title), expected);
        }
        assert!(super::slug(&"a ".repeat(90)).len() <= 40);
    }
}
