// SPDX-License-Identifier: GPL-2.0-or-later
//! The pass `profile`: the workload runs as in a measurement while its workers are sampled.

use super::{Outcome, Place, Problem, chosen, observed_arms, skipped, start};
use crate::cli::ProfileArguments;
use crate::emit::Emitter;
use crate::measure::{Clock, ClockName, report_facts};
use crate::observe;
use crate::stop::{Exit, Stop};
use crate::workloads::{Parameters, Setting, Workload};

/// Samples where the time goes, untimed.
///
/// # Errors
/// As [`run`].
pub fn profile(asked: &ProfileArguments, out: &mut Emitter) -> Result<Exit, Stop> {
    let workload = chosen(std::slice::from_ref(&asked.workload), &asked.arms)?.remove(0);
    start("profile", "none", &asked.output, out)?;
    let place = Place::take(&asked.place, out)?;
    let parameters = Parameters::new(workload.parameters, &asked.place.parameters)?;
    let manner = observe::SamplingManner {
        duration: std::time::Duration::from_secs(asked.seconds),
        frequency: asked.frequency,
        clock: Clock::new(ClockName::MonotonicRaw, false),
    };
    let mut exit = Exit::Done;
    let mut void = None;
    for arm in observed_arms(workload, &asked.arms) {
        let setting = place.setting(arm, &parameters);
        match skipped(workload, arm.id, profile_arm(workload, &setting, manner, out), out)? {
            None => {}
            Some(Problem::Skipped) => exit = Exit::Missing,
            Some(Problem::Void(reason)) => void = void.or(Some(reason)),
        }
    }
    void.map_or(Ok(exit), |reason| Err(Stop::Failed(reason)))
}

fn profile_arm(
    workload: &Workload,
    setting: &Setting<'_>,
    manner: observe::SamplingManner,
    out: &mut Emitter,
) -> Outcome {
    let mut prepared = (workload.prepare)(setting)?;
    report_facts(workload.id, setting.arm, &prepared.session().facts()?, out)?;
    observe::sampling_profile(setting, workload.id, &mut prepared, manner, out)?;
    prepared.session().finish()
}
