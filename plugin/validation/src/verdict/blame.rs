// SPDX-License-Identifier: GPL-2.0-or-later
//! Which patches carry a cost, and which one takes a cost away again.

use super::Culprit;
use super::decide::{Findings, Given, change, costs_more, regresses};
use crate::compare::{Comparison, Reason};

/// Fewer instructions per object than this are no growth.
pub(super) const GROWTH_PER_OBJECT: f64 = 1.0;
/// A later step that gives back at least this share of a cost takes it away.
const TAKEN_BACK: f64 = 0.5;

/// Names the patches that carry a regression, largest step first, and those whose cost a later
/// patch takes away.
pub(super) fn blame(given: &Given<'_>, found: &mut Findings, metric: &str) {
    let steps = given.steps(metric);
    let by = |guilty: &dyn Fn(&Comparison) -> bool| -> Vec<&Comparison> {
        steps.iter().copied().filter(|step| guilty(step)).collect()
    };
    let threshold = given.threshold();
    // Several small steps may add up to a regression, and a growth may be smaller than the bound.
    let mut guilty = by(&|step| regresses(step, threshold) || step_grows(given, step));
    if guilty.is_empty() {
        guilty = by(&costs_more);
    }
    if guilty.is_empty() {
        guilty = by(&|step| change(step) > 0.0);
    }
    let (undone, mut guilty): (Vec<&Comparison>, Vec<&Comparison>) =
        guilty.into_iter().partition(|step| taken_back(&steps, step).is_some());
    if guilty.is_empty() {
        // Each cost is taken away, and yet one is left: nobody is let off.
        guilty.clone_from(&undone);
    } else {
        let left = given.whole(metric).map_or(0.0, change);
        found.reasons.extend(undone.iter().map(|step| told_undone(&steps, step, metric, left)));
    }
    guilty.sort_by(|a, b| change(b).total_cmp(&change(a)));
    for step in guilty {
        let (build, after) = patches(given, step, steps.len() == 1);
        // With base and whole series alone there is nobody to single out.
        if steps.len() > 1 || build != step.new_build {
            found.reasons.push(Reason::Culprit {
                build: build.clone(),
                after: after.clone(),
                metric: metric.to_owned(),
                step_percent: change(step),
            });
        }
        found.culprits.push(Culprit {
            build,
            after,
            workload: step.workload.clone(),
            metric: step.metric.clone(),
            step_percent: change(step),
        });
    }
}

/// Names the costs of single patches that the series as a whole does not have.
pub(super) fn undone(given: &Given<'_>, found: &mut Findings, metric: &str, left: f64) {
    let steps = given.steps(metric);
    let costs = steps.iter().filter(|s| !given.is_whole(s) && regresses(s, given.threshold()));
    found.reasons.extend(costs.map(|step| told_undone(&steps, step, metric, left)));
}

fn told_undone(steps: &[&Comparison], step: &Comparison, metric: &str, change_percent: f64) -> Reason {
    Reason::Undone {
        build: step.new_build.clone(),
        metric: metric.to_owned(),
        step_percent: change(step),
        by: taken_back(steps, step).map(|by| (by.new_build.clone(), change(by))),
        change_percent,
    }
}

/// The first later step that takes most of the cost of `step` away.
fn taken_back<'a>(steps: &[&'a Comparison], step: &Comparison) -> Option<&'a Comparison> {
    let at = steps.iter().position(|s| s.new_build == step.new_build)?;
    steps[at + 1..].iter().copied().find(|later| change(later) <= -TAKEN_BACK * change(step))
}

/// Whether the step itself adds a cost per object.
fn step_grows(given: &Given<'_>, step: &Comparison) -> bool {
    let of = |build: &str| {
        let found = given
            .growth
            .iter()
            .find(|g| (&g.workload, &g.metric) == (&step.workload, &step.metric) && g.build == build);
        found.map_or(0.0, |g| g.per_object)
    };
    of(&step.new_build) - of(&step.old_build) >= GROWTH_PER_OBJECT
}

/// The build that first has the cost, and the last one known without it where that is not the
/// build before: the patches between are not told apart.
fn patches(given: &Given<'_>, step: &Comparison, only: bool) -> (String, Option<String>) {
    let label = |at: usize| given.plan.builds[at].label.clone();
    match given.step(step) {
        Some((old, new)) => (label(new), (!only && old + 1 < new).then(|| label(old))),
        None => (step.new_build.clone(), None),
    }
}
