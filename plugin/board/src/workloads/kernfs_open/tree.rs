// SPDX-License-Identifier: GPL-2.0-or-later
//! The files that are opened (workloads.md 3.2), and what they held at first.

#[cfg(test)]
mod tests;

use super::super::cgroup::{self, Group};
use super::access::READ_BYTES;
use crate::guardian::own_name;
use crate::stop::Stop;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, FsType, SYSFS_MAGIC, TMPFS_MAGIC, statfs};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Files of one CPU's topology whose show function takes no lock.
const TOPOLOGY: [&str; 6] = [
    "core_id",
    "physical_package_id",
    "die_id",
    "core_cpus_list",
    "thread_siblings_list",
    "package_cpus_list",
];
/// Files of a cgroup whose show function takes no lock of its own.
const CGROUP: [&str; 3] = ["cgroup.max.depth", "cgroup.max.descendants", "cgroup.type"];
/// Directories between the cgroup root and a leaf: files are six components below the root.
const CGROUP_LEVELS: usize = 4;
/// Where a tmpfs may be.
const TMPFS_PLACES: [&str; 4] = ["/dev/shm", "/tmp", "/run", "/var/tmp"];

/// A file to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Absolute, or below the directory of the tree.
    pub path: CString,
    /// What it held when it was first read; never empty.
    pub content: Vec<u8>,
    /// Its inode number at that time.
    pub inode: u64,
}

/// Files to open. Whatever was made for them is removed when this is dropped.
#[derive(Debug)]
pub struct Tree {
    /// Where relative paths start: the root of a mount, so that a walk meets nothing else.
    pub directory: Option<OwnedFd>,
    /// In the order in which workers take them.
    pub targets: Vec<Target>,
    /// Components of each path below the root of the kernfs mount.
    pub depth: u64,
    /// Symbolic links on each path.
    pub links: u64,
    made: Made,
}

/// What exists only for a tree.
#[derive(Debug, Default)]
struct Made {
    /// In the order in which they were made.
    groups: Vec<Group>,
    directory: Option<PathBuf>,
}

impl Made {
    /// Everything that is to be gone afterwards.
    fn paths(&self) -> Vec<PathBuf> {
        let groups = self.groups.iter().map(|group| group.path().to_owned());
        groups.chain(self.directory.clone()).collect()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // The last made first: it is inside of the others.
        while let Some(group) = self.groups.pop() {
            drop(group);
        }
        if let Some(directory) = &self.directory {
            // What is left shows up as the failed check `restored`.
            let _ = fs::remove_dir_all(directory);
        }
    }
}

impl Tree {
    /// The tree of this name, with files for at least one worker; `leaves` is how many get a
    /// leaf of their own where leaves are made.
    ///
    /// # Errors
    /// It is not here.
    pub fn find(name: &str, leaves: usize) -> Result<Self, Stop> {
        match name {
            "cgroup" => Self::cgroup(leaves),
            "ib" => Self::infiniband(&sysfs()?),
            "cpulink" => Self::topology(&sysfs()?, "bus/cpu/devices", 1),
            _ => Self::topology(&sysfs()?, "devices/system/cpu", 0),
        }
    }

