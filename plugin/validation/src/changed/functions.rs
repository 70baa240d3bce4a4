// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the functions of a C file: name, lines, attributes, conditions.
//!
//! Not a C parser: it follows braces at file level, with every branch of an
//! `#if` read as if it alone stood there, and recognises what the kernel writes
//! in front of a body. Checked against the symbol tables of a kernel build.

use super::declaration::{self, Declared};
use super::source::{Source, TokenKind};
use std::ops::Range;

/// What a C file defines at file level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// In the order of the text; one name may have several definitions in
    /// different `#if` branches.
    pub functions: Vec<Function>,
    /// Structures, unions and enumerations.
    pub types: Vec<Definition>,
    /// `#define` lines.
    pub macros: Vec<Definition>,
}

/// A function with a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Function {
    /// Linker symbol: the C identifier, for a system call its entry.
    pub name: String,
    /// 1-based line on which the declaration starts (return type, attributes).
    pub first_line: u32,
    /// 1-based line of the closing brace.
    pub last_line: u32,
    /// `static` or `inline`.
    pub local: bool,
    /// `notrace`, `noinstr` and what implies them.
    pub untraceable: bool,
    /// `#if` conditions around it, outermost first.
    pub conditions: Vec<String>,
    /// Its tokens.
    pub tokens: Range<usize>,
}

/// A type or a macro.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definition {
    /// Tag or macro name; empty for an anonymous type.
    pub name: String,
    /// 1-based.
    pub first_line: u32,
    /// 1-based.
    pub last_line: u32,
    /// Its tokens.
    pub tokens: Range<usize>,
}

/// Deepest `#if` nesting that is followed; kernel text stays below 10.
const MAX_NESTING: usize = 100;
/// Longest declaration in front of a body, in tokens.
const MAX_DECLARATION: usize = 1000;
/// A declaration with a body that is no function, such as an initialiser, is
/// followed to its `;` only if it is short.
const MAX_BEHIND_BODY: usize = 100;
/// Functions of a file that may be begun in one branch of an `#if` and closed
/// behind it; the kernel has a handful.
const MAX_LEFT_OPEN: usize = 16;
/// Branches of one `#if` whose conditions are kept.
const MAX_BRANCHES: usize = 16;

impl Outline {
    /// Reads a file.
    pub fn of(source: &Source<'_>) -> Self {
        let mut finder = Finder {
            source,
            outline: Self::default(),
            state: State::default(),
            frames: Vec::new(),
            ignored_frames: 0,
            left_open: 0,
        };
        let mut at = 0;
        while let Some(token) = source.tokens.get(at) {
            if token.kind == TokenKind::Hash {
                let range = source.directive(at);
                finder.directive(range.clone());
                at = range.end.max(at + 1);
            } else {
                finder.token(at);
                at += 1;
            }
        }
        finder.finish()
    }

    /// The lines that lie inside a function.
    pub fn lines(&self) -> FunctionLines {
        let last = self.functions.iter().map(|f| f.last_line).max().unwrap_or(0) as usize;
        let mut steps = vec![0i64; last + 2];
        for function in &self.functions {
            steps[function.first_line as usize] += 1;
            steps[function.last_line as usize + 1] -= 1;
        }
        let mut open = 0;
        FunctionLines {
            inside: steps
                .into_iter()
                .map(|step| {
                    open += step;
                    open > 0
                })
                .collect(),
        }
    }
}

/// Which lines of a file lie inside a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionLines {
    inside: Vec<bool>,
}

impl FunctionLines {
    /// Whether the 1-based `line` lies inside a function.
    pub fn contains(&self, line: u32) -> bool {
        self.inside.get(line as usize).copied().unwrap_or(false)
    }
}

/// Where the finder is; saved at `#if` and taken up again at `#else`.
#[derive(Debug, Clone, Default)]
struct State {
    /// Open braces.
    depth: u32,
    /// Open parentheses at file level.
    parentheses: u32,
    /// Tokens since the last complete declaration, at file level only.
    declaration: Vec<usize>,
    /// A K&R function head, waiting for its body.
    old_style: Vec<usize>,
    /// Functions and types whose closing brace is to come, by index.
    open_functions: Vec<usize>,
    open_types: Vec<usize>,
}

struct Frame {
    /// Conditions of the branches so far; the last is the current one.
    branches: Vec<String>,
    entry: State,
    /// Functions known when the `#if` was met.
    functions_before: usize,
    /// State at the end of the first branch that is not `#if 0`.
    first_end: Option<State>,
    /// Functions begun in a branch and not closed in it.
    left_open: Vec<usize>,
    /// `#ifndef FOO_H`: stands for the whole file.
    guard: bool,
}

struct Finder<'s, 'a> {
    source: &'s Source<'a>,
    outline: Outline,
    state: State,
    frames: Vec<Frame>,
    /// `#if` lines beyond [`MAX_NESTING`].
    ignored_frames: u32,
    /// Functions left open at the end of a branch so far.
    left_open: usize,
}

