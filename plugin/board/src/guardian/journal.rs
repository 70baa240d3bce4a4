// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run may change, as it was before, in a file that outlives it. The file
//! is locked as long as the run or its guardian lives.

use super::{put_back, remains};
use crate::machine::{Entry, Snapshot};
use crate::workloads::cgroup_mount_points;
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// First line; another version is left alone.
const HEADER: &str = "kernmark-board journal 1";
/// Changes with every boot, and with it go settings, groups and mounts.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The controllers that a group gives to its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controllers {
    /// `cgroup.subtree_control`.
    pub file: PathBuf,
    /// Their names, separated by spaces.
    pub names: String,
}

impl Controllers {
    /// Takes back what was given since, and says so.
    pub fn put_back(&self) -> Option<String> {
        let now = fs::read_to_string(&self.file).ok()?;
        let before: Vec<&str> = self.names.split_whitespace().collect();
        let given: Vec<String> =
            now.split_whitespace().filter(|c| !before.contains(c)).map(|c| format!("-{c}")).collect();
        if given.is_empty() {
            return None;
        }
        let (change, file) = (given.join(" "), self.file.display());
        Some(match fs::write(&self.file, &change) {
            Ok(()) => format!("{change} in {file}"),
            Err(error) => format!("{file} still gives {}: {error}", now.trim()),
        })
    }
}

/// Of every cgroup2 hierarchy, what its root gives to children.
pub fn controllers() -> Vec<Controllers> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    cgroup_mount_points(&mountinfo)
        .into_iter()
        .filter_map(|(_, point)| {
            let file = point.join("cgroup.subtree_control");
            Some(Controllers { names: fs::read_to_string(&file).ok()?.trim().to_owned(), file })
        })
        .collect()
}

