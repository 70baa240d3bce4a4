// SPDX-License-Identifier: GPL-2.0-or-later
//! Which functions a series changes, and whether the workloads executed them.
//!
//! SAME means something only for code that ran (statistics.md 3.10), so every
//! result says "executed: k of n changed functions".

pub mod apply;
pub mod boards;
pub mod callers;
pub mod config;
pub mod declaration;
pub mod diff;
pub mod expression;
pub mod fates;
pub mod functions;
pub mod kconfig;
pub mod makefile;
pub mod needs;
pub mod options;
pub mod paths;
pub mod series;
pub mod source;
pub mod system_map;

use serde::{Deserialize, Serialize};

/// A function whose body one of the patches changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChangedFunction {
    /// Source file, relative to the top of the tree.
    pub file: String,
    /// Linker symbol: the C identifier, for a system call its `__x64_sys_` entry.
    pub function: String,
    /// 1-based indices of the patches that change it.
    pub patches: Vec<u32>,
    /// Whether it is there on both sides.
    #[serde(default)]
    pub change: Change,
    /// `static` or `inline`: the compiler may merge it into its callers.
    #[serde(default)]
    pub local: bool,
    /// Marked `notrace` or `noinstr`: no profiler sees it.
    #[serde(default)]
    pub untraceable: bool,
    /// The `#if` conditions around the definition, outermost first.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// Functions of the same file that call it, or call such a caller that is
    /// local; where it runs once it is merged into them.
    #[serde(default)]
    pub callers: Vec<String>,
    /// The calls behind `callers`, as (caller, callee).
    #[serde(default)]
    pub calls: Vec<(String, String)>,
}

/// On which sides a changed function exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// On both, with another body.
    #[default]
    Changed,
    /// Only with the whole series applied.
    Added,
    /// Only in the base.
    Removed,
}

/// Where a changed function ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The file was not compiled, or the function vanished (unused static, `#if`).
    NotCompiled,
    /// Its file is compiled, but it has no symbol of its own: merged into its
    /// callers, or dropped by the compiler as unused.
    Inlined,
    /// In the image, but no workload ran it.
    NotExecuted,
    /// In the image and executed by a workload.
    Executed,
    /// In the image; whether it ran could not be observed (`notrace`, no profiler).
    Unknown,
}

/// A changed function with its fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionFate {
    /// The function.
    #[serde(flatten)]
    pub changed: ChangedFunction,
    /// Where it ended up.
    pub fate: Fate,
    /// For an inlined function: its callers that a workload executed.
    #[serde(default)]
    pub executed_callers: Vec<String>,
}

/// Every changed function and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// One entry for each changed function, by file and name.
    pub functions: Vec<FunctionFate>,
    /// Changed lines outside any function (structures, macros, data), by file: number of hunks.
    pub outside_functions: Vec<(String, u32)>,
}

impl Executed {
    /// Number of changed functions.
    pub fn changed(&self) -> usize {
        self.functions.len()
    }

    /// How many changed functions have this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.functions.iter().filter(|f| f.fate == fate).count()
    }

    /// Names of the changed functions with this fate.
    pub fn names(&self, fate: Fate) -> Vec<&str> {
        self.functions.iter().filter(|f| f.fate == fate).map(|f| f.changed.function.as_str()).collect()
    }
}