    /// Every CPU's topology files, under `below` of the sysfs at `root`.
    fn topology(root: &Path, below: &str, links: u64) -> Result<Self, Stop> {
        let place = root.join(below);
        let mut cpus: Vec<(usize, PathBuf)> = fs::read_dir(&place)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                Some((entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?, entry.path()))
            })
            .collect();
        cpus.sort_unstable();
        // By file and then by CPU: workers that take every Nth file spread over the CPUs.
        let files =
            TOPOLOGY.iter().flat_map(|file| cpus.iter().map(move |(_, cpu)| cpu.join("topology").join(file)));
        let files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
        if files.is_empty() {
            let place = place.display();
            return Err(Stop::Missing(format!(
                "{place} has no topology files of CPUs; choose another tree with --set tree=cgroup"
            )));
        }
        Self::of(&files, components_below(root, &files[0]), links)
    }

    /// GIDs and their attributes, of those that can be read.
    fn infiniband(root: &Path) -> Result<Self, Stop> {
        let mut files = Vec::new();
        for port in entries(&root.join("class/infiniband")).iter().flat_map(|d| entries(&d.join("ports"))) {
            for table in ["gids", "gid_attrs/ndevs", "gid_attrs/types"] {
                let place = port.join(table);
                // Same depth for every file: the attributes are one deeper than the GIDs.
                files.extend(entries(&place));
            }
        }
        // An entry of the table that is not in use cannot be read.
        files.retain(|file| fs::read(file).is_ok_and(|content| !content.is_empty()));
        let Some(first) = files.first() else {
            return Err(Stop::Missing(
                "/sys/class/infiniband has no GIDs; choose another tree with --set tree=cpu".to_owned(),
            ));
        };
        let depth = components_below(root, first);
        files.retain(|file| components_below(root, file) == depth);
        Self::of(&files, depth, 1)
    }

    /// One leaf cgroup for each worker, at the end of a chain of groups that only exists for this.
    fn cgroup(leaves: usize) -> Result<Self, Stop> {
        let root = cgroup::root()?;
        expect_file_system(&root, CGROUP2_SUPER_MAGIC, "cgroup2")?;
        let mut made = Made::default();
        let mut place = root.join(format!("{}-open", own_name()));
        for level in 1..=CGROUP_LEVELS {
            made.groups.push(Group::new(place.clone())?);
            place.push(level.to_string());
        }
        place.pop();
        for leaf in 0..leaves {
            made.groups.push(Group::new(place.join(format!("leaf{leaf}")))?);
        }
        let of_leaves = |file: &'static str| (0..leaves).map(move |leaf| format!("leaf{leaf}/{file}"));
        let files: Vec<PathBuf> =
            CGROUP.iter().flat_map(|file| of_leaves(file)).map(|f| place.join(f)).collect();
        let mut tree = Self { made, ..Self::of(&files, components_below(&root, &files[0]), 0)? };
        for (target, file) in tree.targets.iter_mut().zip(&files) {
            target.path = c_path(file.strip_prefix(&root).unwrap_or(file))?;
        }
        let directory = fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_DIRECTORY).open(&root);
        tree.directory = Some(directory.map_err(|e| Stop::failed(root.display(), e))?.into());
        Ok(tree)
    }

    /// A copy of `other` on tmpfs: names, depth and content are the same.
    ///
    /// # Errors
    /// There is no tmpfs that may be written.
    pub fn tmpfs(other: Self) -> Result<Self, Stop> {
        let is_tmpfs =
            |place: &&&str| statfs(**place).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC);
        let name = format!("{}-open", own_name());
        let mut reason = format!("none of {} is a tmpfs", TMPFS_PLACES.join(", "));
        for place in TMPFS_PLACES.iter().filter(is_tmpfs) {
            let root = Path::new(place).join(&name);
            match fs::create_dir(&root) {
                Ok(()) => return Self::copy(&other, root),
                Err(e) => reason = format!("{}: {e}", root.display()),
            }
        }
        Err(Stop::Missing(format!("{reason}; the control on tmpfs needs one that may be written")))
    }

    fn copy(other: &Self, root: PathBuf) -> Result<Self, Stop> {
        let made = Made { groups: Vec::new(), directory: Some(root.clone()) };
        let mut files = Vec::new();
        for target in &other.targets {
            let path = PathBuf::from(String::from_utf8_lossy(target.path.as_bytes()).into_owned());
            // /sys stands where the directory on tmpfs will stand.
            let below: PathBuf = path.components().skip(2).collect();
            let file = root.join(below);
            let write = |file: &Path| {
                fs::create_dir_all(file.parent().unwrap_or(&root))?;
                fs::write(file, &target.content)
            };
            write(&file).map_err(|e| Stop::failed(file.display(), e))?;
            files.push(file);
        }
        Ok(Self { made, ..Self::of(&files, other.depth, 0)? })
    }

    /// These files, read once.
    ///
    /// # Errors
    /// One of them cannot be read, or is empty.
    pub fn of(files: &[PathBuf], depth: u64, links: u64) -> Result<Self, Stop> {
        let targets = files.iter().map(|file| target(file)).collect::<Result<_, _>>()?;
        Ok(Self { directory: None, targets, depth, links, made: Made::default() })
    }

    /// The files of worker `index` of `count`: every count-th, or for everybody the first.
    ///
    /// # Errors
    /// There are fewer files than workers.
    pub fn share(&self, index: usize, count: usize, same: bool) -> Result<Vec<Target>, Stop> {
        if same {
            return Ok(self.targets[..1].to_vec());
        }
        let own: Vec<Target> = self.targets.iter().skip(index).step_by(count).cloned().collect();
        if own.is_empty() {
            return Err(Stop::Missing(format!(
                "{count} workers with files of their own need more than the {} files here; choose --set tree=cgroup \
                 or --set files=same",
                self.targets.len()
            )));
        }
        Ok(own)
    }

    /// Takes away what was made for this tree, and says what is left of it.
    pub fn remove(&mut self) -> Vec<PathBuf> {
        let paths = self.made.paths();
        self.directory = None;
        self.made = Made::default();
        paths.into_iter().filter(|path| path.exists()).collect()
    }
}

/// The sysfs of this machine.
fn sysfs() -> Result<PathBuf, Stop> {
    let root = PathBuf::from("/sys");
    expect_file_system(&root, SYSFS_MAGIC, "sysfs")?;
    Ok(root)
}

fn expect_file_system(place: &Path, magic: FsType, name: &str) -> Result<(), Stop> {
    match statfs(place) {
        Ok(found) if found.filesystem_type() == magic => Ok(()),
        Ok(_) | Err(_) => Err(Stop::Missing(format!("{} is no {name}; mount one there", place.display()))),
    }
}

/// Paths in a directory, in order.
fn entries(place: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(place).into_iter().flatten().flatten().map(|e| e.path()).collect();
    found.sort_unstable();
    found
}

fn components_below(root: &Path, file: &Path) -> u64 {
    file.strip_prefix(root).map_or(0, |below| below.components().count() as u64)
}

fn c_path(path: &Path) -> Result<CString, Stop> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| Stop::failed(path.display(), e))
}

fn target(file: &Path) -> Result<Target, Stop> {
    let mut content = vec![0; READ_BYTES];
    let mut look = || {
        let mut opened = File::open(file)?;
        let length = opened.read(&mut content)?;
        content.truncate(length);
        std::io::Result::Ok(opened.metadata()?.ino())
    };
    let inode = look().map_err(|e| Stop::failed(file.display(), e))?;
    if content.is_empty() {
        return Err(Stop::Failed(format!("{} is empty, so nothing would be read", file.display())));
    }
    Ok(Target { path: c_path(file)?, content, inode })
}
