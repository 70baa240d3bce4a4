// SPDX-License-Identifier: GPL-2.0-or-later
//! The boots of a plan: measured ones in order, then one untimed for each build. Boots that are
//! there already are taken as they are.

use super::kernels::Kernels;
use super::prepare::Prepared;
use super::{Context, RunnerChoice, plan};
use crate::bundle::Bundle;
use crate::cache::write_whole;
use crate::exit::Failure;
use crate::runners::{
    Boot, Fault, FinishedPoint, Input, Outcome, QemuRunner, ReplayRunner, Runner, Schedule, broken_repeats,
    file_systems, initramfs,
};
use kernmark_validation::compare::Point;
use kernmark_validation::conclude::{BootLog, points};
use kernmark_validation::plan::{Plan, hex};
use kernmark_validation::samples::PointLog;
use kernmark_validation::verdict::Incident;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::time::Duration;

/// One boot takes about this long, and two run at once.
const BOOT_ESTIMATE: Duration = Duration::from_millis(2500);

/// What the boots gave.
#[derive(Debug, Default)]
pub struct Measured {
    /// Measured points, in order.
    pub points: Vec<FinishedPoint>,
    /// The log of the untimed boot of each build that was booted, by label.
    pub observed: Vec<(String, PointLog)>,
    /// What went wrong.
    pub incidents: Vec<Incident>,
    /// What could not be observed: (what, reason).
    pub not_available: Vec<(String, String)>,
    /// The console around trouble, escaped.
    pub excerpt: String,
}

impl Measured {
    /// The boots as the comparison takes them.
    pub fn to_points(&self, plan: &Plan) -> Vec<Point> {
        points(plan, &self.boot_logs())
    }

    /// The log of each measured boot.
    pub fn boot_logs(&self) -> Vec<BootLog<'_>> {
        self.points
            .iter()
            .map(|p| BootLog { index: p.record.index, name: &p.record.boot.name, log: &p.log })
            .collect()
    }
}

/// Boots every build that was made, where two of them differ.
///
/// # Errors
/// This machine fails, or somebody asked to stop.
pub fn measure(
    context: Context<'_>,
    prepared: &Prepared,
    kernels: &Kernels,
    bundle: &Bundle,
) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let wanted = |label: &str| kernels.is_booted(label);
    if kernels.different() < 2 {
        return Ok(measured);
    }
    let runner = runner(context, "points")?;
    let initramfs = write_initramfs(context, prepared, bundle)?;
    let boots: Vec<Boot> = plan::boots(&prepared.plan, &kernels.builds, &initramfs, &wanted);
    measured.points = schedule(context, runner.as_ref(), &bundle.points(), &boots, "boots")?;
    for point in &measured.points {
        if let Some(reason) = trouble(point)? {
            measured.incidents.push(Incident::BootFailed { point: point.record.boot.name.clone(), reason });
            measured.excerpt.clone_from(&point.excerpt);
        }
    }
    if !measured.incidents.is_empty() {
        return Ok(measured);
    }
    if let Some(broken) = broken_repeats(measured.points.iter().map(|p| &p.record)).first() {
        return Err(Failure::host(format!(
            "the emulator is not deterministic here: boots {} and {} of one image and seed differ. Nothing it counts can be trusted; \
             compare points/{}/samples.jsonl with points/{}/samples.jsonl in {}",
            broken.first,
            broken.second,
            broken.first,
            broken.second,
            bundle.path().display()
        )));
    }
    Ok(measured)
}

/// One untimed boot for each build that was measured.
///
/// # Errors
/// This machine fails, or somebody asked to stop.
pub fn observe(
    context: Context<'_>,
    prepared: &Prepared,
    kernels: &Kernels,
    bundle: &Bundle,
    measured: &mut Measured,
) -> Result<(), Failure> {
    if measured.points.is_empty() {
        return Ok(());
    }
    let wanted = |label: &str| kernels.is_booted(label);
    let runner = runner(context, "observations")?;
    let initramfs = write_initramfs(context, prepared, bundle)?;
    let boots = plan::observations(&prepared.plan, &kernels.builds, &initramfs, &wanted);
    let finished = schedule(context, runner.as_ref(), &bundle.observations(), &boots, "function calls")?;
    for point in finished {
        let label = prepared.plan.builds[point.record.index - 1].label.clone();
        match trouble(&point)? {
            Some(reason) => measured.not_available.push((format!("function calls of {label}"), reason)),
            None => measured.observed.push((label, point.log)),
        }
    }
    Ok(())
}

/// What runs the boots; recorded ones stand in `kind` of an earlier bundle.
fn runner(context: Context<'_>, kind: &str) -> Result<Box<dyn Runner>, Failure> {
    Ok(match &context.runtime.runner {
        RunnerChoice::Qemu => Box::new(QemuRunner::new()?),
        RunnerChoice::Replay(from) => Box::new(ReplayRunner::new(from.join(kind))),
    })
}

/// What is wrong with a point, whose fault it may be.
///
/// # Errors
/// It is this machine's.
fn trouble(point: &FinishedPoint) -> Result<Option<String>, Failure> {
    let outcome = &point.record.outcome;
    match outcome.fault() {
        Fault::Lab => Err(Failure::host(format!("{}: {outcome}", point.record.boot.name))),
        Fault::Kernel | Fault::Missing => Ok(Some(outcome.to_string())),
        Fault::None => {
            debug_assert!(*outcome == Outcome::Done);
            Ok(point.log.failed_check().map(|c| {
                format!("{} {}: the condition \"{}\" did not hold: {}", c.workload, c.arm, c.name, c.detail)
            }))
        }
    }
}

fn schedule(
    context: Context<'_>,
    runner: &dyn Runner,
    points: &Path,
    boots: &[Boot],
    name: &str,
) -> Result<Vec<FinishedPoint>, Failure> {
    let rounds = u32::try_from(boots.len().div_ceil(runner.parallel().max(1))).unwrap_or(u32::MAX);
    let phase = context.progress.phase(name, Some(BOOT_ESTIMATE * rounds));
    let schedule = Schedule { runner, points, interrupt: context.interrupt.flag() };
    let finished = schedule
        .run(boots, &mut |step| phase.at(step.done as u64, step.total as u64, &step.running.join(" ")))?;
    Ok(finished)
}

/// The archive that every boot starts from, kept in the bundle.
fn write_initramfs(context: Context<'_>, prepared: &Prepared, bundle: &Bundle) -> Result<Input, Failure> {
    let images = match prepared.configuration.fragment().has_file_systems() {
        true => file_systems(context.cache, context.interrupt)?,
        false => Vec::new(),
    };
    let bytes = initramfs(&prepared.board.bytes, &images);
    let path = bundle.path().join("initramfs.cpio.gz");
    write_whole(&path, &bytes)?;
    Ok(Input { path: std::path::absolute(&path).unwrap_or(path), sha256: hex(&Sha256::digest(&bytes)) })
}
