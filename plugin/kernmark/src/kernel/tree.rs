// SPDX-License-Identifier: GPL-2.0-or-later
//! Source trees: a git revision, a directory or an archive, unpacked once into
//! the cache. The user's own tree is only read.

mod content;

use super::error::BuildError;
use super::layers::witness;
use crate::cache::{self, Cache};
use crate::interrupt::Interrupt;
use crate::sandbox::{Limits, Sandbox, give_to_sandbox};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where Debian's package puts its archive.
const DEBIAN_ARCHIVE: &str = "/usr/src/linux-source-6.12.tar.xz";
const DEBIAN_PACKAGE: &str = "linux-source-6.12";
/// Unpacking takes 20 s; ten times that means a lost disk.
const UNPACK_LIMIT: Duration = Duration::from_secs(600);

/// Where a source tree comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeSource {
    /// A tar archive, packed or not.
    Archive(PathBuf),
    /// An unpacked tree that is no git repository.
    Directory(PathBuf),
    /// A commit of a git repository.
    Git {
        /// The repository.
        repository: PathBuf,
        /// 40 hex digits.
        commit: String,
    },
}

/// Parts of an entry.
const SOURCE: &str = "source";
const WITNESS: &str = "witness";

/// An unpacked source tree in the cache. Nobody writes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The top of the tree.
    pub path: PathBuf,
    /// What the system said of every file when it was unpacked.
    pub witness: String,
    /// Content key: equal keys, equal trees.
    pub key: String,
    /// For a person: `linux-source-6.12 6.12.117-1`, or a commit.
    pub title: String,
    /// 40 hex digits where it is a commit.
    pub commit: Option<String>,
}

impl TreeSource {
    /// What `asked` is; without it, Debian's source package. `revision` is `--base`, `base_commit` the
    /// series' own wish, used when the repository has it.
    ///
    /// # Errors
    /// There is no such tree, or the revision is unknown.
    pub fn find(
        asked: Option<&Path>,
        revision: Option<&str>,
        base_commit: Option<&str>,
    ) -> Result<Self, BuildError> {
        let Some(path) = asked else {
            let archive = PathBuf::from(DEBIAN_ARCHIVE);
            return if archive.is_file() {
                Ok(Self::Archive(archive))
            } else {
                Err(BuildError::NoTree(format!(
                    "no kernel source: {DEBIAN_ARCHIVE} is not there. Install it with: apt-get install \
                     {DEBIAN_PACKAGE}, or name a tree with --tree"
                )))
            };
        };
        if path.is_file() {
            return Ok(Self::Archive(path.to_owned()));
        }
        if !path.is_dir() {
            return Err(BuildError::NoTree(format!("--tree {}: no such file or directory", path.display())));
        }
        let is_repository = git(path, &["rev-parse", "--git-dir"]).is_ok();
        if !is_repository {
            if !path.join("Kbuild").is_file() {
                return Err(BuildError::NoTree(format!(
                    "--tree {}: neither a git repository nor a kernel source tree",
                    path.display()
                )));
            }
            return Ok(Self::Directory(path.to_owned()));
        }
        let commit_of = |name: &str| {
            git(
                path,
                &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")],
            )
        };
        let commit = match (revision, base_commit) {
            (Some(revision), _) => commit_of(revision).map_err(|_| {
                BuildError::NoTree(format!("--base {revision}: {} has no such commit", path.display()))
            })?,
            (None, Some(base)) => commit_of(base).map_err(|_| {
                BuildError::NoTree(format!(
                    "the series asks for base-commit {base}, which {} does not have; fetch it, or choose another with --base",
                    path.display()
                ))
            })?,
            (None, None) => commit_of("HEAD")
                .map_err(|_| BuildError::NoTree(format!("{} has no commit yet", path.display())))?,
        };
        Ok(Self::Git { repository: path.to_owned(), commit })
    }

