// SPDX-License-Identifier: GPL-2.0-or-later
//! An experiment to the plan that is frozen, and the plan to boots.

use crate::exit::Failure;
use crate::kernel::Build;
use crate::runners::{Boot, Input, Watchdog};
use kernmark_validation::compare::{GATES, gates_named};
use kernmark_validation::experiment::Experiment;
use kernmark_validation::plan::{Evidence, Plan, PlannedBuild, PlannedWorkload, Policy};
use kernmark_wire::catalogue::{Arm, Workload};

/// Smallest bound for SAME, percent (statistics.md 3.10).
const BOUND_PERCENT: f64 = 0.1;

/// Wider bounds: `workload metric` and percent. mkdir searches the per-CPU
/// allocator's map, whose state depends on how code and data are laid out; between
/// two null builds it differed by 15 %, in the arm without controllers by 33 %.
const METRIC_BOUNDS: &[(&str, f64)] = &[("kernfs.rmdir create", 20.0), ("kernfs.rmdir bare_create", 40.0)];

/// Fixes everything before the first boot.
///
/// # Errors
/// There is no rule set of the name asked for.
pub fn plan(
    experiment: &Experiment,
    builds: Vec<PlannedBuild>,
    workloads: &[Workload],
) -> Result<Plan, Failure> {
    if let Some(name) = experiment.gates.as_ref().filter(|name| gates_named(name).is_none()) {
        let names: Vec<&str> = GATES.iter().map(|g| g.name).collect();
        return Err(Failure::usage(format!("gates {name}: there are {}", names.join(", "))));
    }
    let bounds = || METRIC_BOUNDS.iter().map(|(m, b)| ((*m).to_owned(), *b)).collect();
    Ok(Plan {
        version: 1,
        experiment: experiment.experiment.clone(),
        evidence: Evidence::Path,
        // Recorded points that are replayed ran in the emulator, under the hash of that plan.
        runner: "qemu".into(),
        order: experiment.boots().map_err(|e| Failure::usage(e.to_string()))?,
        builds,
        seeds: (1..=u64::from(experiment.repeats)).collect(),
        workloads: workloads.iter().map(planned).collect(),
        policy: Policy {
            threshold_percent: experiment.threshold_percent,
            bound_percent: BOUND_PERCENT,
            metric_bounds_percent: experiment.bounds_percent.clone().unwrap_or_else(bounds),
            primaries: experiment
                .primaries
                .clone()
                .unwrap_or_else(|| workloads.iter().flat_map(primaries).collect()),
        },
        gates: experiment.gates.clone(),
        attribution: experiment.attribution,
        time: None,
    })
}

/// The arms of a workload that the emulator measures.
pub fn emulated(workload: &Workload) -> impl Iterator<Item = &Arm> {
    workload.arms.iter().filter(|arm| arm.in_emulator)
}

fn planned(workload: &Workload) -> PlannedWorkload {
    PlannedWorkload {
        id: workload.id.clone(),
        arms: emulated(workload).map(|arm| arm.id.clone()).collect(),
        samples: workload.emulator.samples,
        operations: workload.emulator.operations,
        warmups: workload.emulator.warmups,
    }
}

/// The metrics that decide, as `workload metric`: those of the first arm that the emulator
/// measures. Workers that compete are not modelled there, so their numbers never decide.
fn primaries(workload: &Workload) -> Vec<String> {
    let first = emulated(workload).find(|arm| !arm.many_workers);
    let metrics = |arm: &Arm| -> Vec<String> {
        let deciding = arm.metrics.iter().filter(|m| m.primary);
        deciding.map(|m| format!("{} {}", workload.id, workload.metric_name(arm, m))).collect()
    };
    first.map(metrics).unwrap_or_default()
}

/// The build at a place in the plan, where it was made.
fn made<'a>(plan: &Plan, builds: &'a [Build], place: usize) -> Option<&'a Build> {
    let label = &plan.builds.get(place)?.label;
    builds.iter().find(|b| b.record.label == *label)
}

/// Name of a build where a slash would be misread.
fn file_label(label: &str) -> String {
    label.replace('/', "-of-")
}

