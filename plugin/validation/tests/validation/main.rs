// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the pure stages through their public interface.

mod attribution;
mod blocks;
mod changed;
mod compare;
mod moved_cost;
mod orders;
mod path;
mod report;
mod time;
