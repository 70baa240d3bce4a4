// SPDX-License-Identifier: GPL-2.0-or-later
//! What boots need, made once: the base kernel from the cache, built where it
//! is not there yet, and the static measuring program.

use kernmark::cache::Cache;
use kernmark::interrupt::Interrupt;
use kernmark::kernel::{Build, BuildError, Builder, Configuration, Fragment, TreeSource};
use kernmark::runners::{self, FileSystemImage, Input};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The kernel of the machine's own source package, without any patch.
pub fn base_image() -> Input {
    static IMAGE: OnceLock<Input> = OnceLock::new();
    IMAGE.get_or_init(|| base(Fragment::Minimal)).clone()
}

/// The same with loadable schedulers, ext4 and XFS.
pub fn sched_ext_image() -> Input {
    static IMAGE: OnceLock<Input> = OnceLock::new();
    IMAGE.get_or_init(|| base(Fragment::SchedExt)).clone()
}

fn base(fragment: Fragment) -> Input {
    with_builder(fragment, |builder| builder.base(&mut |_| {}).map(|build| input(&build)))
}

/// The same with all patches of this mailbox.
pub fn patched_image(mailbox: &[u8]) -> Input {
    let file = kernmark_validation::mail::read_series(mailbox).expect("a series");
    let series = file.series.last().expect("a series");
    with_builder(Fragment::Minimal, |builder| {
        let base = builder.base(&mut |_| {})?;
        let mut image = None;
        let all = [(series.patches.len(), "patched".to_owned())];
        builder.patched(&base, series, &all, &mut |_, _| {}, &mut |build| image = Some(input(&build)))?;
        Ok(image.expect("one build was asked for"))
    })
}

fn input(build: &Build) -> Input {
    Input { path: build.image.clone(), sha256: build.record.image_sha256.clone() }
}

/// Images of file systems as `kernmark check` puts them into an initramfs.
pub fn file_system_images() -> Vec<FileSystemImage> {
    runners::file_systems(&cache(), &Interrupt::default()).expect("the mkfs programs are installed")
}

pub fn cache() -> Cache {
    Cache::open(None, |name| std::env::var_os(name).map(PathBuf::from)).expect("there is a cache")
}

fn with_builder(fragment: Fragment, work: impl FnOnce(&Builder<'_>) -> Result<Input, BuildError>) -> Input {
    let cache = cache();
    let interrupt = Interrupt::default();
    let source = TreeSource::find(None, None, None).expect("the source package is installed");
    let tree = source.unpack(&cache, &interrupt).expect("unpacks");
    let logs = tempfile::tempdir().expect("temporary directory");
    let configuration = Configuration::new(fragment, &[]);
    let builder =
        Builder::new(&cache, &tree, configuration, &interrupt, logs.path()).expect("tools are installed");
    work(&builder).unwrap_or_else(|error| panic!("the kernel builds: {error}"))
}

/// The measuring program: named by KERNMARK_BOARD_BINARY, else beside `kernmark`.
pub fn board_binary() -> Vec<u8> {
    let asked = std::env::var_os("KERNMARK_BOARD_BINARY").map(PathBuf::from);
    let exe = Path::new(env!("CARGO_BIN_EXE_kernmark"));
    let found = runners::board_binary(asked.as_deref(), exe);
    found.unwrap_or_else(|error| panic!("failed to {error}")).bytes
}
