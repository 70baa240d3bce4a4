// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples, added up: by function, and by who called the functions that matter.

use super::ring::{Read, Sample};
use super::symbols::Symbols;
use std::collections::BTreeMap;

/// Where a sample outside of the kernel is counted.
pub const USER: &str = "[user]";
/// No frame of the list is in the chain.
pub const OTHER: &str = "other";

/// What to tell apart: the functions, the callers and the ways of a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// Functions whose callers matter.
    pub functions: &'static [&'static str],
    /// Of these the one nearest to the function counts.
    pub callers: &'static [&'static str],
    /// Of these the first in the list that is anywhere in the chain counts.
    pub ways: &'static [&'static str],
}

/// Counts of samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shares {
    /// All of them, user space included.
    pub samples: u64,
    /// Of these in user space.
    pub user: u64,
    /// Records that the kernel could not write.
    pub lost: u64,
    /// Times that the kernel held the sampling back.
    pub throttled: u64,
    /// By the function that was executing.
    pub own: BTreeMap<String, u64>,
    /// By (function, caller, way).
    pub by_caller: BTreeMap<(String, &'static str, &'static str), u64>,
}

impl Shares {
    /// Adds what was read from a buffer.
    pub fn add(&mut self, read: &Read, symbols: &Symbols, frames: &Frames) {
        self.lost += read.lost;
        self.throttled += read.throttled;
        for sample in &read.samples {
            self.add_sample(sample, symbols, frames);
        }
    }

    fn add_sample(&mut self, sample: &Sample, symbols: &Symbols, frames: &Frames) {
        self.samples += 1;
        let names: Vec<&str> = sample.chain.iter().map(|address| symbols.name(*address)).collect();
        let Some((own, callers)) = names.split_first().filter(|_| sample.in_kernel) else {
            self.user += 1;
            *self.own.entry(USER.into()).or_default() += 1;
            return;
        };
        *self.own.entry((*own).to_owned()).or_default() += 1;
        if frames.functions.contains(own) {
            let known = |name: &&str| frames.callers.iter().find(|caller| *caller == name).copied();
            let caller = callers.iter().find_map(known).unwrap_or(OTHER);
            let way = frames.ways.iter().find(|way| callers.contains(way)).copied().unwrap_or(OTHER);
            *self.by_caller.entry(((*own).to_owned(), caller, way)).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: Frames = Frames {
        functions: &["down_read"],
        callers: &["kernfs_iop_permission", "kernfs_dop_revalidate"],
        ways: &["link_path_walk", "may_open"],
    };

    #[test]
    fn samples_are_counted_by_function_caller_and_way() {
        let text: String = [
            "down_read",
            "kernfs_iop_permission",
            "kernfs_dop_revalidate",
            "link_path_walk",
            "may_open",
            "path_openat",
        ]
        .iter()
        .enumerate()
        .map(|(at, name)| format!("{:x} T {name}\n", 16 * (at + 1)))
        .collect();
        let symbols = Symbols::parse_for_tests(&text);
        let kernel =
            |chain: &[u64]| Sample { in_kernel: true, chain: chain.iter().map(|c| c * 16).collect() };
        let mut shares = Shares::default();
        let samples = vec![
            // By permission in the walk, by permission in may_open, by revalidate of the last name.
            kernel(&[1, 2, 4, 6]),
            kernel(&[1, 2, 5, 6]),
            kernel(&[1, 3, 6]),
            // The nearer caller counts, and the walk comes before may_open.
            kernel(&[1, 3, 2, 5, 4]),
            // Not one of the functions.
            kernel(&[4, 6]),
            Sample { in_kernel: false, chain: vec![] },
        ];
        shares.add(&Read { samples, lost: 3, throttled: 1 }, &symbols, &FRAMES);
        assert_eq!((shares.samples, shares.user, shares.lost, shares.throttled), (6, 1, 3, 1));
        let own: Vec<_> = shares.own.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(own, [("[user]", 1), ("down_read", 4), ("link_path_walk", 1)]);
        let by_caller: Vec<_> =
            shares.by_caller.iter().map(|((_, caller, way), count)| (*caller, *way, *count)).collect();
        assert_eq!(
            by_caller,
            [
                ("kernfs_dop_revalidate", "link_path_walk", 1),
                ("kernfs_dop_revalidate", "other", 1),
                ("kernfs_iop_permission", "link_path_walk", 1),
                ("kernfs_iop_permission", "may_open", 1),
            ]
        );
    }
}
