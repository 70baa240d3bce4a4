// SPDX-License-Identifier: GPL-2.0-or-later
//! `kernmark check`: the main job on a series.

use crate::console::print;
use crate::exit::{Exit, Failure};
use crate::experiment::{self, Concluded, Progress, Request, RunnerChoice, Runtime, SeriesSource};
use crate::interrupt::Interrupt;
use crate::kernel::Fragment;
use kernmark_validation::report::{self, Templates};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Builds base and patched kernels, boots them, and says whether anything got longer.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Mail files (mailbox, single mails, patches), or a range like v6.12..topic in the git tree.
    #[arg(required = true)]
    series: Vec<OsString>,
    /// Kernel source: a git repository, a directory, or an archive; Debian's linux-source by default.
    #[arg(long)]
    tree: Option<PathBuf>,
    /// Commit that the series applies to; its base-commit by default, else HEAD.
    #[arg(long)]
    base: Option<String>,
    /// Where the kernels run.
    #[arg(long, value_parser = ["qemu", "replay"], default_value = "qemu")]
    runner: String,
    /// Bundle whose boots are replayed, with --runner replay.
    #[arg(long, value_name = "DIR", required_if_eq("runner", "replay"))]
    replay: Option<PathBuf>,
    /// Build one kernel for each patch, to see which one costs.
    #[arg(long)]
    each_patch: bool,
    #[command(flatten)]
    common: Common,
}

/// Options of `check` and `try` that shape the experiment.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// A change of at least this many percent is a regression (exit code 1).
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = threshold)]
    threshold: f64,
    /// Workload to measure; all by default.
    #[arg(long = "workload", value_name = "ID")]
    workloads: Vec<String>,
    /// Kernel configuration: minimal, or sched_ext, which also has BPF, ext4 and XFS and takes longer
    /// to build.
    #[arg(long, value_name = "NAME", default_value_t, value_parser = str::parse::<Fragment>)]
    kernel_config: Fragment,
    /// Boots of each kernel; even, because the order is a palindrome.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = boots)]
    boots: u32,
    /// Directory for everything of this experiment; by default one is made here, named after the series.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

/// Options of every command that runs an experiment.
#[derive(Debug, clap::Args)]
pub struct Running {
    /// How the result is printed; `try` prints the reply.
    #[arg(long, default_value = "text", value_parser = report::FORMATS.iter().map(|f| f.name).collect::<Vec<_>>())]
    format: String,
    /// Directory for what is expensive: sources and builds.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// The static kernmark-board; found beside this program by default.
    #[arg(long, value_name = "FILE")]
    board_binary: Option<PathBuf>,
    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
///
/// # Errors
/// Bad input, or this machine failed.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let range = match arguments.series.as_slice() {
        [one] if !Path::new(one).exists() => one.to_str().filter(|one| one.contains("..")),
        _ => None,
    };
    let series = match range {
        Some(range) => SeriesSource::Range(range.to_owned()),
        None => SeriesSource::Files(arguments.series.iter().map(PathBuf::from).collect()),
    };
    let request = arguments.common.request(
        series,
        Own {
            tree: arguments.tree.clone(),
            base: arguments.base.clone(),
            runner: arguments.replay.clone().map_or(RunnerChoice::Qemu, RunnerChoice::Replay),
            each_patch: arguments.each_patch,
        },
    );
    let concluded = arguments.common.conclude(&request)?;
    print_report(&concluded, arguments.common.running.format())?;
    Ok(concluded.exit)
}

/// What `check` has beyond the common options.
pub struct Own {
    /// See [`Request::tree`].
    pub tree: Option<PathBuf>,
    /// See [`Request::base`].
    pub base: Option<String>,
    /// See [`Runtime::runner`].
    pub runner: RunnerChoice,
    /// See [`Request::each_patch`].
    pub each_patch: bool,
}

impl Common {
    /// The request these options make.
    pub fn request(&self, series: SeriesSource, own: Own) -> Request {
        Request {
            series,
            tree: own.tree,
            base: own.base,
            each_patch: own.each_patch,
            threshold_percent: self.threshold,
            workloads: self.workloads.clone(),
            kernel_config: self.kernel_config,
            boots: self.boots,
            runtime: self.running.runtime(self.out.clone(), own.runner),
        }
    }

