// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests over real parts: kernels, QEMU, git, kcidb-io. Run by `scripts/test`.

#[path = "system/board.rs"]
mod board;
#[path = "system/board_file.rs"]
mod board_file;
#[path = "system/experiment.rs"]
mod experiment;
#[path = "system/in_band.rs"]
mod in_band;
#[path = "system/kcidb.rs"]
mod kcidb;
#[path = "system/kernel.rs"]
mod kernel;
#[path = "system/kernel_trees.rs"]
mod kernel_trees;
#[path = "system/machine.rs"]
mod machine;
#[path = "system/plans.rs"]
mod plans;
#[path = "system/runner.rs"]
mod runner;
#[path = "system/runner_hostile.rs"]
mod runner_hostile;
#[path = "system/sandbox.rs"]
mod sandbox;
#[path = "system/sched_ext.rs"]
mod sched_ext;
#[path = "system/surroundings.rs"]
mod surroundings;
#[path = "system/verify.rs"]
mod verify;
