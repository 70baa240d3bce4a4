// SPDX-License-Identifier: GPL-2.0-or-later
//! The Kconfig files of a tree, read far enough to know what an option needs
//! (Documentation/kbuild/kconfig-language.rst).

use super::expression::Expression;
use super::paths;
use std::collections::BTreeMap;

/// All options of a tree.
#[derive(Debug, Clone, Default)]
pub struct Kconfig {
    options: BTreeMap<String, Vec<Definition>>,
    /// Option to those that select it, with the condition.
    selectors: BTreeMap<String, Vec<(String, Expression)>>,
    contexts: Vec<Context>,
}

/// One `config` or `menuconfig` entry; an option may have several.
#[derive(Debug, Clone, Default)]
pub struct Definition {
    /// `depends on` lines of the entry itself.
    pub depends: Vec<Expression>,
    /// Condition of the prompt; `None` for an option that nobody can set by hand.
    pub prompt: Option<Expression>,
    /// Conditions under which it is on by default.
    pub default_on: Vec<Expression>,
    /// A string or number, which is neither on nor off.
    pub is_value: bool,
    context: Option<usize>,
}

/// An enclosing `if`, `menu` or `choice`.
#[derive(Debug, Clone)]
struct Context {
    condition: Expression,
    parent: Option<usize>,
}

/// What the lines being read belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Option(String),
    /// A `menu` or `choice`, whose conditions are those of its context.
    Block,
    /// A `comment`, or nothing yet.
    None,
}

/// Deepest nesting of `source` lines.
const MAX_SOURCE_DEPTH: u32 = 20;
/// Files after which reading stops; a kernel has about 1800.
const MAX_FILES: u32 = 10_000;

impl Kconfig {
    /// Reads the tree from its top `Kconfig`, for x86.
    pub fn read(read: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut reader = Reader { read, kconfig: Self::default(), context: None, files: 0 };
        reader.file("Kconfig", 0);
        reader.kconfig
    }

    /// The entries of an option; empty when there is none of that name.
    pub fn definitions(&self, option: &str) -> &[Definition] {
        self.options.get(option).map_or(&[], Vec::as_slice)
    }

    /// Options that select `option`, with the condition of the `select`.
    pub fn selectors(&self, option: &str) -> &[(String, Expression)] {
        self.selectors.get(option).map_or(&[], Vec::as_slice)
    }

    /// Everything an entry depends on, its enclosing blocks first.
    pub fn dependencies<'a>(&'a self, definition: &'a Definition) -> Vec<&'a Expression> {
        let mut all = Vec::new();
        let mut context = definition.context;
        while let Some(index) = context {
            all.push(&self.contexts[index].condition);
            context = self.contexts[index].parent;
        }
        all.reverse();
        all.extend(&definition.depends);
        all
    }
}

struct Reader<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    kconfig: Kconfig,
    context: Option<usize>,
    files: u32,
}

