// SPDX-License-Identifier: GPL-2.0-or-later
//! The measuring program as PID 1 of a real kernel: what it counts is what the
//! kernel does, and what goes wrong arrives as a result.

use crate::machine::board_binary;
use crate::runner::{boot, run};
use kernmark::runners::{Boot, FinishedPoint, Outcome, QemuRunner, Schedule};
use kernmark_validation::samples::PointLog;
use std::sync::atomic::AtomicBool;

/// Boots the base kernel once for each seed.
fn boots(arguments: &str, seeds: &[u64]) -> Vec<FinishedPoint> {
    let place = tempfile::tempdir().expect("temporary directory");
    let board = board_binary();
    let boots: Vec<Boot> = seeds
        .iter()
        .zip(1..)
        .map(|(&seed, index)| Boot { seed, ..boot(place.path(), index, &board, arguments) })
        .collect();
    let runner = QemuRunner::new().expect("the emulator is installed");
    run(&runner, &place.path().join("points"), &boots)
}

fn fact(log: &PointLog, arm: &str, name: &str) -> u64 {
    let found = log.facts.iter().find(|f| (f.arm.as_str(), f.name.as_str()) == (arm, name));
    found.unwrap_or_else(|| panic!("{arm} {name} is not in {:?}", log.facts)).value
}

#[test]
fn removal_takes_the_same_instructions_for_every_seed() {
    let finished = boots(
        "run kernfs.rmdir --arm scx-off --arm bare --samples 2 --operations 128 --warmups 16 --clock tsc \
         --single-operations --waiting",
        &[1, 2, 3],
    );
    let medians: Vec<Vec<u64>> = finished
        .iter()
        .map(|point| {
            assert_eq!(point.record.outcome, Outcome::Done, "{}\n{}", point.record.outcome, point.excerpt);
            let environment = &point.log.environment_before;
            assert_eq!(environment["clock.tsc_counts"], "instructions");
            assert_eq!(environment["clock.gate"], "pass");
            // The 26 nodes of the published boards, and those that every cgroup has.
            assert_eq!(fact(&point.log, "scx-off", "nodes"), 26);
            assert!(fact(&point.log, "bare", "nodes") < 26);
            let removals = point.log.operations.iter().filter(|o| o.metric == "remove");
            removals
                .map(|series| {
                    let mut values = series.values.clone();
                    values.sort_unstable();
                    values[values.len() / 2]
                })
                .collect()
        })
        .collect();
    assert!(medians[0].len() == 2 && medians[0][0] > medians[0][1], "{medians:?}");
    assert!(medians.iter().all(|seed| *seed == medians[0]), "{medians:?}");
}

#[test]
fn calls_of_a_removal_are_counted_by_node() {
    let finished = boots("observe kernfs.rmdir", &[1]);
    let point = &finished[0];
    assert_eq!(point.record.outcome, Outcome::Done, "{}\n{}", point.record.outcome, point.excerpt);
    let nodes = fact(&point.log, "scx-off", "nodes");
    let rmdir = point.log.calls.iter().find(|c| c.operation == "rmdir").expect("traced");
    let per_operation = |function: &str| {
        let total: u64 = rmdir.calls.iter().filter(|(name, _, _)| name == function).map(|(_, _, n)| n).sum();
        assert_eq!(total % rmdir.operations, 0, "{function} is not whole");
        total / rmdir.operations
    };
    assert_eq!(per_operation("kernfs_remove_by_name_ns"), nodes - 1, "the directory itself has no name here");
    // Each node is unlinked once; whichever of the two is merged into its caller is not seen.
    assert!([per_operation("kernfs_unlink_sibling"), per_operation("kernfs_drain")].contains(&nodes));
    assert!(point.log.profiles.iter().any(|p| p.functions.iter().any(|(name, _)| name == "kernfs_remove")));
    let returns = point.log.returns.iter().find(|r| r.operation == "rmdir").expect("probed");
    assert_eq!((returns.function.as_str(), returns.null, returns.other), ("ilookup", 0, 0));
}

#[test]
fn what_goes_wrong_in_the_guest_arrives_as_its_reason() {
    for (arguments, reason) in [
        ("run kernfs.rmdir --frobnicate", "unexpected argument '--frobnicate' found"),
        ("run no.such", "no workload \"no.such\""),
        ("run control.getppid --expect-cpus 2", "1 CPUs are online where 2 were expected"),
    ] {
        let finished = boots(arguments, &[1]);
        let outcome = &finished[0].record.outcome;
        assert_ne!(*outcome, Outcome::Done);
        assert!(outcome.to_string().contains(reason), "{arguments}: {outcome}\n{}", finished[0].excerpt);
    }
}

/// The kernel panics at more words for init than it has room for; such a boot is not made.
#[test]
fn as_many_words_as_the_kernel_takes_arrive_and_more_are_refused() {
    let words = |arms: usize| format!("run control.getppid{}", " --arm plain".repeat(arms));
    // With output format, point and protocol 28.
    let finished = boots(&words(10), &[1]);
    let point = &finished[0];
    assert_eq!(point.record.outcome, Outcome::Done, "{}\n{}", point.record.outcome, point.excerpt);
    let place = tempfile::tempdir().expect("temporary directory");
    let boot = boot(place.path(), 1, &board_binary(), &words(11));
    let runner = QemuRunner::new().expect("the emulator is installed");
    let schedule = Schedule {
        runner: &runner,
        points: &place.path().join("points"),
        interrupt: &AtomicBool::new(false),
    };
    let error = schedule.run(&[boot], &mut |_| {}).expect_err("30 words");
    assert!(format!("{error:?}").contains("TooManyWords { words: 30, room: 28 }"), "{error:?}");
}
