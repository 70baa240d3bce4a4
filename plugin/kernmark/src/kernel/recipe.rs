// SPDX-License-Identifier: GPL-2.0-or-later
//! How a kernel is made: the commands, the pinned values, and what is kept of
//! the result. Everything here runs inside the sandbox.

use super::error::BuildError;
use super::fragment::{Fragment, Program};
use crate::cache;
use std::fs;
use std::path::Path;

/// Goes into every key: a change in how kernels are built makes new entries.
pub(super) const RECIPE: &str = "recipe 3";

/// The same on all sides, so that images differ only by their source.
pub(super) const TIMESTAMP: &str = "2026-01-01";
pub(super) const USER: &str = "kernmark";
pub(super) const HOST: &str = "kernmark";

/// Fixed places inside, whatever the series: paths get into objects.
pub(super) const SOURCE: &str = "/kernmark/source";
pub(super) const OUTPUT: &str = "/kernmark/output";
pub(super) const RESULT: &str = "/kernmark/result";
pub(super) const HOME: &str = "/kernmark/home";

/// What a successful build leaves, one file each.
pub(super) const IMAGE: &str = "bzImage";
pub(super) const SYSTEM_MAP: &str = "System.map";
pub(super) const CONFIG: &str = "config";
pub(super) const OBJECTS: &str = "objects";
pub(super) const RELEASE: &str = "release";
const RESULT_FILES: [&str; 5] = [IMAGE, SYSTEM_MAP, CONFIG, OBJECTS, RELEASE];

/// Nothing of 2026 makes a larger kernel for an emulator.
const LARGEST_RESULT: u64 = 256 << 20;

/// Makes the .config from the fragment at /kernmark/fragment.
pub(super) fn configure_script() -> String {
    format!(
        "set -e; cd {SOURCE}; make -s O={OUTPUT} tinyconfig; cat /kernmark/fragment >>{OUTPUT}/.config; \
         make -s O={OUTPUT} olddefconfig; cp {OUTPUT}/.config {RESULT}/{CONFIG}"
    )
}

/// Builds with the .config that is there, else the one at /kernmark/config, and
/// copies what is wanted to the result directory. Options that the series adds
/// get their defaults; without such the .config stays untouched.
pub(super) fn build_script() -> String {
    format!(
        "set -e; cd {SOURCE}; \
         [ -f {OUTPUT}/.config ] || cp /kernmark/config {OUTPUT}/.config; \
         make -j\"$(nproc)\" O={OUTPUT} LOCALVERSION= KBUILD_BUILD_VERSION=1 KBUILD_BUILD_TIMESTAMP={TIMESTAMP} \
         KBUILD_BUILD_USER={USER} KBUILD_BUILD_HOST={HOST} olddefconfig bzImage; \
         cd {OUTPUT}; cp arch/x86/boot/bzImage {RESULT}/{IMAGE}; cp System.map {RESULT}/{SYSTEM_MAP}; \
         cp .config {RESULT}/{CONFIG}; cp include/config/kernel.release {RESULT}/{RELEASE}; \
         find . -name '*.o' -printf '%P\\n' | sort >{RESULT}/{OBJECTS}"
    )
}

/// Copies the result files out of the sandbox's directory; they must be plain files.
pub(super) fn take_result(from: &Path, to: &Path, side: &str) -> Result<(), BuildError> {
    fs::create_dir(to).map_err(|e| cache::at(to, e))?;
    for name in RESULT_FILES {
        let bytes = read_result(&from.join(name), side, name)?;
        cache::write_whole(&to.join(name), &bytes)?;
    }
    Ok(cache::seal(to)?)
}

/// A plain file that the build left.
pub(super) fn read_result(path: &Path, side: &str, what: &'static str) -> Result<Vec<u8>, BuildError> {
    let plain =
        fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.len() > 0 && m.len() < LARGEST_RESULT);
    if !plain {
        return Err(BuildError::NoResult { side: side.to_owned(), what });
    }
    fs::read(path).map_err(|e| cache::at(path, e).into())
}

/// Programs that every build starts.
const PROGRAMS: [Program; 8] = [
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl-base"),
    ("git", "git"),
];

/// Says which program is missing.
pub(super) fn require_programs(
    fragment: Fragment,
    is_installed: impl Fn(&str) -> bool,
) -> Result<(), BuildError> {
    match PROGRAMS.iter().chain(fragment.programs()).find(|(program, _)| !is_installed(program)) {
        Some(&(program, package)) => Err(BuildError::ToolMissing { program, package }),
        None => Ok(()),
    }
}

/// CONFIG_CC_VERSION_TEXT without its quotes.
pub(super) fn compiler_of(config: &str) -> String {
    config
        .lines()
        .find_map(|l| l.strip_prefix("CONFIG_CC_VERSION_TEXT="))
        .map_or_else(|| "unknown".to_owned(), |v| v.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_a_link_is_refused() {
        let place = tempfile::tempdir().expect("temporary directory");
        std::os::unix::fs::symlink("/etc/passwd", place.path().join(IMAGE)).expect("writable");
        let error = take_result(place.path(), &place.path().join("to"), "1/2").expect_err("a link");
        assert_eq!(error.to_string(), "building 1/2 left no usable bzImage");
    }

    #[test]
    fn the_compiler_is_read_from_the_configuration() {
        assert_eq!(
            compiler_of("CONFIG_CC_VERSION_TEXT=\"gcc (Debian 12.2.0-14) 12.2.0\"\n"),
            "gcc (Debian 12.2.0-14) 12.2.0"
        );
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        require_programs(Fragment::SchedExt, |_| true).expect("all there");
        let without = |fragment, missing: &str| require_programs(fragment, |program| program != missing);
        let error = without(Fragment::Minimal, "flex").expect_err("flex is missing");
        assert_eq!(error.to_string(), "flex is missing; install it with: apt-get install flex");
        without(Fragment::Minimal, "pahole").expect("needs no BTF");
        let error = without(Fragment::SchedExt, "pahole").expect_err("pahole is missing");
        assert_eq!(error.to_string(), "pahole is missing; install it with: apt-get install dwarves");
    }
}
