// SPDX-License-Identifier: GPL-2.0-or-later
//! What became of each changed function: compiled, merged, executed.
//!
//! The compiler decides what has a symbol of its own; the profiling boot says
//! which symbols ran. What neither can tell is [`Fate::Unknown`], never a guess.

use super::config::Config;
use super::paths::{self, FileKind};
use super::system_map::SystemMap;
use super::{Change, ChangedFunction, Executed, Fate, FunctionFate};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of one side: its build and its profiling boot.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// Object files of the build, relative to its top: `fs/kernfs/dir.o`. May
    /// also hold the sources and headers they were made from, which is the only
    /// way to know that a header or a `.c` file included by another was compiled.
    pub objects: &'a BTreeSet<String>,
    /// System.map of the image.
    pub system_map: &'a SystemMap,
    /// Code symbols by object file, from `nm`, where known: tells functions of
    /// the same name in different files apart.
    pub object_symbols: Option<&'a BTreeMap<String, BTreeSet<String>>>,
    /// The `.config`, where known: decides `#if` lines.
    pub config: Option<&'a Config>,
    /// Functions with hits in the profiling boot; `None` when there was none.
    pub executed: Option<&'a BTreeSet<String>>,
    /// Functions the profiler can see (`available_filter_functions`), where known.
    pub traceable: Option<&'a BTreeSet<String>>,
}

/// Below this size GCC also copies a function into callers although it keeps
/// its symbol (`-finline-small-functions`), bytes.
const SMALL_FUNCTION: u64 = 128;

/// Judges every changed function: with the base where the series removes it,
/// with the patched side where the series adds it, else with both, where the
/// side that says more counts.
pub fn fates(
    changed: Vec<ChangedFunction>,
    outside_functions: Vec<(String, u32)>,
    base: &Observed<'_>,
    patched: &Observed<'_>,
) -> Executed {
    let functions = changed
        .into_iter()
        .map(|function| {
            let sides = match function.change {
                Change::Added => vec![patched],
                Change::Removed => vec![base],
                Change::Changed => vec![patched, base],
            };
            let (fate, executed_callers) = sides
                .into_iter()
                .map(|side| side.judge(&function))
                .max_by_key(|(fate, callers)| weight(*fate, callers))
                .unwrap_or((Fate::Unknown, Vec::new()));
            FunctionFate { changed: function, fate, executed_callers }
        })
        .collect();
    Executed { functions, outside_functions }
}

/// Which of two answers about one function says more.
fn weight(fate: Fate, executed_callers: &[String]) -> u8 {
    match fate {
        Fate::Executed => 5,
        Fate::Inlined if !executed_callers.is_empty() => 4,
        Fate::Unknown => 3,
        Fate::NotExecuted => 2,
        Fate::Inlined => 1,
        Fate::NotCompiled => 0,
    }
}

/// How a function is present in the image.
enum Presence {
    /// It has a symbol; how many functions of that name there are, and the
    /// size in bytes where known.
    Own { namesakes: usize, size: u64 },
    /// Only parts of it that the compiler moved out.
    Parts,
    /// No symbol.
    None,
}

