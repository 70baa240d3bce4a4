// SPDX-License-Identifier: GPL-2.0-or-later
//! The pure stages of kernmark, in flow order: mail bytes to verdict and report.
//!
//! Deliberately absent: files, network, processes, clock, environment,
//! randomness. Every stage takes values and returns values that serialise to
//! one file of the bundle, so that any stage can be redone from its input.

pub mod attribution;
pub mod builds;
pub mod calls;
pub mod changed;
pub mod compare;
pub mod conclude;
pub mod deferred;
pub mod experiment;
pub mod findings;
pub mod mail;
pub mod plan;
pub mod profile;
pub mod report;
pub mod samples;
pub mod select;
pub mod verdict;
