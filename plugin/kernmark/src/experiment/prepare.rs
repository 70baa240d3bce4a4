// SPDX-License-Identifier: GPL-2.0-or-later
//! Before anything is built: source tree, patches, what they change, which options that takes, the plan.

use super::{Context, Progress, plan};
use crate::exit::Failure;
use crate::kernel::{AppliedSeries, Builder, Configuration, MINIMAL_CONFIG, Tree, TreeSource, apply};
use kernmark_validation::changed::config::Config;
use kernmark_validation::changed::options::{CannotBuild, FileOptions, FileState, options_for, switch_on};
use kernmark_validation::changed::series::{ChangedCode, changed_functions};
use kernmark_validation::mail::Series;
use kernmark_validation::plan::Plan;
use kernmark_validation::select::select;
use kernmark_validation::verdict::Incident;
use std::collections::BTreeSet;
use std::time::Duration;

const UNPACK_ESTIMATE: Duration = Duration::from_secs(25);

/// Workloads that there are.
const WORKLOADS: &[&str] = &["control.getppid", "kernfs.rmdir"];

/// Everything that is fixed before the first build.
#[derive(Debug)]
pub struct Prepared {
    /// The series, complete.
    pub series: Series,
    /// The unpacked base.
    pub tree: Tree,
    /// What the series changes.
    pub code: ChangedCode,
    /// What all kernels are configured with.
    pub configuration: Configuration,
    /// Files that cannot be built here.
    pub incidents: Vec<Incident>,
    /// Whether there is anything to build.
    pub buildable: bool,
    /// The frozen plan.
    pub plan: Plan,
}

/// Prepares `series`.
///
/// # Errors
/// There is no tree, or a patch does not apply to it.
pub fn prepare(context: Context<'_>, series: Series) -> Result<Prepared, Failure> {
    let Context { request, cache, progress, interrupt } = context;
    let workloads = workloads(&request.workloads, &series, progress)?;
    let source =
        TreeSource::find(request.tree.as_deref(), request.base.as_deref(), series.base_commit.as_deref())?;
    let tree = {
        let _phase = progress.phase("kernel source", Some(UNPACK_ESTIMATE));
        source.unpack(cache, interrupt)?
    };
    let applied = apply(&tree, &series, cache, interrupt)?;
    let patches: Vec<(u32, &str)> = series.patches.iter().map(|p| (p.index, p.diff.as_str())).collect();
    let code = changed_functions(&patches, &|path| tree.read(path));
    let files = {
        let _phase = progress.phase("configuration", None);
        let minimal =
            Builder::new(cache, &tree, Configuration::new(MINIMAL_CONFIG, &[]), interrupt, cache.root())?;
        let config = Config::parse(&minimal.configure()?);
        file_options(&tree, &applied, &config)
    };
    let incidents = not_built(&files);
    let buildable = !files.iter().all(|f| matches!(f.state, FileState::CannotBuild(_)));
    let options = switch_on(&files);
    if !options.is_empty() {
        progress.note(&format!(
            "switched on for all kernels, so that the series is compiled: {}",
            options.join(" ")
        ));
    }
    let plan = plan::plan(request, &series, &workloads);
    let configuration = Configuration::new(MINIMAL_CONFIG, &options);
    Ok(Prepared { series, tree, code, configuration, incidents, buildable, plan })
}

/// What it takes to compile each touched file, the series applied.
fn file_options(tree: &Tree, applied: &AppliedSeries, config: &Config) -> Vec<FileOptions> {
    let last = applied.states.last().cloned().unwrap_or_default();
    let touched: BTreeSet<&String> = applied.states.iter().flat_map(|s| s.keys()).collect();
    let files: Vec<String> = touched.iter().map(|f| (*f).clone()).collect();
    let read = |path: &str| {
        if touched.iter().any(|t| *t == path) { last.get(path).cloned() } else { tree.read(path) }
    };
    options_for(&files, &read, config)
}

fn not_built(files: &[FileOptions]) -> Vec<Incident> {
    files
        .iter()
        .filter_map(|file| {
            let FileState::CannotBuild(why) = &file.state else { return None };
            let option = match why {
                CannotBuild::Option { option, .. } | CannotBuild::MustBeOff(option) => Some(option.clone()),
                CannotBuild::Architecture(_) => None,
            };
            Some(Incident::NotBuilt { file: file.file.clone(), option, reason: why.to_string() })
        })
        .collect()
}

/// The workloads asked for, else those that the touched files select.
fn workloads(asked: &[String], series: &Series, progress: &Progress) -> Result<Vec<String>, Failure> {
    if let Some(unknown) = asked.iter().find(|a| !WORKLOADS.contains(&a.as_str())) {
        return Err(Failure::usage(format!(
            "--workload {unknown}: there is no such workload; there are {}",
            WORKLOADS.join(", ")
        )));
    }
    if !asked.is_empty() {
        return Ok(asked.to_vec());
    }
    let files: Vec<String> = series.patches.iter().flat_map(|p| p.files.iter().cloned()).collect();
    let selected = select(&files, WORKLOADS);
    for one in &selected {
        progress.note(&format!("workload {}: {}", one.workload, one.reason));
    }
    Ok(selected.into_iter().map(|s| s.workload).collect())
}
