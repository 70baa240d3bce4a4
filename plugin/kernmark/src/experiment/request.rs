// SPDX-License-Identifier: GPL-2.0-or-later
//! What somebody asks of an experiment, and where it is run.

use crate::kernel::Fragment;
use std::path::PathBuf;

/// One validation of one series, as asked for on the command line.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the series comes from.
    pub series: SeriesSource,
    /// Kernel source; `None` takes Debian's `linux-source`.
    pub tree: Option<PathBuf>,
    /// Revision in a git tree; `None` takes the series' `base-commit`, else HEAD.
    pub base: Option<String>,
    /// One build for each patch instead of base and whole series.
    pub each_patch: bool,
    /// A change of at least this many percent is a regression.
    pub threshold_percent: f64,
    /// Workload ids; empty means those the touched paths select.
    pub workloads: Vec<String>,
    /// What the kernels are configured with.
    pub kernel_config: Fragment,
    /// Boots of each build; even, because an order is a palindrome.
    pub boots: u32,
    /// Where and by whom it is run.
    pub runtime: Runtime,
}

/// Where and by whom an experiment is run: nothing of this changes a number.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// Where the points run.
    pub runner: RunnerChoice,
    /// Bundle directory; `None` makes one in the working directory.
    pub out: Option<PathBuf>,
    /// Cache root; `None` takes the environment's.
    pub cache: Option<PathBuf>,
    /// Static board binary; `None` looks beside this program.
    pub board_binary: Option<PathBuf>,
    /// Who runs this, for the signature of the reply: `NAME <address>`.
    pub operator: Option<String>,
    /// The command line that repeats this, for the reply.
    pub repeat: String,
}

/// Where a series comes from.
#[derive(Debug, Clone)]
pub enum SeriesSource {
    /// Mail files; several are read as one mailbox.
    Files(Vec<PathBuf>),
    /// Mails that came with the program.
    Embedded {
        /// What to call it.
        name: &'static str,
        /// The mailbox.
        mbox: &'static [u8],
    },
    /// `A..B` in the git tree.
    Range(String),
}

/// Where the points run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunnerChoice {
    /// The deterministic emulator.
    Qemu,
    /// Point directories of an earlier bundle.
    Replay(PathBuf),
}
