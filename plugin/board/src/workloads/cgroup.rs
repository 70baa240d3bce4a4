// SPDX-License-Identifier: GPL-2.0-or-later
//! The cgroup2 file system: where it is, which controllers it gives to children,
//! and a directory that vanishes when dropped.

use crate::stop::Stop;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Dying groups must be gone within this time.
const DYING_LIMIT: Duration = Duration::from_secs(5);

/// Mount points of cgroup2 in the text of a mountinfo file.
pub fn mount_points(mountinfo: &str) -> Vec<(String, PathBuf)> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(2);
            let device = fields.next()?;
            let point = fields.nth(1)?;
            (after.split(' ').next() == Some("cgroup2")).then(|| (device.to_owned(), PathBuf::from(point)))
        })
        .collect()
}

/// Where cgroup2 is mounted.
///
/// # Errors
/// Nowhere.
pub fn root() -> Result<PathBuf, Stop> {
    let mountinfo =
        fs::read_to_string("/proc/self/mountinfo").map_err(|e| Stop::failed("/proc/self/mountinfo", e))?;
    root_in(&mountinfo)
}

fn root_in(mountinfo: &str) -> Result<PathBuf, Stop> {
    mount_points(mountinfo).into_iter().next().map(|(_, point)| point).ok_or_else(|| {
        Stop::Missing(
            "cgroup2 is not mounted; mount it with: mount -t cgroup2 none /sys/fs/cgroup".to_owned(),
        )
    })
}

/// Number of distinct cgroup2 superblocks in the text of a mountinfo file.
pub fn superblocks(mountinfo: &str) -> u64 {
    let mut devices: Vec<String> = mount_points(mountinfo).into_iter().map(|(device, _)| device).collect();
    devices.sort();
    devices.dedup();
    devices.len() as u64
}

fn denied(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem)
}

/// A directory that is removed when dropped.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes the directory, mode 0755.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(path: PathBuf) -> Result<Self, Stop> {
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path }),
            Err(e) if denied(&e) => {
                Err(Stop::Missing(format!("{} cannot be made ({e}); run as root", path.display())))
            }
            Err(e) => Err(Stop::failed(path.display(), e)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that is still busy shows up as the failed check `restored`.
        let _ = fs::remove_dir(&self.path);
    }
}

/// A controller given to the children of a group; taken back when dropped.
#[derive(Debug)]
pub struct Controller {
    file: PathBuf,
    name: &'static str,
    added: bool,
}

impl Controller {
    /// Gives `name` to the children of `group`, unless they have it.
    ///
    /// # Errors
    /// The group has no such controller to give.
    pub fn enable(group: &Path, name: &'static str) -> Result<Self, Stop> {
        let file = group.join("cgroup.subtree_control");
        let missing = |e: std::io::Error| {
            let group = group.display();
            Stop::Missing(if denied(&e) {
                format!("the {name} controller cannot be enabled in {group} ({e}); run as root")
            } else {
                format!(
                    "the {name} controller cannot be had in {group} ({e}); it may belong to cgroup v1 here, or the \
                     kernel lacks it"
                )
            })
        };
        let has = fs::read_to_string(&file).map_err(missing)?.split_whitespace().any(|c| c == name);
        if !has {
            fs::write(&file, format!("+{name}")).map_err(missing)?;
        }
        Ok(Self { file, name, added: !has })
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if self.added {
            // Shows up as the failed check `restored`.
            let _ = fs::write(&self.file, format!("-{}", self.name));
        }
    }
}

/// Number after `key` in a flat-keyed file such as cgroup.stat.
pub fn flat_key(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.parse().ok()).flatten()
    })
}

/// Waits until `group` has no dying descendants; says how many there were at first.
///
/// # Errors
/// Some are left after five seconds, or the kernel does not say.
pub fn wait_for_dying(group: &Path) -> Result<u64, Stop> {
    let file = group.join("cgroup.stat");
    let dying = || {
        let text = fs::read_to_string(&file).map_err(|e| Stop::failed(file.display(), e))?;
        flat_key(&text, "nr_dying_descendants")
            .ok_or_else(|| Stop::Failed(format!("{} has no nr_dying_descendants", file.display())))
    };
    let first = dying()?;
    let start = Instant::now();
    while dying()? > 0 {
        crate::signals::check()?;
        if start.elapsed() > DYING_LIMIT {
            return Err(Stop::Failed(format!("{} dying cgroups are left after 5 s", dying()?)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
24 31 0:22 / /proc rw - proc proc rw
30 29 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
32 30 0:27 / /mnt/again rw - cgroup2 cgroup2 rw
";

    #[test]
    fn cgroup2_mounts_are_found_by_type() {
        assert_eq!(
            mount_points(MOUNTINFO),
            [
                ("0:27".to_owned(), PathBuf::from("/sys/fs/cgroup/unified")),
                ("0:27".to_owned(), PathBuf::from("/mnt/again"))
            ]
        );
        assert_eq!(superblocks(MOUNTINFO), 1);
        assert_eq!(superblocks("24 31 0:22 / /proc rw - proc proc rw\n"), 0);
    }

    #[test]
    fn flat_keys_match_whole_names() {
        let text = "nr_descendants 3\nnr_dying_descendants 2\n";
        assert_eq!(flat_key(text, "nr_dying_descendants"), Some(2));
        assert_eq!(flat_key(text, "descendants"), None);
    }

    #[test]
    fn a_group_vanishes_when_dropped() {
        let place = tempfile::tempdir().expect("temporary directory");
        let path = place.path().join("group");
        let group = Group::new(path.clone()).expect("writable");
        assert!(group.path().is_dir());
        drop(group);
        assert!(!path.exists());
    }

    #[test]
    fn without_cgroup2_the_remedy_is_named() {
        assert_eq!(root_in(MOUNTINFO).expect("mounted"), mount_points(MOUNTINFO)[0].1);
        let Err(Stop::Missing(reason)) = root_in("24 31 0:22 / /proc rw - proc proc rw\n") else {
            panic!("it is not there")
        };
        assert!(reason.contains("mount -t cgroup2"), "{reason}");
    }

    #[test]
    fn a_group_that_is_there_already_is_a_failure_not_a_skip() {
        let place = tempfile::tempdir().expect("temporary directory");
        assert!(matches!(Group::new(place.path().to_owned()), Err(Stop::Failed(_))));
        // Groups and controllers that an ordinary user may not have: see `denied`.
        for (kind, skip) in [
            (std::io::ErrorKind::PermissionDenied, true),
            (std::io::ErrorKind::ReadOnlyFilesystem, true),
            (std::io::ErrorKind::NotFound, false),
        ] {
            assert_eq!(denied(&kind.into()), skip, "{kind}");
        }
    }

    #[test]
    fn a_controller_that_is_not_there_is_missing_not_failed() {
        let place = tempfile::tempdir().expect("temporary directory");
        let error = Controller::enable(place.path(), "cpu").expect_err("no such file");
        assert!(matches!(error, Stop::Missing(_)), "{error}");
    }

    #[test]
    fn a_controller_is_taken_back_only_when_it_was_given_here() {
        let place = tempfile::tempdir().expect("temporary directory");
        let file = place.path().join("cgroup.subtree_control");
        for (before, after) in [("memory\n", "-cpu"), ("cpu memory\n", "cpu memory\n")] {
            fs::write(&file, before).expect("writable");
            drop(Controller::enable(place.path(), "cpu").expect("readable"));
            assert_eq!(fs::read_to_string(&file).expect("readable"), after);
        }
    }
}
