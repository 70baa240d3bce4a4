// SPDX-License-Identifier: GPL-2.0-or-later
//! Sampling profiles side by side: the share of the locks of the path walk, who
//! takes them, and how both move from one kernel to the next (workloads.md 3.4,
//! protocol.md 9.6).
//!
//! A share is kept as a fraction of whole numbers, so that published percents
//! and counted samples add up exactly and every printed digit can be redone.

mod share;
mod table;
mod text;

pub use share::Share;
pub use table::{TableError, from_table, to_table};
pub use text::text;

use crate::samples::PointLog;
use serde::Serialize;
use std::collections::BTreeMap;

/// The fast paths of a read-write semaphore taken for reading.
pub const READ_LOCK: [&str; 2] = ["down_read", "up_read"];
/// What waiting for such a lock executes, apart from the fast paths.
pub const SLOW_PATH: [&str; 4] = [
    "rwsem_down_read_slowpath",
    "osq_lock",
    "native_queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
];
/// A profile that lost more than this many of a thousand samples is not to be relied on.
const LOST_PER_THOUSAND: u64 = 10;

/// A profile of one workload on one kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SampledProfile {
    /// File name, or the name in a table.
    pub name: String,
    /// What gave the moments of sampling; `-` where it is not known.
    pub event: String,
    /// Why nothing better did.
    pub instead_of: String,
    /// How it was counted; `None` of published percents.
    pub counted: Option<Counted>,
    /// Self share by function.
    pub own: BTreeMap<String, Share>,
    /// Share with everything that the function calls, where published.
    pub with_children: BTreeMap<String, Share>,
    /// Self shares by function, nearest caller and way.
    pub callers: Vec<CallerShare>,
}

/// The part of a function's self share that one caller on one way has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallerShare {
    /// `down_read`.
    pub function: String,
    /// `kernfs_iop_permission`; `other`.
    pub caller: String,
    /// `link_path_walk`; `other`.
    pub way: String,
    /// Of all samples.
    pub share: Share,
}

/// What a profile was counted from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// All samples, user space included: the denominator.
    pub samples: u64,
    /// Samples that the kernel could not hand over.
    pub lost: u64,
    /// Times that the kernel held the sampling back.
    pub throttled: u64,
    /// Operations in that time.
    pub operations: u64,
    /// Threads.
    pub workers: u64,
    /// Instructions in the kernel in that time, or why they are not known.
    pub kernel_instructions: Result<u64, String>,
}

impl SampledProfile {
    /// Sum of the self shares of some functions; `None` where nothing is known of any of them.
    pub fn sum(&self, functions: &[&str]) -> Option<Share> {
        sum(&self.own, functions, self.nothing())
    }

    /// The same with everything that they call.
    pub fn sum_with_children(&self, functions: &[&str]) -> Option<Share> {
        sum(&self.with_children, functions, None)
    }

    /// Sum of the caller shares that fit.
    pub fn caller(&self, fits: impl Fn(&CallerShare) -> bool) -> Option<Share> {
        self.callers
            .iter()
            .filter(|c| fits(c))
            .map(|c| c.share)
            .fold(self.nothing(), |sum, share| Some(sum.map_or(share, |sum| sum.plus(share))))
    }

    /// What a function that was never seen has: nothing, where all were counted.
    fn nothing(&self) -> Option<Share> {
        self.counted.as_ref().map(|counted| Share { part: 0, whole: counted.samples })
    }
}

fn sum(shares: &BTreeMap<String, Share>, functions: &[&str], nothing: Option<Share>) -> Option<Share> {
    functions
        .iter()
        .filter_map(|function| shares.get(*function).copied())
        .fold(nothing, |sum, share| Some(sum.map_or(share, |sum| sum.plus(share))))
}

/// The profiles that a board reported, named `name`; with workload and arm where there are several.
pub fn from_log(name: &str, log: &PointLog) -> Vec<SampledProfile> {
    log.samplings
        .iter()
        .map(|sampling| {
            let share = |part: u64| Share { part, whole: sampling.samples };
            let same = |workload: &str, arm: &str| workload == sampling.workload && arm == sampling.arm;
            let own =
                log.self_samples.iter().filter(|s| same(&s.workload, &s.arm)).flat_map(|s| &s.functions);
            let callers =
                log.caller_samples.iter().filter(|s| same(&s.workload, &s.arm)).flat_map(|s| &s.callers);
            let reason = log
                .not_available
                .iter()
                .find(|n| same(&n.workload, &n.arm) && n.what == "kernel instructions per operation");
            SampledProfile {
                name: if log.samplings.len() == 1 {
                    name.to_owned()
                } else {
                    format!("{name}:{}", sampling.arm)
                },
                event: sampling.event.clone(),
                instead_of: sampling.instead_of.clone(),
                counted: Some(Counted {
                    samples: sampling.samples,
                    lost: sampling.lost,
                    throttled: sampling.throttled,
                    operations: sampling.operations,
                    workers: sampling.workers,
                    kernel_instructions: sampling
                        .kernel_instructions
                        .ok_or_else(|| reason.map_or_else(|| "not counted".to_owned(), |n| n.reason.clone())),
                }),
                own: own.map(|(function, n)| (function.clone(), share(*n))).collect(),
                with_children: BTreeMap::new(),
                callers: callers
                    .map(|(function, caller, way, n)| CallerShare {
                        function: function.clone(),
                        caller: caller.clone(),
                        way: way.clone(),
                        share: share(*n),
                    })
                    .collect(),
            }
        })
        .collect()
}

