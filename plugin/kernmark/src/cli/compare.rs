// SPDX-License-Identifier: GPL-2.0-or-later
//! `kernmark compare`: statistics on samples or points tables of any tool.

use crate::console::print;
use crate::exit::{Exit, Failure};
use kernmark_validation::compare::{
    Comparison, FSNOTIFY, Gates, KERNFS, OPEN, SHRINKER, VerdictName, block_figures, blocks_text, blocks_tsv,
    compare_file, read_blocks, read_tables, text, tsv,
};
use kernmark_validation::profile::{self, SampledProfile};
use kernmark_validation::samples::{Expected, parse_log};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest table that is read, bytes.
const MAX_BYTES: u64 = 256 << 20;
/// A path change of at least this many percent is a regression (interfaces.md).
const THRESHOLD_PERCENT: f64 = 5.0;

/// Compares the builds in samples or points tables.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Tables; one experiment may be spread over several, and each experiment is compared by itself.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The files are sampling profiles: what `kernmark-board profile --format jsonl` printed, or tables of
    /// percents; in the order in which they are to be told.
    #[arg(long, conflicts_with = "gates")]
    profile: bool,
    /// Rule set of the report view; by default the one of each workload.
    #[arg(long)]
    gates: Option<GatesName>,
    /// The tables hold blocks of many workers as stress-ng reports them: operations, real and CPU
    /// time. Rates, costs and blocked time of one operation come out, against the first block.
    #[arg(long, conflicts_with = "gates")]
    blocks: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum GatesName {
    /// Population CV <= 3 %, signed drift <= 2 %, every endpoint >= 5 %.
    Kernfs,
    /// Sample CV <= 15 %, drift <= 5 %, absolute and ratio metric >= 5 %; labels.
    Fsnotify,
    /// Sample CV <= 5 %, signed drift <= 3 %, every endpoint >= 5 %.
    Open,
    /// Sample CV <= 5 %, signed drift <= 5 %, every endpoint >= 10 %.
    Shrinker,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A table to read.
    Text,
    /// The comparison-summary columns of an evidence bundle.
    Tsv,
    /// Everything, with every endpoint.
    Json,
}

