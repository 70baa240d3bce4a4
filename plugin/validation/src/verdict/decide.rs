// SPDX-License-Identifier: GPL-2.0-or-later
//! The decision: only primaries decide, everything else is listed.

use super::blame::{GROWTH_PER_OBJECT, blame, undone};
use super::{AlsoMoved, Culprit, Headline, Incident, Outcome, Verdict};
use crate::attribution;
use crate::compare::{Comparison, ExecutedCount, Reason, VerdictName, moved_cost};
use crate::findings::Growth;
use crate::plan::{Attribution, Plan};

/// The verdict on a series.
///
/// Exit code 1: a primary is SLOWER, LONGER by the threshold or more, waits
/// anew, or grows per object. Otherwise 3: a primary is INCONCLUSIVE or
/// missing, or a build or boot failed; where a patch in the middle does not build, what the whole
/// series measured is the outcome all the same. Otherwise 0. An empty list of primaries
/// makes every metric one.
pub fn decide(
    plan: &Plan,
    comparisons: &[Comparison],
    growth: &[Growth],
    incidents: &[Incident],
    executed: Option<&ExecutedCount>,
) -> Verdict {
    // Without a changed function that ran nothing else means anything, so that stands first.
    let (last_words, mut reasons): (Vec<Reason>, Vec<Reason>) =
        executed.iter().map(|count| execution(count)).partition(|r| matches!(r, Reason::Executed { .. }));
    if let Some(outcome) = identical(plan, incidents) {
        reasons.extend(incidents.iter().cloned().map(Reason::Incident).chain(last_words));
        return verdict(outcome, 0, None, Findings::default(), &reasons);
    }
    let bisected = bisected(plan, comparisons);
    let evidence =
        Given { sides: sides(plan, incidents), twins: twins(incidents), plan, comparisons, growth };
    let found = evidence.judge(&primaries(plan, comparisons));
    reasons.extend(found.reasons.iter().cloned());
    reasons.extend(incidents.iter().cloned().map(Reason::Incident).chain(bisected).chain(last_words));
    let (beside, in_the_way): (Vec<&Incident>, Vec<&Incident>) =
        incidents.iter().partition(|i| evidence.is_beside_the_point(i));
    let gap = beside.iter().any(|i| matches!(i, Incident::BuildFailed { .. }));
    let (outcome, exit_code) = if found.regression {
        (found.outcome(), 1)
    } else if let Some(outcome) = in_the_way.into_iter().find_map(blocking) {
        (outcome, 3)
    } else {
        (found.outcome(), if found.undecided || gap { 3 } else { 0 })
    };
    let headline = found.headline.clone();
    verdict(outcome, exit_code, headline, found, &reasons)
}

/// What the primaries say.
#[derive(Debug, Default)]
pub(super) struct Findings {
    regression: bool,
    undecided: bool,
    name: Option<VerdictName>,
    new_waiting: bool,
    grows_per_object: bool,
    headline: Option<Headline>,
    pub(super) culprits: Vec<Culprit>,
    also_moved: Vec<AlsoMoved>,
    pub(super) reasons: Vec<Reason>,
}

impl Findings {
    fn outcome(&self) -> Outcome {
        Outcome::Measured {
            verdict: self.name.unwrap_or(VerdictName::Inconclusive),
            new_waiting: self.new_waiting,
            grows_per_object: self.grows_per_object,
        }
    }
}

fn verdict(
    outcome: Outcome,
    exit_code: u8,
    headline: Option<Headline>,
    found: Findings,
    reasons: &[Reason],
) -> Verdict {
    Verdict {
        version: 1,
        outcome,
        exit_code,
        headline,
        culprits: found.culprits,
        also_moved: found.also_moved,
        reasons: reasons.iter().map(Reason::to_string).collect(),
    }
}

/// What is said about coverage.
fn execution(executed: &ExecutedCount) -> Reason {
    let ExecutedCount { changed, compiled, executed, not_executed } = executed;
    match (*changed, *executed) {
        (0, _) => Reason::NoFunctionChanged,
        (_, 0) => Reason::NothingExecuted { changed: *changed, compiled: *compiled },
        (changed, executed) => Reason::Executed { executed, changed, not_executed: not_executed.clone() },
    }
}

