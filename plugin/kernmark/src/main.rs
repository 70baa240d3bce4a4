// SPDX-License-Identifier: GPL-2.0-or-later
//! The `kernmark` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    kernmark::cli::main()
}