impl Reader<'_> {
    fn file(&mut self, path: &str, depth: u32) {
        self.files += 1;
        if depth > MAX_SOURCE_DEPTH || self.files > MAX_FILES || !paths::is_inside_tree(path) {
            return;
        }
        let Some(text) = (self.read)(path) else { return };
        let mut entry = Entry::None;
        let mut help: Option<usize> = None;
        let mut in_help = false;
        for line in logical_lines(&text) {
            let indent = indent(&line);
            let content = line.trim();
            if in_help {
                // Help text goes on while lines are indented as far as its first one.
                if content.is_empty() || (indent > 0 && indent >= *help.get_or_insert(indent)) {
                    continue;
                }
                (in_help, help) = (false, None);
            }
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let (word, rest) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
            match word {
                "help" | "---help---" => in_help = true,
                _ => self.line(word, rest.trim(), &mut entry, path, depth),
            }
        }
    }

    fn line(&mut self, word: &str, rest: &str, entry: &mut Entry, path: &str, depth: u32) {
        match word {
            "config" | "menuconfig" => {
                let definition = Definition { context: self.context, ..Definition::default() };
                self.kconfig.options.entry(rest.to_owned()).or_default().push(definition);
                *entry = Entry::Option(rest.to_owned());
            }
            "if" => {
                self.open(Expression::parse(rest));
                *entry = Entry::None;
            }
            "menu" | "choice" => {
                self.open(Expression::Yes);
                *entry = Entry::Block;
            }
            "endif" | "endmenu" | "endchoice" => {
                self.context = self.context.and_then(|c| self.kconfig.contexts[c].parent);
                *entry = Entry::None;
            }
            "comment" | "mainmenu" => *entry = Entry::None,
            "source" | "rsource" | "osource" | "orsource" => {
                let name =
                    rest.trim_matches(['"', '\'']).replace("$(SRCARCH)", "x86").replace("$SRCARCH", "x86");
                let name =
                    if word.contains("rs") { paths::join(paths::directory(path), &name) } else { name };
                self.file(&name, depth + 1);
                *entry = Entry::None;
            }
            _ => self.attribute(word, rest, entry),
        }
    }

    fn open(&mut self, condition: Expression) {
        self.kconfig.contexts.push(Context { condition, parent: self.context });
        self.context = Some(self.kconfig.contexts.len() - 1);
    }

    fn attribute(&mut self, word: &str, rest: &str, entry: &Entry) {
        let option = match entry {
            Entry::None => return,
            Entry::Block => {
                let condition = match word {
                    "depends" => rest.strip_prefix("on").map(Expression::parse),
                    "visible" => rest.strip_prefix("if").map(Expression::parse),
                    "prompt" | "bool" | "tristate" => Some(split_if(rest).1),
                    _ => None,
                };
                if let (Some(condition), Some(context)) = (condition, self.context) {
                    let context = &mut self.kconfig.contexts[context].condition;
                    *context = std::mem::take(context).and(condition);
                }
                return;
            }
            Entry::Option(option) => option,
        };
        if matches!(word, "select" | "imply") {
            if word == "select" {
                let (selected, condition) = split_if(rest);
                let selector = (option.clone(), condition);
                self.kconfig.selectors.entry(selected.to_owned()).or_default().push(selector);
            }
            return;
        }
        let Some(definition) = self.kconfig.options.get_mut(option).and_then(|all| all.last_mut()) else {
            return;
        };
        let (value, condition) = split_if(rest);
        match word {
            "depends" => {
                if let Some(on) = rest.strip_prefix("on") {
                    definition.depends.push(Expression::parse(on));
                }
            }
            "bool" | "tristate" | "string" | "int" | "hex" | "prompt" => {
                definition.is_value |= matches!(word, "string" | "int" | "hex");
                if !value.is_empty() {
                    definition.prompt = Some(condition);
                }
            }
            "default" | "def_bool" | "def_tristate" => {
                let value = Expression::parse(value);
                if value != Expression::No {
                    definition.default_on.push(value.and(condition));
                }
            }
            _ => {}
        }
    }
}

/// Splits `value if condition` outside of quotes.
fn split_if(text: &str) -> (&str, Expression) {
    let after_quote = match text.as_bytes().first() {
        Some(&quote @ (b'"' | b'\'')) => text[1..].find(quote as char).map_or(text.len(), |at| at + 2),
        _ => 0,
    };
    let (quoted, rest) = text.split_at(after_quote.min(text.len()));
    let at = match rest.strip_prefix("if ") {
        Some(_) if !quoted.is_empty() => Some(0),
        _ => rest.find(" if ").map(|at| at + 1).or_else(|| rest.find("\tif ").map(|at| at + 1)),
    };
    match at {
        Some(at) => (text[..after_quote + at].trim(), Expression::parse(&rest[at + 3..])),
        None => (text.trim(), Expression::Yes),
    }
}

/// Column of the first character, tabs to multiples of 8.
fn indent(line: &str) -> usize {
    line.bytes().take_while(|b| matches!(b, b' ' | b'\t')).fold(0, |column, byte| match byte {
        b'\t' => (column / 8 + 1) * 8,
        _ => column + 1,
    })
}

/// Lines with continuations joined.
fn logical_lines(text: &str) -> impl Iterator<Item = String> {
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        let mut whole = lines.next()?.to_owned();
        while let Some(start) = whole.strip_suffix('\\').map(str::len) {
            whole.truncate(start);
            whole.push_str(lines.next().unwrap_or_default());
        }
        Some(whole)
    })
}
