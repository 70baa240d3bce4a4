// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the bundle of an experiment goes: the same experiment continues in the
//! same directory until it is finished; then the next one gets a number.

use super::Runtime;
use super::prepare::Prepared;
use crate::bundle::{Bundle, BundleError};
use crate::exit::Failure;
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Longest part of a title in a directory name.
const TITLE_LENGTH: usize = 40;

/// The bundle to work in.
///
/// # Errors
/// The directory asked for holds another experiment, or cannot be made.
pub fn bundle(runtime: &Runtime, prepared: &Prepared) -> Result<Bundle, Failure> {
    if let Some(path) = &runtime.out {
        return asked(path, &prepared.plan.protocol_sha256());
    }
    let stem = format!("kernmark-{}-{}", slug(&prepared.series.title), &digest(prepared)[..8]);
    free(&stem)
}

/// The directory a person named: new, empty, or with this very experiment, not finished.
fn asked(path: &Path, protocol: &str) -> Result<Bundle, Failure> {
    let refused = |what: &str| {
        Failure::usage(format!("--out {}: there is {what} in it; choose another directory", path.display()))
    };
    let bundle = Bundle::create(path)?;
    if bundle.is_finished() {
        return Err(refused("a finished experiment"));
    }
    match bundle.plan() {
        Ok(None) => Ok(bundle),
        Ok(Some(plan)) if plan.protocol_sha256() == protocol => Ok(bundle),
        Ok(Some(_)) => Err(refused("another experiment, not finished,")),
        Err(error) => Err(refused(&format!("an experiment that cannot be continued ({error})"))),
    }
}

/// The first of STEM, STEM.2 and so on that is not finished, not damaged, and that nobody else works in.
fn free(stem: &str) -> Result<Bundle, Failure> {
    for number in 1_u32.. {
        let path = PathBuf::from(if number == 1 { stem.to_owned() } else { format!("{stem}.{number}") });
        match Bundle::create(&path) {
            Ok(bundle) if !bundle.is_finished() && bundle.plan().is_ok() => return Ok(bundle),
            Ok(_) | Err(BundleError::Busy { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::host(format!("{stem}: no directory is free; remove some of them")))
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
    use super::*;

    #[test]
    fn nothing_finished_damaged_or_in_use_is_written_to() {
        let place = tempfile::tempdir().expect("temporary directory");
        let stem = place.path().join("b");
        let said = |what: &str| match asked(&stem, "p") {
            Ok(_) => panic!("taken though {what}"),
            Err(failure) => failure.message,
        };
        let held = asked(&stem, "p").expect("new");
        assert!(said("in use").contains("another kernmark is working there"), "{}", said("in use"));
        let beside = free(&stem.display().to_string()).expect("the next number");
        assert!(beside.path().ends_with("b.2"));
        drop((held, beside));
        std::fs::write(stem.join("plan.json"), "{\"version\": 1, \"tru").expect("writable");
        assert!(said("damaged").contains("cannot be continued"), "{}", said("damaged"));
        let beside = free(&stem.display().to_string()).expect("the next number");
        assert!(beside.path().ends_with("b.2"));
        std::fs::write(stem.join("manifest.json"), "").expect("writable");
        assert!(said("finished").contains("a finished experiment"), "{}", said("finished"));
    }

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
