// SPDX-License-Identifier: GPL-2.0-or-later
//! What a kbuild Makefile builds under which options
//! (Documentation/kbuild/makefiles.rst).
//!
//! Enough of make to read the object lists of the kernel: assignments, `ifdef`
//! and `ifeq` on options, `$(addprefix ...)`. What it does not understand it
//! leaves out, so an object may be missed but is never invented.

use super::paths;
use std::collections::BTreeSet;

/// An option that must be on or off.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// Without `CONFIG_`.
    pub option: String,
    /// On, or off.
    pub on: bool,
}

/// The lists of one Makefile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Makefile {
    assignments: Vec<Assignment>,
    /// Files it includes, from the top of the tree.
    pub includes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Assignment {
    /// Variable without `-y`, `-objs` or `-$(CONFIG_X)`.
    list: String,
    requirements: Vec<Requirement>,
    words: Vec<Word>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    /// `inode.o` or `xfs/`.
    Item(String),
    /// `$(other-y)`.
    List(String),
}

/// A set of alternatives, each a list of requirements that must all hold.
pub type Alternatives = Vec<Vec<Requirement>>;

/// Lists that go into the kernel image.
const IMAGE_LISTS: &[&str] = &["core", "drivers", "extra", "head", "lib", "libs", "net", "obj", "virt"];
/// More alternatives than this are not looked at.
const MAX_ALTERNATIVES: usize = 16;
/// Lists that are looked at for one item.
const MAX_STEPS: u32 = 2_000;
/// Deepest nesting of `$(...)` and of lists in lists.
const MAX_DEPTH: u32 = 12;

impl Makefile {
    /// Reads the Makefile of `directory` for a 64-bit x86 build.
    pub fn parse(text: &str, directory: &str) -> Self {
        let mut makefile = Self::default();
        let mut conditions: Vec<Condition> = Vec::new();
        let mut in_define = false;
        for line in logical_lines(text) {
            let line = substituted(&line);
            let line = line.trim();
            let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            match first {
                "endef" => in_define = false,
                _ if in_define => {}
                "define" => in_define = true,
                "ifdef" | "ifndef" | "ifeq" | "ifneq" => conditions.push(condition(first, rest)),
                "else" => {
                    if let Some(last) = conditions.pop() {
                        conditions.push(last.negated());
                    }
                    let (word, rest) = rest.trim().split_once(char::is_whitespace).unwrap_or(("", ""));
                    // `else ifeq`: both must hold; the one `endif` closes them together.
                    if let Some(last) = conditions.pop() {
                        let both =
                            if word.starts_with("if") { last.and(condition(word, rest)) } else { last };
                        conditions.push(both);
                    }
                }
                "endif" => {
                    conditions.pop();
                }
                "include" | "-include" => {
                    let path = rest.trim().replace("$(src)", directory);
                    let path = path.strip_prefix('/').unwrap_or(&path);
                    if !path.contains('$') && paths::is_inside_tree(path) {
                        makefile.includes.push(path.to_owned());
                    }
                }
                _ => {
                    if let Some(assignment) = assignment(line, &conditions) {
                        makefile.assign(assignment, line, &conditions);
                    }
                }
            }
        }
        makefile
    }

    /// `mmu-y := nommu.o` and then `mmu-$(CONFIG_MMU) := memory.o`: with MMU on
    /// both are the variable mmu-y, and the second takes the place of the first.
    fn assign(&mut self, assignment: Assignment, line: &str, conditions: &[Condition]) {
        let appends = line.split_once('=').is_some_and(|(left, _)| left.ends_with('+'));
        if let [Requirement { option, on: true }] = &assignment.requirements[..]
            && !appends
            && conditions.is_empty()
        {
            let replaced = Requirement { option: option.clone(), on: false };
            for earlier in self.assignments.iter_mut().filter(|a| a.list == assignment.list) {
                earlier.requirements.push(replaced.clone());
            }
        }
        self.assignments.push(assignment);
    }

    /// Adds the lists of an included file.
    pub fn absorb(&mut self, other: Self) {
        self.assignments.extend(other.assignments);
    }

