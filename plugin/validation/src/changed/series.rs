// SPDX-License-Identifier: GPL-2.0-or-later
//! Which functions the patches of a series change.
//!
//! A function counts as changed by a patch when its tokens differ between the
//! text before and after that patch: comments and white space do not count.

use super::apply::{self, DoesNotApply};
use super::boards;
use super::callers::{self, Mentions};
use super::diff::{self, DiffProblem, FileDiff, Hunk, LineKind};
use super::functions::{Function, FunctionLines, Outline};
use super::paths::{self, FileKind};
use super::source::Source;
use super::{Change, ChangedFunction};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

/// What a series changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedCode {
    /// By file and name. A function that only lives between two patches of the
    /// series is not listed: it is in neither end.
    pub functions: Vec<ChangedFunction>,
    /// Hunks with a change outside any function (structures, macros, data,
    /// Makefiles), by file.
    pub outside: Vec<(String, u32)>,
    /// Structures and unions that exist before and after with other members, by
    /// file; an anonymous one has an empty name.
    pub types: Vec<(String, Vec<String>)>,
    /// Lock calls on changed lines, by file.
    pub locks: Vec<(String, Vec<String>)>,
    /// What could not be told, for a person.
    pub problems: Vec<Problem>,
}

/// Why the list of changed functions may be incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The diff of a patch is damaged or hostile.
    Diff {
        /// 1-based.
        patch: u32,
        /// What is wrong.
        problem: DiffProblem,
    },
    /// The base has no such file, or it is no text.
    NoText {
        /// 1-based.
        patch: u32,
        /// The file.
        file: String,
    },
    /// A hunk does not fit.
    DoesNotApply {
        /// 1-based.
        patch: u32,
        /// The file.
        file: String,
        /// Which hunk.
        error: DoesNotApply,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diff { patch, problem } => write!(f, "patch {patch}: {problem}"),
            Self::NoText { patch, file } => {
                write!(f, "patch {patch}: {file} is not in the base as text: name the right base with --base")
            }
            Self::DoesNotApply { patch, file, error } => {
                write!(f, "patch {patch}: {file}: failed to {error}")
            }
        }
    }
}

/// A file as the patches so far leave it.
struct Tracked {
    /// Where it is in the base; `None` for a new file.
    origin: Option<String>,
    /// `None` once it is deleted.
    text: Option<String>,
    /// Function to the patches that change it.
    functions: BTreeMap<String, BTreeSet<u32>>,
    types: BTreeSet<String>,
    locks: BTreeSet<String>,
    /// Hunks with changes outside functions.
    outside: u32,
}

/// Reads the patches (1-based index and diff, in order) on top of the base,
/// whose files `base` returns as text.
pub fn changed_functions(patches: &[(u32, &str)], base: &dyn Fn(&str) -> Option<String>) -> ChangedCode {
    let mut code = ChangedCode::default();
    let mut files: BTreeMap<String, Tracked> = BTreeMap::new();
    for &(patch, text) in patches {
        let diff = diff::parse(text);
        code.problems.extend(diff.problems.into_iter().map(|problem| Problem::Diff { patch, problem }));
        for file in &diff.files {
            if !file.binary
                && paths::kind(file.path()) != FileKind::Other
                && let Err(problem) = take_file(&mut files, patch, file, base)
            {
                code.problems.push(problem);
            }
        }
    }
    for (path, file) in &files {
        if file.outside > 0 {
            code.outside.push((path.clone(), file.outside));
        }
        if !file.types.is_empty() {
            code.types.push((path.clone(), file.types.iter().cloned().collect()));
        }
        if !file.locks.is_empty() {
            code.locks.push((path.clone(), file.locks.iter().cloned().collect()));
        }
        code.functions.extend(describe(path, file, base));
    }
    code
}

