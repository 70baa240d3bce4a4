// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;

fn tree_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("temporary directory");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("writable");
        fs::write(path, text).expect("writable");
    }
    root
}

fn names(tree: &Tree, root: &Path) -> Vec<String> {
    let below = |target: &Target| {
        let path = PathBuf::from(target.path.to_str().expect("UTF-8"));
        path.strip_prefix(root).expect("below").display().to_string()
    };
    tree.targets.iter().map(below).collect()
}

#[test]
fn topology_files_of_all_cpus_are_six_deep() {
    let root = tree_with(&[
        ("devices/system/cpu/cpu0/topology/core_id", "0\n"),
        ("devices/system/cpu/cpu0/topology/die_id", "0\n"),
        ("devices/system/cpu/cpu10/topology/core_id", "5\n"),
        ("devices/system/cpu/cpu2/topology/core_id", "1\n"),
        ("devices/system/cpu/cpufreq/core_id", "not a CPU\n"),
    ]);
    let tree = Tree::topology(root.path(), "devices/system/cpu", 0).expect("files");
    let expected: Vec<String> =
        ["cpu0/topology/core_id", "cpu2/topology/core_id", "cpu10/topology/core_id", "cpu0/topology/die_id"]
            .iter()
            .map(|file| format!("devices/system/cpu/{file}"))
            .collect();
    assert_eq!(names(&tree, root.path()), expected);
    assert_eq!((tree.depth, tree.links), (6, 0));
    assert_eq!(tree.targets[2].content, b"5\n");
}

#[test]
fn without_files_another_tree_is_named() {
    let root = tree_with(&[("devices/system/cpu/online", "0\n")]);
    for (found, advice) in [
        (Tree::topology(root.path(), "devices/system/cpu", 0), "tree=cgroup"),
        (Tree::infiniband(root.path()), "tree=cpu"),
    ] {
        assert!(matches!(&found, Err(Stop::Missing(text)) if text.contains(advice)), "{found:?}");
    }
}

#[test]
fn infiniband_files_are_those_that_can_be_read_and_as_deep() {
    let port = "class/infiniband/mlx5_0/ports/1";
    let files: Vec<(String, &str)> =
        [("gids/0", "fe80\n"), ("gids/1", "fe81\n"), ("gids/2", ""), ("gid_attrs/types/0", "RoCE v2\n")]
            .map(|(file, text)| (format!("{port}/{file}"), text))
            .to_vec();
    let borrowed: Vec<(&str, &str)> = files.iter().map(|(file, text)| (file.as_str(), *text)).collect();
    let root = tree_with(&borrowed);
    let tree = Tree::infiniband(root.path()).expect("GIDs");
    assert_eq!(names(&tree, root.path()), [format!("{port}/gids/0"), format!("{port}/gids/1")]);
    assert_eq!((tree.depth, tree.links), (7, 1));
}

#[test]
fn an_empty_file_is_no_target() {
    let root = tree_with(&[("empty", "")]);
    let error = Tree::of(&[root.path().join("empty")], 1, 0).expect_err("nothing to read");
    assert!(error.to_string().contains("empty"), "{error}");
}

#[test]
fn workers_share_the_files_or_all_have_the_same() {
    let root = tree_with(&[("a", "0"), ("b", "1"), ("c", "2")]);
    let files: Vec<PathBuf> = ["a", "b", "c"].iter().map(|f| root.path().join(f)).collect();
    let tree = Tree::of(&files, 1, 0).expect("readable");
    let contents = |index, count, same| {
        let own = tree.share(index, count, same).expect("enough");
        own.iter().map(|target| String::from_utf8_lossy(&target.content).into_owned()).collect::<String>()
    };
    assert_eq!((contents(0, 2, false), contents(1, 2, false)), ("02".into(), "1".into()));
    assert_eq!((contents(0, 5, true), contents(4, 5, true)), ("0".into(), "0".into()));
    let error = tree.share(3, 4, false).expect_err("too few");
    assert!(matches!(&error, Stop::Missing(text) if text.contains("files=same")), "{error}");
}

#[test]
fn a_copy_on_tmpfs_is_as_deep_and_vanishes() {
    let root = tree_with(&[("sys/devices/x", "7\n")]);
    let original = Tree::of(&[root.path().join("sys/devices/x")], 2, 0).expect("readable");
    let place = root.path().join("copy");
    fs::create_dir(&place).expect("writable");
    let mut copy = Tree::copy(&original, place.clone()).expect("writable");
    assert_eq!((copy.targets[0].content.as_slice(), copy.depth), (b"7\n".as_slice(), 2));
    assert!(copy.targets[0].path.to_str().expect("UTF-8").starts_with(place.to_str().expect("UTF-8")));
    assert_eq!(copy.remove(), [] as [PathBuf; 0]);
    assert!(!place.exists());
}

#[test]
fn what_cannot_be_removed_is_reported() {
    let root = tree_with(&[("sys/x", "7\n")]);
    let original = Tree::of(&[root.path().join("sys/x")], 1, 0).expect("readable");
    let mut copy = Tree::copy(&original, root.path().join("copy")).expect("writable");
    let kept = root.path().join("sys");
    copy.made.directory = Some(kept.join("x"));
    assert_eq!(copy.remove(), [kept.join("x")], "a file is no directory, so it stays");
}

#[test]
fn another_file_system_is_missing() {
    let root = tree_with(&[]);
    let error = expect_file_system(root.path(), SYSFS_MAGIC, "sysfs").expect_err("no sysfs");
    assert!(matches!(&error, Stop::Missing(text) if text.contains("no sysfs")), "{error}");
}