/// Why these profiles cannot be held against each other, or one of them cannot be relied on.
pub fn doubts(profiles: &[SampledProfile]) -> Vec<String> {
    let mut doubts = Vec::new();
    let mut events: Vec<&str> = profiles.iter().map(|p| p.event.as_str()).filter(|e| *e != "-").collect();
    events.sort_unstable();
    events.dedup();
    if events.len() > 1 {
        doubts.push(format!(
            "sampled by different events ({}): shares of one are no shares of the other; sample both alike",
            events.join(", ")
        ));
    }
    for profile in profiles {
        let Some(counted) = &profile.counted else { continue };
        if counted.samples == 0 {
            doubts.push(format!("{}: no samples; sample for longer", profile.name));
        } else if counted.lost.saturating_mul(1000) > counted.samples.saturating_mul(LOST_PER_THOUSAND) {
            doubts.push(format!(
                "{}: {} samples were lost beside {} that were kept; sample less often",
                profile.name, counted.lost, counted.samples
            ));
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_wire::{CallerSamples, NotAvailable, Sampling, SelfSamples};

    pub(super) fn sampling(arm: &str) -> Sampling {
        Sampling {
            workload: "kernfs.open".into(),
            arm: arm.into(),
            event: "cpu-clock".into(),
            instead_of: "this machine shows no hardware counters".into(),
            frequency: 997,
            workers: 2,
            milliseconds: 4000,
            operations: 500,
            samples: 400,
            user: 40,
            lost: 0,
            throttled: 0,
            kernel_instructions: None,
        }
    }

    fn log(samplings: Vec<Sampling>) -> PointLog {
        let functions = vec![("down_read".into(), 100), ("up_read".into(), 50), ("[user]".into(), 40)];
        let callers = vec![
            ("down_read".into(), "kernfs_iop_permission".into(), "link_path_walk".into(), 60),
            ("down_read".into(), "kernfs_iop_permission".into(), "may_open".into(), 15),
            ("down_read".into(), "other".into(), "other".into(), 25),
        ];
        PointLog {
            self_samples: vec![SelfSamples { workload: "kernfs.open".into(), arm: "w2".into(), functions }],
            caller_samples: vec![CallerSamples { workload: "kernfs.open".into(), arm: "w2".into(), callers }],
            not_available: vec![NotAvailable {
                workload: "kernfs.open".into(),
                arm: "w2".into(),
                what: "kernel instructions per operation".into(),
                reason: "no PMU".into(),
            }],
            samplings,
            ..PointLog::default()
        }
    }

    #[test]
    fn a_board_counts_and_shares_are_of_all_samples() {
        let profile = from_log("base", &log(vec![sampling("w2")])).remove(0);
        let text = |share: Option<Share>| share.map(|s| s.to_string());
        assert_eq!(text(profile.sum(&READ_LOCK)).as_deref(), Some("37.50"));
        assert_eq!(
            text(profile.sum(&SLOW_PATH)).as_deref(),
            Some("0.00"),
            "never seen is counted as nothing"
        );
        assert_eq!(profile.sum_with_children(&READ_LOCK), None, "not known");
        let by = |name: &str| text(profile.caller(|c| c.caller == name));
        assert_eq!(by("kernfs_iop_permission").as_deref(), Some("18.75"));
        assert_eq!(by("kernfs_dop_revalidate").as_deref(), Some("0.00"));
        let counted = profile.counted.expect("counted");
        assert_eq!(counted.kernel_instructions, Err("no PMU".to_owned()));
    }

    #[test]
    fn several_profiles_of_one_file_are_told_apart_by_arm() {
        let names: Vec<String> =
            from_log("f", &log(vec![sampling("w1"), sampling("w2")])).into_iter().map(|p| p.name).collect();
        assert_eq!(names, ["f:w1", "f:w2"]);
    }

    #[test]
    fn what_cannot_be_relied_on_is_told() {
        let with = |change: fn(&mut Sampling)| {
            let mut sampling = sampling("w2");
            change(&mut sampling);
            from_log("p", &log(vec![sampling])).remove(0)
        };
        let good = with(|_| {});
        assert_eq!(doubts(&[good.clone(), good.clone()]), [] as [&str; 0]);
        for (other, part) in [
            (with(|s| s.event = "cycles".into()), "different events (cpu-clock, cycles)"),
            (with(|s| s.lost = 5), "5 samples were lost beside 400"),
            (with(|s| s.samples = 0), "no samples"),
        ] {
            let doubts = doubts(&[good.clone(), other]);
            assert!(matches!(&doubts[..], [one] if one.contains(part)), "{doubts:?}");
        }
        assert_eq!(doubts(&[with(|s| s.lost = 4)]), [] as [&str; 0], "one in a hundred may be lost");
    }
}
