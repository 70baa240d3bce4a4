// SPDX-License-Identifier: GPL-2.0-or-later
//! The initramfs: one static program as /init, a console, the directories it
//! mounts on, and images of file systems where the kernel has block devices. Written here, because a device node in a newc archive is only
//! bytes: neither root nor mknod is needed, and equal input gives equal bytes.
//!
//! Format: `Documentation/driver-api/early-userspace/buffer-format.rst`.

use flate2::{Compression, GzBuilder};
use std::io::Write;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;
const FILE: u32 = 0o100_444;
/// Major and minor number of /dev/console.
const CONSOLE_DEVICE: (u32, u32) = (5, 1);

/// Where file systems are mounted; parents first.
const DIRECTORIES: &[&str] = &["dev", "proc", "run", "sys", "tmp"];

/// An image of a file system for a guest's RAM disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystemImage {
    /// `ext4`: its name in /images.
    pub name: &'static str,
    /// Packed, see [`kernmark_wire::sparse`].
    pub packed: Vec<u8>,
}

/// The archive with `init` as /init and each of `images` in /images, as a newc archive in gzip.
///
/// The same bytes for the same input with the same version of this program:
/// times, owners and the gzip header are fixed.
pub fn initramfs(init: &[u8], images: &[FileSystemImage]) -> Vec<u8> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(Vec::with_capacity(init.len()), Compression::fast());
    encoder
        .write_all(&archive(init, images))
        .and_then(|()| encoder.finish())
        .expect("writing to memory does not fail")
}

fn archive(init: &[u8], images: &[FileSystemImage]) -> Vec<u8> {
    let mut archive = Archive { bytes: Vec::with_capacity(init.len() + 4096), inode: 0 };
    for directory in DIRECTORIES {
        archive.entry(directory, DIRECTORY, 2, (0, 0), &[]);
    }
    archive.entry("dev/console", CONSOLE, 1, CONSOLE_DEVICE, &[]);
    archive.entry("init", PROGRAM, 1, (0, 0), init);
    if !images.is_empty() {
        archive.entry("images", DIRECTORY, 2, (0, 0), &[]);
    }
    for image in images {
        archive.entry(&format!("images/{}", image.name), FILE, 1, (0, 0), &image.packed);
    }
    archive.entry("TRAILER!!!", 0, 1, (0, 0), &[]);
    archive.bytes
}

struct Archive {
    bytes: Vec<u8>,
    inode: u32,
}

impl Archive {
    fn entry(&mut self, name: &str, mode: u32, links: u32, device: (u32, u32), content: &[u8]) {
        self.inode += 1;
        let size = u32::try_from(content.len()).expect("a program is below 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("names are short");
        // ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
        let fields = [self.inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// (name, fields, content) of every entry.
    fn read_back(mut archive: &[u8]) -> Vec<(String, Vec<u32>, Vec<u8>)> {
        let mut entries = Vec::new();
        while !archive.is_empty() {
            assert_eq!(&archive[..6], b"070701");
            let fields: Vec<u32> = (0..13)
                .map(|n| {
                    let text = std::str::from_utf8(&archive[6 + 8 * n..14 + 8 * n]).expect("hexadecimal");
                    u32::from_str_radix(text, 16).expect("hexadecimal")
                })
                .collect();
            let name_end = 110 + fields[11] as usize;
            let name = String::from_utf8(archive[110..name_end - 1].to_vec()).expect("ASCII");
            let start = name_end.next_multiple_of(4);
            let end = start + fields[6] as usize;
            entries.push((name, fields, archive[start..end].to_vec()));
            archive = &archive[end.next_multiple_of(4)..];
        }
        entries
    }

    fn unpack(bytes: &[u8]) -> Vec<u8> {
        let mut archive = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut archive).expect("valid gzip");
        archive
    }

    #[test]
    fn the_archive_reads_back() {
        let entries = read_back(&unpack(&initramfs(b"#!program", &[])));
        let names: Vec<&str> = entries.iter().map(|(name, _, _)| name.as_str()).collect();
        assert_eq!(names, ["dev", "proc", "run", "sys", "tmp", "dev/console", "init", "TRAILER!!!"]);
        for (name, fields, content) in &entries {
            assert_eq!((fields[2], fields[3], fields[5]), (0, 0, 0), "{name}: owner and time are fixed");
            assert_eq!(content.len(), fields[6] as usize);
        }
        let (_, console, _) = &entries[5];
        assert_eq!((console[1], console[9], console[10]), (0o020_600, 5, 1));
        let (_, init, content) = &entries[6];
        assert_eq!((init[1], &content[..]), (0o100_755, &b"#!program"[..]));
    }

    #[test]
    fn images_stand_in_a_directory_of_their_own() {
        let image = FileSystemImage { name: "ext4", packed: b"packed".to_vec() };
        let entries = read_back(&unpack(&initramfs(b"#!program", &[image])));
        let last: Vec<_> =
            entries.iter().rev().take(3).map(|(name, _, content)| (name.as_str(), content)).collect();
        assert_eq!(last[2].0, "images");
        assert_eq!(last[1], ("images/ext4", &b"packed".to_vec()));
    }

    #[test]
    fn equal_input_gives_equal_bytes() {
        let program: Vec<u8> = (0..100_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
        assert_eq!(initramfs(&program, &[]), initramfs(&program, &[]));
        assert_ne!(initramfs(&program, &[]), initramfs(&program[1..], &[]));
        assert_eq!(initramfs(b"", &[])[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255], "fixed gzip header");
    }

    #[test]
    fn entries_start_at_multiples_of_four() {
        for length in 0..5 {
            let archive = archive(&vec![7; length], &[]);
            assert_eq!(archive.len() % 4, 0);
            assert_eq!(read_back(&archive)[6].2.len(), length);
        }
    }
}