impl Finder<'_, '_> {
    fn token(&mut self, at: usize) {
        let token = self.source.tokens[at];
        match token.kind {
            TokenKind::Mark(b'{') => self.open_brace(at),
            TokenKind::Mark(b'}') => self.close_brace(at),
            _ if self.state.depth > 0 => {}
            TokenKind::Mark(b';') if self.state.parentheses == 0 => self.end_declaration(),
            kind => {
                match kind {
                    TokenKind::Mark(b'(') => self.state.parentheses += 1,
                    TokenKind::Mark(b')') => {
                        self.state.parentheses = self.state.parentheses.saturating_sub(1);
                    }
                    _ => {}
                }
                if self.state.declaration.len() < MAX_DECLARATION {
                    self.state.declaration.push(at);
                }
            }
        }
    }

    /// A `;` at file level: only the head of an old-style definition lives on.
    fn end_declaration(&mut self) {
        let declaration = std::mem::take(&mut self.state.declaration);
        if !self.state.old_style.is_empty() && declaration::is_parameter(self.source, &declaration) {
            return;
        }
        self.state.old_style.clear();
        if declaration::is_old_style_head(self.source, &declaration) {
            self.state.old_style = declaration;
        }
    }

    fn open_brace(&mut self, at: usize) {
        let token = self.source.tokens[at];
        // The kernel puts the brace of a body, and no other, in the first column.
        if token.first_column && self.state.parentheses > 0 {
            self.state.parentheses = 0;
        }
        if self.state.parentheses > 0 {
            return;
        }
        if self.state.depth > 0 {
            self.state.depth += 1;
            return;
        }
        let old_style = std::mem::take(&mut self.state.old_style);
        let head = if self.state.declaration.is_empty() { &old_style } else { &self.state.declaration };
        match declaration::classify(self.source, head) {
            Declared::Function { name, first_token, local, untraceable } => {
                self.state.open_functions.push(self.outline.functions.len());
                self.outline.functions.push(Function {
                    name,
                    first_line: self.source.tokens[first_token].line,
                    last_line: 0,
                    local,
                    untraceable,
                    conditions: self.conditions(),
                    tokens: first_token..at,
                });
            }
            Declared::Type { name, first_token } => {
                self.state.open_types.push(self.outline.types.len());
                self.outline.types.push(Definition {
                    name,
                    first_line: self.source.tokens[first_token].line,
                    last_line: 0,
                    tokens: first_token..at,
                });
            }
            Declared::Linkage => {
                self.state.declaration.clear();
                return;
            }
            Declared::Other => {}
        }
        self.state.depth = 1;
    }

    fn close_brace(&mut self, at: usize) {
        let token = self.source.tokens[at];
        if self.state.depth == 0 {
            return;
        }
        self.state.depth -= 1;
        // An unbalanced #if branch: a brace in the first column ends a definition.
        if token.first_column && self.ends_definition(at) {
            self.state.depth = 0;
        }
        if self.state.depth > 0 {
            return;
        }
        let was_function = !self.state.open_functions.is_empty();
        for index in self.state.open_functions.drain(..) {
            let function = &mut self.outline.functions[index];
            function.last_line = token.line;
            function.tokens.end = at + 1;
        }
        for index in self.state.open_types.drain(..) {
            let definition = &mut self.outline.types[index];
            definition.last_line = token.line;
            definition.tokens.end = at + 1;
        }
        if was_function || self.state.declaration.len() > MAX_BEHIND_BODY {
            self.state.declaration.clear();
        } else {
            self.state.declaration.push(at);
        }
    }

    /// Whether what follows the closing brace at token `at` starts afresh at
    /// file level: nothing, a preprocessor line, or a word in the first column.
    fn ends_definition(&self, at: usize) -> bool {
        match self.source.tokens.get(at + 1) {
            None => true,
            Some(next) => {
                next.kind == TokenKind::Hash
                    || (next.kind == TokenKind::Word
                        && next.first_column
                        && self.source.text(*next) != "else")
            }
        }
    }

    fn directive(&mut self, range: Range<usize>) {
        let Some(keyword) = self.source.word(range.start) else { return };
        let rest = range.start + 1..range.end;
        match keyword {
            "if" | "ifdef" | "ifndef" => self.begin_if(keyword, rest),
            "elif" | "elifdef" | "elifndef" | "else" if self.ignored_frames == 0 => {
                self.next_branch(keyword, rest);
            }
            "endif" if self.ignored_frames > 0 => self.ignored_frames -= 1,
            "endif" => self.end_if(range.start - 1),
            "define" => {
                let lines = self.source.tokens.get(rest.clone()).unwrap_or_default();
                if let (Some(name), Some(last)) = (self.source.word(rest.start), lines.last()) {
                    self.outline.macros.push(Definition {
                        name: name.to_owned(),
                        first_line: self.source.tokens[range.start].line,
                        last_line: last.line,
                        tokens: rest,
                    });
                }
            }
            _ => {}
        }
    }

