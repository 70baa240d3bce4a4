// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernels of a plan. A patch that does not compile leaves the others measured.

use super::Context;
use super::prepare::Prepared;
use super::sources::Source;
use crate::bundle::Bundle;
use crate::exit::Failure;
use crate::kernel::{Build, BuildError, Builder, Configuration, Progress, Tree, agree};
use kernmark_validation::attribution::{Known, next_builds};
use kernmark_validation::builds::{BuildRecord, BuildsFile};
use kernmark_validation::compare::Point;
use kernmark_validation::mail::{Patch, Series};
use kernmark_validation::plan::Plan;
use kernmark_validation::verdict::Incident;
use std::time::Duration;

/// A clean build on two cores; see docs and CHANGELOG for the conditions.
const BASE_ESTIMATE: Duration = Duration::from_secs(200);
const PATCH_ESTIMATE: Duration = Duration::from_secs(12);

/// The builds there are, in the order in which they were made, and what went wrong.
#[derive(Debug, Default)]
pub struct Kernels {
    /// Built kernels; fewer than planned when a patch does not compile.
    pub builds: Vec<Build>,
    /// What went wrong, and which images are identical.
    pub incidents: Vec<Incident>,
    /// What builds did that no build should: (label, what).
    pub tampering: Vec<(String, String)>,
}

impl Kernels {
    /// Places in the plan of the builds that are to be made now.
    pub fn next(&self, plan: &Plan, points: &[Point]) -> Vec<usize> {
        let records: Vec<BuildRecord> = self.builds.iter().map(|b| b.record.clone()).collect();
        let failed = failed(&self.incidents);
        let next = next_builds(&Known { plan, builds: &records, failed: &failed, points });
        next.into_iter().filter(|at| !self.is_made(&plan.builds[*at].label)).collect()
    }

    /// Whether a build has boots of its own.
    pub fn is_booted(&self, label: &str) -> bool {
        self.builds.iter().any(|b| b.record.label == label && b.record.same_image_as.is_none())
    }

    /// How many different images there are.
    pub fn different(&self) -> usize {
        self.builds.iter().filter(|b| b.record.same_image_as.is_none()).count()
    }

    fn is_made(&self, label: &str) -> bool {
        self.builds.iter().any(|b| b.record.label == label)
    }

    /// `builds.json`.
    pub fn file(&self) -> BuildsFile {
        BuildsFile { version: 1, builds: self.builds.iter().map(|b| b.record.clone()).collect() }
    }

    /// Puts the builds into the order of the plan, for everything that tells of them.
    pub fn in_plan_order(&mut self, plan: &Plan) {
        let at = |label: &str| plan.builds.iter().position(|b| b.label == label);
        self.builds.sort_by_key(|b| at(&b.record.label));
    }

    /// Takes a new build in, unless it may not be compared with the first one.
    fn take(&mut self, plan: &Plan, mut build: Build) -> Result<(), BuildError> {
        let label = build.record.label.clone();
        let source = plan.builds.iter().find(|b| b.label == label).and_then(|b| b.source.as_ref());
        if let Some(first) = self.builds.iter().find(|b| b.record.label == plan.builds[0].label) {
            agree(first, &mut build, source.map_or(&[], |s| &s.may_differ))?;
        }
        let image = &build.record.image_sha256;
        let same =
            self.builds.iter().find(|b| b.record.same_image_as.is_none() && b.record.image_sha256 == *image);
        build.record.same_image_as = same.map(|b| b.record.label.clone());
        if let Some(same_as) = build.record.same_image_as.clone() {
            self.incidents.push(Incident::IdenticalImage { build: label.clone(), same_as });
        }
        if !build.tampered.is_empty() {
            let shown: Vec<&str> = build.tampered.iter().take(6).map(String::as_str).collect();
            let more = build.tampered.len() - shown.len();
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            self.tampering.push((
                label,
                format!("wrote files into its source that no patch touches: {}{rest}", shown.join(", ")),
            ));
        }
        self.builds.push(build);
        Ok(())
    }

    /// Notes that a build failed, where that is the fault of its source.
    fn fail(&mut self, label: &str, error: BuildError) -> Result<(), Failure> {
        match error {
            BuildError::DoesNotCompile { .. }
            | BuildError::Limit { .. }
            | BuildError::Identity { .. }
            | BuildError::NoResult { .. } => {
                let (build, reason) = (label.to_owned(), error.to_string());
                self.incidents.push(Incident::BuildFailed { build, reason });
                Ok(())
            }
            other => Err(other.into()),
        }
    }
}

/// Labels of builds that cannot be made.
pub fn failed(incidents: &[Incident]) -> Vec<String> {
    let label = |incident: &Incident| match incident {
        Incident::BuildFailed { build, .. } => Some(build.clone()),
        Incident::IdenticalImage { .. } | Incident::NotBuilt { .. } | Incident::BootFailed { .. } => None,
    };
    incidents.iter().filter_map(label).collect()
}

/// Builds that start from one tree with one configuration: (place in the plan, patches).
struct Group<'a> {
    tree: &'a Tree,
    configuration: Configuration,
    builds: Vec<(usize, &'a [Patch])>,
}

