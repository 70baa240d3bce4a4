// SPDX-License-Identifier: GPL-2.0-or-later
//! The self-check of a deterministic runner: equal boots must have written
//! equal bytes (invariant 7). Each palindrome repeats every boot, so the check
//! costs nothing more.

use super::PointRecord;

/// Two points of the very same boot that wrote different results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "points {first} and {second} are the same boot but wrote different results: the runner is broken, and no \
     number of this experiment holds. Is the emulator patched, or its version new? Try qemu-system-x86 of Debian 12"
)]
pub struct BrokenRepeat {
    /// Place in the order of the one.
    pub first: usize,
    /// Place in the order of the other.
    pub second: usize,
}

/// Every point that differs from the first point of the same boot.
pub fn broken_repeats<'a>(points: impl IntoIterator<Item = &'a PointRecord>) -> Vec<BrokenRepeat> {
    let mut firsts: Vec<&PointRecord> = Vec::new();
    let mut broken = Vec::new();
    for point in points {
        match firsts.iter().find(|first| first.boot == point.boot) {
            None => firsts.push(point),
            Some(first) if first.samples_sha256 != point.samples_sha256 => {
                broken.push(BrokenRepeat { first: first.index, second: point.index });
            }
            Some(_) => {}
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::super::boot::tests::boot;
    use super::super::{BootKey, MachineEnd, Outcome, Recording};
    use super::*;

    #[test]
    fn only_equal_boots_are_compared() {
        let point = |index: usize, seed: u64, results: &str| {
            let key = BootKey { seed, ..BootKey::new(&boot(index), "qemu", "7.2", Vec::new()) };
            let recording = Recording {
                end: MachineEnd::Good,
                results: results.as_bytes().to_vec(),
                console: Vec::new(),
            };
            PointRecord::new(index, key, &recording, Outcome::Done)
        };
        let good = [point(1, 1, "a"), point(2, 2, "b"), point(3, 2, "b"), point(4, 1, "a")];
        assert_eq!(broken_repeats(&good), []);
        let bad = [point(1, 1, "a"), point(2, 2, "b"), point(3, 2, "c"), point(4, 1, "a"), point(5, 1, "d")];
        assert_eq!(
            broken_repeats(&bad),
            [BrokenRepeat { first: 2, second: 3 }, BrokenRepeat { first: 1, second: 5 }]
        );
    }
}
