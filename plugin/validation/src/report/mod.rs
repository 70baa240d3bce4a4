// SPDX-License-Identifier: GPL-2.0-or-later
//! Findings to a report: one file for each format.