/// That only the builds that bisection asks for were booted.
fn bisected(plan: &Plan, comparisons: &[Comparison]) -> Option<Reason> {
    let booted = |label: &str| comparisons.iter().any(|c| c.new_build == label || c.old_build == label);
    let measured = plan.builds.iter().filter(|b| booted(&b.label)).count();
    let some = plan.attribution == Attribution::Bisection && measured < plan.builds.len();
    some.then_some(Reason::Bisected { measured, builds: plan.builds.len() })
}

/// All images are the same, and nothing else is wrong.
fn identical(plan: &Plan, incidents: &[Incident]) -> Option<Outcome> {
    let same = |label: &str| {
        incidents.iter().any(|i| matches!(i, Incident::IdenticalImage { build, .. } if build == label))
    };
    let only_identical = incidents.iter().all(|i| matches!(i, Incident::IdenticalImage { .. }));
    let all = match plan.attribution {
        Attribution::EveryBuild => {
            plan.builds.len() > 1 && plan.builds.iter().skip(1).all(|b| same(&b.label))
        }
        // Equal ends are not divided any further.
        Attribution::Bisection => plan.builds.last().is_some_and(|b| same(&b.label)),
    };
    (all && only_identical).then_some(Outcome::IdenticalImages)
}

fn blocking(incident: &Incident) -> Option<Outcome> {
    match incident {
        Incident::IdenticalImage { .. } => None,
        Incident::NotBuilt { file, option, reason } => {
            Some(Outcome::NotBuilt { file: file.clone(), option: option.clone(), reason: reason.clone() })
        }
        Incident::BuildFailed { build: place, reason } | Incident::BootFailed { point: place, reason } => {
            Some(Outcome::Invalid { place: place.clone(), reason: reason.clone() })
        }
    }
}

fn series(comparison: &Comparison) -> String {
    format!("{} {}", comparison.workload, comparison.metric)
}

/// The deciding metrics in the order of the plan.
fn primaries(plan: &Plan, comparisons: &[Comparison]) -> Vec<String> {
    let mut primaries = plan.policy.primaries.clone();
    if primaries.is_empty() {
        for name in comparisons.iter().map(series) {
            if !primaries.contains(&name) {
                primaries.push(name);
            }
        }
    }
    primaries
}

fn twins(incidents: &[Incident]) -> Vec<(&str, &str)> {
    fn twin(incident: &Incident) -> Option<(&str, &str)> {
        match incident {
            Incident::IdenticalImage { build, same_as } => Some((build, same_as)),
            Incident::NotBuilt { .. } | Incident::BuildFailed { .. } | Incident::BootFailed { .. } => None,
        }
    }
    incidents.iter().filter_map(twin).collect()
}

/// Labels of the base and of the build that stands for the whole series. A
/// build whose image is identical to an earlier one is not booted; that one
/// stands for it, be it the base itself.
fn sides<'a>(plan: &'a Plan, incidents: &'a [Incident]) -> Option<(&'a str, &'a str)> {
    let (base, last) = (plan.builds.first()?, plan.builds.last()?);
    let twin = twins(incidents).into_iter().find(|(build, _)| *build == last.label);
    Some((&base.label, twin.map_or(&last.label, |(_, same_as)| same_as)))
}

pub(super) fn change(comparison: &Comparison) -> f64 {
    comparison.verdict.change_percent.unwrap_or(0.0)
}

fn waits(comparison: &Comparison) -> bool {
    comparison.path.as_ref().and_then(|p| p.waiting).is_some_and(|w| w.new_waiting)
}

pub(super) fn costs_more(comparison: &Comparison) -> bool {
    matches!(comparison.verdict.name, VerdictName::Longer | VerdictName::Slower)
}

