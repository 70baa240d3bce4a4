// SPDX-License-Identifier: GPL-2.0-or-later
//! Every condition of a loaded scheduler, on a sysfs and on types made by hand.

use super::*;

/// A directory as the kernel shows schedulers.
fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("temporary directory");
    fs::create_dir(place.path().join("root")).expect("writable");
    for (file, content) in files {
        fs::write(place.path().join(file), content).expect("writable");
    }
    place
}

#[test]
fn without_sched_ext_it_is_missing() {
    let Err(Stop::Missing(reason)) = require_none(Path::new("/nonexistent")) else { panic!("there is none") };
    assert!(reason.contains("CONFIG_SCHED_CLASS_EXT"), "{reason}");
}

#[test]
fn a_scheduler_of_somebody_else_is_left_alone() {
    for (state, ops, reason) in [
        ("enabled\n", "rusty\n", "sched_ext is enabled with scheduler rusty"),
        ("disabling\n", "\n", "disabling"),
    ] {
        let place = sysfs(&[("state", state), ("root/ops", ops)]);
        let Err(Stop::Missing(said)) = require_none(place.path()) else { panic!("{state}") };
        assert!(said.contains(reason), "{said}");
    }
    require_none(sysfs(&[("state", "disabled\n")]).path()).expect("nobody is there");
}

#[test]
fn each_condition_of_a_loaded_scheduler_can_fail() {
    let good = [("root/ops", "kernmark\n"), ("switch_all", "0\n"), ("enable_seq", "8\n")];
    let failed = |files: &[(&str, &str)]| -> Vec<&str> {
        let place = sysfs(files);
        let found = in_force(place.path(), 7).expect("all files are there");
        found.into_iter().filter(|(_, held, _)| !held).map(|(name, ..)| name).collect()
    };
    assert_eq!(failed(&good), [""; 0]);
    for (at, (file, value), name) in [
        (0, ("root/ops", "rusty\n"), "name"),
        (1, ("switch_all", "1\n"), "partial"),
        (2, ("enable_seq", "7\n"), "sequence"),
        (2, ("enable_seq", "9\n"), "sequence"),
    ] {
        let mut files = good;
        files[at] = (file, value);
        assert_eq!(failed(&files), [name]);
    }
    assert!(in_force(sysfs(&good[..2]).path(), 7).is_err(), "a file is missing");
    assert!(sequence_number(sysfs(&[("enable_seq", "x")]).path()).is_err());
}

#[test]
fn the_state_must_come() {
    let place = sysfs(&[("state", "enabled\n")]);
    assert_eq!(wait_for_state(place.path(), "enabled"), Ok(()));
    assert!(wait_for_state(Path::new("/nonexistent"), "enabled").is_err());
    let writer = place.path().join("state");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_for_state(place.path(), "disabled"));
        fs::write(&writer, "disabled\n").expect("writable");
        assert_eq!(waiting.join().expect("no panic"), Ok(()));
    });
}

#[test]
fn being_thrown_out_is_not_being_unregistered() {
    let record = |name: &str, reason: &str| {
        format!("6,812,99,-;sched_ext: BPF scheduler \"{name}\" disabled ({reason})\n")
    };
    let good = record("kernmark", "unregistered from user space");
    assert!(unregistered(&good).1);
    assert!(
        unregistered(&format!("{}6,1,2,-;other\n{good}6,9,9,-;more\n", record("kernmark", "runtime error")))
            .1
    );
    for log in [
        String::new(),
        record("rusty", "unregistered from user space"),
        record("kernmark", "runnable task stall"),
        format!("{good}{}", record("kernmark", "runtime error")),
    ] {
        let (name, held, seen) = unregistered(&log);
        assert_eq!((name, held), ("unregistered", false), "{log}: {seen}");
    }
}

#[test]
fn refusals_are_told_apart() {
    for (error, text) in [
        (Errno::EPERM, "run as root"),
        (Errno::ENOSYS, "CONFIG_BPF_SYSCALL"),
        (Errno::EBUSY, "another scheduler"),
    ] {
        let Stop::Missing(reason) = refusal("a map", error) else { panic!("{error}") };
        assert!(reason.contains(text), "{reason}");
    }
    assert!(matches!(refusal("the scheduler", Errno::EINVAL), Stop::Failed(r) if r.contains("isolcpus")));
    assert!(matches!(because(BtfError::NotThere("struct sched_ext_ops".into())), Stop::Missing(_)));
    assert!(matches!(because(BtfError::Kind(31)), Stop::Failed(_)));
}

fn kernel(value_size: u32, flag: u32, callbacks: &[&'static str]) -> Vec<u8> {
    let mut members = vec![("name", 0), ("flags", 16)];
    members.extend(callbacks.iter().zip(3..).map(|(name, number)| (*name, 8 * number)));
    let ops_size = 8 * (members.len() as u32 + 1);
    btf::tests::types(
        &[
            ("sched_ext_ops", ops_size, &members),
            ("bpf_struct_ops_sched_ext_ops", value_size, &[("common", 0), ("data", 64)]),
        ],
        &[("SCX_OPS_SWITCH_PARTIAL", flag)],
    )
}

#[test]
fn the_value_holds_name_flags_and_programs_and_nothing_else() {
    let bytes = kernel(64 + 72, 8, &CALLBACKS);
    let types = Btf::read(&bytes).expect("whole");
    let layout = Layout::of(&types, Variant::WithCallbacks).expect("all is there");
    assert_eq!((layout.ops, layout.value_type, layout.value_size, layout.flags), (1, 2, 136, 8));
    assert_eq!(layout.callbacks[1], ("cgroup_exit", 3, 64 + 32));
    let value = layout.value(&[11, 12, 13, 14, 15, 16]);
    let mut expected = vec![0; 136];
    expected[64..72].copy_from_slice(b"kernmark");
    expected[80] = 8;
    for (number, program) in (11..=16).enumerate() {
        expected[64 + 24 + 8 * number] = program;
    }
    assert_eq!(value, expected);
    let without = Layout::of(&types, Variant::WithoutCallbacks).expect("all is there").value(&[]);
    expected[64 + 24..].fill(0);
    assert_eq!(without, expected);
}

#[test]
fn types_that_do_not_fit_are_refused() {
    let of = |bytes: &[u8], variant| Layout::of(&Btf::read(bytes).expect("whole"), variant).err();
    let damaged = |what| Some(BtfError::Damaged(what));
    let beyond = damaged("a member beyond the end of its struct");
    assert_eq!(of(&kernel(64 + 40, 8, &CALLBACKS), Variant::WithCallbacks), beyond);
    assert_eq!(of(&kernel(64 + 8, 8, &CALLBACKS), Variant::WithoutCallbacks), beyond);
    for flag in [0, 3] {
        let found = of(&kernel(136, flag, &CALLBACKS), Variant::WithCallbacks);
        assert_eq!(found, damaged("SCX_OPS_SWITCH_PARTIAL is not one bit"));
    }
    // A kernel without EXT_GROUP_SCHED has no callbacks of cgroups; the other variant needs none.
    let plain = kernel(136, 8, &[]);
    let Some(BtfError::NotThere(what)) = of(&plain, Variant::WithCallbacks) else { panic!("not there") };
    assert!(what.contains("cgroup_init"), "{what}");
    assert_eq!(of(&plain, Variant::WithoutCallbacks), None);
}
