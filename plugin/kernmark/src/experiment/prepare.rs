// SPDX-License-Identifier: GPL-2.0-or-later
//! Before anything is built: sources, patches, what they change, which options that takes, the plan.

use super::definition::Definition;
use super::sources::{Source, Trees, planned, sources};
use super::{Context, Progress, plan};
use crate::exit::Failure;
use crate::kernel::{AppliedSeries, Builder, Configuration, Fragment, Tree, apply};
use crate::runners::{BoardBinary, board_binary, catalogue};
use kernmark_validation::changed::config::Config;
use kernmark_validation::changed::options::{CannotBuild, FileOptions, FileState, options_for, switch_on};
use kernmark_validation::changed::series::{ChangedCode, changed_functions};
use kernmark_validation::experiment::{Experiment, ExperimentWorkload};
use kernmark_validation::mail::Series;
use kernmark_validation::plan::Plan;
use kernmark_validation::select::select;
use kernmark_validation::verdict::Incident;
use kernmark_wire::catalogue::Workload;
use std::collections::BTreeSet;

/// Everything that is fixed before the first build.
#[derive(Debug)]
pub struct Prepared {
    /// The plan as written, with everything filled in that it left open.
    pub experiment: Experiment,
    /// The series, complete.
    pub series: Series,
    /// Patches of builds that are not of the series: where the bundle keeps them, and their text.
    pub other_patches: Vec<(String, String)>,
    /// The unpacked base.
    pub tree: Tree,
    /// What each build is made of, in plan order.
    pub sources: Vec<Source>,
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
    /// What measures in every boot.
    pub board: BoardBinary,
}

/// Prepares an experiment.
///
/// # Errors
/// There is no tree, or a patch does not apply to it.
pub fn prepare(context: Context<'_>, definition: Definition) -> Result<Prepared, Failure> {
    let Context { runtime, progress, .. } = context;
    let exe = std::env::current_exe().map_err(|e| Failure::host(format!("find this program: {e}")))?;
    let board = board_binary(runtime.board_binary.as_deref(), &exe)
        .map_err(|e| Failure::host(format!("failed to {e}")))?;
    let catalogue = catalogue(&board).map_err(|e| Failure::host(format!("failed to {e}")))?;
    let workloads = workloads(&definition, &catalogue, progress)?;
    let fragment: Fragment = definition.experiment.kernel_config.parse().map_err(Failure::usage)?;
    let mut trees = Trees::default();
    let tree = trees.get(context, &definition, None)?;
    let sources = sources(context, &definition, &mut trees)?;
    let (series, code, files) = changes(context, &definition, &tree, fragment)?;
    let incidents = not_built(&files);
    let buildable = files.is_empty() || !files.iter().all(|f| matches!(f.state, FileState::CannotBuild(_)));
    let options = definition.experiment.options.clone().unwrap_or_else(|| {
        let options = switch_on(&files);
        if !options.is_empty() {
            progress.note(&format!(
                "switched on for all kernels, so that the series is compiled: {}",
                options.join(" ")
            ));
        }
        options
    });
    let plan = plan::plan(&definition.experiment, planned(&definition, &sources)?, &workloads)?;
    let configuration = Configuration::new(fragment, &options);
    let experiment = filled_in(definition.in_bundle()?, options, &plan);
    let other_patches = definition.other_patches();
    Ok(Prepared {
        experiment,
        series,
        other_patches,
        tree,
        sources,
        code,
        configuration,
        incidents,
        buildable,
        plan,
        board,
    })
}

