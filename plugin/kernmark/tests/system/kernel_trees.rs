// SPDX-License-Identifier: GPL-2.0-or-later
//! Source trees of every kind reach the cache whole and leave the user's own alone.

use kernmark::cache::Cache;
use kernmark::interrupt::Interrupt;
use kernmark::kernel::{Tree, TreeSource};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small tree that looks like a kernel source, and a cache.
struct Place {
    directory: tempfile::TempDir,
    cache: Cache,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let cache = Cache::open(Some(&directory.path().join("cache")), |_| None).expect("writable");
        let place = Self { directory, cache };
        place.write("Makefile", "VERSION = 6\nPATCHLEVEL = 12\n");
        place.write("Kbuild", "obj-y += fs/\n");
        place.write("fs/a.c", "one");
        std::os::unix::fs::symlink("a.c", place.tree().join("fs/link")).expect("writable");
        place
    }

    fn tree(&self) -> PathBuf {
        self.directory.path().join("linux")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.tree().join(path);
        std::fs::create_dir_all(path.parent().expect("below")).expect("writable");
        std::fs::write(path, text).expect("writable");
    }

    fn unpack(&self, path: &Path, revision: Option<&str>) -> Tree {
        let source = TreeSource::find(Some(path), revision, None).expect("a tree");
        source.unpack(&self.cache, &Interrupt::default()).expect("unpacked")
    }

    /// Runs a command in the tree; its first line.
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.tree())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("starts");
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    }

    fn commit(&self, message: &str) -> String {
        self.run("git", &["add", "--all"]);
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        self.run("git", &[&identity[..], &["commit", "--quiet", "--message", message]].concat());
        self.run("git", &["rev-parse", "HEAD"])
    }
}

#[test]
fn a_directory_is_copied_and_its_content_is_its_key() {
    let place = Place::new();
    let first = place.unpack(&place.tree(), None);
    assert_eq!(first.read("fs/a.c").as_deref(), Some("one"));
    assert_eq!(std::fs::read_link(first.path.join("fs/link")).expect("a link"), Path::new("a.c"));
    place.write("fs/a.c", "two");
    let second = place.unpack(&place.tree(), None);
    assert_eq!(second.read("fs/a.c").as_deref(), Some("two"));
    assert_eq!(first.read("fs/a.c").as_deref(), Some("one"));
    place.write("fs/a.c", "one");
    assert_eq!(place.unpack(&place.tree(), None).key, first.key);
}

#[test]
fn an_archive_is_unpacked_without_its_top_directory() {
    let place = Place::new();
    for (name, option) in [("l.tar", "-cf"), ("l.tar.gz", "-czf"), ("l.tar.xz", "-cJf")] {
        place.run("tar", &["-C", "..", option, &format!("../{name}"), "linux"]);
        let tree = place.unpack(&place.directory.path().join(name), None);
        assert_eq!(tree.read("fs/a.c").as_deref(), Some("one"), "{name}");
        assert_eq!((tree.title.as_str(), tree.commit.clone()), (name, None));
    }
}

#[test]
fn a_commit_is_taken_and_not_what_lies_around() {
    let place = Place::new();
    place.run("git", &["init", "--quiet"]);
    let old = place.commit("one");
    place.write("fs/a.c", "two");
    let new = place.commit("two");
    place.write("fs/a.c", "not committed");
    let head = place.unpack(&place.tree(), None);
    assert_eq!((head.read("fs/a.c").as_deref(), head.commit.as_deref()), (Some("two"), Some(new.as_str())));
    let before = place.unpack(&place.tree(), Some("HEAD~1"));
    assert_eq!(
        (before.read("fs/a.c").as_deref(), before.commit.as_deref()),
        (Some("one"), Some(old.as_str()))
    );
    assert_eq!(place.run("git", &["status", "--porcelain"]), " M fs/a.c");
    for revision in ["no-such-branch", "--help"] {
        let error =
            TreeSource::find(Some(&place.tree()), Some(revision), None).expect_err("unknown").to_string();
        assert!(error.contains(revision) && error.contains("no such commit"), "{error}");
    }
}

#[test]
fn what_is_no_kernel_source_is_refused_and_not_kept() {
    let place = Place::new();
    std::fs::remove_file(place.tree().join("Kbuild")).expect("is there");
    place.run("tar", &["-C", "..", "-cf", "../l.tar", "linux"]);
    std::fs::write(place.directory.path().join("broken.tar.xz"), "no archive").expect("writable");
    for (name, expected) in [("l.tar", "holds no kernel source"), ("broken.tar.xz", "cannot be unpacked")] {
        let source = TreeSource::find(Some(&place.directory.path().join(name)), None, None).expect("a file");
        let error = source.unpack(&place.cache, &Interrupt::default()).expect_err("no source").to_string();
        assert!(error.contains(name) && error.contains(expected), "{error}");
    }
    assert!(!place.cache.entry("sources", "").exists());
}

#[test]
fn a_source_that_was_touched_in_the_cache_is_unpacked_again() {
    let place = Place::new();
    let first = place.unpack(&place.tree(), None);
    let file = first.path.join("fs/a.c");
    let times = std::fs::metadata(&file).and_then(|m| m.modified()).expect("a time");
    std::fs::write(&file, "eno").expect("writable");
    std::fs::File::options().write(true).open(&file).and_then(|f| f.set_modified(times)).expect("ours");
    assert_eq!(first.read("fs/a.c").as_deref(), Some("eno"));
    let again = place.unpack(&place.tree(), None);
    assert_eq!((again.key.as_str(), again.read("fs/a.c").as_deref()), (first.key.as_str(), Some("one")));
}
