// SPDX-License-Identifier: GPL-2.0-or-later
//! Every condition of the workload can fail, every skip says what would help.

use super::proof::{self, End, SEQUENCES};
use super::*;

#[test]
fn each_condition_of_a_sample_can_fail() {
    let word = str::to_owned;
    let good = End {
        sequences: 144,
        state: (word("disabled"), word("disabled")),
        weight: Some(word("100")),
        dying_at_most: 3,
        given: (word("cpu"), word("cpu")),
        left: false,
    };
    let failed = |end: &End| -> Vec<&'static str> {
        end.conditions().into_iter().filter(|c| !c.pass).map(|c| c.name).collect()
    };
    assert_eq!(failed(&good), [""; 0]);
    assert_eq!(failed(&End { weight: None, ..good.clone() }), [""; 0], "the arm without the controller");
    for (end, name) in [
        (End { sequences: 0, ..good.clone() }, "operations"),
        (End { state: (word("disabled"), word("enabled")), ..good.clone() }, "state"),
        (End { weight: Some(word("99")), ..good.clone() }, "weight"),
        (End { given: (word("cpu"), word("cpu memory")), ..good.clone() }, "restored"),
        (End { left: true, ..good.clone() }, "restored"),
    ] {
        assert_eq!(failed(&end), [name], "{end:?}");
    }
}

#[test]
fn callbacks_run_once_for_each_operation_or_never() {
    let runs = |made, removed| vec![("cgroup_exit", removed), ("cgroup_move", 7), ("cgroup_init", made)];
    let holds = |variant, runs: &[(&'static str, u64)]| proof::condition(variant, runs).pass;
    let with = Some(Variant::WithCallbacks);
    assert!(holds(with, &runs(SEQUENCES, SEQUENCES)));
    for (made, removed) in [(0, 0), (SEQUENCES, SEQUENCES - 1), (SEQUENCES + 1, SEQUENCES), (SEQUENCES, 0)] {
        assert!(!holds(with, &runs(made, removed)), "{made} {removed}");
    }
    for variant in [None, Some(Variant::WithoutCallbacks)] {
        assert!(holds(variant, &[]));
        assert!(!holds(variant, &runs(1, 0)) && !holds(variant, &runs(0, 1)), "{variant:?}");
    }
    assert!(!holds(with, &[]));
    assert_eq!(proof::facts(&runs(5, 6))[1..], [("cgroup_init_runs", 5), ("cgroup_exit_runs", 6)]);
}

#[test]
fn an_arm_needs_the_state_of_its_own() {
    for (arm, state) in
        [(SCX_OFF, "disabled"), (BARE, "disabled"), (SCX_NOCB, "enabled"), (SCX_CB, "enabled")]
    {
        require_state(arm, state).expect("its state");
        let other = if state == "enabled" { "disabled" } else { "enabled" };
        for wrong in [other, "enabling", ""] {
            let Err(Stop::Missing(reason)) = require_state(arm, wrong) else { panic!("{arm} in {wrong}") };
            assert!(reason.contains(arm) && reason.contains(state), "{reason}");
        }
    }
}

#[test]
fn a_sample_that_takes_too_long_is_void() {
    in_time(WATCHDOG).expect("just in time");
    assert!(matches!(in_time(WATCHDOG + Duration::from_millis(1)), Err(Stop::Failed(_))));
}

#[test]
fn arms_differ_by_their_scheduler_only() {
    for arm in KERNFS_RMDIR.arms {
        let expected = match arm.id {
            SCX_NOCB => Some(Variant::WithoutCallbacks),
            SCX_CB => Some(Variant::WithCallbacks),
            SCX_OFF | BARE | COLUMNS => None,
            other => panic!("{other} is not known here"),
        };
        assert_eq!(scheduler_of(arm.id), expected);
        let columns = if arm.id == COLUMNS { COLUMN_METRICS } else { METRICS };
        assert_eq!(arm.metrics.len(), columns.len());
    }
}
