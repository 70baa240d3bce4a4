// SPDX-License-Identifier: GPL-2.0-or-later
//! The static binary that measures inside the kernel under test.

fn main() {}
