// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel configurations of the emulator: fragments of `kernel/`, merged
//! onto tinyconfig.

use std::fmt;
use std::str::FromStr;

const MINIMAL: &str = include_str!("../../../../kernel/minimal.config");
const SCHED_EXT: &str = include_str!("../../../../kernel/sched_ext.config");

/// A configuration of the emulator's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fragment {
    /// The smallest kernel that runs the workloads in their default arms.
    #[default]
    Minimal,
    /// That and what loading a scheduler, ext4 and XFS need.
    SchedExt,
}

/// A program that a build starts, and the Debian package it is in.
pub(super) type Program = (&'static str, &'static str);

/// pahole makes BTF of debug information.
pub(super) const PAHOLE: Program = ("pahole", "dwarves");

impl Fragment {
    /// In the order of their size.
    pub const ALL: [Self; 2] = [Self::Minimal, Self::SchedExt];

    /// The name that `--kernel-config` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::SchedExt => "sched_ext",
        }
    }

    /// What is merged onto tinyconfig.
    pub fn text(self) -> String {
        match self {
            Self::Minimal => MINIMAL.to_owned(),
            Self::SchedExt => format!("{MINIMAL}\n{SCHED_EXT}"),
        }
    }

    /// Programs that building it starts beyond those of every kernel.
    pub(super) fn programs(self) -> &'static [Program] {
        match self {
            Self::Minimal => &[],
            Self::SchedExt => &[PAHOLE],
        }
    }

    /// Whether it has block devices and file systems on them.
    pub fn has_file_systems(self) -> bool {
        match self {
            Self::Minimal => false,
            Self::SchedExt => true,
        }
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fragment {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            format!("there is no kernel configuration of this name; there are {all}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for fragment in Fragment::ALL {
            assert_eq!(fragment.to_string().parse(), Ok(fragment));
        }
        let error = "tiny".parse::<Fragment>().expect_err("no such fragment");
        assert!(error.ends_with("there are minimal, sched_ext"), "{error}");
    }

    #[test]
    fn the_larger_one_comes_after_the_smaller_one() {
        let text = Fragment::SchedExt.text();
        assert!(text.starts_with(MINIMAL) && text.ends_with(SCHED_EXT));
        assert!(!MINIMAL.contains("CONFIG_BLOCK=y"), "the last one of a symbol wins");
    }
}