/// The series, the code it changes, and what it takes to compile it.
fn changes(
    context: Context<'_>,
    definition: &Definition,
    tree: &Tree,
    fragment: Fragment,
) -> Result<(Series, ChangedCode, Vec<FileOptions>), Failure> {
    let Context { cache, progress, interrupt, .. } = context;
    let series = &definition.series;
    // Builds that do not all start from one base, each with more patches of one series, have no
    // common text to tell changed functions from.
    let one_base = (0..definition.experiment.builds.len()).all(|at| {
        let build = &definition.experiment.builds[at];
        build.commit.is_none() && build.image.is_none()
    });
    let in_series = (0..definition.patches.len()).all(|at| {
        let patches = &definition.patches[at];
        patches.iter().zip(&series.patches).all(|(one, other)| one.diff_sha256 == other.diff_sha256)
    });
    if !(one_base && in_series) || series.patches.is_empty() {
        return Ok((series.clone(), ChangedCode::default(), Vec::new()));
    }
    let applied = apply(tree, series, cache, interrupt)?;
    let patches: Vec<(u32, &str)> = series.patches.iter().map(|p| (p.index, p.diff.as_str())).collect();
    let code = changed_functions(&patches, &|path| tree.read(path));
    let _phase = progress.phase("configuration", None);
    let plain = Configuration::new(fragment, &[]);
    let builder = Builder::new(cache, tree, plain, interrupt, cache.root())?;
    let config = Config::parse(&builder.configure()?);
    Ok((series.clone(), code, file_options(tree, &applied, &config)))
}

/// The plan with everything that was chosen for it, so that it says all when it is read again.
fn filled_in(experiment: Experiment, options: Vec<String>, plan: &Plan) -> Experiment {
    let workloads = plan
        .workloads
        .iter()
        .map(|w| ExperimentWorkload { id: w.id.clone(), arms: Some(w.arms.clone()) })
        .collect();
    Experiment {
        options: Some(options),
        workloads: Some(workloads),
        bounds_percent: Some(plan.policy.metric_bounds_percent.clone()),
        primaries: Some(plan.policy.primaries.clone()),
        ..experiment
    }
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

/// The workloads asked for, else those that the touched files select; with the arms asked for.
fn workloads(
    definition: &Definition,
    catalogue: &[Workload],
    progress: &Progress,
) -> Result<Vec<Workload>, Failure> {
    let available: Vec<&Workload> = catalogue.iter().filter(|w| plan::emulated(w).next().is_some()).collect();
    let ids: Vec<&str> = available.iter().map(|w| w.id.as_str()).collect();
    let Some(asked) = &definition.experiment.workloads else {
        let patches = definition.patches.iter().flatten();
        let files: Vec<String> = patches.flat_map(|p| p.files.iter().cloned()).collect();
        let selected = select(&files, &ids);
        for one in &selected {
            progress.note(&format!("workload {}: {}", one.workload, one.reason));
        }
        let chosen = |w: &&&Workload| selected.iter().any(|s| s.workload == w.id);
        return Ok(available.iter().filter(chosen).map(|w| (*w).clone()).collect());
    };
    if let Some(unknown) = asked.iter().find(|a| !ids.contains(&a.id.as_str())) {
        let why = if catalogue.iter().any(|w| w.id == unknown.id) {
            "the emulator does not measure it"
        } else {
            "there is no such workload"
        };
        return Err(Failure::usage(format!("workload {}: {why}; there are {}", unknown.id, ids.join(", "))));
    }
    // In the order of the list, each once.
    available
        .into_iter()
        .filter_map(|workload| Some((workload, asked.iter().find(|a| a.id == workload.id)?)))
        .map(|(workload, asked)| with_arms(workload, asked))
        .collect()
}

/// The workload with the arms asked for only.
fn with_arms(workload: &Workload, asked: &ExperimentWorkload) -> Result<Workload, Failure> {
    let Some(arms) = &asked.arms else { return Ok(workload.clone()) };
    let there: Vec<&str> = plan::emulated(workload).map(|arm| arm.id.as_str()).collect();
    if let Some(unknown) = arms.iter().find(|arm| !there.contains(&arm.as_str())) {
        return Err(Failure::usage(format!(
            "workload {}: the emulator measures no arm {unknown}; there are {}",
            workload.id,
            there.join(", ")
        )));
    }
    let mut chosen = workload.clone();
    // The others stay in the list: the first one is the default, whose metrics have no prefix.
    for arm in &mut chosen.arms {
        arm.in_emulator &= arms.contains(&arm.id);
    }
    Ok(chosen)
}