/// SLOWER, LONGER by the threshold, or new waiting.
pub(super) fn regresses(comparison: &Comparison, threshold_percent: f64) -> bool {
    waits(comparison)
        || match comparison.verdict.name {
            VerdictName::Slower => true,
            VerdictName::Longer => change(comparison) >= threshold_percent,
            VerdictName::Faster
            | VerdictName::NoChange
            | VerdictName::Shorter
            | VerdictName::Same
            | VerdictName::Inconclusive => false,
        }
}

fn moved(comparison: &Comparison) -> bool {
    match comparison.verdict.name {
        VerdictName::Slower | VerdictName::Faster | VerdictName::Longer | VerdictName::Shorter => true,
        VerdictName::NoChange | VerdictName::Same | VerdictName::Inconclusive => false,
    }
}

/// Who speaks first: a regression, what is not decided, what costs more, what moved, the rest.
fn rank(comparison: &Comparison, regression: bool) -> u8 {
    if regression {
        4
    } else if comparison.verdict.name == VerdictName::Inconclusive {
        3
    } else if costs_more(comparison) {
        2
    } else {
        u8::from(moved(comparison))
    }
}

/// The claim of one primary, in words.
fn state(found: &mut Findings, comparison: &Comparison, metric: &str, threshold_percent: f64) {
    let (metric, name, change_percent) = (metric.to_owned(), comparison.verdict.name, change(comparison));
    if waits(comparison) {
        found.new_waiting = true;
        found.reasons.push(Reason::MetricWaits { metric: metric.clone() });
    }
    if name == VerdictName::Inconclusive {
        found.undecided = true;
        let why = comparison.verdict.reasons.join("; ");
        found.reasons.push(Reason::PrimaryInconclusive { metric, why });
        return;
    }
    if costs_more(comparison) && (name == VerdictName::Slower || change_percent >= threshold_percent) {
        found.reasons.push(Reason::BeyondThreshold { metric, name, change_percent, threshold_percent });
    } else if moved(comparison) {
        found.reasons.push(Reason::Moved { metric, name, change_percent });
    }
}

/// What a decision rests on.
pub(super) struct Given<'a> {
    sides: Option<(&'a str, &'a str)>,
    /// Builds with the same image as another one: (label, that one's).
    twins: Vec<(&'a str, &'a str)>,
    pub(super) plan: &'a Plan,
    comparisons: &'a [Comparison],
    pub(super) growth: &'a [Growth],
}

impl<'a> Given<'a> {
    /// Whether the whole series was measured in spite of this: a build in the middle failed.
    fn is_beside_the_point(&self, incident: &Incident) -> bool {
        match incident {
            Incident::IdenticalImage { .. } => true,
            Incident::BuildFailed { build, .. } => {
                let ends = [self.plan.builds.first(), self.plan.builds.last()];
                ends.iter().flatten().all(|end| end.label != *build)
                    && (self.sides.is_some_and(|(base, last)| base == last)
                        || self.comparisons.iter().any(|c| self.is_whole(c)))
            }
            Incident::NotBuilt { .. } | Incident::BootFailed { .. } => false,
        }
    }

    /// Places in the plan between which the change of a comparison happened.
    pub(super) fn step(&self, comparison: &Comparison) -> Option<(usize, usize)> {
        attribution::step(self.plan, &self.twins, &comparison.old_build, &comparison.new_build)
    }

    pub(super) fn threshold(&self) -> f64 {
        self.plan.policy.threshold_percent
    }

    pub(super) fn is_whole(&self, comparison: &Comparison) -> bool {
        self.sides == Some((&comparison.old_build, &comparison.new_build))
    }

