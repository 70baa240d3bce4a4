// SPDX-License-Identifier: GPL-2.0-or-later
//! Which builds have to be made and booted next, by the rule that the plan froze: all of them, or
//! by bisection the middle of every part that changes something. What was measured decides alone,
//! so a run that was interrupted and a verification come to the same answer.

use crate::builds::BuildRecord;
use crate::compare::{Comparison, Point, VerdictName, compare_path_between};
use crate::plan::{Attribution, Plan};

/// What is known so far.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The frozen plan.
    pub plan: &'a Plan,
    /// Builds that were made.
    pub builds: &'a [BuildRecord],
    /// Labels of builds that cannot be made.
    pub failed: &'a [String],
    /// Boots that were measured.
    pub points: &'a [Point],
}

/// How far one build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress<'a> {
    /// Neither made nor booted.
    Open,
    /// It cannot be made.
    Failed,
    /// Its numbers are those of the build with this label: its own, or one with the same image.
    Measured(&'a str),
}

/// Places in the plan's builds of those that are to be made and booted now; none when the
/// experiment is complete.
pub fn next_builds(known: &Known<'_>) -> Vec<usize> {
    let all: Vec<Progress<'_>> = known.plan.builds.iter().map(|b| known.progress(&b.label)).collect();
    let open = |at: &usize| all[*at] == Progress::Open;
    match known.plan.attribution {
        Attribution::EveryBuild => (0..all.len()).filter(open).collect(),
        Attribution::Bisection => {
            let ends: Vec<usize> = [0, all.len().saturating_sub(1)].into_iter().filter(open).collect();
            if !ends.is_empty() { ends } else { known.middles(&all) }
        }
    }
}

/// Places in the plan between which the change from build `old` to build `new` happened: a build
/// with the same image as an earlier or later one says as much as that one. `twins` has each such
/// build and the one it is identical to. The second place is the first where the new image is seen.
pub fn step(plan: &Plan, twins: &[(&str, &str)], old: &str, new: &str) -> Option<(usize, usize)> {
    let is = |label: &str, image: &str| label == image || twins.contains(&(label, image));
    let places = |image: &str| -> Vec<usize> {
        (0..plan.builds.len()).filter(|at| is(&plan.builds[*at].label, image)).collect()
    };
    let before = places(old);
    let first = *before.first()?;
    let after = places(new).into_iter().find(|at| *at > first)?;
    Some((before.into_iter().rfind(|at| *at < after)?, after))
}

impl<'a> Known<'a> {
    fn progress(&self, label: &str) -> Progress<'a> {
        if self.failed.iter().any(|failed| failed == label) {
            return Progress::Failed;
        }
        let record = self.builds.iter().find(|b| b.label == label);
        let numbers = record.map(|r| r.same_image_as.as_deref().unwrap_or(&r.label));
        let booted = |label: &&str| self.points.iter().any(|p| p.build == *label);
        let twin = record.is_some_and(|r| r.same_image_as.is_some());
        // Where all images are the same, nothing is booted at all.
        let images = self.builds.iter().filter(|b| b.same_image_as.is_none()).count();
        let one_image = self.builds.len() > 1 && images == 1;
        match numbers.filter(|label| twin || one_image || booted(label)) {
            Some(label) => Progress::Measured(label),
            None => Progress::Open,
        }
    }

    /// The open build nearest to the middle of each part whose ends differ.
    fn middles(&self, all: &[Progress<'_>]) -> Vec<usize> {
        let measured: Vec<(usize, &str)> = all
            .iter()
            .enumerate()
            .filter_map(|(at, progress)| match progress {
                Progress::Measured(label) => Some((at, *label)),
                Progress::Open | Progress::Failed => None,
            })
            .collect();
        measured
            .windows(2)
            .filter_map(|ends| {
                let ((low, old), (high, new)) = (ends[0], ends[1]);
                let open = (low + 1..high).filter(|at| all[*at] == Progress::Open);
                let middle = open.min_by_key(|at| (2 * at).abs_diff(low + high))?;
                (old != new && self.differ(new, old)).then_some(middle)
            })
            .collect()
    }

    /// Whether a deciding metric tells two builds apart, or cannot be decided.
    fn differ(&self, new: &str, old: &str) -> bool {
        let primaries = &self.plan.policy.primaries;
        let decides = |c: &Comparison| {
            primaries.is_empty() || primaries.contains(&format!("{} {}", c.workload, c.metric))
        };
        let told_apart = |c: &Comparison| match c.verdict.name {
            VerdictName::Same | VerdictName::NoChange => {
                c.path.as_ref().and_then(|p| p.waiting).is_some_and(|w| w.new_waiting)
            }
            VerdictName::Slower
            | VerdictName::Faster
            | VerdictName::Longer
            | VerdictName::Shorter
            | VerdictName::Inconclusive => true,
        };
        compare_path_between(self.plan, self.points, (new, old)).iter().any(|c| decides(c) && told_apart(c))
    }
}