/// Makes the builds at the places `wanted` of the plan and adds them to `kernels`.
///
/// # Errors
/// This machine fails, or somebody asked to stop.
pub fn build(
    context: Context<'_>,
    prepared: &Prepared,
    bundle: &Bundle,
    wanted: &[usize],
    kernels: &mut Kernels,
) -> Result<(), Failure> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for &at in wanted {
        let label = &prepared.plan.builds[at].label;
        match &prepared.sources[at] {
            Source::Ready(image) => {
                let taken = image.load(label).and_then(|build| kernels.take(&prepared.plan, build));
                taken.or_else(|error| kernels.fail(label, error))?;
            }
            source @ Source::Built { tree, patches, .. } => {
                let configuration =
                    source.configuration(&prepared.configuration).expect("what is built is configured");
                let known = groups.iter_mut().find(|g| g.tree == tree && g.configuration == configuration);
                match known {
                    Some(group) => group.builds.push((at, patches)),
                    None => groups.push(Group { tree, configuration, builds: vec![(at, patches)] }),
                }
            }
        }
    }
    for group in groups {
        build_group(context, prepared, bundle, &group, kernels)?;
    }
    bundle.write_builds(&kernels.file())?;
    Ok(())
}

fn build_group(
    context: Context<'_>,
    prepared: &Prepared,
    bundle: &Bundle,
    group: &Group<'_>,
    kernels: &mut Kernels,
) -> Result<(), Failure> {
    let logs = bundle.logs();
    let configuration = group.configuration.clone();
    let builder = Builder::new(context.cache, group.tree, configuration, context.interrupt, &logs)?;
    let label = |at: usize| prepared.plan.builds[at].label.as_str();
    match builder.configure() {
        Ok(_) => {}
        Err(BuildError::Config { symbols }) => {
            kernels.incidents.push(not_had(prepared, &symbols));
            for (at, _) in &group.builds {
                let error = BuildError::Config { symbols: symbols.clone() };
                let (build, reason) = (label(*at).to_owned(), error.to_string());
                kernels.incidents.push(Incident::BuildFailed { build, reason });
            }
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    }
    let base = {
        let phase = context.progress.phase("base kernel", Some(BASE_ESTIMATE));
        builder.base(&mut |p: Progress| phase.at(p.done, p.total, "objects"))
    };
    let base = match base {
        Ok(base) => base,
        // Without the first build there is nothing to compare with; without another one there is less.
        Err(error) if kernels.builds.is_empty() => return Err(error.into()),
        Err(error) => {
            let reason = error.to_string();
            kernels.fail(label(group.builds[0].0), error)?;
            for (at, _) in &group.builds[1..] {
                let build = label(*at).to_owned();
                kernels.incidents.push(Incident::BuildFailed { build, reason: reason.clone() });
            }
            return Ok(());
        }
    };
    let unpatched = group.builds.iter().filter(|(_, patches)| patches.is_empty());
    for (at, _) in unpatched {
        let mut build = base.clone();
        build.record.label = label(*at).to_owned();
        kernels.take(&prepared.plan, build).or_else(|error| kernels.fail(label(*at), error))?;
    }
    let patched: Vec<&(usize, &[Patch])> = group.builds.iter().filter(|(_, p)| !p.is_empty()).collect();
    if patched.is_empty() {
        return Ok(());
    }
    let estimate = PATCH_ESTIMATE * u32::try_from(patched.len()).unwrap_or(1);
    let phase = context.progress.phase("patched kernels", Some(estimate));
    let mut rest = patched.as_slice();
    while !rest.is_empty() {
        rest = build_chain(&builder, &base, prepared, rest, &phase, kernels)?;
    }
    Ok(())
}

/// Builds the first of `builds` and those that follow it with more patches on top, until one
/// fails; returns what is left to do.
fn build_chain<'a, 'b>(
    builder: &Builder<'_>,
    base: &Build,
    prepared: &Prepared,
    builds: &'a [&'b (usize, &'b [Patch])],
    phase: &super::progress::Phase<'_>,
    kernels: &mut Kernels,
) -> Result<&'a [&'b (usize, &'b [Patch])], Failure> {
    let label = |at: usize| prepared.plan.builds[at].label.clone();
    let extends = |pair: &[&(usize, &[Patch])]| pair[1].1.starts_with(pair[0].1);
    let length = 1 + builds.windows(2).take_while(|pair| extends(pair)).count();
    let longest = builds[length - 1].1;
    let series = Series {
        total: prepared.series.total.max(u32::try_from(longest.len()).unwrap_or(u32::MAX)),
        patches: longest.to_vec(),
        ..Series::default()
    };
    let counts: Vec<(usize, String)> =
        builds[..length].iter().map(|(at, patches)| (patches.len(), label(*at))).collect();
    let mut made = Vec::new();
    let outcome = builder.patched(
        base,
        &series,
        &counts,
        &mut |label, p| phase.at(0, 0, &format!("{label}: {} objects", p.done)),
        &mut |build| made.push(build),
    );
    let done = made.len();
    for build in made {
        let label = build.record.label.clone();
        kernels.take(&prepared.plan, build).or_else(|error| kernels.fail(&label, error))?;
    }
    match outcome {
        Ok(()) => Ok(&builds[length..]),
        Err(error) => {
            let failed = label(builds[done.min(length - 1)].0);
            kernels.fail(&failed, error)?;
            Ok(&builds[(done + 1).min(builds.len())..])
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
