// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernels of a plan. A patch that does not compile leaves the others measured.

use super::Context;
use super::prepare::Prepared;
use crate::bundle::Bundle;
use crate::exit::Failure;
use crate::kernel::{Build, BuildError, Builder, Progress};
use kernmark_validation::builds::BuildsFile;
use kernmark_validation::verdict::Incident;
use std::time::Duration;

/// A clean build on two cores; see docs and CHANGELOG for the conditions.
const BASE_ESTIMATE: Duration = Duration::from_secs(200);
const PATCH_ESTIMATE: Duration = Duration::from_secs(12);

/// The builds there are, in plan order, and what went wrong.
#[derive(Debug, Default)]
pub struct Kernels {
    /// Built kernels; fewer than planned when a patch does not compile.
    pub builds: Vec<Build>,
    /// What went wrong, and which images are identical.
    pub incidents: Vec<Incident>,
    /// What builds did that no build should: (label, what).
    pub tampering: Vec<(String, String)>,
}

/// Builds base and patched kernels.
///
/// # Errors
/// This machine fails, or somebody asked to stop.
pub fn build(context: Context<'_>, prepared: &Prepared, bundle: &Bundle) -> Result<Kernels, Failure> {
    let mut kernels = Kernels { incidents: prepared.incidents.clone(), ..Kernels::default() };
    if !prepared.buildable {
        return Ok(kernels);
    }
    let logs = bundle.logs();
    let builder = Builder::new(
        context.cache,
        &prepared.tree,
        prepared.configuration.clone(),
        context.interrupt,
        &logs,
    )?;
    match builder.configure() {
        Ok(_) => {}
        Err(BuildError::Config { symbols }) => {
            kernels.incidents.push(not_had(prepared, &symbols));
            return Ok(kernels);
        }
        Err(error) => return Err(error.into()),
    }
    let base = {
        let phase = context.progress.phase("base kernel", Some(BASE_ESTIMATE));
        builder.base(&mut |p: Progress| phase.at(p.done, p.total, "objects"))?
    };
    let counts: Vec<(usize, String)> =
        prepared.plan.builds.iter().skip(1).map(|b| (b.patches as usize, b.label.clone())).collect();
    let estimate = PATCH_ESTIMATE * u32::try_from(counts.len()).unwrap_or(1);
    let mut patched = Vec::new();
    let outcome = {
        let phase = context.progress.phase("patched kernels", Some(estimate));
        builder.patched(
            &base,
            &prepared.series,
            &counts,
            &mut |label, p| phase.at(0, 0, &format!("{label}: {} objects", p.done)),
            &mut |build| patched.push(build),
        )
    };
    kernels.builds.push(base);
    kernels.builds.extend(patched);
    if let Err(error) = outcome {
        let failed =
            counts.get(kernels.builds.len() - 1).map_or("patched", |(_, label)| label.as_str()).to_owned();
        match error {
            BuildError::DoesNotCompile { .. }
            | BuildError::Limit { .. }
            | BuildError::Identity { .. }
            | BuildError::NoResult { .. } => {
                kernels.incidents.push(Incident::BuildFailed { build: failed, reason: error.to_string() });
            }
            other => return Err(other.into()),
        }
    }
    mark_identical(&mut kernels);
    for build in &kernels.builds {
        if !build.tampered.is_empty() {
            let shown: Vec<&str> = build.tampered.iter().take(6).map(String::as_str).collect();
            let more = build.tampered.len() - shown.len();
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            kernels.tampering.push((
                build.record.label.clone(),
                format!("wrote files into its source that no patch touches: {}{rest}", shown.join(", ")),
            ));
        }
    }
    let records = kernels.builds.iter().map(|b| b.record.clone()).collect();
    bundle.write_builds(&BuildsFile { version: 1, builds: records })?;
    Ok(kernels)
}

/// Notes which image is the same as an earlier one: that one is not booted.
fn mark_identical(kernels: &mut Kernels) {
    for index in 1..kernels.builds.len() {
        let image = &kernels.builds[index].record.image_sha256;
        let same = kernels.builds[..index].iter().find(|b| b.record.image_sha256 == *image);
        if let Some(same_as) = same.map(|b| b.record.label.clone()) {
            let build = kernels.builds[index].record.label.clone();
            kernels.builds[index].record.same_image_as = Some(same_as.clone());
            kernels.incidents.push(Incident::IdenticalImage { build, same_as });
        }
    }
}

/// The option that Kconfig would not switch on, and a file that needs it.
fn not_had(prepared: &Prepared, symbols: &[String]) -> Incident {
    let file = prepared.series.patches.iter().flat_map(|p| &p.files).next().cloned().unwrap_or_default();
    let option =
        symbols.first().and_then(|s| s.strip_prefix("CONFIG_")?.split(':').next()).map(str::to_owned);
    Incident::NotBuilt {
        file,
        option,
        reason: format!("Kconfig did not keep what it takes: {}", symbols.join(", ")),
    }
}