    /// Unpacks into the cache, unless it is there.
    ///
    /// # Errors
    /// It cannot be read or unpacked.
    pub fn unpack(&self, cache: &Cache, interrupt: &Interrupt) -> Result<Tree, BuildError> {
        let key = self.key(cache, interrupt)?;
        let witness_of = |entry: &Path| fs::read_to_string(entry.join(WITNESS)).unwrap_or_default();
        let intact = |entry: &Path| entry.is_dir() && witness(&entry.join(SOURCE)) == witness_of(entry);
        let place =
            cache.ensure(("sources", &key), interrupt, intact, || self.make(&key, cache, interrupt))?;
        let commit = match self {
            Self::Git { commit, .. } => Some(commit.clone()),
            Self::Archive(_) | Self::Directory(_) => None,
        };
        let witness = witness_of(&place);
        Ok(Tree { path: place.join(SOURCE), witness, key, title: self.title(), commit })
    }

    /// Makes the entry.
    fn make(&self, key: &str, cache: &Cache, interrupt: &Interrupt) -> Result<(), BuildError> {
        let scratch = cache.scratch()?;
        let entry = scratch.path().join("entry");
        let source = entry.join(SOURCE);
        fs::create_dir_all(&source).map_err(|e| cache::at(&source, e))?;
        give_to_sandbox(&source).map_err(|e| cache::at(&source, e))?;
        self.unpack_into(&source, interrupt)?;
        if !source.join("Kbuild").is_file() {
            return Err(BuildError::NoTree(format!("{} holds no kernel source", self.title())));
        }
        if let Self::Directory(path) = self {
            self.require_unchanged(path, cache, interrupt, key)?;
        }
        cache::write_whole(&entry.join(WITNESS), witness(&source).as_bytes())?;
        cache.publish(&entry, "sources", key)?;
        Ok(())
    }

    fn unpack_into(&self, place: &Path, interrupt: &Interrupt) -> Result<(), BuildError> {
        let sandbox = Sandbox::command("tar")
            .args(["-x", "--no-same-owner", "-C", "/kernmark/tree"])
            .writable(place, "/kernmark/tree")
            .limits(Limits {
                written: 8 << 30,
                files: 400_000,
                file: 4 << 30,
                memory: 4 << 30,
                ..Limits::TOOL
            });
        let (sandbox, producer) = match self {
            Self::Archive(archive) => (
                sandbox
                    .args(["--strip-components=1", "-f", "/kernmark/archive"])
                    .read_only(archive, "/kernmark/archive"),
                None,
            ),
            // The user's own tree: read by the user's own tools, outside the sandbox.
            Self::Directory(directory) => {
                let tar = Command::new("tar")
                    .arg("-C")
                    .arg(directory)
                    .args(["--exclude=./.git", "-cf", "-", "."])
                    .stdout(Stdio::piped())
                    .spawn();
                (sandbox.args(["-f", "-"]), Some(tar))
            }
            Self::Git { repository, commit } => {
                let tar = Command::new("git")
                    .arg("-C")
                    .arg(repository)
                    .args(["archive", "--format=tar", commit])
                    .stdout(Stdio::piped())
                    .spawn();
                (sandbox.args(["-f", "-"]), Some(tar))
            }
        };
        let finished = match producer {
            None => sandbox.run(UNPACK_LIMIT, interrupt.flag())?,
            Some(spawned) => {
                let mut child = spawned.map_err(|e| BuildError::NoTree(format!("{}: {e}", self.title())))?;
                let stdout = child.stdout.take().expect("piped above");
                let finished = sandbox.stdin(stdout).run(UNPACK_LIMIT, interrupt.flag());
                // The reader is gone, so the writer ends by itself.
                let status = child.wait();
                let finished = finished?;
                if finished.success() && !status.is_ok_and(|s| s.success()) {
                    return Err(BuildError::NoTree(format!("{} could not be read whole", self.title())));
                }
                finished
            }
        };
        if finished.success() {
            return Ok(());
        }
        let said = finished.stderr.text();
        if said.contains("No space left")
            && let Some(full) = cache::really_full(place)
        {
            return Err(full.into());
        }
        let detail = said.lines().next().unwrap_or_default().escape_default().to_string();
        Err(BuildError::NoTree(format!(
            "{} cannot be unpacked ({}): {detail}",
            self.title(),
            finished.ending
        )))
    }

