// SPDX-License-Identifier: GPL-2.0-or-later
//! What a file-level declaration in front of a `{` declares.

use super::source::{Source, TokenKind};

/// What the tokens in front of a `{` at file level say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared {
    /// A function body follows.
    Function {
        /// Linker symbol.
        name: String,
        /// Index of the first token of the declaration.
        first_token: usize,
        /// `static` or `inline`.
        local: bool,
        /// No profiler sees it.
        untraceable: bool,
    },
    /// A structure, union or enumeration follows.
    Type {
        /// Tag, or empty.
        name: String,
        /// Index of the first token of the declaration.
        first_token: usize,
    },
    /// `extern "C"`.
    Linkage,
    /// An initialiser, or nothing that is understood.
    Other,
}

/// Words that take arguments and are no function name (include/linux/compiler*.h).
const ATTRIBUTES: &[&str] = &[
    "__acquire",
    "__acquires",
    "__acquires_shared",
    "__alias",
    "__aligned",
    "__alloc_size",
    "__asm__",
    "__assume_aligned",
    "__attribute",
    "__attribute__",
    "__cond_acquires",
    "__cond_acquires_shared",
    "__copy",
    "__counted_by",
    "__diagnose_as",
    "__error",
    "__excludes",
    "__guarded_by",
    "__must_hold",
    "__must_hold_shared",
    "__no_sanitize",
    "__no_sanitize__",
    "__nonnull",
    "__noinstr_section",
    "__printf",
    "__releases",
    "__releases_shared",
    "__scanf",
    "__section",
    "__target",
    "__typeof__",
    "__warning",
    "_Alignas",
    "asm",
    "typeof",
];

/// Words that keep ftrace away (include/linux/compiler_types.h).
const UNTRACEABLE: &[&str] =
    &["__cpuidle", "__no_instrument_function", "__noendbr", "no_instrument_function", "noinstr", "notrace"];

/// Statements, which only a file with unbalanced braces has at file level.
const STATEMENTS: &[&str] = &["do", "else", "for", "if", "return", "sizeof", "switch", "while"];

/// A top-level piece of a declaration, by position in its token list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// Identifier or keyword.
    Word(usize),
    /// From `(` to its `)`.
    Group(usize, usize),
    /// Any other token.
    Mark(u8),
}

/// Judges the tokens in front of a `{`; `head` holds indices into `source.tokens`.
pub fn classify(source: &Source<'_>, head: &[usize]) -> Declared {
    let pieces = pieces(source, head);
    if pieces.contains(&Piece::Mark(b'=')) {
        return Declared::Other;
    }
    let word = |position: usize| source.word(head[position]).unwrap_or_default();
    if let [Piece::Word(only)] = pieces[..]
        && word(only) == "extern"
    {
        return Declared::Linkage;
    }
    let tag = pieces.iter().rposition(
        |piece| matches!(piece, Piece::Word(at) if matches!(word(*at), "struct" | "union" | "enum")),
    );
    if let Some(place) = function_name(source, head, &pieces) {
        // `SOME_MACRO(x)` without semicolon in front of `struct s {` is no function.
        let type_follows = tag.is_some_and(|tag| {
            tag > place && pieces[tag..].iter().all(|piece| matches!(piece, Piece::Word(_)))
        });
        if !type_follows {
            return function(source, head, &pieces, place);
        }
    }
    let Some(tag) = tag else { return Declared::Other };
    let mut words = pieces[tag + 1..].iter().filter_map(|piece| match piece {
        Piece::Word(at) => Some(word(*at)),
        Piece::Group(..) | Piece::Mark(_) => None,
    });
    let name = words.rfind(|w| !w.starts_with("__")).unwrap_or_default().to_owned();
    let Piece::Word(first) = pieces[tag] else { return Declared::Other };
    Declared::Type { name, first_token: head[first] }
}

/// Where the name of a function stands, as an index into `pieces`: the last
/// word with a parameter list that is no attribute.
fn function_name(source: &Source<'_>, head: &[usize], pieces: &[Piece]) -> Option<usize> {
    let mut found: Option<usize> = None;
    for (index, window) in pieces.windows(2).enumerate() {
        let (Piece::Word(at), Piece::Group(..)) = (window[0], window[1]) else { continue };
        let word = source.word(head[at]).unwrap_or_default();
        if ATTRIBUTES.contains(&word) || word.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        // `int f(void) MACRO(x)` in one breath: MACRO is an attribute, unless it
        // starts a line of its own, as behind `module_init(f)` without semicolon.
        let touches = index > 0 && matches!(pieces[index - 1], Piece::Group(..)) && found.is_some();
        if touches && !source.tokens[head[at]].first_column {
            continue;
        }
        found = Some(index);
    }
    let at = found?;
    let Piece::Word(position) = pieces[at] else { return None };
    (!STATEMENTS.contains(&source.word(head[position]).unwrap_or_default())).then_some(at)
}