    fn begin_if(&mut self, keyword: &str, rest: Range<usize>) {
        if self.frames.len() >= MAX_NESTING {
            self.ignored_frames += 1;
            return;
        }
        let guard = keyword == "ifndef" && self.is_header_guard(&rest);
        let condition = condition(keyword, &self.source.joined(rest));
        self.frames.push(Frame {
            branches: vec![condition],
            entry: self.state.clone(),
            functions_before: self.outline.functions.len(),
            first_end: None,
            left_open: Vec::new(),
            guard,
        });
    }

    /// `#ifndef NAME_H` directly followed by `#define NAME_H`.
    fn is_header_guard(&self, rest: &Range<usize>) -> bool {
        let name = self.source.word(rest.start);
        let define = self.source.directive(rest.end);
        name.is_some_and(|n| n.to_ascii_uppercase().trim_end_matches('_').ends_with("_H"))
            && self.source.tokens.get(rest.end).is_some_and(|t| t.kind == TokenKind::Hash)
            && self.source.word(define.start) == Some("define")
            && self.source.word(define.start + 1) == name
    }

    fn next_branch(&mut self, keyword: &str, rest: Range<usize>) {
        self.end_branch(rest.start - 2);
        let condition = condition(keyword, &self.source.joined(rest));
        if let Some(frame) = self.frames.last_mut() {
            if frame.branches.len() == MAX_BRANCHES {
                frame.branches.pop();
            }
            frame.branches.push(condition);
            self.state = frame.entry.clone();
        }
    }

    /// A branch ends in front of the preprocessor line whose `#` is token `hash`.
    fn end_branch(&mut self, hash: usize) {
        let line = self.source.tokens[hash].line;
        let Some(frame) = self.frames.last_mut() else { return };
        let dead = frame.branches.last().is_some_and(|c| c == "0");
        let begun = |index: &usize| *index >= frame.functions_before;
        if self.left_open < MAX_LEFT_OPEN {
            let before = frame.left_open.len();
            frame.left_open.extend(self.state.open_functions.iter().filter(|i| begun(i)));
            self.left_open += frame.left_open.len() - before;
        } else {
            // Nobody writes this; the function ends with its branch.
            for &index in self.state.open_functions.iter().filter(|i| begun(i)) {
                self.outline.functions[index].last_line = line;
                self.outline.functions[index].tokens.end = hash;
            }
            self.state.open_functions.retain(|i| !begun(i));
        }
        if !dead && frame.first_end.is_none() {
            frame.first_end = Some(std::mem::take(&mut self.state));
        }
    }

    /// The `#endif` whose `#` is token `hash`.
    fn end_if(&mut self, hash: usize) {
        let line = self.source.tokens[hash].line;
        self.end_branch(hash);
        let Some(frame) = self.frames.pop() else { return };
        self.state = frame.first_end.unwrap_or(frame.entry);
        for index in frame.left_open {
            if self.state.depth == 0 {
                // Its other branches are complete, so it can have no end below.
                self.outline.functions[index].last_line = line;
                self.outline.functions[index].tokens.end = hash;
            } else if !self.state.open_functions.contains(&index) {
                self.state.open_functions.push(index);
            }
        }
    }

    fn conditions(&self) -> Vec<String> {
        let mut all = Vec::new();
        for frame in self.frames.iter().filter(|f| !f.guard) {
            let Some((current, earlier)) = frame.branches.split_last() else { continue };
            all.extend(earlier.iter().map(|c| negated(c)));
            if !current.is_empty() {
                all.push(current.clone());
            }
        }
        all
    }

    fn finish(mut self) -> Outline {
        let last_line = self.source.tokens.last().map_or(0, |t| t.line);
        let end = self.source.tokens.len();
        for function in &mut self.outline.functions {
            if function.last_line == 0 {
                function.last_line = last_line;
                function.tokens.end = end;
            }
        }
        // A type without an end says nothing about its members.
        self.outline.types.retain(|definition| definition.last_line > 0);
        self.outline
    }
}

/// The condition of an `#if`-like line as an expression; empty for `#else`.
fn condition(keyword: &str, rest: &str) -> String {
    match keyword {
        "ifdef" | "elifdef" => format!("defined({rest})"),
        "ifndef" | "elifndef" => format!("!defined({rest})"),
        "else" => String::new(),
        _ => rest.to_owned(),
    }
}

/// `!(condition)`, with double negations and needless parentheses left out.
fn negated(condition: &str) -> String {
    let simple = |text: &str| {
        let inner = text.strip_prefix("defined(").and_then(|t| t.strip_suffix(')')).unwrap_or(text);
        inner.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    match condition.strip_prefix('!') {
        Some(inner) if simple(inner) => inner.to_owned(),
        _ if simple(condition) => format!("!{condition}"),
        _ => format!("!({condition})"),
    }
}

#[cfg(test)]
mod tests;