impl Observed<'_> {
    fn judge(&self, function: &ChangedFunction) -> (Fate, Vec<String>) {
        let left_out =
            function.conditions.iter().any(|c| self.config.and_then(|k| k.holds(c)) == Some(false));
        if left_out || !self.compiles(&function.file) {
            return (Fate::NotCompiled, Vec::new());
        }
        match self.presence(function) {
            Presence::Own { namesakes, size } => self.judge_symbol(function, namesakes, size),
            Presence::Parts => match self.runs(&function.function) {
                Some(true) => (Fate::Executed, Vec::new()),
                Some(false) | None => (Fate::Inlined, self.executed_callers(function)),
            },
            // A global function without a symbol was left out by an #if or the linker,
            // a static one that nobody calls was dropped by the compiler.
            Presence::None if !function.local => (Fate::NotCompiled, Vec::new()),
            Presence::None
                if function.callers.is_empty() && paths::kind(&function.file) == FileKind::Source =>
            {
                (Fate::NotCompiled, Vec::new())
            }
            Presence::None => (Fate::Inlined, self.executed_callers(function)),
        }
    }

    /// A function with a symbol: did it run?
    fn judge_symbol(&self, function: &ChangedFunction, namesakes: usize, size: u64) -> (Fate, Vec<String>) {
        let name = &function.function;
        match self.runs(name) {
            None => return (Fate::Unknown, Vec::new()),
            Some(true) if namesakes > 1 => return (Fate::Unknown, Vec::new()),
            Some(true) => return (Fate::Executed, Vec::new()),
            Some(false) => {}
        }
        let hidden = function.untraceable || self.traceable.is_some_and(|t| !contains(t, name));
        // A copy in a caller would have run without a hit on the symbol.
        let small = size < SMALL_FUNCTION || is_inline_by_word(function);
        let callers = if small { self.executed_callers(function) } else { Vec::new() };
        if hidden || !callers.is_empty() {
            return (Fate::Unknown, callers);
        }
        (Fate::NotExecuted, Vec::new())
    }

    /// Whether the profiling boot saw any symbol of the function.
    fn runs(&self, name: &str) -> Option<bool> {
        self.executed.map(|executed| contains(executed, name))
    }

    /// Whether the file went into the build, as far as is known.
    fn compiles(&self, file: &str) -> bool {
        match paths::kind(file) {
            FileKind::Source => self.objects.contains(&object(file)) || self.objects.contains(file),
            // Headers are only listed where the builder knows what was included.
            FileKind::Header => {
                self.objects.contains(file) || !self.objects.iter().any(|o| o.ends_with(".h"))
            }
            FileKind::Build | FileKind::Other => false,
        }
    }

    fn presence(&self, function: &ChangedFunction) -> Presence {
        let symbols = self.system_map.symbols(&function.function);
        if let Some(own) = self.object_symbols.and_then(|by_object| by_object.get(&object(&function.file)))
            && !contains(own, &function.function)
        {
            return Presence::None;
        }
        let mut whole = symbols.iter().filter(|s| !s.is_part()).peekable();
        if whole.peek().is_none() {
            return if symbols.is_empty() { Presence::None } else { Presence::Parts };
        }
        // Copies for constant arguments are one function; two plain symbols are two.
        let plain = symbols.iter().filter(|s| s.name == function.function).count();
        Presence::Own { namesakes: plain.max(1), size: whole.map(|s| s.size).min().unwrap_or(0) }
    }

    /// The callers that ran and into which the function is merged: through
    /// callers without a symbol of their own, but not past one that has one.
    fn executed_callers(&self, function: &ChangedFunction) -> Vec<String> {
        let Some(executed) = self.executed else { return Vec::new() };
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::from([function.function.as_str()]);
        let mut waiting = vec![function.function.as_str()];
        while let Some(callee) = waiting.pop() {
            for (caller, _) in function.calls.iter().filter(|(_, c)| c == callee) {
                if contains(executed, caller) {
                    found.insert(caller.clone());
                } else if self.system_map.symbols(caller).is_empty() && seen.insert(caller) {
                    waiting.push(caller);
                }
            }
        }
        found.into_iter().collect()
    }
}

/// A header function with a symbol is a copy that some file needed; others merge it.
fn is_inline_by_word(function: &ChangedFunction) -> bool {
    function.local && paths::kind(&function.file) == FileKind::Header
}

/// Whether `names` holds the function, under any of the compiler's suffixes.
fn contains(names: &BTreeSet<String>, function: &str) -> bool {
    let prefix = format!("{function}.");
    names.contains(function) || names.range(prefix.clone()..).next().is_some_and(|n| n.starts_with(&prefix))
}

/// The object a source file is compiled to.
fn object(file: &str) -> String {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    format!("{stem}.o")
}

impl Executed {
    /// Changed functions that ran: by themselves, or merged into a caller that
    /// ran. The second kind is also named by [`Executed::through_callers`],
    /// since the caller may have run without reaching them.
    pub fn executed(&self) -> usize {
        self.functions.iter().filter(|f| f.ran()).count()
    }

    /// Changed functions that are in the image, merged ones included.
    pub fn compiled(&self) -> usize {
        self.changed() - self.count(Fate::NotCompiled)
    }

    /// Names of the changed functions that did not run or may not have run.
    pub fn not_executed(&self) -> Vec<&str> {
        self.functions.iter().filter(|f| !f.ran()).map(|f| f.changed.function.as_str()).collect()
    }

    /// Merged functions whose callers ran, with the first such caller.
    pub fn through_callers(&self) -> Vec<(&str, &str)> {
        self.functions
            .iter()
            .filter(|f| f.fate == Fate::Inlined)
            .filter_map(|f| Some((f.changed.function.as_str(), f.executed_callers.first()?.as_str())))
            .collect()
    }

    /// `executed: 7 of 8 changed functions`, for tables and first lines.
    pub fn summary(&self) -> String {
        format!("executed: {} of {} changed functions", self.executed(), self.changed())
    }
}

impl FunctionFate {
    /// Ran by itself or merged into a caller that ran.
    pub fn ran(&self) -> bool {
        self.fate == Fate::Executed || (self.fate == Fate::Inlined && !self.executed_callers.is_empty())
    }
}

#[cfg(test)]
mod tests;
