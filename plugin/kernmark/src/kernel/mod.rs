// SPDX-License-Identifier: GPL-2.0-or-later
//! Source trees, patch application, sandboxed builds: a series becomes images.

mod apply;
mod build;
mod config;
mod error;
mod fragment;
mod identity;
mod image;
mod layers;
mod make_log;
mod ready;
mod recipe;
mod tree;

pub use apply::{AppliedSeries, apply};
pub use build::{Builder, Progress};
pub use config::{Configuration, canonical_sha256};
pub use error::BuildError;
pub use fragment::Fragment;
pub use identity::agree;
pub use image::Build;
pub use ready::ReadyImage;
pub use tree::{Tree, TreeSource};