    /// Under which options `item` (`inode.o`, `libxfs/xfs_ag.o`, `xfs/`) is
    /// built; empty when no list names it.
    pub fn alternatives(&self, item: &str) -> Alternatives {
        let mut search = Search { makefile: self, seen: BTreeSet::new(), steps: 0, found: Vec::new() };
        search.collect(&Word::Item(item.to_owned()), &[]);
        let mut found = search.found;
        found.sort_by_key(Vec::len);
        found.dedup();
        found.truncate(MAX_ALTERNATIVES);
        found
    }

    /// All objects named in any list, in order.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        self.assignments.iter().flat_map(|a| &a.words).filter_map(|word| match word {
            Word::Item(item) => Some(item.as_str()).filter(|i| i.ends_with(".o")),
            Word::List(_) => None,
        })
    }
}

/// Looks for the ways from an item up to a list of the image.
struct Search<'a> {
    makefile: &'a Makefile,
    /// The lists between the item and here.
    seen: BTreeSet<&'a str>,
    steps: u32,
    found: Alternatives,
}

impl Search<'_> {
    fn collect(&mut self, wanted: &Word, below: &[Requirement]) {
        self.steps += 1;
        if self.steps > MAX_STEPS || self.seen.len() > MAX_DEPTH as usize {
            return;
        }
        let makefile = self.makefile;
        for assignment in makefile.assignments.iter().filter(|a| a.words.contains(wanted)) {
            let mut requirements = below.to_vec();
            requirements.extend(assignment.requirements.iter().cloned());
            requirements.sort();
            requirements.dedup();
            if IMAGE_LISTS.contains(&assignment.list.as_str()) {
                self.found.push(requirements);
            } else if self.seen.insert(&assignment.list) {
                self.collect(&Word::Item(format!("{}.o", assignment.list)), &requirements);
                self.collect(&Word::List(assignment.list.clone()), &requirements);
                self.seen.remove(assignment.list.as_str());
            }
        }
    }
}

/// What an `if` line asks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    /// All of these.
    All(Vec<Requirement>),
    Never,
    /// Not understood, or always: the lines count.
    Open,
}

impl Condition {
    fn negated(self) -> Self {
        match self {
            Self::All(mut all) if all.len() == 1 => {
                all[0].on = !all[0].on;
                Self::All(all)
            }
            Self::All(_) | Self::Never | Self::Open => Self::Open,
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) => Self::Never,
            (Self::All(mut left), Self::All(right)) => {
                left.extend(right);
                Self::All(left)
            }
            (Self::All(all), Self::Open) | (Self::Open, Self::All(all)) => Self::All(all),
            (Self::Open, Self::Open) => Self::Open,
        }
    }
}

/// Reads what stands behind `ifdef`, `ifeq` and their opposites.
fn condition(keyword: &str, rest: &str) -> Condition {
    let equal = matches!(keyword, "ifdef" | "ifeq");
    let (left, right) = match keyword {
        "ifdef" | "ifndef" => (format!("$({})", rest.trim()), "y".to_owned()),
        _ => match compared(rest.trim()) {
            Some(sides) => sides,
            None => return Condition::Open,
        },
    };
    let (left, right) = if right.contains("$(") { (right, left) } else { (left, right) };
    if !left.contains('$') {
        return if (left == right) == equal { Condition::Open } else { Condition::Never };
    }
    let options = options_in(&left);
    // Only a plain sequence of $(CONFIG_X) is understood.
    let plain: String = options.iter().map(|o| format!("$(CONFIG_{o})")).collect();
    if options.is_empty() || plain != left.replace(' ', "") {
        return Condition::Open;
    }
    let on = match right.as_str() {
        "" | "n" => false,
        all if all.len() == options.len() && all.bytes().all(|b| b == b'y') => true,
        _ => return Condition::Open,
    };
    let all = Condition::All(options.into_iter().map(|option| Requirement { option, on }).collect());
    if equal { all } else { all.negated() }
}

/// The two sides of `(a,b)` or `"a" "b"`.
fn compared(text: &str) -> Option<(String, String)> {
    if let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        let (left, right) = inner.rsplit_once(',')?;
        return Some((left.trim().to_owned(), right.trim().to_owned()));
    }
    let mut parts = text.split(['"', '\'']).skip(1).step_by(2);
    Some((parts.next()?.to_owned(), parts.next()?.to_owned()))
}

