// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a stranger's code: one command in bubblewrap, without network, with a
//! read-only system, its own few directories, and limits on everything.
//!
//! What the command sees: `/usr` and the part of `/etc` a compiler needs, a
//! small private `/tmp`, the directories it was given, and no process but its
//! own. Started by root it runs as uid 65534, because RLIMIT_NPROC does not
//! bind root; started by anybody else it runs as that user, whose other files
//! are simply not there. Nested user namespaces are off.
//!
//! Directories reach bubblewrap through a private mount namespace: there an
//! overlay can be mounted (bubblewrap 0.8 has no option for one), and uid
//! 65534 need not be able to walk to a cache below `/root`.

mod arguments;
mod error;
mod watch;

pub use error::SandboxError;
pub use watch::{Captured, Ending, Finished, NetworkUse};

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Uid and gid inside every sandbox, and outside too when root starts it.
pub const SANDBOX_UID: u32 = 65534;

/// What a sandboxed command may use. All sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Processes and threads at one time.
    pub processes: u32,
    /// Resident memory of all processes together.
    pub memory: u64,
    /// Address space of one process.
    pub address_space: u64,
    /// Size of one file.
    pub file: u64,
    /// Growth of all writable directories together.
    pub written: u64,
    /// New files in all writable directories together.
    pub files: u64,
    /// CPU seconds of one process.
    pub cpu_s: u64,
    /// Size of the private `/tmp`.
    pub tmp: u64,
    /// Kept of each of standard output and standard error: the beginning and the end.
    pub captured: usize,
}

const GIB: u64 = 1 << 30;

impl Limits {
    /// For compilers: a kernel build stays far below each of these.
    pub const BUILD: Self = Self {
        processes: 512,
        memory: 6 * GIB,
        address_space: 4 * GIB,
        file: 2 * GIB,
        written: 8 * GIB,
        files: 200_000,
        cpu_s: 1800,
        tmp: GIB / 2,
        captured: 4 << 20,
    };

    /// For short tools like `git apply`.
    pub const TOOL: Self = Self {
        processes: 64,
        memory: 2 * GIB,
        address_space: 2 * GIB,
        file: GIB,
        written: GIB,
        files: 20_000,
        cpu_s: 120,
        tmp: GIB / 16,
        captured: 1 << 20,
    };
}

/// One overlay: what is below stays as it is, changes go to `upper`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// Read-only layers, topmost first.
    pub lower: Vec<PathBuf>,
    /// Receives every change; must be writable for the sandbox user.
    pub upper: PathBuf,
    /// Empty directory on the file system of `upper`, for the kernel.
    pub work: PathBuf,
}

/// Where the content of one directory or file inside the sandbox comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Path(PathBuf),
    Overlay(Overlay),
}

/// One directory or file inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Binding {
    source: Source,
    inside: PathBuf,
    writable: bool,
}

/// A command and what it may touch; [`Sandbox::run`] runs it.
#[derive(Debug)]
pub struct Sandbox {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    bindings: Vec<Binding>,
    directory: PathBuf,
    limits: Limits,
    stdin: Stdio,
}

impl Sandbox {
    /// A command that may touch nothing yet. `program` is looked up in the
    /// fixed PATH inside.
    pub fn command(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            bindings: Vec::new(),
            directory: PathBuf::from("/tmp"),
            limits: Limits::TOOL,
            stdin: Stdio::null(),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// One variable of the otherwise fixed environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Shows the file or directory `host` at `inside`, read-only.
    #[must_use]
    pub fn read_only(self, host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        self.bind(Source::Path(host.into()), inside.into(), false)
    }

    /// Shows the directory `host` at `inside`, writable. As root, give it to
    /// uid 65534 first ([`give_to_sandbox`]).
    #[must_use]
    pub fn writable(self, host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        self.bind(Source::Path(host.into()), inside.into(), true)
    }

    /// Shows an overlay at `inside`. `writable` false shows it without letting
    /// the command change it.
    #[must_use]
    pub fn overlay(self, overlay: Overlay, inside: impl Into<PathBuf>, writable: bool) -> Self {
        self.bind(Source::Overlay(overlay), inside.into(), writable)
    }

    fn bind(mut self, source: Source, inside: PathBuf, writable: bool) -> Self {
        self.bindings.push(Binding { source, inside, writable });
        self
    }

    /// Working directory inside; `/tmp` unless told otherwise.
    #[must_use]
    pub fn directory(mut self, inside: impl Into<PathBuf>) -> Self {
        self.directory = inside.into();
        self
    }

    /// Other limits than [`Limits::TOOL`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Standard input; nothing unless told otherwise.
    #[must_use]
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Runs the command to its end, to `timeout`, to a limit or to `interrupt`,
    /// whichever comes first. When this returns none of its processes is left.
    ///
    /// # Errors
    /// The host cannot run it, or `interrupt` was set. Whatever the command
    /// itself did, also wrong, is an [`Ending`].
    pub fn run(self, timeout: Duration, interrupt: &AtomicBool) -> Result<Finished, SandboxError> {
        self.run_observed(timeout, interrupt, &mut |_| {})
    }

    /// As [`Sandbox::run`]; `observe` gets standard output piece by piece as it comes.
    ///
    /// # Errors
    /// As [`Sandbox::run`].
    pub fn run_observed(
        self,
        timeout: Duration,
        interrupt: &AtomicBool,
        observe: &mut dyn FnMut(&[u8]),
    ) -> Result<Finished, SandboxError> {
        watch::run(self, timeout, interrupt, observe)
    }

    /// Directories whose growth counts against [`Limits::written`].
    fn written_directories(&self) -> Vec<PathBuf> {
        self.bindings
            .iter()
            .filter(|binding| binding.writable)
            .map(|binding| match &binding.source {
                Source::Path(path) => path.clone(),
                Source::Overlay(overlay) => overlay.upper.clone(),
            })
            .collect()
    }
}

/// Whether `program` is where sandboxed commands look for programs.
pub fn is_installed(program: &str) -> bool {
    arguments::PATH.split(':').any(|directory| Path::new(directory).join(program).exists())
}

/// Makes the existing directory `path` writable for sandboxed commands: as
/// root it goes to uid 65534, otherwise it is the caller's already.
///
/// # Errors
/// `path` cannot be changed.
pub fn give_to_sandbox(path: &Path) -> std::io::Result<()> {
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(SANDBOX_UID), Some(SANDBOX_UID))?;
    }
    Ok(())
}
