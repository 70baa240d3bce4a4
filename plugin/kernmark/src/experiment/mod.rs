// SPDX-License-Identifier: GPL-2.0-or-later
//! The main job: a request in, a bundle with verdict and reports out. The order
//! of the stages stands in [`run`]; each stage is one file.

mod conclude;
mod kernels;
mod measure;
mod place;
mod plan;
mod prepare;
mod progress;
mod request;
mod series;

pub use progress::{Progress, short};
pub use request::{Request, RunnerChoice, SeriesSource};

use crate::bundle::Bundle;
use crate::cache::Cache;
use crate::console::say;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use kernmark_validation::findings::Findings;
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
    request: &'a Request,
    cache: &'a Cache,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
}

/// Runs one experiment from mails to reports, or continues one that was interrupted.
///
/// # Errors
/// Bad input, a missing tool, a full disk, an interrupt. What the series does wrong is
/// a finding, not an error.
pub fn run(request: &Request, progress: &Progress, interrupt: &Interrupt) -> Result<Concluded, Failure> {
    let clock = Instant::now();
    let started = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let series = series::load(request)?;
    let cache = Cache::open(request.cache.as_deref(), |name| std::env::var_os(name).map(Into::into))?
        .announcing(if progress.is_quiet() { |_| {} } else { say });
    let context = Context { request, cache: &cache, progress, interrupt };
    let prepared = prepare::prepare(context, series)?;
    let bundle = place::bundle(request, &prepared)?;
    bundle.freeze(&prepared.series, &prepared.plan)?;
    progress.note(&format!("everything of this experiment goes to {}", bundle.path().display()));
    let kernels = kernels::build(context, &prepared, &bundle)?;
    let measured = measure::measure(context, &prepared, &kernels, &bundle)?;
    let findings = conclude::conclude(request, prepared, kernels, measured, &started, clock.elapsed());
    bundle.finish(&findings, &crate::bundle::templates(None)?)?;
    let exit = match findings.verdict.exit_code {
        0 => Exit::Clean,
        1 => Exit::Regression,
        _ => Exit::Missing,
    };
    Ok(Concluded { exit, findings, bundle })
}
