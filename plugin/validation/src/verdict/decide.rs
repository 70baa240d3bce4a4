// SPDX-License-Identifier: GPL-2.0-or-later
//! The decision: only primaries decide, everything else is listed.

use super::{AlsoMoved, Culprit, Headline, Incident, Outcome, Verdict};
use crate::compare::{Comparison, ExecutedCount, Reason, VerdictName, moved_cost};
use crate::findings::Growth;
use crate::plan::Plan;

/// Fewer instructions per object than this are no growth.
const GROWTH_PER_OBJECT: f64 = 1.0;

/// The verdict on a series.
///
/// Exit code 1: a primary is SLOWER, LONGER by the threshold or more, waits
/// anew, or grows per object. Otherwise 3: a primary is INCONCLUSIVE or
/// missing, or a build or boot failed. Otherwise 0. An empty list of primaries
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
    let evidence = Given { sides: sides(plan, incidents), plan, comparisons, growth };
    let found = evidence.judge(&primaries(plan, comparisons));
    reasons.extend(found.reasons.iter().cloned());
    reasons.extend(incidents.iter().cloned().map(Reason::Incident).chain(last_words));
    let blocking = incidents.iter().find_map(blocking);
    let (outcome, exit_code) = if found.regression {
        (found.outcome(), 1)
    } else if let Some(outcome) = blocking {
        (outcome, 3)
    } else {
        (found.outcome(), if found.undecided { 3 } else { 0 })
    };
    let headline = found.headline.clone();
    verdict(outcome, exit_code, headline, found, &reasons)
}

/// What the primaries say.
#[derive(Debug, Default)]
struct Findings {
    regression: bool,
    undecided: bool,
    name: Option<VerdictName>,
    new_waiting: bool,
    grows_per_object: bool,
    headline: Option<Headline>,
    culprits: Vec<Culprit>,
    also_moved: Vec<AlsoMoved>,
    reasons: Vec<Reason>,
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

/// All images are the same, and nothing else is wrong.
fn identical(plan: &Plan, incidents: &[Incident]) -> Option<Outcome> {
    let same = |label: &str| {
        incidents.iter().any(|i| matches!(i, Incident::IdenticalImage { build, .. } if build == label))
    };
    let only_identical = incidents.iter().all(|i| matches!(i, Incident::IdenticalImage { .. }));
    let all = plan.builds.len() > 1 && plan.builds.iter().skip(1).all(|b| same(&b.label));
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

/// Labels of the base and of the build that stands for the whole series. A
/// build whose image is identical to an earlier one is not booted; that one
/// stands for it, be it the base itself.
fn sides<'a>(plan: &'a Plan, incidents: &'a [Incident]) -> Option<(&'a str, &'a str)> {
    let (base, last) = (plan.builds.first()?, plan.builds.last()?);
    let twin = incidents.iter().find_map(|incident| match incident {
        Incident::IdenticalImage { build, same_as } if *build == last.label => Some(same_as.as_str()),
        Incident::IdenticalImage { .. }
        | Incident::NotBuilt { .. }
        | Incident::BuildFailed { .. }
        | Incident::BootFailed { .. } => None,
    });
    Some((&base.label, twin.unwrap_or(&last.label)))
}

fn change(comparison: &Comparison) -> f64 {
    comparison.verdict.change_percent.unwrap_or(0.0)
}

fn waits(comparison: &Comparison) -> bool {
    comparison.path.as_ref().and_then(|p| p.waiting).is_some_and(|w| w.new_waiting)
}

fn costs_more(comparison: &Comparison) -> bool {
    matches!(comparison.verdict.name, VerdictName::Longer | VerdictName::Slower)
}

/// SLOWER, LONGER by the threshold, or new waiting.
fn regresses(comparison: &Comparison, threshold_percent: f64) -> bool {
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
struct Given<'a> {
    sides: Option<(&'a str, &'a str)>,
    plan: &'a Plan,
    comparisons: &'a [Comparison],
    growth: &'a [Growth],
}

impl<'a> Given<'a> {
    fn threshold(&self) -> f64 {
        self.plan.policy.threshold_percent
    }

    fn is_whole(&self, comparison: &Comparison) -> bool {
        self.sides == Some((&comparison.old_build, &comparison.new_build))
    }

    /// The contrast of the whole series: last build against base.
    fn whole(&self, metric: &str) -> Option<&'a Comparison> {
        self.comparisons.iter().find(|c| series(c) == metric && self.is_whole(c))
    }

    /// The contrasts of neighbouring builds, in plan order; the whole series
    /// when there is no other.
    fn steps(&self, metric: &str) -> Vec<&'a Comparison> {
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
                self.undone(&mut found, metric, 0.0);
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
                self.blame(&mut found, metric);
            } else if comparison.verdict.name != VerdictName::Inconclusive {
                self.undone(&mut found, metric, change(comparison));
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

    /// Whether the step itself adds a cost per object.
    fn step_grows(&self, step: &Comparison) -> bool {
        let of = |build: &str| {
            let found = self
                .growth
                .iter()
                .find(|g| (&g.workload, &g.metric) == (&step.workload, &step.metric) && g.build == build);
            found.map_or(0.0, |g| g.per_object)
        };
        of(&step.new_build) - of(&step.old_build) >= GROWTH_PER_OBJECT
    }

    /// Names the patches that carry a regression, largest step first.
    fn blame(&self, found: &mut Findings, metric: &str) {
        let steps = self.steps(metric);
        let by = |guilty: &dyn Fn(&Comparison) -> bool| -> Vec<&Comparison> {
            steps.iter().copied().filter(|step| guilty(step)).collect()
        };
        // Several small steps may add up to a regression, and a growth may be smaller than the bound.
        let mut guilty = by(&|step| regresses(step, self.threshold()) || self.step_grows(step));
        if guilty.is_empty() {
            guilty = by(&costs_more);
        }
        if guilty.is_empty() {
            guilty = by(&|step| change(step) > 0.0);
        }
        guilty.sort_by(|a, b| change(b).total_cmp(&change(a)));
        for step in guilty {
            if steps.len() > 1 {
                found.reasons.push(Reason::Culprit {
                    build: step.new_build.clone(),
                    metric: metric.to_owned(),
                    step_percent: change(step),
                });
            }
            found.culprits.push(Culprit {
                build: step.new_build.clone(),
                workload: step.workload.clone(),
                metric: step.metric.clone(),
                step_percent: change(step),
            });
        }
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

    /// Names the costs of single patches that the series as a whole does not have.
    fn undone(&self, found: &mut Findings, metric: &str, change_percent: f64) {
        let steps = self.steps(metric).into_iter().filter(|s| !self.is_whole(s));
        found.reasons.extend(steps.filter(|s| regresses(s, self.threshold())).map(|step| Reason::Undone {
            build: step.new_build.clone(),
            metric: metric.to_owned(),
            step_percent: change(step),
            change_percent,
        }));
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
            culprit: largest.new_build.clone(),
            change_percent: change(comparison),
        })
    }
}