/// The measuring boots of the builds that are `wanted`, in the order of the plan.
pub fn boots(plan: &Plan, builds: &[Build], initramfs: &Input, wanted: &dyn Fn(&str) -> bool) -> Vec<Boot> {
    let protocol = plan.protocol_sha256();
    // Amounts are those of the plan: both come from the measuring program's own list.
    let mut arguments = vec!["run".to_owned()];
    arguments.extend([ids(plan), "--emulator".to_owned()]);
    let arms: Vec<&str> = plan.workloads.iter().flat_map(|w| &w.arms).map(String::as_str).collect();
    arguments.extend(["--arm".to_owned(), arms.join(",")]);
    arguments.extend(["--clock", "tsc", "--single-operations", "--waiting"].map(str::to_owned));
    let of = |w: &PlannedWorkload| (w.operations + w.warmups) * w.samples * w.arms.len().max(1) as u64;
    let operations = plan.workloads.iter().map(of).sum();
    plan.points()
        .into_iter()
        .filter_map(|point| {
            let build = made(plan, builds, point.build).filter(|b| wanted(&b.record.label))?;
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

/// All workloads in one word: a kernel hands at most 32 words to init (init/main.c, MAX_INIT_ARGS).
fn ids(plan: &Plan) -> String {
    plan.workloads.iter().map(|w| w.id.as_str()).collect::<Vec<_>>().join(",")
}

/// The untimed boots, one for each build that is `wanted`.
pub fn observations(
    plan: &Plan,
    builds: &[Build],
    initramfs: &Input,
    wanted: &dyn Fn(&str) -> bool,
) -> Vec<Boot> {
    let mut arguments = vec!["observe".to_owned()];
    arguments.push(ids(plan));
    (0..plan.builds.len())
        .filter_map(|index| Some((index, made(plan, builds, index)?)))
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
    use kernmark_validation::experiment::{Draft, draft};
    use kernmark_validation::mail::Series;
    use kernmark_wire::catalogue::{Amount, Metric};

    fn experiment() -> Experiment {
        let choice = Draft { repeats: 3, threshold_percent: 5.0, ..Draft::default() };
        draft(&choice, &Series { total: 1, title: "t".into(), ..Series::default() })
    }

    fn builds() -> Vec<PlannedBuild> {
        ["base", "patched"]
            .iter()
            .zip(0..)
            .map(|(label, patches)| PlannedBuild { label: (*label).into(), patches, source: None })
            .collect()
    }

    #[test]
    fn boots_are_spread_over_seeds() {
        let plan = plan(&experiment(), builds(), &[]).expect("a plan");
        assert_eq!((plan.points().len(), plan.seeds.as_slice()), (12, &[1, 2, 3][..]));
        assert!(plan.is_of_series());
    }

    #[test]
    fn what_the_plan_says_is_not_chosen_again() {
        let asked = Experiment {
            gates: Some("kernfs".into()),
            bounds_percent: Some([("a.b c".to_owned(), 2.0)].into()),
            primaries: Some(vec!["a.b c".into()]),
            ..experiment()
        };
        let found = plan(&asked, builds(), &[]).expect("a plan");
        assert_eq!(found.bound_percent("a.b", "c"), 2.0);
        assert_eq!((found.gates.as_deref(), found.policy.primaries.len()), (Some("kernfs"), 1));
        let unknown = Experiment { gates: Some("golden".into()), ..asked };
        let error = plan(&unknown, builds(), &[]).expect_err("no such rules").to_string();
        assert!(error.contains("gates golden: there are fsnotify, kernfs"), "{error}");
    }

    #[test]
    fn the_emulator_measures_its_arms_and_never_decides_on_competing_workers() {
        let arm = |id: &str, in_emulator, many_workers| Arm {
            id: id.into(),
            summary: String::new(),
            amount: Amount { samples: 99, operations: 128, warmups: 16 },
            seconds: 1,
            on_boards: true,
            in_emulator,
            many_workers,
            metrics: [("remove", true), ("create", false)]
                .map(|(id, primary)| Metric {
                    id: id.into(),
                    unit: "ns".into(),
                    better: "lower".into(),
                    primary,
                })
                .into(),
        };
        let workload = |arms: Vec<Arm>| Workload {
            id: "a.b".into(),
            summary: String::new(),
            needs: vec![],
            preemption: None,
            emulator: Amount { samples: 4, operations: 100, warmups: 2 },
            arms,
            parameters: vec![],
        };
        let both =
            workload(vec![arm("one", true, false), arm("other", true, false), arm("board", false, false)]);
        let found = plan(&experiment(), builds(), &[both]).expect("a plan");
        assert_eq!(found.workloads[0].arms, ["one", "other"]);
        assert_eq!((found.workloads[0].samples, found.workloads[0].operations), (4, 100));
        assert_eq!(found.policy.primaries, ["a.b remove"]);
        let later = workload(vec![arm("board", false, false), arm("one", true, false)]);
        assert_eq!(primaries(&later), ["a.b one_remove"]);
        assert!(primaries(&workload(vec![arm("p8", true, true)])).is_empty());
    }
}
