// SPDX-License-Identifier: GPL-2.0-or-later
//! How a kernel boots and its log comes back.