/// `list-$(CONFIG_X) += words`, under the open conditions.
fn assignment(line: &str, conditions: &[Condition]) -> Option<Assignment> {
    let mut requirements = Vec::new();
    for condition in conditions {
        match condition {
            Condition::All(all) => requirements.extend(all.iter().cloned()),
            Condition::Never => return None,
            Condition::Open => {}
        }
    }
    let (left, right) = line.split_once('=')?;
    let name = left.trim_end_matches(['+', ':', '?']).trim_end();
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == ':' || c == '#') {
        return None;
    }
    let (list, condition) = name.split_at(name.find("$(").unwrap_or(name.len()));
    requirements.extend(options_in(condition).into_iter().map(|option| Requirement { option, on: true }));
    let list = list_name(list)?;
    let mut items = Vec::new();
    words(right, "", 0, &mut items);
    Some(Assignment { list, requirements, words: items })
}

/// `xfs-y`, `xfs-objs` and `xfs-` are all the list `xfs`; `None` for the lists
/// of what is not built (`obj-n`).
fn list_name(variable: &str) -> Option<String> {
    let variable = variable.trim_end_matches('-');
    if variable.is_empty() || variable.ends_with("-n") {
        return None;
    }
    let stem =
        ["-y", "-m", "-objs"].iter().fold(variable, |name, end| name.strip_suffix(end).unwrap_or(name));
    Some(stem.to_owned())
}

/// Every `CONFIG_X` in a text, in order.
fn options_in(text: &str) -> Vec<String> {
    let name = |part: &str| {
        part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default().to_owned()
    };
    text.split("CONFIG_").skip(1).map(name).filter(|n| !n.is_empty()).collect()
}

/// Splits the right side of an assignment, with `prefix` before each item.
fn words(text: &str, prefix: &str, depth: u32, out: &mut Vec<Word>) {
    if depth > MAX_DEPTH {
        return;
    }
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = word_end(rest);
        let (word, after) = rest.split_at(end);
        rest = after.trim_start();
        match word.strip_prefix("$(").and_then(|w| w.strip_suffix(')')) {
            Some(inner) => call(inner, prefix, depth, out),
            None if word.contains('$') => {}
            None => out.push(Word::Item(format!("{prefix}{word}"))),
        }
    }
}

/// Where the first word ends: white space outside of any `$(...)`.
fn word_end(text: &str) -> usize {
    let mut open = 0u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => open += 1,
            b')' => open = open.saturating_sub(1),
            _ if open == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}

/// The inside of `$(...)`: a list, or a function whose arguments are words.
fn call(inner: &str, prefix: &str, depth: u32, out: &mut Vec<Word>) {
    let Some((function, arguments)) = inner.split_once(char::is_whitespace) else {
        let name = inner.split(':').next().unwrap_or(inner);
        out.extend(list_name(name).filter(|_| !name.starts_with("CONFIG_")).map(Word::List));
        return;
    };
    let Some((first, list)) = arguments.split_once(',') else {
        return words(arguments, prefix, depth + 1, out);
    };
    match function {
        "addprefix" => words(list, &format!("{prefix}{}", first.trim()), depth + 1, out),
        "addsuffix" => {
            let mut items = Vec::new();
            words(list, prefix, depth + 1, &mut items);
            out.extend(items.into_iter().map(|item| match item {
                Word::Item(item) => Word::Item(format!("{item}{}", first.trim())),
                Word::List(list) => Word::List(list),
            }));
        }
        _ => {
            for argument in list.split(',') {
                words(argument, prefix, depth + 1, out);
            }
        }
    }
}

/// The variables that are the same in every x86 build.
fn substituted(line: &str) -> String {
    let mut line = line.replace("${", "$(").replace('}', ")");
    for (variable, value) in
        [("$(SRCARCH)", "x86"), ("$(ARCH)", "x86"), ("$(BITS)", "64"), ("$(srctree)/", ""), ("$(obj)/", "")]
    {
        if line.contains(variable) {
            line = line.replace(variable, value);
        }
    }
    line
}

/// Lines without comments, with continuations joined.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        let without_comment = match line.find('#') {
            Some(at) if !line[..at].ends_with('\\') => &line[..at],
            _ => line,
        };
        let mut whole = open.take().unwrap_or_default();
        match without_comment.strip_suffix('\\') {
            Some(start) => {
                whole.push_str(start);
                whole.push(' ');
                open = Some(whole);
            }
            None => {
                whole.push_str(without_comment);
                lines.push(whole);
            }
        }
    }
    lines.extend(open);
    lines
}

#[cfg(test)]
mod tests;
