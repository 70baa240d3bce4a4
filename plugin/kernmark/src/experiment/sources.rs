// SPDX-License-Identifier: GPL-2.0-or-later
//! What each build of an experiment is made of: a tree with patches and a configuration, or an
//! image that is there.

use super::Context;
use super::definition::Definition;
use crate::exit::Failure;
use crate::kernel::{Configuration, ReadyImage, Tree, TreeSource};
use kernmark_validation::builds::IdentityField;
use kernmark_validation::experiment::{ExperimentBuild, NamedOrder};
use kernmark_validation::mail::Patch;
use kernmark_validation::plan::{PlannedBuild, PlannedSource};
use std::path::Path;
use std::time::Duration;

const UNPACK_ESTIMATE: Duration = Duration::from_secs(25);

/// What a build is made of.
#[derive(Debug, Clone)]
pub enum Source {
    /// It has to be built.
    Built {
        /// The source it starts from.
        tree: Tree,
        /// What is applied to it.
        patches: Vec<Patch>,
        /// Lines of .config that are its own.
        config: Vec<String>,
    },
    /// It is booted as it is.
    Ready(ReadyImage),
}

/// Unpacked trees, each once.
#[derive(Debug, Default)]
pub struct Trees(Vec<(TreeSource, Tree)>);

impl Trees {
    /// The tree that the experiment starts from, or that of one commit.
    ///
    /// # Errors
    /// There is no such tree.
    pub fn get(
        &mut self,
        context: Context<'_>,
        definition: &Definition,
        commit: Option<&str>,
    ) -> Result<Tree, Failure> {
        let experiment = &definition.experiment;
        let path = experiment.tree.as_ref().map(|tree| definition.root.join(tree));
        let revision = commit.or(experiment.base.as_deref());
        let source = TreeSource::find(path.as_deref(), revision, definition.series.base_commit.as_deref())?;
        if let (Some(commit), TreeSource::Archive(_) | TreeSource::Directory(_)) = (commit, &source) {
            return Err(Failure::usage(format!(
                "commit {commit}: a build from a commit needs a git repository as tree"
            )));
        }
        if let Some((_, tree)) = self.0.iter().find(|(known, _)| *known == source) {
            return Ok(tree.clone());
        }
        let tree = {
            let _phase = context.progress.phase("kernel source", Some(UNPACK_ESTIMATE));
            source.unpack(context.cache, context.interrupt)?
        };
        self.0.push((source, tree.clone()));
        Ok(tree)
    }
}

/// The sources of all builds.
///
/// # Errors
/// A tree or an image is not there.
pub fn sources(
    context: Context<'_>,
    definition: &Definition,
    trees: &mut Trees,
) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for (build, patches) in definition.experiment.builds.iter().zip(&definition.patches) {
        sources.push(match &build.image {
            Some(image) => Source::Ready(ready(&definition.root, build, image)),
            None => Source::Built {
                tree: trees.get(context, definition, build.commit.as_deref())?,
                patches: patches.clone(),
                config: build.config.clone(),
            },
        });
    }
    Ok(sources)
}

fn ready(root: &Path, build: &ExperimentBuild, image: &str) -> ReadyImage {
    ReadyImage {
        image: root.join(image),
        config: build.image_config.as_ref().map(|path| root.join(path)),
        system_map: build.system_map.as_ref().map(|path| root.join(path)),
    }
}

/// The builds as the plan freezes them.
///
/// # Errors
/// An image cannot be read.
pub fn planned(definition: &Definition, sources: &[Source]) -> Result<Vec<PlannedBuild>, Failure> {
    let experiment = &definition.experiment;
    let mut builds = Vec::new();
    for (at, (build, source)) in experiment.builds.iter().zip(sources).enumerate() {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let window = experiment.order.is_some_and(NamedOrder::is_release_window);
        builds.push(match (definition.of_the_series(at).filter(|_| !window), source) {
            (Some(patches), _) => {
                PlannedBuild { label: build.label.clone(), patches: count(patches), source: None }
            }
            (None, source) => PlannedBuild {
                label: build.label.clone(),
                patches: count(definition.patches[at].len()),
                source: Some(described(build, source, window)?),
            },
        });
    }
    Ok(builds)
}

fn described(build: &ExperimentBuild, source: &Source, window: bool) -> Result<PlannedSource, Failure> {
    let mut may_differ = build.may_differ.clone();
    // A configuration of its own is the point of such a build, and releases have other options.
    if (!build.config.is_empty() || window) && !may_differ.contains(&IdentityField::Config) {
        may_differ.push(IdentityField::Config);
    }
    may_differ.sort();
    let (commit, image_sha256) = match source {
        Source::Built { tree, .. } => (tree.commit.clone().filter(|_| build.commit.is_some()), None),
        Source::Ready(image) => (None, Some(image.sha256()?)),
    };
    let patches = match source {
        Source::Built { patches, .. } => patches.iter().map(|p| p.diff_sha256.clone()).collect(),
        Source::Ready(_) => Vec::new(),
    };
    Ok(PlannedSource { commit, patches, config: build.config.clone(), image_sha256, may_differ })
}

impl Source {
    /// What it is configured with, on top of what all builds are; `None` for an image.
    pub fn configuration(&self, common: &Configuration) -> Option<Configuration> {
        match self {
            Self::Built { config, .. } => Some(common.clone().with_lines(config)),
            Self::Ready(_) => None,
        }
    }
}
