// SPDX-License-Identifier: GPL-2.0-or-later
//! A RAM disk with a fresh file system on it, of an image that came with the
//! initramfs (`/images/ext4`, `/images/xfs`).

use crate::stop::Stop;
use kernmark_wire::sparse::Packed;
use nix::libc;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where the host puts images, one for each file system.
const IMAGES: &str = "/images";
/// RAM disks of a kernel with `CONFIG_BLK_DEV_RAM`.
const DISKS: [&str; 4] = ["/dev/ram0", "/dev/ram1", "/dev/ram2", "/dev/ram3"];

nix::ioctl_read!(
    /// Size of a block device, bytes.
    size_of_device, 0x12, 114, libc::size_t
);
nix::ioctl_write_ptr_bad!(
    /// Gives up what a block device holds from the first number of bytes on, the second long.
    discard, nix::request_code_none!(0x12, 119), [u64; 2]
);

/// A RAM disk that nobody else uses, with a file system on it; emptied when dropped.
#[derive(Debug)]
pub struct RamDisk {
    path: PathBuf,
}

impl RamDisk {
    /// A RAM disk with a fresh `ext4` or `xfs`, to be mounted.
    ///
    /// # Errors
    /// [`Stop::Missing`] where this is no guest with an image of it or without a RAM disk that is free.
    pub fn with(file_system: &str) -> Result<Self, Stop> {
        let image = Path::new(IMAGES).join(file_system);
        let bytes = fs::read(&image).map_err(|e| {
            Stop::Missing(format!(
                "no image of {file_system} is here ({}: {e}); it comes with the kernel configuration sched_ext \
                 of the emulator",
                image.display()
            ))
        })?;
        let packed = Packed::read(&bytes)
            .ok_or_else(|| Stop::Failed(format!("{} is no packed image", image.display())))?;
        let (path, device) = free_disk(DISKS.iter().map(Path::new))?;
        let disk = Self { path };
        let failed = |e: io::Error| Stop::failed(disk.path.display(), e);
        let size = empty(&device).map_err(failed)?;
        if size < packed.size() {
            let path = disk.path.display();
            return Err(Stop::Missing(format!(
                "{path} has {size} bytes, the image of {file_system} {}; raise CONFIG_BLK_DEV_RAM_SIZE",
                packed.size()
            )));
        }
        fill(&device, packed).map_err(failed)?;
        Ok(disk)
    }

    /// What to mount.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RamDisk {
    fn drop(&mut self) {
        // Memory that is not given back is seen by nobody but this guest.
        if let Ok(device) = exclusive(&self.path) {
            let _ = empty(&device);
        }
    }
}

/// The first of `disks` that nobody has mounted or opened for itself.
fn free_disk<'a>(disks: impl Iterator<Item = &'a Path>) -> Result<(PathBuf, File), Stop> {
    let mut reason = "there is none".to_owned();
    for path in disks {
        match exclusive(path) {
            Ok(device) => return Ok((path.to_owned(), device)),
            Err(error) => reason = format!("{}: {error}", path.display()),
        }
    }
    Err(Stop::Missing(format!("no RAM disk is free ({reason}); the kernel needs CONFIG_BLK_DEV_RAM=y")))
}

/// O_EXCL on a block device: refused while it is mounted or somebody else has it so.
fn exclusive(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path)
}

/// Gives up all content, so that every byte reads as zero; the size in bytes.
fn empty(device: &File) -> io::Result<u64> {
    let mut size = 0;
    // SAFETY: the request writes one size, which lives for the whole call.
    unsafe { size_of_device(device.as_raw_fd(), &raw mut size) }?;
    let range = [0, size as u64];
    // SAFETY: the request reads two numbers, which live for the whole call.
    unsafe { discard(device.as_raw_fd(), &raw const range) }?;
    Ok(size as u64)
}

/// Writes the blocks of the image where they belong.
fn fill(device: &File, packed: Packed<'_>) -> io::Result<()> {
    for (place, block) in packed.blocks() {
        device.write_all_at(block, place)?;
    }
    device.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_wire::sparse::{BLOCK, pack};

    #[test]
    fn a_machine_without_images_says_what_would_help() {
        let Err(Stop::Missing(reason)) = RamDisk::with("no-such-file-system") else { panic!("it is there") };
        assert!(reason.contains("/images/no-such-file-system") && reason.contains("sched_ext"), "{reason}");
    }

    #[test]
    fn a_machine_without_a_free_disk_says_so() {
        let place = tempfile::tempdir().expect("temporary directory");
        let there = place.path().join("ram1");
        fs::write(&there, "").expect("writable");
        let absent = place.path().join("ram0");
        let (found, _) = free_disk([absent.as_path(), &there].into_iter()).expect("one is there");
        assert_eq!(found, there);
        for disks in [vec![], vec![absent.as_path()]] {
            let Err(Stop::Missing(reason)) = free_disk(disks.into_iter()) else { panic!("there is none") };
            assert!(reason.contains("CONFIG_BLK_DEV_RAM"), "{reason}");
        }
    }

    #[test]
    fn blocks_go_where_they_belong() {
        let mut image = vec![0; 4 * BLOCK];
        image[2 * BLOCK..3 * BLOCK].fill(5);
        let packed = pack(&image);
        let file = tempfile::tempfile().expect("temporary file");
        file.set_len(image.len() as u64).expect("writable");
        fill(&file, Packed::read(&packed).expect("just packed")).expect("writable");
        let mut found = vec![1; image.len()];
        file.read_exact_at(&mut found, 0).expect("readable");
        assert_eq!(found, image);
        assert!(empty(&file).is_err(), "a file is no block device");
    }
}