    /// Runs the experiment with progress, and says where everything is.
    ///
    /// # Errors
    /// Bad input, or this machine failed.
    pub fn conclude(&self, request: &Request) -> Result<Concluded, Failure> {
        self.running.follow(|progress, interrupt| experiment::check(request, progress, interrupt))
    }
}

impl Running {
    /// Name of the report that is printed.
    pub fn format(&self) -> &str {
        &self.format
    }

    /// Where and by whom an experiment is run.
    pub fn runtime(&self, out: Option<PathBuf>, runner: RunnerChoice) -> Runtime {
        Runtime {
            runner,
            out,
            cache: self.cache.clone(),
            board_binary: self.board_binary.clone(),
            operator: None,
            repeat: repeat(std::env::args_os()),
        }
    }

    /// Runs an experiment with progress, and says where everything is.
    ///
    /// # Errors
    /// Bad input, or this machine failed.
    pub fn follow(
        &self,
        run: impl FnOnce(&Progress, &Interrupt) -> Result<Concluded, Failure>,
    ) -> Result<Concluded, Failure> {
        let interrupt =
            Interrupt::on_signals().map_err(|e| Failure::host(format!("install signal handlers: {e}")))?;
        let progress = Progress::new(self.quiet);
        let concluded = run(&progress, &interrupt)?;
        let phases = progress.summary();
        if !phases.is_empty() {
            progress.note(&format!("phases: {phases}"));
        }
        let page = concluded.bundle.path().join("report.html");
        progress.note(&format!(
            "page: {}, everything: {}",
            page.display(),
            concluded.bundle.path().display()
        ));
        Ok(concluded)
    }
}

/// Prints one report to standard output.
///
/// # Errors
/// The report cannot be made.
pub fn print_report(concluded: &Concluded, format: &str) -> Result<(), Failure> {
    let format = report::format(format).ok_or_else(|| Failure::usage("unknown format"))?;
    let text = (format.render)(&concluded.findings, &Templates::default())
        .map_err(|e| Failure::usage(e.to_string()))?;
    print(&text)
}

/// The command line as it was given, the program by its name, words quoted where a shell needs it.
fn repeat(arguments: impl Iterator<Item = OsString>) -> String {
    let quoted = |word: OsString| {
        let word = match word.into_string() {
            Ok(word) => word,
            // As bash takes any byte: $'...'.
            Err(word) => return format!("$'{}'", word.as_bytes().escape_ascii()),
        };
        let plain =
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c));
        if plain { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    std::iter::once("kernmark".to_owned()).chain(arguments.skip(1).map(quoted)).collect::<Vec<_>>().join(" ")
}

fn threshold(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("a number of percent above 0 is needed".into()),
    }
}

fn boots(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(n) if n >= 2 && n % 2 == 0 && n <= 200 => Ok(n),
        _ => Err("an even number from 2 to 200 is needed: each palindrome boots every kernel twice".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn the_repeated_command_survives_a_shell() {
        let words = ["/x/kernmark", "check", "a b.mbox", "it's", "--boots", "4"].map(OsString::from);
        assert_eq!(repeat(words.into_iter()), "kernmark check 'a b.mbox' 'it'\\''s' --boots 4");
        let words = [OsString::from("kernmark"), OsString::from_vec(b"f\xff'".to_vec())];
        assert_eq!(repeat(words.into_iter()), r"kernmark $'f\xff\''");
    }

    #[test]
    fn odd_numbers_are_refused() {
        assert_eq!(boots("6"), Ok(6));
        for text in ["0", "3", "-2", "x", "1000"] {
            assert!(boots(text).is_err(), "{text}");
        }
        assert_eq!(threshold("0.5"), Ok(0.5));
        for text in ["0", "NaN", "inf", "-1", ""] {
            assert!(threshold(text).is_err(), "{text}");
        }
    }
}
