// SPDX-License-Identifier: GPL-2.0-or-later
//! Why there is no image, and whose fault that is.

use crate::cache::CacheError;
use crate::exit::{Exit, Failure};
use crate::sandbox::{Ending, SandboxError};
use std::path::PathBuf;

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No source tree where one was expected.
    #[error("{0}")]
    NoTree(String),
    /// A patch does not apply as `git am` would apply it, without fuzz.
    #[error(
        "patch {patch}/{total} \"{subject}\" does not apply: {place}\nThe series was made against another tree; name it with --tree and --base"
    )]
    DoesNotApply {
        /// 1-based.
        patch: u32,
        /// Patches in the series.
        total: u32,
        /// Without prefixes.
        subject: String,
        /// `fs/kernfs/dir.c hunk #2 (line 1480)`.
        place: String,
    },
    /// The compiler, or another step of the build, failed.
    #[error("{side} does not compile: {first_error}\nThe whole build log is in {}", log.display())]
    DoesNotCompile {
        /// Build label, for a person.
        side: String,
        /// The first error line.
        first_error: String,
        /// The whole log.
        log: PathBuf,
    },
    /// The build ran into a limit of the sandbox.
    #[error("building {side}: {ending}")]
    Limit {
        /// Build label, for a person.
        side: String,
        /// Which limit.
        ending: Ending,
    },
    /// A symbol of the fragment, or one asked for, did not stay as asked.
    #[error("the kernel configuration cannot be had: {}", symbols.join(", "))]
    Config {
        /// `CONFIG_X: asked y, got n`.
        symbols: Vec<String>,
    },
    /// The sides differ in more than their source.
    #[error("{side} cannot be compared with {reference}: they differ in {}", fields.join(", "))]
    Identity {
        /// Build label.
        side: String,
        /// Label of the build it would be compared with.
        reference: String,
        /// What differs.
        fields: Vec<String>,
    },
    /// A program is missing.
    #[error("{program} is missing; install it with: apt-get install {package}")]
    ToolMissing {
        /// The program.
        program: &'static str,
        /// Debian package that has it.
        package: &'static str,
    },
    /// What the build left is not what it should be.
    #[error("building {side} left no usable {what}")]
    NoResult {
        /// Build label.
        side: String,
        /// `image`, `System.map` ...
        what: &'static str,
    },
    /// The cached base is not what was built.
    #[error(
        "the base in the cache changed while it was used ({}); nothing measured with it counts. \
         Start again: it is built anew", place.display()
    )]
    BaseChanged {
        /// The entry.
        place: PathBuf,
    },
    /// The sandbox could not run it, or somebody asked to stop.
    #[error("failed to {0}")]
    Sandbox(#[from] SandboxError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl BuildError {
    /// Whose fault it is.
    pub fn exit(&self) -> Exit {
        match self {
            Self::NoTree(_) | Self::DoesNotApply { .. } => Exit::Usage,
            Self::DoesNotCompile { .. }
            | Self::Limit { .. }
            | Self::Config { .. }
            | Self::Identity { .. }
            | Self::NoResult { .. }
            | Self::Sandbox(SandboxError::Interrupted)
            | Self::Cache(CacheError::Interrupted) => Exit::Missing,
            Self::ToolMissing { .. } | Self::BaseChanged { .. } | Self::Sandbox(_) | Self::Cache(_) => {
                Exit::Host
            }
        }
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self { exit: error.exit(), message: error.to_string() }
    }
}