    /// For a person.
    fn title(&self) -> String {
        match self {
            Self::Archive(path) if path == Path::new(DEBIAN_ARCHIVE) => {
                format!("{DEBIAN_PACKAGE} {}", debian_version().unwrap_or_default()).trim_end().to_owned()
            }
            Self::Archive(path) | Self::Directory(path) => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
            Self::Git { commit, .. } => commit.clone(),
        }
    }

    /// The hash of the content: equal keys, equal trees, wherever they are.
    fn key(&self, cache: &Cache, interrupt: &Interrupt) -> Result<String, BuildError> {
        Ok(match self {
            Self::Git { commit, .. } => format!("commit-{commit}"),
            Self::Archive(path) => format!("archive-{}", content::file(cache, path)?),
            Self::Directory(path) => {
                format!("directory-{}", content::directory(cache, path, interrupt.flag())?)
            }
        })
    }

    /// The key is a promise about what was copied.
    fn require_unchanged(
        &self,
        path: &Path,
        cache: &Cache,
        interrupt: &Interrupt,
        key: &str,
    ) -> Result<(), BuildError> {
        if self.key(cache, interrupt)? == key {
            return Ok(());
        }
        let path = path.display();
        Err(BuildError::NoTree(format!(
            "--tree {path} changed while it was read; start again when it is quiet"
        )))
    }
}

impl Tree {
    /// Text of a file of the tree; `None` when it is not there. Never follows a
    /// symbolic link, and never leaves the tree.
    pub fn read(&self, path: &str) -> Option<String> {
        let mut place = self.path.clone();
        for part in Path::new(path).components() {
            let std::path::Component::Normal(part) = part else { return None };
            place.push(part);
            if fs::symlink_metadata(&place).ok()?.is_symlink() {
                return None;
            }
        }
        fs::read(&place).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Runs git in the user's repository and returns its first line.
pub fn git(repository: &Path, arguments: &[&str]) -> Result<String, String> {
    let out = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(arguments)
        .output()
        .map_err(|e| format!("git: {e}"))?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default().to_owned())
    } else {
        Err(String::from_utf8_lossy(&out.stderr).trim().to_owned())
    }
}

fn debian_version() -> Option<String> {
    let out = Command::new("dpkg-query").args(["-W", "-f", "${Version}", DEBIAN_PACKAGE]).output().ok()?;
    let version = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !version.is_empty()).then_some(version)
}

impl From<crate::cache::CacheError> for crate::exit::Failure {
    fn from(error: crate::cache::CacheError) -> Self {
        let message = error.to_string();
        match error {
            crate::cache::CacheError::Interrupted => Self::missing(message),
            _ => Self::host(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_foreign_tree_is_named() {
        let place = tempfile::tempdir().expect("temporary directory");
        for (path, expected) in [
            (place.path().join("none"), "no such file"),
            (place.path().to_owned(), "neither a git repository"),
        ] {
            let error = TreeSource::find(Some(&path), None, None).expect_err("no tree").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_key_follows_the_content_and_nothing_else() {
        let place = tempfile::tempdir().expect("temporary directory");
        let cache = Cache::open(Some(&place.path().join("cache")), |_| None).expect("writable");
        let key = |name: &str, text: &str| {
            let tree = place.path().join(name);
            fs::create_dir_all(&tree).expect("writable");
            fs::write(tree.join("Kbuild"), text).expect("writable");
            let source = TreeSource::find(Some(&tree), None, None).expect("a tree");
            source.key(&cache, &Interrupt::default()).expect("readable")
        };
        let one = key("one", "a");
        assert_eq!(key("other", "a"), one);
        assert_ne!(key("one", "b"), one);
        assert_eq!(key("one", "a"), one);
    }

    #[test]
    fn reading_never_leaves_the_tree() {
        let place = tempfile::tempdir().expect("temporary directory");
        fs::write(place.path().join("in"), "text").expect("writable");
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("link")).expect("writable");
        let tree = Tree {
            path: place.path().into(),
            witness: String::new(),
            key: String::new(),
            title: String::new(),
            commit: None,
        };
        assert_eq!(tree.read("in").as_deref(), Some("text"));
        for outside in ["../etc/passwd", "/etc/passwd", "link", "none"] {
            assert_eq!(tree.read(outside), None, "{outside}");
        }
    }
}
