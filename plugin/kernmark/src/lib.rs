// SPDX-License-Identifier: GPL-2.0-or-later
//! Every effect of kernmark lives here: processes, files, clock, network.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "a closed pipe would panic; see console")]

pub mod bundle;
pub mod cache;
pub mod cli;
pub mod console;
pub mod exit;
pub mod experiment;
pub mod interrupt;
pub mod kernel;
pub mod runners;
pub mod sandbox;
