// SPDX-License-Identifier: GPL-2.0-or-later
//! The static binary that measures inside the kernel under test: as PID 1 of a
//! guest, or as an ordinary program.

mod cli;
mod emit;
mod guardian;
mod init;
mod inotify;
mod list;
mod machine;
mod measure;
mod observe;
mod passes;
mod scx;
mod settle;
mod show;
mod signals;
mod stop;
mod workloads;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::process::id() == 1 { init::run() } else { cli::main().into() }
}