/// Where journals are kept: `asked`, else for root /run/kernmark, else in the user's own runtime
/// directory or among temporary files.
///
/// # Errors
/// It cannot be made, or somebody else can write to it: root must not put back what others wrote.
pub fn directory(asked: Option<&Path>) -> io::Result<PathBuf> {
    let user = geteuid();
    let place = match (asked, std::env::var_os("XDG_RUNTIME_DIR")) {
        (Some(asked), _) => asked.to_owned(),
        (None, _) if user.is_root() => PathBuf::from("/run/kernmark"),
        (None, Some(runtime)) => PathBuf::from(runtime).join("kernmark"),
        (None, None) => std::env::temp_dir().join(format!("kernmark-journals-{user}")),
    };
    match DirBuilder::new().mode(0o700).create(&place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(&place)?;
    if found.is_dir() && found.uid() == user.as_raw() && found.mode() & 0o022 == 0 {
        Ok(place)
    } else {
        Err(io::Error::other(format!("others can write to {}", place.display())))
    }
}

/// The journal of a run under way.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Writes what a run may change, as it is now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(
        directory: &Path,
        settings: &Snapshot,
        controllers: &[Controllers],
        traces: bool,
    ) -> io::Result<Self> {
        let name = std::process::id().to_string();
        // Locked before it has the name that others look for.
        let early = directory.join(format!(".{name}"));
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&early)?;
        file.lock()?;
        let boot = fs::read_to_string(BOOT_ID)?;
        let mut text = format!("{HEADER}\nboot\t{}\n", boot.trim());
        for Entry { name, file, value, .. } in &settings.0 {
            text.push_str(&format!("setting\t{name}\t{}\t{value}\n", file.display()));
        }
        for Controllers { file, names } in controllers {
            text.push_str(&format!("controllers\t{}\t{names}\n", file.display()));
        }
        if traces {
            text.push_str("traces\n");
        }
        file.write_all(text.as_bytes())?;
        let path = directory.join(name);
        fs::rename(early, &path)?;
        Ok(Self { path, file })
    }

    /// Adds the process that measures: what it makes carries its number.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note_process(&self, process: i32) -> io::Result<()> {
        (&self.file).write_all(format!("process\t{process}\n").as_bytes())
    }

    /// Everything is put back.
    pub fn remove(self) {
        // Left over it would only be read once more.
        let _ = fs::remove_file(&self.path);
        if let Some(directory) = self.path.parent() {
            // Fails where others keep theirs.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// The journal of a run that was killed.
#[derive(Debug)]
pub struct Stale {
    path: PathBuf,
    /// Keeps the lock.
    _file: File,
    text: String,
}

/// Journals in `directory` whose run and guardian are dead.
pub fn stale(directory: &Path) -> Vec<Stale> {
    let open = |entry: fs::DirEntry| {
        let path = entry.path();
        let mut file = File::open(&path).ok()?;
        file.try_lock().ok()?;
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        // Removed by somebody between the opening and the lock; or not yet named.
        let named = !entry.file_name().to_string_lossy().starts_with('.');
        let there = file.metadata().is_ok_and(|found| found.nlink() > 0);
        (named && there && text.starts_with(HEADER)).then_some(Stale { path, _file: file, text })
    };
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(open).collect()
}

impl Stale {
    /// Puts everything back, removes the journal, and says what was done.
    pub fn put_back(self) -> Vec<String> {
        let mut settings = Snapshot::default();
        let mut controllers = Vec::new();
        let (mut traces, mut same_boot) = (false, false);
        let mut processes = Vec::new();
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default();
        for line in self.text.lines() {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["boot", id] => same_boot = id == boot.trim(),
                ["setting", name, file, value] => settings.0.push(Entry {
                    name: name.into(),
                    cpu: None,
                    file: file.into(),
                    value: value.into(),
                }),
                ["controllers", file, names] => {
                    controllers.push(Controllers { file: file.into(), names: names.into() });
                }
                ["traces"] => traces = true,
                ["process", number] => processes.extend(number.parse::<i32>().ok()),
                _ => {}
            }
        }
        // A boot has put the settings back already; files may still be there.
        let mut lines = if same_boot { put_back(&settings, &controllers, traces) } else { Vec::new() };
        lines.extend(processes.into_iter().flat_map(remains::sweep));
        // Left over it would only be read once more.
        let _ = fs::remove_file(&self.path);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::synthetic::{self, write};

    const BOOST: &str = "devices/system/cpu/cpufreq/boost";

    fn boost(root: &Path) -> String {
        fs::read_to_string(root.join(BOOST)).expect("readable").trim().to_owned()
    }

    #[test]
    fn a_journal_is_stale_only_when_its_run_is_dead() {
        let (tree, place) = (synthetic::virtual_machine().tree(), tempfile::tempdir().expect("directory"));
        write(tree.path(), BOOST, "1");
        let journal = Journal::new(place.path(), &Snapshot::take(tree.path()), &[], false).expect("writable");
        // A number that no process has.
        journal.note_process(i32::MAX).expect("writable");
        write(tree.path(), BOOST, "0");
        assert_eq!(stale(place.path()).len(), 0, "it is still locked");
        drop(journal);
        let found = stale(place.path());
        assert_eq!(found.len(), 1);
        let lines: Vec<String> = found.into_iter().flat_map(Stale::put_back).collect();
        assert!(matches!(&lines[..], [line] if line.ends_with("boost is 1 again")), "{lines:?}");
        assert_eq!(boost(tree.path()), "1");
        assert_eq!(fs::read_dir(place.path()).expect("readable").count(), 0);
    }

    #[test]
    fn after_another_boot_settings_are_left_alone() {
        let (tree, place) = (synthetic::virtual_machine().tree(), tempfile::tempdir().expect("directory"));
        write(tree.path(), BOOST, "0");
        let text =
            format!("{HEADER}\nboot\tanother\nsetting\tturbo\t{}\t1\n", tree.path().join(BOOST).display());
        fs::write(place.path().join("7"), text).expect("writable");
        assert_eq!(stale(place.path()).into_iter().flat_map(Stale::put_back).count(), 0);
        assert_eq!(boost(tree.path()), "0");
        assert_eq!(fs::read_dir(place.path()).expect("readable").count(), 0);
    }

    #[test]
    fn what_is_no_journal_is_left_alone() {
        let place = tempfile::tempdir().expect("directory");
        for name in ["1", ".2"] {
            fs::write(place.path().join(name), "something else\n").expect("writable");
        }
        assert_eq!(stale(place.path()).len(), 0);
    }

    #[test]
    fn a_directory_that_others_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().expect("directory");
        assert!(directory(Some(place.path())).is_ok());
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("own directory");
        assert!(directory(Some(place.path())).is_err());
    }

    #[test]
    fn controllers_given_since_are_taken_back() {
        let place = tempfile::tempdir().expect("directory");
        let file = place.path().join("cgroup.subtree_control");
        let before = Controllers { file: file.clone(), names: "memory".into() };
        for (now, written) in [("memory\n", "memory\n"), ("cpu memory pids\n", "-cpu -pids")] {
            fs::write(&file, now).expect("writable");
            assert_eq!(before.put_back().is_some(), now.contains("cpu"));
            assert_eq!(fs::read_to_string(&file).expect("readable"), written);
        }
    }
}
