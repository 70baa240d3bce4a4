// SPDX-License-Identifier: GPL-2.0-or-later
//! Who calls a function, within one file.

use super::functions::Outline;
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// A call: caller, then callee.
pub type Call = (String, String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Caller {
    Macro,
    /// Its own callers count too: the compiler may merge it into them.
    Local,
    Global,
}

/// The calls through which `name` (which may be defined in another file) is
/// reached in this file: by functions that mention it, and by those that
/// mention a local function which does. A macro stands for what it mentions.
/// Sorted.
pub fn calls_to(outline: &Outline, source: &Source<'_>, name: &str) -> Vec<Call> {
    let mentions = mentions(outline, source, name);
    let mut calls: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut known = BTreeSet::from([name]);
    let mut waiting = vec![name];
    while let Some(callee) = waiting.pop() {
        let mut macros = BTreeSet::from([callee]);
        let mut names = vec![callee];
        while let Some(mentioned) = names.pop() {
            for &(caller, kind) in mentions.get(mentioned).into_iter().flatten() {
                if kind == Caller::Macro {
                    if macros.insert(caller) {
                        names.push(caller);
                    }
                } else if caller != name {
                    calls.insert((caller, callee));
                    if kind == Caller::Local && known.insert(caller) {
                        waiting.push(caller);
                    }
                }
            }
        }
    }
    calls.into_iter().map(|(caller, callee)| (caller.to_owned(), callee.to_owned())).collect()
}

/// The callers of a list of calls, sorted, each once.
pub fn callers(calls: &[Call]) -> Vec<String> {
    calls.iter().map(|(caller, _)| caller.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// For each function and macro of the file, and for `name`: who mentions it.
fn mentions<'s>(
    outline: &'s Outline,
    source: &Source<'_>,
    name: &'s str,
) -> BTreeMap<&'s str, BTreeSet<(&'s str, Caller)>> {
    let functions = outline.functions.iter().map(|f| {
        let kind = if f.local { Caller::Local } else { Caller::Global };
        (f.name.as_str(), kind, &f.tokens)
    });
    let macros = outline.macros.iter().map(|m| (m.name.as_str(), Caller::Macro, &m.tokens));
    let mut names: BTreeSet<&str> = functions.clone().chain(macros.clone()).map(|(name, ..)| name).collect();
    names.insert(name);
    let mut mentions: BTreeMap<&str, BTreeSet<(&str, Caller)>> = BTreeMap::new();
    for (caller, kind, tokens) in functions.chain(macros) {
        for index in tokens.clone() {
            if let Some(word) = source.word(index)
                && word != caller
                && let Some(&mentioned) = names.get(word)
            {
                mentions.entry(mentioned).or_default().insert((caller, kind));
            }
        }
    }
    mentions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_followed_through_local_functions_and_macros() {
        let text = "\
static int leaf(void) { return 1; }
#define CALL_LEAF() leaf()
static inline int middle(void) { return CALL_LEAF(); }
int top(void) { return middle(); }
int far(void) { return top(); }
int other(void) { return 0; }
int again(void) { return leaf() + foreign(); }
";
        let source = Source::new(text);
        let outline = Outline::of(&source);
        let calls = calls_to(&outline, &source, "leaf");
        let pairs: Vec<(&str, &str)> = calls.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(pairs, [("again", "leaf"), ("middle", "leaf"), ("top", "middle")]);
        assert_eq!(callers(&calls), ["again", "middle", "top"]);
        assert_eq!(calls_to(&outline, &source, "other"), []);
        assert_eq!(callers(&calls_to(&outline, &source, "foreign")), ["again"]);
    }

    #[test]
    fn functions_that_call_each_other_end() {
        let text = "static int a(int x) { return b(x); }\nstatic int b(int x) { return a(x); }\n#define A B\n#define B A\n";
        let source = Source::new(text);
        let outline = Outline::of(&source);
        assert_eq!(callers(&calls_to(&outline, &source, "a")), ["b"]);
        assert_eq!(calls_to(&outline, &source, "A"), []);
    }
}
