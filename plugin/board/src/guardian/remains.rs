// SPDX-License-Identifier: GPL-2.0-or-later
//! What a measuring process may leave in file systems. All of it carries the
//! number of the process in its name, so that it can be found afterwards without
//! a list: a run may be killed between making something and writing that down.

use crate::workloads::cgroup_mount_points;
use nix::mount::{MntFlags, umount2};
use nix::unistd::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where files and directories are made.
const PLACES: [&str; 5] = ["/dev/shm", "/tmp", "/run", "/var/tmp", "/mnt"];
/// Where trace instances are.
const INSTANCES: &str = "/sys/kernel/tracing/instances";
/// A killed task leaves its group within this time.
const GROUP_LIMIT: Duration = Duration::from_secs(2);

/// How everything that this process makes is named: this, or this, a dash and more.
pub fn own_name() -> String {
    name_of(std::process::id())
}

fn name_of(process: impl std::fmt::Display) -> String {
    format!("kernmark-{process}")
}

/// Removes what the process of this number has left, and says what that was.
pub fn sweep(process: i32) -> Vec<String> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let name = name_of(process);
    let mut lines = Vec::new();
    // The last mount is the innermost.
    for point in mount_points(&mountinfo).into_iter().rev().filter(|point| has_component(point, &name)) {
        lines.push(said("unmounted", &point, umount2(&point, MntFlags::MNT_DETACH).map_err(Into::into)));
    }
    for (_, root) in cgroup_mount_points(&mountinfo) {
        for group in named(&root, &name) {
            lines.push(said("removed", &group, remove_group(&group)));
        }
    }
    for instance in named(Path::new(INSTANCES), &name) {
        lines.push(said("removed", &instance, fs::remove_dir(&instance)));
    }
    let mut places: Vec<PathBuf> = PLACES.iter().map(PathBuf::from).collect();
    places.push(std::env::temp_dir());
    places.sort();
    places.dedup();
    for found in places.iter().flat_map(|place| named(place, &name)) {
        let own = fs::symlink_metadata(&found).is_ok_and(|it| it.uid() == geteuid().as_raw());
        if own {
            let done = if found.is_dir() { fs::remove_dir_all(&found) } else { fs::remove_file(&found) };
            lines.push(said("removed", &found, done));
        }
    }
    lines
}

fn said(what: &str, path: &Path, done: std::io::Result<()>) -> String {
    match done {
        Ok(()) => format!("{what} {}", path.display()),
        Err(error) => format!("{} is left: {error}", path.display()),
    }
}

/// Whether `component` is this name, or this name, a dash and more.
fn is_of(component: &str, name: &str) -> bool {
    component.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn has_component(path: &Path, name: &str) -> bool {
    path.components().any(|part| part.as_os_str().to_str().is_some_and(|part| is_of(part, name)))
}

/// Entries of `place` that carry this name.
fn named(place: &Path, name: &str) -> Vec<PathBuf> {
    fs::read_dir(place)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|file| is_of(file, name)))
        .map(|entry| entry.path())
        .collect()
}

/// Where something is mounted, in the text of a mountinfo file.
fn mount_points(mountinfo: &str) -> Vec<PathBuf> {
    mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect()
}

/// Kills what is in a group and removes it with all groups below.
fn remove_group(group: &Path) -> std::io::Result<()> {
    // Before 5.14 there is no such file; then there are no tasks either unless they are busy.
    let _ = fs::write(group.join("cgroup.kill"), "1");
    for entry in fs::read_dir(group)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path())?;
        }
    }
    let start = Instant::now();
    loop {
        match fs::remove_dir(group) {
            Err(error)
                if error.kind() == std::io::ErrorKind::ResourceBusy && start.elapsed() < GROUP_LIMIT =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return done,
        }
    }
}

/// Processes whose parent is `parent`.
pub fn children_of(parent: i32) -> Vec<i32> {
    let parent_of = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok()
    };
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| parent_of(pid) == Some(parent))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_processes_are_not_ours() {
        for (component, ours) in [
            ("kernmark-12", true),
            ("kernmark-12-a1b2", true),
            ("kernmark-123", false),
            ("kernmark-1", false),
            ("x-kernmark-12", false),
        ] {
            assert_eq!(is_of(component, "kernmark-12"), ours, "{component}");
        }
        assert!(has_component(Path::new("/tmp/kernmark-12-x/mnt"), "kernmark-12"));
        assert!(!has_component(Path::new("/tmp/kernmark-125/mnt"), "kernmark-12"));
    }

    #[test]
    fn files_and_directories_of_a_process_are_removed() {
        // A number that no process has.
        let process = i32::MAX - 1;
        let place = std::env::temp_dir();
        let (directory, file) =
            (place.join(format!("kernmark-{process}-a")), place.join(format!("kernmark-{process}")));
        fs::create_dir_all(directory.join("below")).expect("writable");
        fs::write(&file, "").expect("writable");
        let lines = sweep(process);
        assert_eq!(lines.iter().filter(|line| line.starts_with("removed")).count(), 2, "{lines:?}");
        assert!(!directory.exists() && !file.exists());
        assert_eq!(sweep(process), Vec::<String>::new());
    }

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("coreutils");
        let found = children_of(i32::try_from(std::process::id()).expect("a pid"));
        assert!(found.contains(&i32::try_from(child.id()).expect("a pid")));
        child.kill().expect("our own child");
        child.wait().expect("our own child");
    }
}
