// SPDX-License-Identifier: GPL-2.0-or-later
//! The main job: an experiment in, a bundle with verdict and reports out. The order
//! of the stages stands in [`run`]; each stage is one file.

mod conclude;
mod definition;
mod kernels;
mod measure;
mod place;
mod plan;
mod prepare;
mod progress;
mod request;
mod series;
mod sources;

pub use definition::Definition;
pub use progress::{Progress, short};
pub use request::{Request, RunnerChoice, Runtime, SeriesSource};

use crate::bundle::Bundle;
use crate::cache::Cache;
use crate::console::say;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use kernels::Kernels;
use kernmark_validation::findings::Findings;
use measure::Measured;
use prepare::Prepared;
use std::time::Instant;

/// A finished experiment.
#[derive(Debug)]
pub struct Concluded {
    /// What the command ends with.
    pub exit: Exit,
    /// Everything a report can say.
    pub findings: Findings,
    /// Where everything is.
    pub bundle: Bundle,
}

/// What all stages share.
#[derive(Clone, Copy)]
struct Context<'a> {
    runtime: &'a Runtime,
    cache: &'a Cache,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
}

/// Validates a series: makes the plan of an experiment of it, and runs that, or continues one that
/// was interrupted.
///
/// # Errors
/// As [`run`].
pub fn check(request: &Request, progress: &Progress, interrupt: &Interrupt) -> Result<Concluded, Failure> {
    let definition = Definition::of_series(request, series::load(request)?)?;
    run(&request.runtime, definition, progress, interrupt)
}

/// Runs one experiment from its plan to reports, or continues one that was interrupted.
///
/// # Errors
/// Bad input, a missing tool, a full disk, an interrupt. What a series does wrong is
/// a finding, not an error.
pub fn run(
    runtime: &Runtime,
    definition: Definition,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Concluded, Failure> {
    let clock = Instant::now();
    let started = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let cache = Cache::open(runtime.cache.as_deref(), |name| std::env::var_os(name).map(Into::into))?
        .announcing(if progress.is_quiet() { |_| {} } else { say });
    let context = Context { runtime, cache: &cache, progress, interrupt };
    let prepared = prepare::prepare(context, definition)?;
    let bundle = place::bundle(runtime, &prepared)?;
    bundle.freeze(&prepared.series, &prepared.plan)?;
    bundle.write_experiment(&prepared.experiment, &prepared.other_patches)?;
    progress.note(&format!("everything of this experiment goes to {}", bundle.path().display()));
    let (kernels, measured) = in_stages(context, &prepared, &bundle)?;
    let findings = conclude::conclude(runtime, prepared, kernels, measured, &started, clock.elapsed());
    bundle.finish(&findings, &crate::bundle::templates(None)?)?;
    Ok(Concluded { exit: exit_of(&findings), findings, bundle })
}

/// What a command ends with that found this.
pub fn exit_of(findings: &Findings) -> Exit {
    match findings.verdict.exit_code {
        0 => Exit::Clean,
        1 => Exit::Regression,
        _ => Exit::Missing,
    }
}

/// Builds and boots what the plan asks for next, until it asks for nothing more.
fn in_stages(
    context: Context<'_>,
    prepared: &Prepared,
    bundle: &Bundle,
) -> Result<(Kernels, Measured), Failure> {
    let mut kernels = Kernels { incidents: prepared.incidents.clone(), ..Kernels::default() };
    let mut measured = Measured::default();
    while prepared.buildable && measured.incidents.is_empty() {
        let next = kernels.next(&prepared.plan, &measured.to_points(&prepared.plan));
        if next.is_empty() {
            break;
        }
        kernels::build(context, prepared, bundle, &next, &mut kernels)?;
        measured = measure::measure(context, prepared, &kernels, bundle)?;
    }
    kernels.in_plan_order(&prepared.plan);
    if !kernels.builds.is_empty() {
        bundle.write_builds(&kernels.file())?;
    }
    if measured.incidents.is_empty() {
        measure::observe(context, prepared, &kernels, bundle, &mut measured)?;
    }
    Ok((kernels, measured))
}
