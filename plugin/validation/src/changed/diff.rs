// SPDX-License-Identifier: GPL-2.0-or-later
//! Unified diffs as git writes them, read into files, hunks and lines.
//!
//! A diff comes from a stranger's mail, so parsing never fails: it yields what
//! could be read and a list of problems. Text in front of the first file,
//! between files and after the last hunk (a mail signature) is skipped.

use super::paths;
use std::fmt;

/// A parsed diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff<'a> {
    /// In the order of the text.
    pub files: Vec<FileDiff<'a>>,
    /// What could not be read.
    pub problems: Vec<DiffProblem>,
}

/// What a diff does to one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileDiff<'a> {
    /// Path before, relative to the top of the tree; `None` for a new file.
    pub old_path: Option<String>,
    /// Path after; `None` for a deleted file.
    pub new_path: Option<String>,
    /// The file at `old_path` stays: `copy from`.
    pub copied: bool,
    /// Mode before and after, octal text, where the diff states a change.
    pub mode: Option<(String, String)>,
    /// The contents are binary and not in `hunks`.
    pub binary: bool,
    /// In the order of the text.
    pub hunks: Vec<Hunk<'a>>,
}

/// One `@@` section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk<'a> {
    /// First line before, 1-based (0 when `old_count` is 0).
    pub old_start: u32,
    /// Lines before, as the header says.
    pub old_count: u32,
    /// First line after, 1-based (0 when `new_count` is 0).
    pub new_start: u32,
    /// Lines after, as the header says.
    pub new_count: u32,
    /// Text behind the second `@@`: usually the enclosing function.
    pub heading: &'a str,
    /// The lines, without their marker.
    pub lines: Vec<Line<'a>>,
}

/// A line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// On which sides the line is.
    pub kind: LineKind,
    /// The line without marker and line end.
    pub text: &'a str,
    /// `\ No newline at end of file` follows.
    pub unterminated: bool,
}

/// On which sides a line of a hunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// On both.
    Context,
    /// Only before: `-`.
    Removed,
    /// Only after: `+`.
    Added,
}

/// Why a part of a diff was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffProblem {
    /// A path leaves the tree or holds control characters; the file is left out.
    UnsafePath {
        /// The path, escaped for a person.
        path: String,
    },
    /// A hunk header that is none.
    BadHunkHeader {
        /// 1-based line of the diff.
        line: usize,
    },
    /// A hunk has fewer lines than its header says.
    ShortHunk {
        /// The file.
        file: String,
        /// 1-based line of the diff at which it ends.
        line: usize,
    },
}

impl fmt::Display for DiffProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsafePath { path } => {
                write!(f, "path \"{path}\" is not inside the tree: this file of the diff is ignored")
            }
            Self::BadHunkHeader { line } => {
                write!(f, "line {line} of the diff is no hunk header: ask for the patch as git made it")
            }
            Self::ShortHunk { file, line } => write!(
                f,
                "a hunk for {file} ends early at line {line} of the diff: the mail is damaged, ask for a resend"
            ),
        }
    }
}

impl FileDiff<'_> {
    /// The path a person knows the file by: after, else before.
    pub fn path(&self) -> &str {
        self.new_path.as_deref().or(self.old_path.as_deref()).unwrap_or_default()
    }
}

/// Reads a diff; total.
pub fn parse(text: &str) -> Diff<'_> {
    let mut parser = Parser { diff: Diff::default(), file: None, named: false };
    let mut lines = text.lines().enumerate().peekable();
    let mut hunk: Option<(Hunk<'_>, u32, u32)> = None;
    while let Some((number, line)) = lines.next() {
        if let Some((open, old_left, new_left)) = &mut hunk {
            if take_hunk_line(open, old_left, new_left, line) {
                continue;
            }
            let complete = *old_left == 0 && *new_left == 0;
            let (done, ..) = hunk.take().expect("the hunk is open");
            parser.end_hunk(done, complete, number + 1);
        }
        if let Some(paths) = line.strip_prefix("diff --git ") {
            parser.start_file(paths);
        } else if line.starts_with("@@ ") && parser.named {
            match hunk_header(line) {
                Some(header) => hunk = Some((header.clone(), header.old_count, header.new_count)),
                None => parser.diff.problems.push(DiffProblem::BadHunkHeader { line: number + 1 }),
            }
        } else if let Some(old) = line.strip_prefix("--- ")
            && let Some(new) = lines.peek().and_then(|(_, next)| next.strip_prefix("+++ "))
        {
            parser.name_file(old, new);
            lines.next();
        } else {
            parser.header_line(line);
        }
    }
    if let Some((done, old_left, new_left)) = hunk {
        parser.end_hunk(done, old_left == 0 && new_left == 0, text.lines().count());
    }
    parser.end_file();
    parser.diff
}

/// Adds `line` to the open hunk; false when it is not part of it.
fn take_hunk_line<'a>(hunk: &mut Hunk<'a>, old_left: &mut u32, new_left: &mut u32, line: &'a str) -> bool {
    if line.starts_with('\\') {
        if let Some(last) = hunk.lines.last_mut() {
            last.unterminated = true;
        }
        return true;
    }
    let (kind, text) = match line.as_bytes().first() {
        Some(b' ') => (LineKind::Context, &line[1..]),
        // Mail programs strip the blank of an empty context line.
        None => (LineKind::Context, line),
        Some(b'-') => (LineKind::Removed, &line[1..]),
        Some(b'+') => (LineKind::Added, &line[1..]),
        Some(_) => return false,
    };
    let (needs_old, needs_new) = (kind != LineKind::Added, kind != LineKind::Removed);
    if (needs_old && *old_left == 0) || (needs_new && *new_left == 0) {
        return false;
    }
    *old_left -= u32::from(needs_old);
    *new_left -= u32::from(needs_new);
    hunk.lines.push(Line { kind, text, unterminated: false });
    true
}

