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

/// More calls than this are not listed for one function.
const MAX_CALLS: usize = 200;

/// Who mentions whom in one file.
#[derive(Debug, Clone, Default)]
pub struct Mentions<'a> {
    by: BTreeMap<&'a str, BTreeSet<(&'a str, Caller)>>,
}

impl<'a> Mentions<'a> {
    /// Reads a file; `foreign` are names defined elsewhere that matter too.
    pub fn of(outline: &'a Outline, source: &Source<'_>, foreign: &[&'a str]) -> Self {
        let functions = outline.functions.iter().map(|f| {
            let kind = if f.local { Caller::Local } else { Caller::Global };
            (f.name.as_str(), kind, &f.tokens)
        });
        let macros = outline.macros.iter().map(|m| (m.name.as_str(), Caller::Macro, &m.tokens));
        let all = functions.chain(macros);
        let names: BTreeSet<&str> =
            all.clone().map(|(name, ..)| name).chain(foreign.iter().copied()).collect();
        let mut mentions = Self::default();
        for (caller, kind, tokens) in all {
            for index in tokens.clone() {
                if let Some(word) = source.word(index)
                    && word != caller
                    && let Some(&mentioned) = names.get(word)
                {
                    mentions.by.entry(mentioned).or_default().insert((caller, kind));
                }
            }
        }
        mentions
    }

    /// The calls through which `name` is reached in this file: by functions that
    /// mention it, and by those that mention a local function which does. A
    /// macro stands for what it mentions. Sorted; at most a few hundred.
    pub fn calls_to(&self, name: &str) -> Vec<Call> {
        let mut calls: BTreeSet<(&str, &str)> = BTreeSet::new();
        let mut known = BTreeSet::from([name]);
        let mut waiting = vec![name];
        while let Some(callee) = waiting.pop() {
            let mut macros = BTreeSet::from([callee]);
            let mut names = vec![callee];
            while let Some(mentioned) = names.pop() {
                for &(caller, kind) in self.by.get(mentioned).into_iter().flatten() {
                    if kind == Caller::Macro {
                        if macros.insert(caller) {
                            names.push(caller);
                        }
                    } else if caller != name && calls.len() < MAX_CALLS {
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
}

/// The callers of a list of calls, sorted, each once.
pub fn callers(calls: &[Call]) -> Vec<String> {
    calls.iter().map(|(caller, _)| caller.clone()).collect::<BTreeSet<_>>().into_iter().collect()
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
        let mentions = Mentions::of(&outline, &source, &["foreign"]);
        let calls = mentions.calls_to("leaf");
        let pairs: Vec<(&str, &str)> = calls.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(pairs, [("again", "leaf"), ("middle", "leaf"), ("top", "middle")]);
        assert_eq!(callers(&calls), ["again", "middle", "top"]);
        assert_eq!(mentions.calls_to("other"), []);
        assert_eq!(callers(&mentions.calls_to("foreign")), ["again"]);
    }

    #[test]
    fn functions_that_call_each_other_end() {
        let text = "static int a(int x) { return b(x); }\nstatic int b(int x) { return a(x); }\n#define A B\n#define B A\n";
        let source = Source::new(text);
        let outline = Outline::of(&source);
        let mentions = Mentions::of(&outline, &source, &[]);
        assert_eq!(callers(&mentions.calls_to("a")), ["b"]);
        assert_eq!(mentions.calls_to("A"), []);
    }
}
