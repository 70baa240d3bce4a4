// SPDX-License-Identifier: GPL-2.0-or-later
//! cgroup2 hierarchies in all mount namespaces, and the file systems of the
//! places where files are made.

use super::Fields;
use crate::workloads::cgroup_mount_points;
use nix::sys::statfs::statfs;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where workloads make files.
const TEST_PLACES: [(&str, &str); 2] = [("files.dev_shm", "dev/shm"), ("files.tmp", "tmp")];

/// What is mounted for the machine whose file system root is `root`.
pub fn fields(root: &Path) -> Fields {
    let own = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    let mut fields = Fields::new();
    fields.extend(cgroup2_options(&own).map(|options| ("cgroup.mount_options".into(), options)));
    if !own.is_empty() {
        let count = cgroup2_devices(&root.join("proc"), &own).len();
        fields.push(("cgroup.superblocks".into(), count.to_string()));
    }
    for (field, path) in TEST_PLACES {
        let (place, point) = (root.join(path), Path::new("/").join(path));
        if let (Some(options), Ok(found)) = (mount_of(&own, &point), statfs(&place)) {
            let magic = found.filesystem_type().0;
            fields.push((field.into(), format!("magic {magic:#x}, {options}")));
        }
    }
    fields
}

/// Devices of cgroup2 in the mountinfo files of all processes, one for each mount namespace: each
/// is a superblock of its own, and removal looks an inode up in every one of them.
fn cgroup2_devices(procfs: &Path, own: &str) -> BTreeSet<String> {
    let devices_in = |text: &str| cgroup_mount_points(text).into_iter().map(|(device, _)| device);
    let mut devices: BTreeSet<String> = devices_in(own).collect();
    let mut namespaces: BTreeSet<PathBuf> = fs::read_link(procfs.join("self/ns/mnt")).into_iter().collect();
    for process in fs::read_dir(procfs).into_iter().flatten().flatten() {
        // Of other users only root may read it; what cannot be seen is not counted.
        let Ok(namespace) = fs::read_link(process.path().join("ns/mnt")) else { continue };
        if namespaces.insert(namespace) {
            let text = fs::read_to_string(process.path().join("mountinfo")).unwrap_or_default();
            devices.extend(devices_in(&text));
        }
    }
    devices
}

/// Superblock options of the first cgroup2 mount.
fn cgroup2_options(mountinfo: &str) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let (_, after) = line.split_once(" - ")?;
        let mut fields = after.split(' ');
        (fields.next()? == "cgroup2").then(|| fields.nth(1).unwrap_or_default().to_owned())
    })
}

/// Type and options of the mount that `path` is on: the longest mount point above it, the last of
/// equals.
fn mount_of(mountinfo: &str, path: &Path) -> Option<String> {
    let mut found: Option<(usize, String)> = None;
    for line in mountinfo.lines() {
        let (before, after) = line.split_once(" - ")?;
        let point = PathBuf::from(before.split(' ').nth(4)?);
        let length = point.components().count();
        if path.starts_with(&point) && found.as_ref().is_none_or(|(longest, _)| length >= *longest) {
            let options = before.split(' ').nth(5)?;
            let (kind, rest) = after.split_once(' ')?;
            let own = rest.split(' ').nth(1).unwrap_or_default();
            found = Some((length, format!("{kind} {options} {own}")));
        }
    }
    found.map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::synthetic::write;

    const MOUNTINFO: &str = "\
1 0 0:2 / / rw - ext4 /dev/root rw,errors=remount-ro
2 1 0:3 / /dev rw - devtmpfs none rw
3 2 0:4 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=64k
30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,favordynmods
";

    #[test]
    fn the_innermost_mount_counts() {
        for (path, mount) in
            [("/dev/shm", "tmpfs rw,nosuid rw,size=64k"), ("/tmp", "ext4 rw rw,errors=remount-ro")]
        {
            assert_eq!(mount_of(MOUNTINFO, Path::new(path)).as_deref(), Some(mount), "{path}");
        }
        assert_eq!(mount_of("", Path::new("/tmp")), None);
    }

    #[test]
    fn options_of_cgroup2_are_those_of_the_superblock() {
        assert_eq!(cgroup2_options(MOUNTINFO).as_deref(), Some("rw,favordynmods"));
    }

    #[test]
    fn superblocks_of_other_mount_namespaces_count_too() {
        let root = tempfile::tempdir().expect("temporary directory");
        for (process, namespace, device) in [("self", 1, "0:26"), ("7", 1, "0:99"), ("8", 2, "0:30")] {
            let line = format!("30 1 {device} / /c rw - cgroup2 cgroup2 rw");
            write(root.path(), &format!("{process}/mountinfo"), &line);
            let place = root.path().join(process).join("ns");
            fs::create_dir(&place).expect("writable");
            std::os::unix::fs::symlink(format!("mnt:[{namespace}]"), place.join("mnt")).expect("writable");
        }
        let found = cgroup2_devices(root.path(), MOUNTINFO);
        // Process 7 is in the namespace that was read already.
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["0:26", "0:30"]);
    }
}