/// `@@ -1,2 +3,4 @@ heading`; a missing count is 1.
fn hunk_header(line: &str) -> Option<Hunk<'_>> {
    let rest = line.strip_prefix("@@ -")?;
    let (old, rest) = rest.split_once(" +")?;
    let (new, heading) = rest.split_once(" @@")?;
    let range = |text: &str| -> Option<(u32, u32)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let (old_start, old_count) = range(old)?;
    let (new_start, new_count) = range(new)?;
    let heading = heading.strip_prefix(' ').unwrap_or(heading);
    Some(Hunk { old_start, old_count, new_start, new_count, heading, lines: Vec::new() })
}

struct Parser<'a> {
    diff: Diff<'a>,
    file: Option<FileDiff<'a>>,
    /// The open file has had its `---` and `+++` lines, so hunks may follow.
    named: bool,
}

impl<'a> Parser<'a> {
    /// `diff --git a/X b/Y`; the names count only for files without `---` lines.
    fn start_file(&mut self, names: &str) {
        self.end_file();
        let (old, new) = git_names(names).unwrap_or_default();
        self.file = Some(FileDiff { old_path: Some(old), new_path: Some(new), ..FileDiff::default() });
    }

    /// `--- old` and `+++ new`; the first pair behind `diff --git` belongs to that file.
    fn name_file(&mut self, old: &str, new: &str) {
        if self.named || self.file.is_none() {
            self.end_file();
            self.file = Some(FileDiff::default());
        }
        let file = self.file.as_mut().expect("a file was just opened");
        file.old_path = header_path(old);
        file.new_path = header_path(new);
        self.named = true;
    }

    /// The extended header lines between `diff --git` and `---`.
    fn header_line(&mut self, line: &str) {
        let Some(file) = self.file.as_mut() else { return };
        if self.named {
            return;
        }
        let after = |prefix: &str| line.strip_prefix(prefix);
        if let Some(mode) = after("old mode ") {
            file.mode = Some((mode.to_owned(), String::new()));
        } else if let Some(mode) = after("new mode ") {
            let old = file.mode.take().map(|(old, _)| old).unwrap_or_default();
            file.mode = Some((old, mode.to_owned()));
        } else if after("new file mode ").is_some() {
            file.old_path = None;
        } else if after("deleted file mode ").is_some() {
            file.new_path = None;
        } else if let Some(path) = after("rename from ").or(after("copy from ")) {
            file.copied = line.starts_with("copy");
            file.old_path = Some(unquote(path));
        } else if let Some(path) = after("rename to ").or(after("copy to ")) {
            file.new_path = Some(unquote(path));
        } else if line == "GIT binary patch"
            || (line.starts_with("Binary files ") && line.ends_with(" differ"))
        {
            file.binary = true;
        }
    }

    fn end_hunk(&mut self, hunk: Hunk<'a>, complete: bool, line: usize) {
        let Some(file) = self.file.as_mut() else { return };
        if !complete {
            self.diff
                .problems
                .push(DiffProblem::ShortHunk { file: file.path().escape_debug().to_string(), line });
        }
        file.hunks.push(hunk);
    }

    fn end_file(&mut self) {
        self.named = false;
        let Some(file) = self.file.take() else { return };
        for path in [&file.old_path, &file.new_path].into_iter().flatten() {
            if !paths::is_inside_tree(path) {
                let path = path.chars().take(200).collect::<String>().escape_debug().to_string();
                self.diff.problems.push(DiffProblem::UnsafePath { path });
                return;
            }
        }
        if file.old_path.is_some() || file.new_path.is_some() {
            self.diff.files.push(file);
        }
    }
}

/// Path of a `---` or `+++` line without its first component; `None` for `/dev/null`.
fn header_path(text: &str) -> Option<String> {
    let path = if text.starts_with('"') { unquote(text) } else { text.split('\t').next()?.to_owned() };
    let path = path.trim_end();
    (path != "/dev/null").then(|| without_first_component(path))
}

/// `a/x` to `x`; a name without a slash stays.
fn without_first_component(path: &str) -> String {
    path.split_once('/').map_or(path, |(_, rest)| rest).to_owned()
}

/// The two names behind `diff --git`: equal but for `a/` and `b/` unless quoted.
fn git_names(names: &str) -> Option<(String, String)> {
    if names.starts_with('"') {
        let end = closing_quote(names)?;
        let (old, new) = names.split_at(end + 1);
        return Some((
            without_first_component(&unquote(old)),
            without_first_component(&unquote(new.trim_start())),
        ));
    }
    let middle = names.len() / 2;
    let (old, new) = names.split_at_checked(middle)?;
    let (old, new) = (without_first_component(old), without_first_component(new.strip_prefix(' ')?));
    (old == new).then_some((old, new))
}

/// Offset of the quote that ends the quoted text at the start of `text`.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().enumerate().skip(1).find_map(|(at, byte)| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes.then_some(at)
    })
}

/// Undoes git's C-style quoting; text without quotes stays.
fn unquote(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(next @ b'0'..=b'7') = bytes.peek().copied() {
                        value = value * 8 + u32::from(next - b'0');
                        bytes.next();
                    }
                }
                out.push(value as u8);
            }
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(other) => out.push(other),
            None => out.push(b'\\'),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests;
