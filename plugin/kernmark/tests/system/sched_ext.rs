// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel with loadable schedulers and real file systems, built and booted.

use crate::machine::{file_system_images, sched_ext_image};
use crate::runner::{boot, run};
use kernmark::runners::{Boot, FinishedPoint, Input, QemuRunner, initramfs};
use kernmark_validation::plan::hex;
use kernmark_wire::sparse::Packed;
use sha2::{Digest, Sha256};

/// Boots it once.
fn boot_with(arguments: &str) -> FinishedPoint {
    let place = tempfile::tempdir().expect("temporary directory");
    let board = crate::machine::board_binary();
    let archive = initramfs(&board, &file_system_images());
    let path = place.path().join("initramfs");
    std::fs::write(&path, &archive).expect("writable");
    let initramfs = Input { path, sha256: hex(&Sha256::digest(&archive)) };
    let boot = Boot { image: sched_ext_image(), initramfs, ..boot(place.path(), 1, &board, arguments) };
    let runner = QemuRunner::new().expect("the emulator is installed");
    run(&runner, &place.path().join("points"), &[boot]).pop().expect("one boot was made")
}

#[test]
fn images_of_file_systems_are_made_once() {
    let first = file_system_images();
    assert_eq!(first.iter().map(|image| image.name).collect::<Vec<_>>(), ["ext4", "xfs"]);
    for image in &first {
        let packed = Packed::read(&image.packed).expect("packed");
        assert_eq!(packed.size(), 320 << 20);
        let content: usize = packed.blocks().map(|(_, block)| block.len()).sum();
        assert!((4096..8 << 20).contains(&content), "{}: {content} bytes are not zero", image.name);
    }
    assert_eq!(first, file_system_images());
}

#[test]
fn it_boots_and_describes_itself() {
    let point = boot_with("environment");
    let release = &point.log.environment_before["kernel.release"];
    assert!(release.starts_with("6."), "{release}\n{}", point.excerpt);
}
