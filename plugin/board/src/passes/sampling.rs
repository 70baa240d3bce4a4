// SPDX-License-Identifier: GPL-2.0-or-later
//! The pass `profile`: the workload runs as in a measurement while its workers are sampled.

use super::{Outcome, Place, Whole, chosen, observed_arms, skipped, start};
use crate::cli::ProfileArguments;
use crate::emit::Emitter;
use crate::measure::{Clock, ClockName, report_facts};
use crate::observe;
use crate::stop::{Exit, Stop};
use crate::workloads::{Parameters, Setting, Workload};

/// Samples where the time goes, untimed.
///
/// # Errors
/// As [`super::run`].
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
    let mut whole = Whole::default();
    for arm in observed_arms(workload, &asked.arms) {
        let setting = place.setting(arm, &parameters);
        whole.take(skipped(workload, arm.id, profile_arm(workload, &setting, manner, out), out)?);
    }
    whole.exit()
}

fn profile_arm(
    workload: &Workload,
    setting: &Setting<'_>,
    manner: observe::SamplingManner,
    out: &mut Emitter,
) -> Outcome {
    let mut prepared = (workload.prepare)(setting)?;
    report_facts(workload.id, setting.arm, &prepared.session().facts()?, out)?;
    observe::sampling_profile(setting, workload, &mut prepared, manner, out)?;
    prepared.session().finish()
}
