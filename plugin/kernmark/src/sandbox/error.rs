// SPDX-License-Identifier: GPL-2.0-or-later
//! Why the host could not run a sandboxed command.

use crate::exit::Failure;

/// Why the host could not run a sandboxed command.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A program of the sandbox itself is not installed.
    #[error("start the sandbox: {tool} is missing; install it with: apt-get install {package}")]
    ToolMissing {
        /// The program.
        tool: &'static str,
        /// Debian package that has it.
        package: &'static str,
    },
    /// Namespaces, mounts or directories were refused.
    #[error(
        "start the sandbox: {detail}. It needs user and mount namespaces: run outside of other containers, \
         as root, or allow them with: sysctl kernel.unprivileged_userns_clone=1"
    )]
    Refused {
        /// What the refusing tool said, escaped.
        detail: String,
    },
    /// Somebody asked to stop.
    #[error("finish: interrupted; the same command continues from what is there")]
    Interrupted,
    /// A file or process operation of ours failed.
    #[error("run a sandboxed command: {what}: {source}")]
    Host {
        /// What was being done.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        let message = format!("failed to {error}");
        match error {
            SandboxError::Interrupted => Self::missing(message),
            SandboxError::ToolMissing { .. } | SandboxError::Refused { .. } | SandboxError::Host { .. } => {
                Self::host(message)
            }
        }
    }
}
