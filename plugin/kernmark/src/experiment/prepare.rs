// SPDX-License-Identifier: GPL-2.0-or-later
//! Before anything is built: source tree, patches, what they change, which options that takes, the plan.

use super::{Context, Progress, plan};
use crate::exit::Failure;
use crate::kernel::{AppliedSeries, Builder, Configuration, Tree, TreeSource, apply};
use crate::runners::{BoardBinary, board_binary, catalogue};
use kernmark_validation::changed::config::Config;
use kernmark_validation::changed::options::{CannotBuild, FileOptions, FileState, options_for, switch_on};
use kernmark_validation::changed::series::{ChangedCode, changed_functions};
use kernmark_validation::mail::Series;
use kernmark_validation::plan::Plan;
use kernmark_validation::select::select;
use kernmark_validation::verdict::Incident;
use kernmark_wire::catalogue::Workload;
use std::collections::BTreeSet;
use std::time::Duration;

const UNPACK_ESTIMATE: Duration = Duration::from_secs(25);

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
    /// What measures in every boot.
    pub board: BoardBinary,
}

/// Prepares `series`.
///
/// # Errors
/// There is no tree, or a patch does not apply to it.
pub fn prepare(context: Context<'_>, series: Series) -> Result<Prepared, Failure> {
    let Context { request, cache, progress, interrupt } = context;
    let exe = std::env::current_exe().map_err(|e| Failure::host(format!("find this program: {e}")))?;
    let board = board_binary(request.board_binary.as_deref(), &exe)
        .map_err(|e| Failure::host(format!("failed to {e}")))?;
    let catalogue = catalogue(&board).map_err(|e| Failure::host(format!("failed to {e}")))?;
    let workloads = workloads(&request.workloads, &catalogue, &series, progress)?;
    let fragment = request.kernel_config;
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
        let plain = Configuration::new(fragment, &[]);
        let builder = Builder::new(cache, &tree, plain, interrupt, cache.root())?;
        let config = Config::parse(&builder.configure()?);
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
    let configuration = Configuration::new(fragment, &options);
    Ok(Prepared { series, tree, code, configuration, incidents, buildable, plan, board })
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
fn workloads(
    asked: &[String],
    catalogue: &[Workload],
    series: &Series,
    progress: &Progress,
) -> Result<Vec<Workload>, Failure> {
    let available: Vec<&Workload> = catalogue.iter().filter(|w| plan::emulated(w).next().is_some()).collect();
    let ids: Vec<&str> = available.iter().map(|w| w.id.as_str()).collect();
    if let Some(unknown) = asked.iter().find(|a| !ids.contains(&a.as_str())) {
        let why = if catalogue.iter().any(|w| w.id == *unknown) {
            "the emulator does not measure it"
        } else {
            "there is no such workload"
        };
        return Err(Failure::usage(format!("--workload {unknown}: {why}; there are {}", ids.join(", "))));
    }
    let chosen: Vec<String> = if asked.is_empty() {
        let files: Vec<String> = series.patches.iter().flat_map(|p| p.files.iter().cloned()).collect();
        let selected = select(&files, &ids);
        for one in &selected {
            progress.note(&format!("workload {}: {}", one.workload, one.reason));
        }
        selected.into_iter().map(|s| s.workload).collect()
    } else {
        asked.to_vec()
    };
    // In the order of the list, each once.
    Ok(available.into_iter().filter(|w| chosen.contains(&w.id)).cloned().collect())
}
