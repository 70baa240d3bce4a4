// SPDX-License-Identifier: GPL-2.0-or-later
//! What one process counted, and the conditions that its numbers depend on
//! (workloads.md 4.1).

use super::Condition;
use super::pairs::{ITEMS, Shape};
use crate::inotify::Drained;

/// Numbers of a tally that a process hands to its parent.
pub const WORDS: usize = 14;

/// What processes of one shape counted, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many processes.
    pub processes: u64,
    /// Time adding, of all workers together, ns.
    pub add_sum: u64,
    /// Time removing, of all workers together, ns.
    pub remove_sum: u64,
    /// Adds that returned a watch.
    pub adds: u64,
    /// Removals that returned 0.
    pub removes: u64,
    /// Calls that returned anything else.
    pub unexpected: u64,
    /// Different inodes among the watched paths.
    pub inodes: u64,
    /// Workers that were bound to their CPU and on it before and after each timed window.
    pub in_place: u64,
    /// Events of the timed instances.
    pub events: Drained,
    /// Events of the keeper.
    pub keeper: Drained,
}

impl Tally {
    /// Time of all workers together, ns.
    pub fn worker_time(&self) -> u64 {
        self.add_sum + self.remove_sum
    }

    /// Puts it where the parent finds it.
    pub fn store(&self, words: &mut [u64; WORDS]) {
        *words = [
            self.processes,
            self.add_sum,
            self.remove_sum,
            self.adds,
            self.removes,
            self.unexpected,
            self.inodes,
            self.in_place,
            self.events.ignored,
            self.events.overflow,
            self.events.other + self.events.unmounted,
            self.keeper.ignored,
            self.keeper.overflow,
            self.keeper.other + self.keeper.unmounted,
        ];
    }

    /// What [`Tally::store`] put there.
    pub fn load(words: &[u64; WORDS]) -> Self {
        let [processes, add_sum, remove_sum, adds, removes, unexpected, inodes, in_place, events @ ..] =
            *words;
        let drained = |at: usize| Drained {
            ignored: events[at],
            overflow: events[at + 1],
            other: events[at + 2],
            unmounted: 0,
        };
        Self {
            processes,
            add_sum,
            remove_sum,
            adds,
            removes,
            unexpected,
            inodes,
            in_place,
            events: drained(0),
            keeper: drained(3),
        }
    }

    /// Both together.
    pub fn add(&mut self, more: &Self) {
        let mut sum = [0; WORDS];
        let mut own = [0; WORDS];
        self.store(&mut own);
        more.store(&mut sum);
        for (sum, own) in sum.iter_mut().zip(own) {
            *sum += own;
        }
        *self = Self::load(&sum);
    }

    /// Whether everything was as it must be with `workers` workers.
    pub fn conditions(&self, shape: Shape, workers: usize) -> Vec<Condition> {
        let names = shape.condition_names();
        let all = self.processes * ITEMS as u64;
        let (inodes, keepers) = match shape {
            Shape::Distinct => (all, 0),
            Shape::Shared => (self.processes, self.processes),
        };
        let (workers, placed) = (workers as u64, self.in_place);
        let stray = self.events.other + self.keeper.other;
        let overflow = self.events.overflow + self.keeper.overflow;
        let of =
            |wanted: u64, found: u64, what: &str| (wanted == found, format!("{found} of {wanted} {what}"));
        let none = |found: u64, what: &str| (found == 0, format!("{found} {what}"));
        let found = [
            of(all, self.adds, "adds returned a watch"),
            of(all, self.removes, "removals returned 0"),
            of(all, self.events.ignored, "removals left one IN_IGNORED"),
            none(overflow, "overflows of the event queue"),
            none(stray, "events that belong to no removal"),
            none(self.unexpected, "calls returned something else"),
            of(inodes, self.inodes, "inodes behind the watched names"),
            of(keepers, self.keeper.ignored, "keepers left one IN_IGNORED"),
            of(self.processes * workers, placed, "workers stayed on their CPU"),
        ];
        names
            .into_iter()
            .zip(found)
            .map(|(name, (pass, detail))| Condition::new(name, pass, detail))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processes of two workers in which all went well.
    fn good(shape: Shape) -> Tally {
        let (inodes, keeper) = match shape {
            Shape::Distinct => (192, 0),
            Shape::Shared => (2, 2),
        };
        Tally {
            processes: 2,
            add_sum: 400,
            remove_sum: 300,
            adds: 192,
            removes: 192,
            unexpected: 0,
            inodes,
            in_place: 4,
            events: Drained { ignored: 192, ..Drained::default() },
            keeper: Drained { ignored: keeper, ..Drained::default() },
        }
    }

    fn failed(shape: Shape, tally: &Tally) -> Vec<&'static str> {
        tally.conditions(shape, 2).into_iter().filter(|c| !c.pass).map(|c| c.name).collect()
    }

    #[test]
    fn numbers_arrive_as_they_were_stored_and_add_up() {
        let mut words = [0; WORDS];
        let tally = Tally { unexpected: 7, ..good(Shape::Shared) };
        tally.store(&mut words);
        assert_eq!(Tally::load(&words), tally);
        let mut sum = tally;
        sum.add(&tally);
        assert_eq!((sum.worker_time(), sum.keeper.ignored, sum.unexpected), (1400, 4, 14));
    }

    #[test]
    fn every_condition_fails_by_its_own_number_alone() {
        for shape in [Shape::Distinct, Shape::Shared] {
            let good = good(shape);
            assert_eq!(failed(shape, &good), [""; 0]);
            let with = |change: fn(&mut Tally)| {
                let mut tally = good;
                change(&mut tally);
                failed(shape, &tally)
            };
            let names = shape.condition_names();
            for (at, change) in [
                (0, (|t| t.adds -= 1) as fn(&mut Tally)),
                (1, |t| t.removes -= 1),
                (2, |t| t.events.ignored -= 1),
                (2, |t| t.events.ignored += 1),
                (3, |t| t.events.overflow += 1),
                (3, |t| t.keeper.overflow += 1),
                (4, |t| t.events.other += 1),
                (4, |t| t.keeper.other += 1),
                (5, |t| t.unexpected += 1),
                (6, |t| t.inodes += 1),
                (6, |t| t.inodes -= 1),
                (7, |t| t.keeper.ignored += 1),
                (8, |t| t.in_place -= 1),
            ] {
                assert_eq!(with(change), [names[at]], "{shape:?} {at}");
            }
        }
    }
}
