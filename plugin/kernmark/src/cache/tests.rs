// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;

fn cache() -> (tempfile::TempDir, Cache) {
    let place = tempfile::tempdir().expect("temporary directory");
    let cache = Cache::open(Some(place.path()), |_| None).expect("writable");
    (place, cache)
}

#[test]
fn the_place_is_found_in_order() {
    let place = tempfile::tempdir().expect("temporary directory");
    let variable = |wanted: &'static str| {
        let value = place.path().join(wanted);
        move |name: &str| (name == wanted).then(|| value.clone())
    };
    for (name, below) in [("KERNMARK_CACHE", ""), ("XDG_CACHE_HOME", "kernmark"), ("HOME", ".cache/kernmark")]
    {
        let cache = Cache::open(None, variable(name)).expect("writable");
        assert_eq!(cache.entry("k", "x"), place.path().join(name).join(below).join("k/x"));
    }
    assert!(matches!(Cache::open(None, |_| None), Err(CacheError::NoPlace)));
}

#[test]
fn scratch_vanishes_and_leftovers_are_removed() {
    let (place, cache) = cache();
    let scratch = cache.scratch().expect("writable");
    let path = scratch.path().to_owned();
    assert!(path.is_dir());
    // A second run must not take a live directory for a leftover.
    Cache::open(Some(place.path()), |_| None).expect("writable");
    assert!(path.is_dir());
    drop(scratch);
    assert!(!path.exists());
    let dead = place.path().join("scratch/run-dead");
    fs::create_dir(&dead).expect("writable");
    fs::write(dead.with_extension("lock"), "").expect("writable");
    Cache::open(Some(place.path()), |_| None).expect("writable");
    assert!(!dead.exists());
}

#[test]
fn directories_that_cannot_be_entered_are_removed_too() {
    let place = tempfile::tempdir().expect("temporary directory");
    let closed = place.path().join("tree/work/work");
    fs::create_dir_all(&closed).expect("writable");
    fs::write(closed.join("file"), "").expect("writable");
    std::os::unix::fs::symlink("/", place.path().join("tree/link")).expect("writable");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("owned");
    remove_whole(&place.path().join("tree")).expect("removed");
    assert!(!place.path().join("tree").exists());
}

#[test]
fn only_the_owner_can_walk_in() {
    let (place, cache) = cache();
    let made = place.path().join("made");
    fs::create_dir(&made).expect("writable");
    cache.publish(&made, "trees", "key").expect("writable");
    for part in ["scratch", "locks", "trees"] {
        let mode = fs::metadata(place.path().join(part)).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{part}");
    }
}

#[test]
fn a_tree_of_any_depth_is_removed() {
    let place = tempfile::tempdir().expect("temporary directory");
    let top = place.path().join("tree");
    // More levels than a process may have files open, and than a path has bytes.
    let script = "part=$(printf 'd/%.0s' $(seq 800)); mkdir \"$1\" && cd \"$1\" && \
        for i in 1 2 3 4; do mkdir -p \"$part\" && cd -P \"$part\" || exit 1; done";
    let made = Command::new("bash").args(["-c", script, "bash"]).arg(&top).status().expect("bash");
    assert!(made.success());
    remove_whole(&top).expect("removed");
    assert!(!top.exists());
}

#[test]
fn what_is_no_plain_file_is_written_into_and_stays() {
    use std::os::unix::fs::FileTypeExt;
    let place = tempfile::tempdir().expect("temporary directory");
    let (file, link) = (place.path().join("file"), place.path().join("link"));
    std::os::unix::fs::symlink(&file, &link).expect("writable");
    write_where_asked(&file, b"old").expect("written");
    write_where_asked(&link, b"new").expect("written");
    assert_eq!(fs::read(&file).expect("readable"), b"new");
    assert!(link.is_symlink(), "the link stays");
    let pipe = place.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("writable");
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe)
    });
    write_where_asked(&pipe, b"text").expect("written");
    assert_eq!(reader.join().expect("no panic").expect("readable"), b"text");
    let kind = fs::symlink_metadata(&pipe).expect("still there").file_type();
    assert!(kind.is_fifo(), "not replaced by a file");
}

#[test]
fn a_held_lock_is_waited_for_and_an_interrupt_ends_the_wait() {
    let (_place, cache) = cache();
    let interrupt = Interrupt::default();
    let held = cache.lock("bases", "key", &interrupt).expect("free");
    interrupt.set();
    let waiting = cache.lock("bases", "key", &interrupt);
    assert!(matches!(waiting, Err(CacheError::Interrupted)), "{waiting:?}");
    let free = Interrupt::default();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cache.lock("bases", "key", &free).map(|_| ()));
        drop(held);
        waiting.join().expect("no panic").expect("free by now");
    });
}

#[test]
fn an_entry_appears_whole() {
    let (_place, cache) = cache();
    let scratch = cache.scratch().expect("writable");
    let made = scratch.path().join("made");
    fs::create_dir(&made).expect("writable");
    write_whole(&made.join("file"), b"text").expect("writable");
    let entry = cache.publish(&made, "images", "key").expect("writable");
    assert_eq!(entry, cache.entry("images", "key"));
    assert_eq!(fs::read(entry.join("file")).expect("readable"), b"text");
}

#[test]
fn a_full_disk_has_its_own_error() {
    let error = at(Path::new("/"), io::Error::from(io::ErrorKind::StorageFull));
    assert!(
        matches!(error, CacheError::DiskFull { .. }) && error.to_string().contains("make room"),
        "{error}"
    );
}