impl GatesName {
    fn gates(self) -> &'static Gates {
        match self {
            Self::Kernfs => &KERNFS,
            Self::Fsnotify => &FSNOTIFY,
            Self::Open => &OPEN,
            Self::Shrinker => &SHRINKER,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read, or its table cannot be compared.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut tables = Vec::new();
    for path in &arguments.files {
        tables.push((path.display().to_string(), read(path)?));
    }
    if arguments.blocks {
        print(&blocks(&tables, arguments.format)?)?;
        return Ok(Exit::Clean);
    }
    let borrowed: Vec<(&str, &str)> =
        tables.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    if arguments.profile {
        return profiles(&tables, arguments.format);
    }
    let points = read_tables(&borrowed).map_err(|error| Failure::usage(error.to_string()))?;
    let file = compare_file(&points, arguments.gates.map(GatesName::gates));
    let exit = exit(&file.comparisons);
    let printed = match arguments.format {
        Format::Text => text(&file),
        Format::Tsv => tsv(&file.comparisons),
        Format::Json => serde_json::to_string_pretty(&file)? + "\n",
    };
    print(&printed)?;
    Ok(exit)
}

/// Prints sampling profiles side by side.
fn profiles(files: &[(String, String)], format: Format) -> anyhow::Result<Exit> {
    let mut found = Vec::new();
    for (name, text) in files {
        found.extend(profiles_of(name, text)?);
    }
    let exit = if profile::doubts(&found).is_empty() { Exit::Clean } else { Exit::Missing };
    let printed = match format {
        Format::Text => profile::text(&found),
        Format::Tsv => profile::to_table(&found),
        Format::Json => serde_json::to_string_pretty(&found)? + "\n",
    };
    print(&printed)?;
    Ok(exit)
}

/// The profiles of one file.
fn profiles_of(name: &str, text: &str) -> Result<Vec<SampledProfile>, Failure> {
    if !text.starts_with(kernmark_wire::PREFIX) {
        return profile::from_table(name, text).map_err(|error| Failure::usage(error.to_string()));
    }
    let by_hand = Expected { point: "", protocol: "" };
    let log = parse_log(text.as_bytes(), b"", by_hand);
    if let Some(problem) = log.problems.first() {
        return Err(Failure::usage(format!("{name}: {problem}; record the profile again")));
    }
    let found = profile::from_log(name, &log);
    if !found.is_empty() {
        return Ok(found);
    }
    let missing = log.not_available.iter().find(|n| n.what == "sampling profile").map(|n| n.reason.clone());
    let skipped = log.skips.first().map(|skip| skip.reason.clone());
    let reason =
        missing.or(skipped).unwrap_or_else(|| "it has none; make one with kernmark-board profile".into());
    Err(Failure::usage(format!("{name}: no sampling profile: {reason}")))
}

/// Figures of blocks; nothing is claimed about them, since one run has no spread.
fn blocks(tables: &[(String, String)], format: Format) -> anyhow::Result<String> {
    let mut blocks = Vec::new();
    for (name, text) in tables {
        blocks.extend(read_blocks(name, text).map_err(|error| Failure::usage(error.to_string()))?);
    }
    let figures = block_figures(&blocks);
    Ok(match format {
        Format::Text => blocks_text(&figures),
        Format::Tsv => blocks_tsv(&figures),
        Format::Json => serde_json::to_string_pretty(&figures)? + "\n",
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let cannot = |error: std::io::Error| Failure::usage(format!("{name}: {error}; name a readable table"));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!(
            "{name}: larger than {MAX_BYTES} bytes; split the table by experiment"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        Failure::usage(format!("{name}:{line}: not UTF-8; write the table as plain text"))
    })
}

/// What the verdicts say, worst first.
fn exit(comparisons: &[Comparison]) -> Exit {
    let regression = |c: &Comparison| match c.verdict.name {
        VerdictName::Slower => true,
        VerdictName::Longer => c.verdict.change_percent.is_some_and(|change| change >= THRESHOLD_PERCENT),
        VerdictName::Faster
        | VerdictName::NoChange
        | VerdictName::Shorter
        | VerdictName::Same
        | VerdictName::Inconclusive => false,
    };
    if comparisons.iter().any(regression) {
        Exit::Regression
    } else if comparisons.iter().any(|c| c.verdict.name == VerdictName::Inconclusive) {
        Exit::Missing
    } else {
        Exit::Clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_cannot_be_read_say_what_to_do() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let path = directory.path().join("t.tsv");
        assert!(read(&path).expect_err("not there").to_string().ends_with("name a readable table"));
        std::fs::write(&path, b"# fine\n\xff\n").expect("a file");
        let failure = read(&path).expect_err("not text");
        assert!(failure.to_string().ends_with("t.tsv:2: not UTF-8; write the table as plain text"));
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[test]
    fn blocks_are_compared_over_all_tables_and_in_every_format() {
        let table = |row: &str| {
            let header = "state\tworkers\tcpus\tsuperblocks_per_op\tops\treal_s\tusr_s\tsys_s\n";
            ("t".to_owned(), format!("{header}{row}\n"))
        };
        let tables = [table("base\t9\t32\t2\t600\t60\t1\t9"), table("patched\t9\t32\t2\t300\t60\t1\t9")];
        for (format, part) in [
            (Format::Text, "change      real -50.00 %"),
            (Format::Tsv, "patched\t5\t30\t"),
            (Format::Json, "\"ops_per_s_percent\": -50.0"),
        ] {
            let printed = blocks(&tables, format).expect("good tables");
            assert!(printed.contains(part), "{part:?} is missing in\n{printed}");
        }
        let error = blocks(&[("t".into(), "x".into())], Format::Text).expect_err("no blocks");
        assert_eq!(error.downcast_ref::<Failure>().map(|f| f.exit), Some(Exit::Usage));
    }

    #[test]
    fn the_verdicts_decide_the_exit_code() {
        let header = "experiment\tpoint\tbuild\tboot\tworkload\tmetric\tunit\tbetter\tmedian\tcv_percent\n";
        for (unit, patched, exit_code) in [
            ("instructions", 100.0, Exit::Clean),
            ("instructions", 104.0, Exit::Clean),
            ("instructions", 106.0, Exit::Regression),
            ("instructions", 90.0, Exit::Clean),
            ("ns", 100.0, Exit::Missing),
        ] {
            let row =
                |boot, build, value| format!("e\tp{boot}\t{build}\t{boot}\tw\tm\t{unit}\tlower\t{value}\t\n");
            let table = header.to_owned() + &row(1, "base", 100.0) + &row(2, "patched", patched);
            let points = read_tables(&[("t", &table)]).expect("a good table");
            assert_eq!(exit(&compare_file(&points, None).comparisons), exit_code, "{unit} {patched}");
        }
    }
}