fn function(source: &Source<'_>, head: &[usize], pieces: &[Piece], place: usize) -> Declared {
    let position_of = |piece: Piece| match piece {
        Piece::Word(at) | Piece::Group(at, _) => at,
        Piece::Mark(_) => 0,
    };
    let word_at = |piece: Piece| source.word(head[position_of(piece)]).unwrap_or_default();
    // The declaration starts behind what an earlier macro call left over.
    let mut start = place;
    while start > 0 {
        match pieces[start - 1] {
            Piece::Word(_) | Piece::Mark(b'*') => start -= 1,
            Piece::Group(..) if start > 1 && ATTRIBUTES.contains(&word_at(pieces[start - 2])) => start -= 2,
            Piece::Group(..) | Piece::Mark(_) => break,
        }
    }
    while start < place && matches!(pieces[start], Piece::Mark(_)) {
        start += 1;
    }
    let words = pieces.iter().skip(start).filter_map(|&piece| match piece {
        Piece::Word(_) => Some(word_at(piece)),
        Piece::Group(..) | Piece::Mark(_) => None,
    });
    let is_local = |word: &str| {
        matches!(word, "static" | "inline" | "__inline" | "__inline__" | "__always_inline")
            || (word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
                && (word.contains("STATIC") || word.contains("INLINE")))
    };
    let (macro_name, group) = (word_at(pieces[place]), pieces[place + 1]);
    let named = match pieces.get(place + 2) {
        // `int (*name(int))(int)`, `int (name)(int)`, `PREFIX(name)(int)`.
        Some(Piece::Group(..)) => Named::plain(first_word(source, head, group).unwrap_or(macro_name)),
        _ => name(macro_name, place == start, first_word(source, head, group)),
    };
    Declared::Function {
        name: named.symbol,
        first_token: head[position_of(pieces[start])],
        local: !named.entry && words.clone().any(is_local),
        untraceable: named.untraceable || words.clone().any(|w| UNTRACEABLE.contains(&w)),
    }
}

/// What a function is called by the linker.
struct Named {
    symbol: String,
    untraceable: bool,
    /// Made by a macro that gives it external linkage.
    entry: bool,
}

impl Named {
    fn plain(name: &str) -> Self {
        Self { symbol: name.to_owned(), untraceable: false, entry: false }
    }
}

/// The symbol for `word(argument, ...)`, where `bare` says that no type stands
/// in front, which only macros that make a function do.
fn name(word: &str, bare: bool, argument: Option<&str>) -> Named {
    let Some(argument) = argument else { return Named::plain(word) };
    let entry = |symbol: String, untraceable| Named { symbol, untraceable, entry: true };
    if word.starts_with("SYSCALL_DEFINE") {
        // arch/x86/include/asm/syscall_wrapper.h
        entry(format!("__x64_sys_{argument}"), false)
    } else if word.starts_with("COMPAT_SYSCALL_DEFINE") {
        entry(format!("__ia32_compat_sys_{argument}"), false)
    } else if word.starts_with("DEFINE_IDTENTRY") {
        // arch/x86/include/asm/idtentry.h: the entry itself is noinstr
        entry(argument.to_owned(), true)
    } else if word.starts_with("NOTRACE_BPF_CALL_") {
        entry(argument.to_owned(), true)
    } else if word.starts_with("BPF_CALL_") {
        entry(argument.to_owned(), false)
    } else if bare && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
        Named::plain(argument)
    } else {
        Named::plain(word)
    }
}

/// First word inside a group, past `*`.
fn first_word<'a>(source: &Source<'a>, head: &[usize], group: Piece) -> Option<&'a str> {
    let Piece::Group(from, to) = group else { return None };
    let inside = head.get(from + 1..to)?;
    let first = inside.iter().find(|&&i| source.tokens[i].kind != TokenKind::Mark(b'*'))?;
    source.word(*first)
}

/// Splits a declaration at its top-level parentheses.
fn pieces(source: &Source<'_>, head: &[usize]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut open: Option<usize> = None;
    let mut depth = 0u32;
    for (position, &index) in head.iter().enumerate() {
        let kind = source.tokens[index].kind;
        match kind {
            TokenKind::Mark(b'(') => {
                depth += 1;
                open = open.or(Some(position));
            }
            TokenKind::Mark(b')') if depth > 0 => {
                depth -= 1;
                if depth == 0
                    && let Some(from) = open.take()
                {
                    pieces.push(Piece::Group(from, position));
                }
            }
            _ if depth > 0 => {}
            TokenKind::Word => pieces.push(Piece::Word(position)),
            TokenKind::Mark(mark) => pieces.push(Piece::Mark(mark)),
            TokenKind::Literal | TokenKind::Hash => {}
        }
    }
    pieces
}

/// Whether a declaration that ended with `;` is the head of an old-style
/// definition with its first parameter: `int f(a, b) int a;`.
pub fn is_old_style_head(source: &Source<'_>, declaration: &[usize]) -> bool {
    let pieces = pieces(source, declaration);
    let Some(place) = function_name(source, declaration, &pieces) else { return false };
    let Some(&Piece::Group(from, to)) = pieces.get(place + 1) else { return false };
    let names = declaration.get(from + 1..to).unwrap_or_default();
    let only_names = !names.is_empty()
        && names.iter().enumerate().all(|(n, &index)| {
            let kind = source.tokens[index].kind;
            if n % 2 == 0 { kind == TokenKind::Word } else { kind == TokenKind::Mark(b',') }
        });
    let parameter = declaration.get(to + 1..).unwrap_or_default();
    only_names && is_parameter(source, parameter)
}

/// Whether a declaration that ended with `;` can declare an old-style
/// parameter: at least a type and a name, nothing assigned.
pub fn is_parameter(source: &Source<'_>, declaration: &[usize]) -> bool {
    let kinds = || declaration.iter().map(|&index| source.tokens[index].kind);
    kinds().filter(|k| *k == TokenKind::Word).count() >= 2
        && !kinds().any(|k| matches!(k, TokenKind::Mark(b'=')))
}
