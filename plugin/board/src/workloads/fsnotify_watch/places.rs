// SPDX-License-Identifier: GPL-2.0-or-later
//! Which CPUs the workers of an arm are pinned to (workloads.md 1.3).

use super::pairs::ITEMS;
use super::{Setting, Stop};
use crate::machine::Topology;
use crate::workloads::Parameter;

/// More than this are not started.
const MOST_WORKERS: usize = 64;
/// The arm whose number of workers is a parameter.
pub const ANY_NUMBER: &str = "pn";

/// Workers of arm `pn`.
pub const WORKERS: Parameter = Parameter {
    id: "workers",
    summary: "workers of arm pn, a divisor of 96; 0 means as many as there are CPUs for",
    default: "0",
    values: &[],
};

/// One CPU for each worker.
///
/// # Errors
/// The machine, or the list of CPUs asked for, has too few.
pub fn worker_cpus(setting: &Setting<'_>) -> Result<Vec<usize>, Stop> {
    let wanted = usize::try_from(setting.parameters.number(WORKERS.id)).unwrap_or(usize::MAX);
    cpus_of(setting.arm, setting.topology, wanted)
}

fn cpus_of(arm: &str, topology: &Topology, workers: usize) -> Result<Vec<usize>, Stop> {
    if arm != ANY_NUMBER {
        return topology.places(arm).map(|list| list.0).map_err(|stop| match stop {
            Stop::Missing(reason) => Stop::Missing(format!("{reason}; or take arm {ANY_NUMBER}")),
            other => other,
        });
    }
    let usable = topology.filling_order().0.len();
    let wanted = if workers == 0 { largest_divisor(usable.min(MOST_WORKERS)) } else { workers };
    if wanted == 0 || wanted > MOST_WORKERS || !ITEMS.is_multiple_of(wanted) {
        return Err(Stop::Usage(format!(
            "workers={wanted}: {ITEMS} watches cannot be shared out evenly among them; choose a divisor of {ITEMS} \
             up to {MOST_WORKERS}"
        )));
    }
    topology.fill(wanted).map(|list| list.0)
}

/// The largest number up to `most` that divides the number of watches; 0 for none.
fn largest_divisor(most: usize) -> usize {
    (1..=most).rev().find(|n| ITEMS.is_multiple_of(*n)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::synthetic::{self, Machine};

    fn cpus(machine: &Machine, arm: &str, usable: Option<&str>, workers: usize) -> Result<Vec<usize>, Stop> {
        let machine = Topology::read_with(machine.tree().path(), |_| None);
        let usable = usable.map(|list| machine.limited_to(&list.parse().expect("valid")));
        cpus_of(arm, usable.as_ref().unwrap_or(&machine), workers)
    }

    #[test]
    fn arms_are_the_published_cpus_on_the_published_board() {
        let every = |step: usize, end: usize| (0..end).step_by(step).collect::<Vec<_>>();
        for (arm, expected) in [
            ("p8", every(2, 16)),
            ("p6", every(2, 12)),
            ("p4", every(2, 8)),
            ("p1", vec![0]),
            ("w16", every(1, 16)),
            // 20 CPUs; 16 is the largest divisor of 96 among them.
            ("pn", [every(2, 16), (1..16).step_by(2).collect()].concat()),
        ] {
            assert_eq!(cpus(&synthetic::i7_12700kf(), arm, None, 0).expect("enough"), expected, "{arm}");
        }
    }

    #[test]
    fn an_arm_without_its_cores_is_a_skip_that_names_them() {
        let machine = synthetic::virtual_machine();
        for arm in ["p8", "p6", "p4", "w16"] {
            let Err(Stop::Missing(reason)) = cpus(&machine, arm, None, 0) else { panic!("{arm} ran") };
            assert!(reason.contains("there are 2") && reason.contains("arm pn"), "{reason}");
        }
        assert_eq!(cpus(&machine, "pn", None, 0).expect("enough"), [0, 1]);
        let Err(Stop::Missing(reason)) = cpus(&machine, "pn", None, 3) else { panic!("3 workers on 2 CPUs") };
        assert!(reason.contains("there are 2 (CPUs 0-1)"), "{reason}");
        assert!(matches!(cpus(&synthetic::i7_12700kf(), "p4", Some("3,5"), 0), Err(Stop::Missing(_))));
    }

    #[test]
    fn only_usable_cpus_are_taken() {
        let board = synthetic::i7_12700kf();
        assert_eq!(cpus(&board, "pn", Some("3,5"), 2).expect("enough"), [3, 5]);
        assert_eq!(cpus(&board, "pn", Some("0-4"), 0).expect("enough"), [0, 2, 4, 1], "5 does not divide 96");
        assert_eq!(cpus(&board, "p1", Some("4-5"), 0).expect("enough"), [4]);
    }

    #[test]
    fn a_number_that_does_not_divide_the_watches_is_refused() {
        for workers in [5, 7, 96, 128, usize::MAX] {
            let refused = cpus(&synthetic::i7_12700kf(), "pn", None, workers);
            assert!(matches!(refused, Err(Stop::Usage(_))), "{workers}");
        }
        assert!(matches!(cpus(&synthetic::i7_12700kf(), "pn", Some("40"), 0), Err(Stop::Usage(_))));
    }
}
