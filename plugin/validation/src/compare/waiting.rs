// SPDX-License-Identifier: GPL-2.0-or-later
//! Waiting of single operations: time off the CPU, reported apart from the
//! path length (statistics.md 3.10).

use super::Waiting;
use super::summary::{mean, median};

/// An operation that leaves the CPU and comes back executes two context
/// switches, which cost more than a thousand instructions; what is shorter is
/// the reading of two clocks one after the other. Virtual nanoseconds.
const SLEEP_NS: f64 = 1000.0;
/// An operation that waited before must wait this many times as long to count
/// as new: the length of one grace period varies with where in it one starts.
const JUMP: f64 = 1.5;

/// Waiting of both builds from the operations of each seed, median over
/// seeds; `None` when it was not measured in every boot.
///
/// Waiting is new when the median operation waits longer by at least one
/// sleep (1000 virtual ns), and it did not sleep before or waits at least half
/// as long again. Rare waiting shows in the means only and decides nothing.
pub(super) fn waiting<'a>(
    old: impl Iterator<Item = &'a [f64]>,
    new: impl Iterator<Item = &'a [f64]>,
) -> Option<Waiting> {
    let (old_median_ns, old_mean_ns) = side(old)?;
    let (new_median_ns, new_mean_ns) = side(new)?;
    let sleeps_more = new_median_ns - old_median_ns >= SLEEP_NS;
    let new_waiting = sleeps_more && (old_median_ns < SLEEP_NS || new_median_ns >= JUMP * old_median_ns);
    Some(Waiting { old_median_ns, new_median_ns, old_mean_ns, new_mean_ns, new_waiting })
}

/// The reverse of [`Waiting::new_waiting`]: the median operation waited, and no longer does or much shorter.
pub(super) fn waiting_is_gone(waiting: &Waiting) -> bool {
    let Waiting { old_median_ns: old, new_median_ns: new, .. } = *waiting;
    old - new >= SLEEP_NS && (new < SLEEP_NS || old >= JUMP * new)
}

fn side<'a>(seeds: impl Iterator<Item = &'a [f64]>) -> Option<(f64, f64)> {
    let figures = seeds.map(|w| median(w).zip(mean(w))).collect::<Option<Vec<(f64, f64)>>>()?;
    let (medians, means): (Vec<f64>, Vec<f64>) = figures.into_iter().unzip();
    median(&medians).zip(median(&means))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_gone_when_the_reverse_would_be_new() {
        for (old, new, gone) in
            [(9e6, 0.0, true), (9e6, 8e6, false), (9e6, 6e6, true), (1500.0, 700.0, false), (0.0, 9e6, false)]
        {
            let there = of(&[old], &[new]).expect("measured");
            let back = of(&[new], &[old]).expect("measured");
            assert_eq!((waiting_is_gone(&there), back.new_waiting), (gone, gone), "{old} {new}");
        }
    }

    fn of(old: &[f64], new: &[f64]) -> Option<Waiting> {
        waiting([old].into_iter(), [new].into_iter())
    }

    #[test]
    fn a_sleep_is_new_where_there_was_none_or_much_less() {
        for (old, new, expected) in [
            (0.0, 0.0, false),
            (0.0, 999.0, false),
            (0.0, 1000.0, true),
            (300.0, 1200.0, false),
            (300.0, 1300.0, true),
            (1e7, 1.4e7, false),
            (1e7, 2e7, true),
            (1e7, 0.0, false),
        ] {
            let found = of(&[old; 3], &[new; 3]).expect("measured");
            assert_eq!(found.new_waiting, expected, "{old} -> {new}");
        }
    }

    #[test]
    fn rare_waiting_shows_in_the_mean_only() {
        let found = of(&[0.0; 5], &[0.0, 0.0, 0.0, 0.0, 5e6]).expect("measured");
        assert_eq!((found.new_median_ns, found.new_mean_ns, found.new_waiting), (0.0, 1e6, false));
    }

    #[test]
    fn what_was_not_measured_is_not_zero() {
        assert_eq!(of(&[], &[1.0]), None);
        assert_eq!(of(&[1.0], &[]), None);
    }
}
