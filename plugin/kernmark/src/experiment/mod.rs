// SPDX-License-Identifier: GPL-2.0-or-later
//! The main job: a request in, a bundle with verdict and reports out.

mod progress;
mod request;

pub use progress::Progress;
pub use request::{Request, RunnerChoice, SeriesSource};
