// SPDX-License-Identifier: GPL-2.0-or-later
//! How a kernel boots and its log comes back.
//!
//! A [`Runner`] makes boots and says how their machines ended; [`judge`] says
//! what became of them; a [`Schedule`] runs many and keeps each as a point
//! directory, so that a second run continues from what is there.

mod board_binary;
mod boot;
mod file_systems;
mod initramfs;
mod outcome;
mod point_directory;
mod qemu;
mod repeats;
mod replay;
mod schedule;

pub use board_binary::{BoardBinary, BoardBinaryError, Unsuitable, board_binary, catalogue, check_static};
pub use boot::{Boot, BootError, Input, Watchdog};
pub use file_systems::file_systems;
pub use initramfs::{FileSystemImage, initramfs};
pub use outcome::{Fault, MachineEnd, Outcome, judge};
pub use point_directory::{BootKey, PointRecord, StoredPoint, read_point};
pub use qemu::QemuRunner;
pub use repeats::{BrokenRepeat, broken_repeats};
pub use replay::ReplayRunner;
pub use schedule::{FinishedPoint, Schedule, Step};

use crate::cache::CacheError;
use crate::exit::Failure;
use crate::sandbox::SandboxError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where points run.
pub trait Runner {
    /// `qemu`, `replay` ...
    fn name(&self) -> &'static str;

    /// Version of what executes the kernel; numbers of two versions do not mix.
    fn version(&self) -> &str;

    /// Boots that may run at one time.
    fn parallel(&self) -> usize;

    /// The command line that makes this boot. Starts nothing.
    ///
    /// # Errors
    /// The boot cannot be expressed.
    fn prepare(&self, boot: &Boot) -> Result<Vec<String>, BootError>;

    /// Starts a boot. `directory` is empty and its own until it has ended.
    ///
    /// # Errors
    /// It cannot be started.
    fn start(&self, boot: &Boot, directory: &Path) -> Result<Handle, RunnerError>;

    /// Asks how far a boot is; after [`Progress::Ended`] the handle is void.
    ///
    /// # Errors
    /// The host failed, or the handle is void.
    fn poll(&self, handle: &Handle) -> Result<Progress, RunnerError>;

    /// Ends a boot at once; nothing of it is left running.
    fn cancel(&self, handle: &Handle);
}

/// A boot that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handle {
    /// Name of the runner.
    pub runner: String,
    /// The directory it got.
    pub directory: PathBuf,
}

/// How far a boot is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Under way.
    Running,
    /// Over.
    Ended(Recording),
}

/// What a boot left; all of it hostile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// How its machine ended.
    pub end: MachineEnd,
    /// What came over the results port.
    pub results: Vec<u8>,
    /// What came over the console.
    pub console: Vec<u8>,
}

/// Why boots cannot be made here. What a kernel does wrong is an [`Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The emulator is not installed.
    #[error("find qemu-system-x86_64; install it with: apt-get install qemu-system-x86")]
    QemuMissing,
    /// Another program is not installed.
    #[error("find {program}; install it with: apt-get install {package}")]
    ProgramMissing {
        /// The program.
        program: &'static str,
        /// Debian's package of it.
        package: &'static str,
    },
    /// The boot cannot be expressed.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The sandbox does not work.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The disk is full or broken.
    #[error("store a point: {0}")]
    Store(#[from] CacheError),
    /// A file or process operation failed.
    #[error("{what}: {source}")]
    Host {
        /// What was being done.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A handle of another program, or of a boot that has ended.
    #[error("follow a boot in {}: it ended with the program that started it; run the point again", directory.display())]
    Unknown {
        /// Its directory.
        directory: PathBuf,
    },
    /// Two programs must not write one bundle.
    #[error("use {}: another kernmark is working there; wait for it, or choose another --out", directory.display())]
    Busy {
        /// The directory.
        directory: PathBuf,
    },
    /// Somebody asked to stop.
    #[error("finish: interrupted after {done} of {total} boots; the same command continues from there")]
    Interrupted {
        /// Points that are kept.
        done: usize,
        /// Points asked for.
        total: usize,
    },
}

impl From<RunnerError> for Failure {
    fn from(error: RunnerError) -> Self {
        let message = format!("failed to {error}");
        match error {
            RunnerError::Boot(_) => Self::usage(message),
            RunnerError::Interrupted { .. }
            | RunnerError::Sandbox(SandboxError::Interrupted)
            | RunnerError::Store(CacheError::Interrupted) => Self::missing(message),
            RunnerError::QemuMissing
            | RunnerError::ProgramMissing { .. }
            | RunnerError::Sandbox(_)
            | RunnerError::Store(_)
            | RunnerError::Host { .. }
            | RunnerError::Unknown { .. }
            | RunnerError::Busy { .. } => Self::host(message),
        }
    }
}
