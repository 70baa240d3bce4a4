// SPDX-License-Identifier: GPL-2.0-or-later
//! How a kernel boots and its log comes back.

mod board_binary;
mod initramfs;

pub use board_binary::{BoardBinary, BoardBinaryError, Unsuitable, board_binary, check_static};
pub use initramfs::initramfs;
