// SPDX-License-Identifier: GPL-2.0-or-later
//! Request and series to a plan, and the plan to boots.

use super::{Request, RunnerChoice};
use crate::kernel::Build;
use crate::runners::{Boot, Input, Watchdog};
use kernmark_validation::mail::Series;
use kernmark_validation::plan::{Evidence, Plan, PlannedBuild, PlannedWorkload, Policy, palindrome};

/// Samples of one arm in one boot; with [`OPERATIONS`] just over the 500 single
/// operations that statistics.md 3.10 asks for.
const SAMPLES: u64 = 4;
const OPERATIONS: u64 = 128;
const WARMUPS: u64 = 16;
/// Smallest bound for SAME, percent (statistics.md 3.10).
const BOUND_PERCENT: f64 = 0.1;

/// Wider bounds: `workload metric` and percent. mkdir searches the per-CPU
/// allocator's map, whose state depends on how code and data are laid out; between
/// two null builds it differed by 15 %, in the arm without controllers by 33 %.
const METRIC_BOUNDS: &[(&str, f64)] = &[("kernfs.rmdir create", 20.0), ("kernfs.rmdir bare_create", 40.0)];

/// The metrics that decide.
const PRIMARIES: &[&str] = &["kernfs.rmdir remove"];

/// Arms that path evidence measures: the default one, and a second size for the growth rule.
const ARMS: &[(&str, &[&str])] = &[("kernfs.rmdir", &["scx-off", "bare"])];

/// Fixes everything before the first boot.
pub fn plan(request: &Request, series: &Series, workloads: &[String]) -> Plan {
    let total = series.total;
    let mut builds = vec![PlannedBuild { label: "base".into(), patches: 0 }];
    if request.each_patch && total > 1 {
        builds.extend((1..=total).map(|n| PlannedBuild { label: format!("{n}/{total}"), patches: n }));
    } else {
        builds.push(PlannedBuild { label: "patched".into(), patches: total });
    }
    Plan {
        version: 1,
        experiment: series.title.clone(),
        evidence: Evidence::Path,
        runner: match request.runner {
            RunnerChoice::Qemu => "qemu".into(),
            // Recorded points ran in the emulator, under the hash of that plan.
            RunnerChoice::Replay(_) => "qemu".into(),
        },
        order: palindrome(builds.len()),
        builds,
        seeds: (1..=u64::from(request.boots / 2)).collect(),
        workloads: workloads.iter().map(|id| workload(id)).collect(),
        policy: Policy {
            threshold_percent: request.threshold_percent,
            bound_percent: BOUND_PERCENT,
            metric_bounds_percent: METRIC_BOUNDS.iter().map(|(m, b)| ((*m).to_owned(), *b)).collect(),
            primaries: PRIMARIES.iter().map(|p| (*p).to_owned()).collect(),
        },
    }
}

fn workload(id: &str) -> PlannedWorkload {
    let arms = ARMS.iter().find(|(workload, _)| *workload == id).map_or(&[][..], |(_, arms)| arms);
    PlannedWorkload {
        id: id.to_owned(),
        arms: arms.iter().map(|a| (*a).to_owned()).collect(),
        samples: SAMPLES,
        operations: OPERATIONS,
        warmups: WARMUPS,
    }
}

/// Name of a build where a slash would be misread.
fn file_label(label: &str) -> String {
    label.replace('/', "-of-")
}

/// The measuring boots of the builds that are `wanted`, in the order of the plan.
pub fn boots(plan: &Plan, builds: &[Build], initramfs: &Input, wanted: &dyn Fn(&str) -> bool) -> Vec<Boot> {
    let protocol = plan.protocol_sha256();
    let first = plan.workloads.first();
    let amount = first.map_or((SAMPLES, OPERATIONS, WARMUPS), |w| (w.samples, w.operations, w.warmups));
    let mut arguments = vec!["run".to_owned()];
    arguments.extend(plan.workloads.iter().map(|w| w.id.clone()));
    for arm in plan.workloads.iter().flat_map(|w| &w.arms) {
        arguments.extend(["--arm".to_owned(), arm.clone()]);
    }
    for (option, value) in [("--samples", amount.0), ("--operations", amount.1), ("--warmups", amount.2)] {
        arguments.extend([option.to_owned(), value.to_string()]);
    }
    arguments.extend(["--clock", "tsc", "--single-operations", "--waiting"].map(str::to_owned));
    let arms: usize = plan.workloads.iter().map(|w| w.arms.len().max(1)).sum();
    let operations = (amount.1 + amount.2) * amount.0 * arms as u64;
    plan.points()
        .into_iter()
        .filter_map(|point| {
            let build = builds.get(point.build).filter(|b| wanted(&b.record.label))?;
            Some(Boot {
                index: point.index,
                name: format!("{}-seed{}", file_label(&build.record.label), point.seed),
                image: Input { path: build.image.clone(), sha256: build.record.image_sha256.clone() },
                initramfs: initramfs.clone(),
                seed: point.seed,
                arguments: arguments.clone(),
                protocol: protocol.clone(),
                watchdog: Watchdog::for_operations(operations),
            })
        })
        .collect()
}

/// The untimed boots, one for each build that is `wanted`.
pub fn observations(
    plan: &Plan,
    builds: &[Build],
    initramfs: &Input,
    wanted: &dyn Fn(&str) -> bool,
) -> Vec<Boot> {
    let mut arguments = vec!["observe".to_owned()];
    arguments.extend(plan.workloads.iter().map(|w| w.id.clone()));
    builds
        .iter()
        .enumerate()
        .filter(|(_, build)| wanted(&build.record.label))
        .map(|(index, build)| Boot {
            index: index + 1,
            name: format!("{}-observe", file_label(&build.record.label)),
            image: Input { path: build.image.clone(), sha256: build.record.image_sha256.clone() },
            initramfs: initramfs.clone(),
            seed: plan.seeds.first().copied().unwrap_or(1),
            arguments: arguments.clone(),
            protocol: plan.protocol_sha256(),
            watchdog: Watchdog::for_operations(10_000),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::SeriesSource;

    pub fn request(each_patch: bool) -> Request {
        Request {
            series: SeriesSource::Files(vec![]),
            tree: None,
            base: None,
            runner: RunnerChoice::Qemu,
            each_patch,
            threshold_percent: 5.0,
            workloads: vec![],
            boots: 6,
            out: None,
            cache: None,
            board_binary: None,
            operator: None,
            repeat: String::new(),
        }
    }

    #[test]
    fn each_patch_gets_a_build_only_when_there_are_several() {
        let series = |total| Series { total, ..Series::default() };
        let labels = |each, total| -> Vec<String> {
            plan(&request(each), &series(total), &[]).builds.into_iter().map(|b| b.label).collect()
        };
        assert_eq!(labels(true, 2), ["base", "1/2", "2/2"]);
        assert_eq!(labels(false, 2), ["base", "patched"]);
        assert_eq!(labels(true, 1), ["base", "patched"]);
    }

    #[test]
    fn boots_are_spread_over_seeds() {
        let plan = plan(&request(true), &Series { total: 2, ..Series::default() }, &["kernfs.rmdir".into()]);
        assert_eq!(plan.points().len(), 18);
        assert_eq!(plan.workloads[0].arms, ["scx-off", "bare"]);
    }
}