/// Brings one file from before a patch to after it.
fn take_file(
    files: &mut BTreeMap<String, Tracked>,
    patch: u32,
    file: &FileDiff<'_>,
    base: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Problem> {
    let path = file.path().to_owned();
    let source_path = file.old_path.as_deref();
    if let Some(old) = source_path
        && !files.contains_key(old)
    {
        let text = base(old);
        if text.is_none() {
            return Err(Problem::NoText { patch, file: old.to_owned() });
        }
        let origin = Some(old.to_owned());
        files.insert(old.to_owned(), Tracked { origin, ..Tracked::empty(text) });
    }
    let old_text = source_path.and_then(|p| files.get(p)).and_then(|f| f.text.clone()).unwrap_or_default();
    let applied = apply::apply(file, &old_text).map_err(|error| Problem::DoesNotApply {
        patch,
        file: path.clone(),
        error,
    })?;
    let mut tracked = match source_path {
        Some(old) if !file.copied => files.remove(old).unwrap_or_else(|| Tracked::empty(None)),
        // A file that was deleted by an earlier patch keeps its history.
        _ => files.remove(&path).unwrap_or_else(|| Tracked::empty(None)),
    };
    let compared_with = if file.copied { "" } else { &old_text };
    if paths::kind(&path) == FileKind::Build {
        tracked.outside += build_hunks(file);
    } else {
        compare(&mut tracked, patch, file, compared_with, &applied);
    }
    tracked.text = file.new_path.is_some().then_some(applied.text);
    files.insert(path, tracked);
    Ok(())
}

impl Tracked {
    fn empty(text: Option<String>) -> Self {
        Self {
            origin: None,
            text,
            functions: BTreeMap::new(),
            types: BTreeSet::new(),
            locks: BTreeSet::new(),
            outside: 0,
        }
    }
}

/// Notes which functions and types differ, and the hunks that touch neither.
fn compare(tracked: &mut Tracked, patch: u32, file: &FileDiff<'_>, old: &str, applied: &apply::Applied) {
    let new = if file.new_path.is_some() { applied.text.as_str() } else { "" };
    let (old_source, new_source) = (Source::new(old), Source::new(new));
    let (old_outline, new_outline) = (Outline::of(&old_source), Outline::of(&new_source));
    let before = by_name(&old_source, &old_outline);
    let after = by_name(&new_source, &new_outline);
    for name in before.keys().chain(after.keys()) {
        if before.get(name) != after.get(name) {
            tracked.functions.entry((*name).to_owned()).or_default().insert(patch);
        }
    }
    let old_types = types_by_name(&old_source, &old_outline);
    let new_types = types_by_name(&new_source, &new_outline);
    for (name, definitions) in &old_types {
        if new_types.get(name).is_some_and(|new| new != definitions) {
            tracked.types.insert((*name).to_owned());
        }
    }
    let (old_lines, new_lines) = (old_outline.lines(), new_outline.lines());
    for (hunk, &(old_place, new_place)) in file.hunks.iter().zip(&applied.places) {
        let removed = Side::of(hunk, LineKind::Removed, old_place, &old_source, &old_lines);
        let added = Side::of(hunk, LineKind::Added, new_place, &new_source, &new_lines);
        tracked.outside += u32::from(removed.outside != added.outside);
        if removed.all != added.all {
            for side in [&removed.all, &added.all] {
                let calls = side.windows(2).filter(|w| w[1] == "(" && boards::is_lock_call(w[0]));
                tracked.locks.extend(calls.map(|w| w[0].to_owned()));
            }
        }
    }
}

/// What the removed, or the added, lines of a hunk mean.
struct Side<'a> {
    all: Vec<&'a str>,
    /// Only the lines outside of functions.
    outside: Vec<&'a str>,
}

impl<'a> Side<'a> {
    fn of(hunk: &Hunk<'_>, kind: LineKind, place: u32, source: &Source<'a>, inside: &FunctionLines) -> Self {
        let mut side = Self { all: Vec::new(), outside: Vec::new() };
        let on_this_side = hunk.lines.iter().filter(|l| l.kind == kind || l.kind == LineKind::Context);
        for (line, number) in on_this_side.zip(place..) {
            if line.kind == kind {
                let meaning = source.meaning(number, number);
                if !inside.contains(number) {
                    side.outside.extend(&meaning);
                }
                side.all.extend(meaning);
            }
        }
        side
    }
}

/// Hunks of a Makefile or Kconfig file that change more than a comment.
fn build_hunks(file: &FileDiff<'_>) -> u32 {
    let matters = |text: &str| !text.trim().is_empty() && !text.trim_start().starts_with('#');
    file.hunks
        .iter()
        .filter(|h| h.lines.iter().any(|l| l.kind != LineKind::Context && matters(l.text)))
        .count() as u32
}

/// SHA-256 over the tokens of a definition: what it says.
type Digest = [u8; 32];

fn digest(source: &Source<'_>, tokens: Range<usize>) -> Digest {
    let mut hash = Sha256::new();
    for &token in source.tokens.get(tokens).unwrap_or_default() {
        hash.update(source.text(token));
        hash.update([0]);
    }
    hash.finalize().into()
}

/// Conditions and meaning of every definition of a name.
type Bodies<'a> = Vec<(&'a [String], Digest)>;

fn by_name<'a>(source: &Source<'_>, outline: &'a Outline) -> BTreeMap<&'a str, Bodies<'a>> {
    let mut names: BTreeMap<&str, Bodies<'a>> = BTreeMap::new();
    for function in &outline.functions {
        let body = digest(source, function.tokens.clone());
        names.entry(&function.name).or_default().push((&function.conditions, body));
    }
    names
}