    /// The contrast of the whole series: last build against base.
    pub(super) fn whole(&self, metric: &str) -> Option<&'a Comparison> {
        self.comparisons.iter().find(|c| series(c) == metric && self.is_whole(c))
    }

    /// The contrasts of neighbouring builds, in plan order; the whole series
    /// when there is no other.
    pub(super) fn steps(&self, metric: &str) -> Vec<&'a Comparison> {
        let all: Vec<&Comparison> = self.comparisons.iter().filter(|c| series(c) == metric).collect();
        if all.len() == 1 { all } else { all.into_iter().filter(|c| !self.is_whole(c)).collect() }
    }

    fn judge(&self, primaries: &[String]) -> Findings {
        let mut found = Findings { undecided: primaries.is_empty(), ..Findings::default() };
        let mut ranked: Vec<(u8, f64, &Comparison, bool)> = Vec::new();
        for metric in primaries {
            self.moved_costs(&mut found, metric);
            if self.sides.is_some_and(|(base, last)| base == last) {
                // The whole series has the base's image; steps may still cost something.
                found.name = Some(VerdictName::Same);
                undone(self, &mut found, metric, 0.0);
                continue;
            }
            let Some(comparison) = self.whole(metric) else {
                found.undecided = true;
                found.reasons.push(Reason::PrimaryMissing { metric: metric.clone() });
                continue;
            };
            let grows = self.growing(comparison);
            let regression = regresses(comparison, self.threshold()) || grows.is_some();
            state(&mut found, comparison, metric, self.threshold());
            if let Some(growth) = grows {
                found.grows_per_object = true;
                found.reasons.push(Reason::Grows {
                    metric: metric.clone(),
                    object: growth.object.clone(),
                    per_object: growth.per_object,
                });
            }
            found.regression |= regression;
            ranked.push((rank(comparison, regression), change(comparison).abs(), comparison, regression));
            if regression {
                blame(self, &mut found, metric);
            } else if comparison.verdict.name != VerdictName::Inconclusive {
                undone(self, &mut found, metric, change(comparison));
            }
        }
        ranked.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        if let Some((_, _, first, regression)) = ranked.first() {
            let silent = found.undecided && !found.regression && !moved(first);
            found.name = Some(if silent { VerdictName::Inconclusive } else { first.verdict.name });
            if *regression || moved(first) {
                found.headline = self.headline(first);
            }
        }
        found.culprits.sort_by(|a, b| b.step_percent.total_cmp(&a.step_percent));
        found.also_moved = self.also_moved(primaries);
        found
    }

    /// Secondary metrics that moved with the whole series.
    fn also_moved(&self, primaries: &[String]) -> Vec<AlsoMoved> {
        self.comparisons
            .iter()
            .filter(|c| self.is_whole(c) && !primaries.contains(&series(c)) && (moved(c) || waits(c)))
            .map(|c| AlsoMoved {
                workload: c.workload.clone(),
                metric: c.metric.clone(),
                name: c.verdict.name,
                change_percent: change(c),
            })
            .collect()
    }

    /// The growth of a metric with the whole series applied.
    fn growing(&self, comparison: &Comparison) -> Option<&'a Growth> {
        self.growth.iter().find(|g| {
            (&g.workload, &g.metric, &g.build)
                == (&comparison.workload, &comparison.metric, &comparison.new_build)
                && g.per_object >= GROWTH_PER_OBJECT
        })
    }

    /// Names the builds that are quicker only because others do their work.
    fn moved_costs(&self, found: &mut Findings, metric: &str) {
        for comparison in self.comparisons.iter().filter(|c| series(c) == metric) {
            if let Some(why) = moved_cost(comparison, self.comparisons) {
                found.reasons.push(Reason::MetricMovedCost {
                    build: comparison.new_build.clone(),
                    metric: metric.to_owned(),
                    why: why.to_string(),
                });
            }
        }
    }

    /// The metric that speaks first, with the build whose step goes furthest in its direction.
    fn headline(&self, comparison: &Comparison) -> Option<Headline> {
        let sign = if change(comparison) < 0.0 { -1.0 } else { 1.0 };
        let steps = self.steps(&series(comparison));
        let largest = steps.iter().max_by(|a, b| {
            let key = |c: &Comparison| (waits(c) && waits(comparison), sign * change(c));
            let ((wait_a, step_a), (wait_b, step_b)) = (key(a), key(b));
            wait_a.cmp(&wait_b).then(step_a.total_cmp(&step_b))
        })?;
        Some(Headline {
            workload: comparison.workload.clone(),
            metric: comparison.metric.clone(),
            culprit: match self.step(largest) {
                Some((_, new)) => self.plan.builds[new].label.clone(),
                None => largest.new_build.clone(),
            },
            change_percent: change(comparison),
        })
    }
}
