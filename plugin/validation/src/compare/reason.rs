// SPDX-License-Identifier: GPL-2.0-or-later
//! Every reason a verdict gives, in one place; each says what to do next
//! where there is something to do.

use super::VerdictName;
use super::time::{CALIBRATED_DEGREES, FailedGate, WildBoot};
use crate::verdict::Incident;

/// Why a verdict is what it is: first those of one metric, then those of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// `time` evidence of a board whose spread is not known.
    Uncalibrated {
        /// Degrees of freedom of the board's history.
        degrees: u32,
    },
    /// A condition that others check did not hold.
    GateFailed(FailedGate),
    /// Blocks of one boot vary too much to give the boot a value.
    NoisyBlocks {
        /// Standard error of the mean of blocks, percent.
        error_percent: f64,
        /// The gate, percent.
        limit_percent: f64,
    },
    /// A negative control moved.
    ControlMoved {
        /// `workload metric`.
        metric: String,
        /// Its change, percent.
        change_percent: f64,
        /// The gate, percent.
        limit_percent: f64,
    },
    /// A boot far from the others of its side.
    WildBoot {
        /// `old` or `new`.
        side: &'static str,
        /// Which, and how far.
        wild: WildBoot,
    },
    /// A wild boot was replaced by one more.
    Replaced {
        /// `old` or `new`.
        side: &'static str,
        /// 0-based place on its side.
        place: usize,
        /// Distance from the rest of its side, in sigma of the history.
        sigmas: f64,
    },
    /// The boots vary more than the board's history allows.
    BoardSuspect {
        /// Chance of that if the board is what it was.
        chance: f64,
    },
    /// Base boots of one palindrome differ.
    BaseDrift {
        /// Their difference, percent.
        drift_percent: f64,
        /// The gate, percent.
        limit_percent: f64,
    },
    /// Not decided yet.
    NextLook {
        /// Boots of both builds at the next look.
        boots: usize,
    },
    /// More boots than looks were registered for.
    LooksSpent {
        /// Boots of both builds.
        boots: usize,
    },
    /// Not decided at the last look.
    Undecided {
        /// Boots of both builds.
        boots: usize,
        /// Effect that would have been found nine times in ten, percent.
        detectable_percent: f64,
    },
    /// Why NO CHANGE.
    Equivalent {
        /// The bound, percent.
        bound_percent: f64,
    },
    /// An effect that code placement alone can cause.
    CodePlacement {
        /// What a headline must clear, percent.
        headline_percent: f64,
    },
    /// The same number of instructions more or fewer for every seed.
    ExactDifference {
        /// New minus old.
        difference: f64,
        /// Unit of the metric.
        unit: String,
        /// Number of seeds.
        seeds: usize,
    },
    /// Differences that vary with the seed.
    DifferenceRange {
        /// Smallest over seeds.
        smallest: f64,
        /// Largest over seeds.
        largest: f64,
        /// Unit of the metric.
        unit: String,
    },
    /// Why SAME.
    WithinBound {
        /// The bound, percent.
        bound_percent: f64,
    },
    /// Some seeds are within the bound, some beyond it, or on both sides of it.
    SeedsDisagree {
        /// Smallest change, percent.
        low: f64,
        /// Largest change, percent.
        high: f64,
        /// The bound, percent.
        bound_percent: f64,
    },
    /// Counted instructions of a table, which does not tell seeds apart.
    NoSeeds,
    /// Two boots of one image and seed differ.
    RunnerBroken {
        /// The build.
        build: String,
        /// The seed.
        seed: u64,
    },
    /// Boots that are not there.
    MissingBoots {
        /// The build.
        build: String,
        /// The seed.
        seed: u64,
        /// Boots there.
        found: usize,
        /// Boots planned.
        planned: usize,
    },
    /// A boot without single operations.
    NoOperations {
        /// The build.
        build: String,
        /// The seed.
        seed: u64,
    },
    /// A median of 0.
    NothingCounted,
    /// The median rests on few operations.
    FewOperations {
        /// Operations there.
        found: usize,
        /// Operations wanted.
        enough: usize,
    },
    /// The mean moved though the median did not.
    RareOperations {
        /// Change of the mean, percent.
        mean_change_percent: f64,
    },
    /// The median operation waits where it did not.
    NewWaiting,
    /// An operation is quicker because others do its work.
    MovedCost {
        /// Metrics that are worse, and by how much, percent.
        costs: Vec<(String, f64)>,
        /// Change of the work that is put off, percent.
        deferred_percent: Option<f64>,
    },
    /// A deciding metric is quicker because others do its work.
    MetricMovedCost {
        /// Label of the build.
        build: String,
        /// `workload metric`.
        metric: String,
        /// Its own reason.
        why: String,
    },
    /// No workload ran what the series changes.
    NothingExecuted {
        /// Functions the series changes.
        changed: usize,
        /// Of them in the image.
        compiled: usize,
    },
    /// The series changes no function body.
    NoFunctionChanged,
    /// How many of the changed functions ran.
    Executed {
        /// Functions that ran.
        executed: usize,
        /// Functions the series changes.
        changed: usize,
        /// In the image, but not seen running.
        not_executed: Vec<String>,
    },
    /// A deciding metric is beyond the threshold.
    BeyondThreshold {
        /// `workload metric`.
        metric: String,
        /// The claim.
        name: VerdictName,
        /// Whole-series change, percent.
        change_percent: f64,
        /// The threshold, percent.
        threshold_percent: f64,
    },
    /// A deciding metric moved, but not to a regression.
    Moved {
        /// `workload metric`.
        metric: String,
        /// The claim.
        name: VerdictName,
        /// Whole-series change, percent.
        change_percent: f64,
    },
    /// A deciding metric waits where it did not.
    MetricWaits {
        /// `workload metric`.
        metric: String,
    },
    /// A deciding metric grows with the number of objects.
    Grows {
        /// `workload metric`.
        metric: String,
        /// What is counted.
        object: String,
        /// Instructions for each.
        per_object: f64,
    },
    /// The patch that carries a cost.
    Culprit {
        /// Label of the build that first has it.
        build: String,
        /// The last build before it that was measured, where that is not the one before.
        after: Option<String>,
        /// `workload metric`.
        metric: String,
        /// Change against the build before, percent.
        step_percent: f64,
    },
    /// A cost that a later patch takes away.
    Undone {
        /// Label of the build that first has it.
        build: String,
        /// `workload metric`.
        metric: String,
        /// Change against the build before, percent.
        step_percent: f64,
        /// The build that takes most of it away, and its own change, percent.
        by: Option<(String, f64)>,
        /// Whole-series change, percent.
        change_percent: f64,
    },
    /// A deciding metric is not there.
    PrimaryMissing {
        /// `workload metric`.
        metric: String,
    },
    /// A deciding metric is not decided, and why.
    PrimaryInconclusive {
        /// `workload metric`.
        metric: String,
        /// Its own reasons.
        why: String,
    },
    /// Not every build was booted.
    Bisected {
        /// Builds that were measured.
        measured: usize,
        /// Builds of the plan.
        builds: usize,
    },
    /// A build or boot that could not be measured.
    Incident(Incident),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uncalibrated { degrees } => write!(
                f,
                "uncalibrated: the boot-to-boot spread of this machine is known from {degrees} degrees of freedom, \
                 a time verdict needs {CALIBRATED_DEGREES}; boot one kernel repeatedly on it to build a history, \
                 or read the change at every endpoint"
            ),
            Self::GateFailed(gate) => write!(f, "{gate}"),
            Self::NoisyBlocks { error_percent, limit_percent } => write!(
                f,
                "blocks within a boot vary: standard error {error_percent:.2} %, gate {limit_percent} %; raise the \
                 number of samples, or find what disturbs the machine"
            ),
            Self::ControlMoved { metric, change_percent, limit_percent } => write!(
                f,
                "the control {metric} moved by {change_percent:+.2} % (gate {limit_percent} %): the machine changed, \
                 not only the code; compare the environment records"
            ),
            Self::WildBoot { side, wild } => {
                match wild.place {
                    Some(place) => write!(f, "boot {} of the {side} side", place + 1)?,
                    None => write!(f, "one of the two boots of the {side} side")?,
                }
                write!(f, " is {:.1} sigma from the others; replace it by one boot, and show both", wild.sigmas)
            }
            Self::Replaced { side, place, sigmas } => write!(
                f,
                "boot {} of the {side} side is {sigmas:.1} sigma from the others: it was replaced by one more boot and \
                 is left out of the estimate; both are in the table of boots",
                place + 1
            ),
            Self::BoardSuspect { chance } => write!(
                f,
                "board suspect: boots vary more than its history allows (chance {chance:.1e}); check cooling, \
                 settings and load, then learn its spread again"
            ),
            Self::BaseDrift { drift_percent, limit_percent } => write!(
                f,
                "the base boots differ by {drift_percent:.2} %, gate {limit_percent:.2} %; let the board settle and \
                 run the experiment again under a new name"
            ),
            Self::NextLook { boots } => write!(f, "not decided yet; the next look is after {boots} boots"),
            Self::LooksSpent { boots } => write!(
                f,
                "{boots} boots, and no look is registered after 12; plan a second experiment, reported beside this one"
            ),
            Self::Undecided { boots, detectable_percent } => write!(
                f,
                "not decided after {boots} boots; a change of {detectable_percent:.1} % would have been found nine times \
                 in ten, a smaller one needs a quieter board or more samples for each boot"
            ),
            Self::Equivalent { bound_percent } => write!(f, "within +/-{bound_percent} %"),
            Self::CodePlacement { headline_percent } => write!(
                f,
                "not clear of {headline_percent} %: within what code placement can cause; confirm with builds that \
                 align functions to 64 bytes"
            ),
            Self::ExactDifference { difference, unit, seeds } => {
                let each = if *seeds == 1 { "with the one seed" } else { "the same for every seed" };
                write!(f, "{difference:+} {unit} per operation, {each}")
            }
            Self::DifferenceRange { smallest, largest, unit } => {
                write!(f, "{smallest:+} to {largest:+} {unit} per operation, by seed")
            }
            Self::WithinBound { bound_percent } => write!(f, "within the bound of {bound_percent:.3} %"),
            Self::SeedsDisagree { low, high, bound_percent } => write!(
                f,
                "seeds disagree: {low:+.3} to {high:+.3} % against a bound of {bound_percent:.3} %; run more seeds"
            ),
            Self::NoSeeds => f.write_str(
                "the table names no seeds, so repeats are not checked for being identical; compare the bundle for that",
            ),
            Self::RunnerBroken { build, seed } => write!(
                f,
                "runner broken: two boots of {build} with seed {seed} differ though image, seed and command line \
                 are the same; no number of this experiment can be trusted, check the QEMU version and options"
            ),
            Self::MissingBoots { build, seed, found, planned } => write!(
                f,
                "{found} of {planned} boots of {build} with seed {seed} are usable; run the experiment again, it \
                 continues from what is there"
            ),
            Self::NoOperations { build, seed } => write!(
                f,
                "boot of {build} with seed {seed} reports no single operations; run the workload with single \
                 operations and the tsc clock"
            ),
            Self::NothingCounted => {
                f.write_str("the base counts 0, of which nothing is a percentage; look at the operations themselves")
            }
            Self::FewOperations { found, enough } => write!(
                f,
                "the median rests on {found} operations; raise samples or operations until there are {enough}"
            ),
            Self::RareOperations { mean_change_percent } => write!(
                f,
                "the mean changes by {mean_change_percent:+.2} % though the median does not: few operations carry \
                 it, look at the tail and at deferred work"
            ),
            Self::NewWaiting => f.write_str(
                "new waiting: the median operation now leaves the CPU where it did not, or for much longer; find \
                 what it waits for (a grace period, a work item, a lock)",
            ),
            Self::MovedCost { costs, deferred_percent } => {
                let told: Vec<String> =
                    costs.iter().map(|(metric, percent)| format!("{metric} {percent:+.2} %")).collect();
                write!(f, "MOVED_COST: quicker only because its work was put off: {}", told.join(", "))?;
                if let Some(percent) = deferred_percent {
                    write!(f, "; work left to kernel threads and interrupts {percent:+.2} %")?;
                }
                f.write_str("; weigh the caller's win against what the machine pays later")
            }
            Self::MetricMovedCost { build, metric, why } => write!(f, "{metric} of {build}: {why}"),
            Self::NothingExecuted { changed, compiled } => write!(
                f,
                "0 of the {changed} changed functions were executed ({compiled} compiled): these results say nothing \
                 about the series; choose a workload that reaches its code"
            ),
            Self::NoFunctionChanged => f.write_str(
                "the series changes no function body: whether the workloads reach what it changes is not known, \
                 look at the structures and macros it touches",
            ),
            Self::Executed { executed, changed, not_executed } => {
                write!(f, "executed: {executed} of {changed} changed functions")?;
                if not_executed.is_empty() { Ok(()) } else { write!(f, "; not {}", not_executed.join(", ")) }
            }
            Self::BeyondThreshold { metric, name, change_percent, threshold_percent } => write!(
                f,
                "{metric} is {name}: {change_percent:+.3} % against a threshold of {threshold_percent} %; see the \
                 call differences, then profile the workload"
            ),
            Self::Moved { metric, name, change_percent } => {
                write!(f, "{metric} is {name}: {change_percent:+.3} %")
            }
            Self::MetricWaits { metric } => write!(f, "{metric}: {}", Self::NewWaiting),
            Self::Grows { metric, object, per_object } => write!(
                f,
                "{metric} grows by {per_object:.0} instructions for each {object}: the cost is larger where there \
                 are more of them; see whether the work can be done once"
            ),
            Self::Culprit { build, after: None, metric, step_percent } => {
                write!(f, "{build} carries {step_percent:+.3} % of {metric} against the build before it; look there first")
            }
            Self::Culprit { build, after: Some(after), metric, step_percent } => write!(
                f,
                "the patches after {after} up to {build} carry {step_percent:+.3} % of {metric}; they are not told apart, \
                 since builds between could not be measured"
            ),
            Self::Undone { build, metric, step_percent, by, change_percent } => {
                write!(f, "{build} costs {step_percent:+.3} % of {metric}, and ")?;
                match by {
                    Some((later, back)) => write!(f, "{later} takes it away ({back:+.3} %)")?,
                    None => f.write_str("later patches take it away")?,
                }
                write!(
                    f,
                    ": {change_percent:+.3} % with the whole series; consider merging them, so that bisection does \
                     not stop between them"
                )
            }
            Self::PrimaryMissing { metric } => write!(
                f,
                "{metric} decides but was not measured on both sides; see which workload was skipped or failed"
            ),
            Self::PrimaryInconclusive { metric, why } => write!(f, "{metric} is INCONCLUSIVE: {why}"),
            Self::Bisected { measured, builds } => write!(
                f,
                "bisection: {measured} of {builds} builds were booted; a cost that one patch adds and another takes \
                 away between two of them is not seen, run every build to exclude it"
            ),
            Self::Incident(incident) => write!(f, "{incident}"),
        }
    }
}