fn types_by_name<'a>(source: &Source<'_>, outline: &'a Outline) -> BTreeMap<&'a str, Vec<Digest>> {
    let mut names: BTreeMap<&str, Vec<Digest>> = BTreeMap::new();
    for definition in &outline.types {
        let mut head = definition.tokens.clone().map_while(|index| source.word(index));
        if !head.any(|word| word == "enum") {
            let members = digest(source, definition.tokens.clone());
            names.entry(&definition.name).or_default().push(members);
        }
    }
    names
}

/// The changed functions of one file as they are at the end of the series, or
/// in the base where the series removes them.
fn describe(path: &str, file: &Tracked, base: &dyn Fn(&str) -> Option<String>) -> Vec<ChangedFunction> {
    if file.functions.is_empty() {
        return Vec::new();
    }
    let base_text = file.origin.as_deref().and_then(base).unwrap_or_default();
    let (base_source, final_source) =
        (Source::new(&base_text), Source::new(file.text.as_deref().unwrap_or("")));
    let (base_outline, final_outline) = (Outline::of(&base_source), Outline::of(&final_source));
    let (base_names, final_names) = (names(&base_outline), names(&final_outline));
    let base_mentions = Mentions::of(&base_outline, &base_source, &[]);
    let final_mentions = Mentions::of(&final_outline, &final_source, &[]);
    let mut described = Vec::new();
    let mut calls_listed = 0;
    for (name, patches) in &file.functions {
        let in_base: Vec<&Function> = named(&base_names, name);
        let in_final: Vec<&Function> = named(&final_names, name);
        let change = match (in_base.is_empty(), in_final.is_empty()) {
            (true, true) => continue,
            (true, false) => Change::Added,
            (false, true) => Change::Removed,
            (false, false) => Change::Changed,
        };
        let (source, here) = match change {
            Change::Removed => (&base_source, &in_base),
            Change::Changed | Change::Added => (&final_source, &in_final),
        };
        // Of several definitions in #if branches the one that differs is meant.
        let old_bodies: Vec<Digest> =
            in_base.iter().map(|f| digest(&base_source, f.tokens.clone())).collect();
        let differs = |f: &&&Function| {
            change == Change::Changed && !old_bodies.contains(&digest(source, f.tokens.clone()))
        };
        let Some(function) = here.iter().find(differs).or_else(|| here.first()) else { continue };
        let mentions = if change == Change::Removed { &base_mentions } else { &final_mentions };
        let calls = if calls_listed < MAX_CALLS_LISTED { mentions.calls_to(name) } else { Vec::new() };
        calls_listed += calls.len();
        described.push(ChangedFunction {
            file: path.to_owned(),
            function: name.clone(),
            patches: patches.iter().copied().collect(),
            change,
            local: function.local,
            untraceable: function.untraceable,
            conditions: function.conditions.clone(),
            callers: callers::callers(&calls),
            calls,
        });
    }
    described
}

/// Definitions of one name that are looked at, in different `#if` branches.
const MAX_DEFINITIONS: usize = 16;

/// Calls listed for the functions of one file together.
const MAX_CALLS_LISTED: usize = 20_000;

type Names<'a> = BTreeMap<&'a str, Vec<&'a Function>>;

fn names(outline: &Outline) -> Names<'_> {
    let mut names = Names::new();
    for function in &outline.functions {
        let all = names.entry(&function.name).or_default();
        if all.len() < MAX_DEFINITIONS {
            all.push(function);
        }
    }
    names
}

fn named<'a>(names: &Names<'a>, name: &str) -> Vec<&'a Function> {
    names.get(name).cloned().unwrap_or_default()
}

/// Adds to each changed `static inline` function of a header the calls to it in
/// other files; `sources` holds path and text of files that include it.
pub fn add_callers(functions: &mut [ChangedFunction], sources: &[(String, String)]) {
    let in_header = |f: &ChangedFunction| f.local && paths::kind(&f.file) == FileKind::Header;
    for (_, text) in sources {
        let mut parsed: Option<(Source<'_>, Outline)> = None;
        for function in functions.iter_mut().filter(|f| in_header(f)) {
            let reached: Vec<String> = std::iter::once(&function.function)
                .chain(&function.callers)
                .filter(|name| text.contains(name.as_str()))
                .cloned()
                .collect();
            if reached.is_empty() {
                continue;
            }
            let (source, outline) = parsed.get_or_insert_with(|| {
                let source = Source::new(text);
                let outline = Outline::of(&source);
                (source, outline)
            });
            let names: Vec<&str> = reached.iter().map(String::as_str).collect();
            let mentions = Mentions::of(outline, source, &names);
            function.calls.extend(names.iter().flat_map(|name| mentions.calls_to(name)));
            function.calls.sort();
            function.calls.dedup();
            function.callers = callers::callers(&function.calls);
        }
    }
}

#[cfg(test)]
mod tests;
