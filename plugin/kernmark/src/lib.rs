// SPDX-License-Identifier: GPL-2.0-or-later
//! Every effect of kernmark lives here: processes, files, clock, network.

pub mod bundle;
pub mod cache;
pub mod cli;
pub mod exit;
pub mod experiment;
pub mod interrupt;
pub mod kernel;
pub mod runners;
pub mod sandbox;
