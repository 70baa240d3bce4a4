// SPDX-License-Identifier: GPL-2.0-or-later
//! Images of file systems for a guest's RAM disk, made by the mkfs programs of
//! this machine in the sandbox and kept in the cache. In the guest they are
//! /images/ext4 and /images/xfs; `machine::RamDisk` of the board puts one on a
//! RAM disk.

use super::{FileSystemImage, RunnerError};
use crate::cache::{self, Cache};
use crate::interrupt::Interrupt;
use crate::sandbox::{Limits, Sandbox, give_to_sandbox, is_installed};
use kernmark_validation::plan::hex;
use kernmark_wire::sparse;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// One file system: how it is made at /kernmark/output/image.
struct Recipe {
    name: &'static str,
    program: &'static str,
    package: &'static str,
    script: &'static str,
}

/// Bytes of an image, 320 MiB: just above the smallest XFS that mkfs.xfs makes, and what
/// `CONFIG_BLK_DEV_RAM_SIZE` of kernel/sched_ext.config says in KiB.
const SIZE: u64 = 320 << 20;
const LIMIT: Duration = Duration::from_secs(60);
/// Goes into the key: a change in how images are made makes new ones.
const RECIPE: &str = "recipe 1";

/// Identifiers and times are fixed as far as the programs let them be. Nothing is left for the
/// kernel to finish in the background after a mount.
const RECIPES: [Recipe; 2] = [
    Recipe {
        name: "ext4",
        program: "mkfs.ext4",
        package: "e2fsprogs",
        script: "E2FSPROGS_FAKE_TIME=1767225600 mkfs.ext4 -q -F -b 4096 -U 6b65726e-6d61-726b-0000-000000000001 \
                 -E hash_seed=6b65726e-6d61-726b-0000-000000000002,lazy_itable_init=0,lazy_journal_init=0 \
                 /kernmark/output/image",
    },
    Recipe {
        name: "xfs",
        program: "mkfs.xfs",
        package: "xfsprogs",
        script: "mkfs.xfs -q -f -m uuid=6b65726e-6d61-726b-0000-000000000003 /kernmark/output/image",
    },
];

/// Every image, from the cache where it is there.
///
/// # Errors
/// A mkfs program is missing or fails, or the cache cannot be used.
pub fn file_systems(cache: &Cache, interrupt: &Interrupt) -> Result<Vec<FileSystemImage>, RunnerError> {
    RECIPES.iter().map(|recipe| image(recipe, cache, interrupt)).collect()
}

fn image(recipe: &Recipe, cache: &Cache, interrupt: &Interrupt) -> Result<FileSystemImage, RunnerError> {
    if !is_installed(recipe.program) {
        return Err(RunnerError::ProgramMissing { program: recipe.program, package: recipe.package });
    }
    let key = hex(&Sha256::digest(format!("{RECIPE}\0{SIZE}\0{}", recipe.script))[..12]);
    let place = cache.ensure(("file-systems", &key), interrupt, cache::is_sealed, || {
        make(recipe, cache, &key, interrupt)
    })?;
    let file = place.join(recipe.name);
    let packed = fs::read(&file).map_err(|e| cache::at(&file, e))?;
    Ok(FileSystemImage { name: recipe.name, packed })
}

fn make(recipe: &Recipe, cache: &Cache, key: &str, interrupt: &Interrupt) -> Result<(), RunnerError> {
    let scratch = cache.scratch()?;
    let output = scratch.path().join("output");
    let host = |source| RunnerError::Host { what: format!("make an image of {}", recipe.name), source };
    fs::create_dir(&output).and_then(|()| give_to_sandbox(&output)).map_err(host)?;
    let script = format!("set -e; truncate -s {SIZE} /kernmark/output/image; {}", recipe.script);
    let finished = Sandbox::command("sh")
        .args(["-c", &script])
        .writable(&output, "/kernmark/output")
        .limits(Limits::TOOL)
        .run(LIMIT, interrupt.flag())?;
    if !finished.success() {
        let said = format!("{}: {}", finished.ending, finished.stderr.text().trim());
        return Err(host(std::io::Error::other(said)));
    }
    let packed = pack(&output.join("image")).map_err(host)?;
    let entry = scratch.path().join("entry");
    fs::create_dir(&entry).map_err(host)?;
    cache::write_whole(&entry.join(recipe.name), &packed)?;
    cache::seal(&entry)?;
    cache.publish(&entry, "file-systems", key)?;
    Ok(())
}

fn pack(image: &Path) -> std::io::Result<Vec<u8>> {
    Ok(sparse::pack(&fs::read(image)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Fragment;

    #[test]
    fn the_kernel_has_disks_of_the_size_of_an_image() {
        let line = format!("CONFIG_BLK_DEV_RAM_SIZE={}\n", SIZE >> 10);
        assert!(Fragment::SchedExt.text().contains(&line), "{line}");
        assert!(Fragment::SchedExt.has_file_systems());
        for recipe in &RECIPES {
            let option = format!("CONFIG_{}_FS=y\n", recipe.name.to_uppercase());
            assert!(Fragment::SchedExt.text().contains(&option), "{option}");
        }
    }
}
