// SPDX-License-Identifier: GPL-2.0-or-later
//! An ordinary user measures what needs no root and hears what was skipped.

use super::{is_ordinary, records, status};
use kernmark_wire::Record;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The user that owns nothing.
const NOBODY: u32 = 65534;

#[test]
fn without_root_what_needs_it_is_skipped_with_a_reason() {
    if !is_ordinary() {
        return;
    }
    // Where that user may read the program, wherever it was built.
    let place = tempfile::tempdir().expect("temporary directory");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("our own directory");
    let program = place.path().join("kernmark-board");
    fs::copy(env!("CARGO_BIN_EXE_kernmark-board"), &program).expect("the program is built");
    let mut command = Command::new(&program);
    // All primaries.
    command.args(["run", "--samples", "1", "--operations", "8", "--warmups", "0"]);
    command.args(["--format", "jsonl"]).env_remove("XDG_RUNTIME_DIR").env_remove("TMPDIR");
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let ended = command.output().expect("the program starts");
    let (records, said) = (records(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert_eq!((status(&records), ended.status.code()), ("ok", Some(0)), "{said}");
    let measured = |id: &str| records.iter().any(|r| matches!(r, Record::Sample(s) if s.workload == id));
    for (id, there) in [
        ("control.getppid", true),
        ("fsnotify.churn", true),
        ("kernfs.open", true),
        ("kernfs.rmdir", false),
        ("shrinker.umount", false),
    ] {
        assert_eq!(measured(id), there, "{id}: {said}");
    }
    let reasons: Vec<&str> = records
        .iter()
        .filter_map(|r| if let Record::Skip(s) = r { Some(s.reason.as_str()) } else { None })
        .collect();
    let helps = |reason: &&str| {
        ["as root", "mount ", "sched_ext", "choose fewer"].iter().any(|help| reason.contains(help))
    };
    assert!(!reasons.is_empty() && reasons.iter().all(helps), "{reasons:?}");
    // Settings that cannot be changed are named, not passed over.
    let setting = records.iter().find_map(|r| match r {
        Record::Environment(e) if e.key == "setting.scaling_governor" => Some(e.value.as_str()),
        _ => None,
    });
    let setting = setting.expect("it is recorded");
    assert!(setting == "absent" || setting.contains("already") || setting.contains("stays"), "{setting}");
}
