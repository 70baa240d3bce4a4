// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run is about to measure and how long that takes, for whoever waits.

use super::{amount, arms_of};
use crate::cli::RunArguments;
use crate::emit::PlannedArm;
use crate::workloads::{Arm, Workload};
use std::time::Duration;

/// A few lines: the whole, each workload, and what is left out.
pub fn lines(workloads: &[&'static Workload], asked: &RunArguments, uptime: Duration) -> Vec<String> {
    let mut rows = Vec::new();
    let (mut arms, mut seconds, mut samples) = (0, 0, 0);
    for workload in workloads {
        let own = arms_of(workload, asked);
        let own_seconds: u64 = own.iter().map(|arm| seconds_of(workload, arm, own.len(), asked)).sum();
        arms += own.len();
        seconds += own_seconds;
        samples += own.iter().map(|arm| asked.samples.unwrap_or(arm.amount.samples)).sum::<u64>();
        let names: Vec<&str> = own.iter().map(|arm| arm.id).collect();
        rows.push((workload.id, names.join(" "), own_seconds));
    }
    let settling = asked.settle.before_first(uptime).as_secs()
        + asked.settle.samples.as_secs() * samples.saturating_sub(1);
    let after = if settling == 0 { String::new() } else { format!(", and {settling} s to settle") };
    let mut lines = vec![format!(
        "plan: {arms} arms of {} workloads, about {seconds} s per boot{after}",
        workloads.len()
    )];
    let widths = (
        rows.iter().map(|row| row.0.len()).max().unwrap_or(0),
        rows.iter().map(|row| row.1.len()).max().unwrap_or(0),
    );
    lines.extend(
        rows.iter().map(|(id, names, seconds)| {
            format!("  {id:<0$}  {names:<1$}  {seconds:>3} s", widths.0, widths.1)
        }),
    );
    let left_out: Vec<String> = workloads
        .iter()
        .flat_map(|workload| workload.arms.iter().map(move |arm| (workload.id, arm)))
        .filter(|(_, arm)| !asked.emulator && asked.arms.is_empty() && !arm.on_boards)
        .map(|(workload, arm)| format!("{workload} {} ({} s)", arm.id, arm.seconds))
        .collect();
    if !left_out.is_empty() {
        lines.push(format!("  only when asked for (--arm): {}", left_out.join(", ")));
    }
    lines
}

/// Every arm with its time.
pub fn arms(workloads: &[&'static Workload], asked: &RunArguments) -> impl Iterator<Item = PlannedArm> {
    workloads.iter().flat_map(move |workload| {
        let own = arms_of(workload, asked);
        let count = own.len();
        own.into_iter().map(move |arm| PlannedArm {
            workload: workload.id,
            arm: arm.id,
            seconds: seconds_of(workload, arm, count, asked),
        })
    })
}

/// About how long an arm takes: its own estimate, by as much longer as more is asked for.
fn seconds_of(workload: &Workload, arm: &'static Arm, arms: usize, asked: &RunArguments) -> u64 {
    let usual = arm.amount.samples * arm.amount.operations;
    let wanted = amount(asked, workload, arm, arms).map_or(usual, |a| a.samples * a.operations);
    if wanted == usual { arm.seconds } else { (arm.seconds * wanted).div_ceil(usual.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::tests::asked;
    use crate::workloads::{CONTROL_GETPPID, KERNFS_RMDIR, WORKLOADS};

    /// Seconds that a default run on a board may take after settling (workloads.md, issue).
    const MOST_PER_BOOT: u64 = 90;

    #[test]
    fn the_default_set_fits_a_boot() {
        let arms = WORKLOADS.iter().flat_map(|workload| workload.arms).filter(|arm| arm.on_boards);
        let seconds: u64 = arms.map(|arm| arm.seconds).sum();
        assert!(seconds > 0 && seconds <= MOST_PER_BOOT, "{seconds} s; make an arm shorter, or on demand");
    }

    #[test]
    fn the_plan_says_how_long_and_what_is_left_out() {
        let both: &[&'static Workload] = &[&CONTROL_GETPPID, &KERNFS_RMDIR];
        let lines =
            lines(both, &asked(&["--settle-s", "45,10,2", "--samples", "2"]), Duration::from_secs(40));
        let whole = &lines[0];
        // 5 s after the boot, 10 s after the settings, 2 s before all samples but the first.
        assert!(
            whole.contains("arms of 2 workloads, about") && whole.contains(" s per boot, and"),
            "{whole}"
        );
        assert!(lines[2].contains("kernfs.rmdir") && lines[2].contains("scx-off"), "{lines:?}");
        assert!(lines.last().is_some_and(|last| last.contains("kernfs.rmdir bare (")), "{lines:?}");
        let named = super::lines(both, &asked(&["--arm", "bare"]), Duration::ZERO);
        assert!(!named.iter().any(|line| line.contains("only when asked for")), "{named:?}");
    }

    #[test]
    fn more_samples_take_longer() {
        let (workload, arm) = (&KERNFS_RMDIR, &KERNFS_RMDIR.arms[0]);
        let of = |arguments: &[&str]| seconds_of(workload, arm, 1, &asked(arguments));
        assert_eq!(of(&[]), arm.seconds);
        let triple = (3 * arm.amount.samples).to_string();
        assert_eq!(of(&["--samples", &triple]), 3 * arm.seconds);
        assert_eq!(of(&["--samples", "1", "--operations", "1"]), 1, "never nothing");
    }
}
