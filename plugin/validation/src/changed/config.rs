// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel configuration (`.config`) as values, and what `#if` lines mean under it.

use super::source::{Source, TokenKind};
use std::collections::BTreeMap;

/// The options of a `.config`, without their `CONFIG_`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    values: BTreeMap<String, String>,
}

/// Deepest nesting of an expression that is followed.
const MAX_DEPTH: u32 = 50;

impl Config {
    /// Reads a `.config`; lines that set nothing are skipped.
    pub fn parse(text: &str) -> Self {
        let values = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("CONFIG_")?.split_once('='))
            .filter(|(_, value)| *value != "n")
            .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
            .collect();
        Self { values }
    }

    /// Whether the option is `y` or `m`.
    pub fn is_on(&self, option: &str) -> bool {
        matches!(self.value(option), Some("y" | "m"))
    }

    /// The value as written, strings without their quotes; `None` when not set.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(String::as_str)
    }

    /// Whether a preprocessor condition holds in code that is built in; `None`
    /// when it depends on more than the configuration.
    pub fn holds(&self, condition: &str) -> Option<bool> {
        let source = Source::new(condition);
        let mut reader = Condition { config: self, source: &source, at: 0, depth: 0 };
        let value = reader.or();
        (reader.at == source.tokens.len()).then_some(value)?
    }
}

/// Recursive descent over `||`, `&&`, `!`, parentheses and the macros that ask
/// for options; anything else is unknown.
struct Condition<'a> {
    config: &'a Config,
    source: &'a Source<'a>,
    at: usize,
    depth: u32,
}

impl Condition<'_> {
    fn or(&mut self) -> Option<bool> {
        let mut value = self.and();
        while self.takes(b"||") {
            let right = self.and();
            value = match (value, right) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                (None, _) | (_, None) => None,
            };
        }
        value
    }

    fn and(&mut self) -> Option<bool> {
        let mut value = self.not();
        while self.takes(b"&&") {
            let right = self.not();
            value = match (value, right) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                (None, _) | (_, None) => None,
            };
        }
        value
    }

    fn not(&mut self) -> Option<bool> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let value = if self.takes(b"!") {
            self.not().map(|v| !v)
        } else if self.takes(b"(") {
            let inner = self.or();
            self.takes(b")");
            inner
        } else {
            self.atom()
        };
        self.depth -= 1;
        value
    }

    fn atom(&mut self) -> Option<bool> {
        let word = self.source.word(self.at)?;
        self.at += 1;
        match word {
            "defined" | "IS_ENABLED" | "IS_BUILTIN" | "IS_REACHABLE" | "IS_MODULE" => {
                let parenthesis = self.takes(b"(");
                let name = self.source.word(self.at);
                self.at += 1;
                if parenthesis {
                    self.takes(b")");
                }
                self.named(word, name?)
            }
            "0" => Some(false),
            "1" => Some(true),
            _ => match (self.source.tokens.get(self.at).map(|t| t.kind), word.strip_prefix("CONFIG_")) {
                // Comparisons and calls are beyond this reader.
                (Some(TokenKind::Mark(b'<' | b'>' | b'=' | b'(' | b'+' | b'-' | b'!')), _) | (_, None) => {
                    None
                }
                (_, Some(option)) => match self.config.value(option) {
                    Some("y") => Some(true),
                    None | Some("m" | "0") => Some(false),
                    Some(other) => other.parse::<i64>().ok().map(|n| n != 0),
                },
            },
        }
    }

    fn named(&self, asked: &str, name: &str) -> Option<bool> {
        match (name, name.strip_prefix("CONFIG_")) {
            ("MODULE" | "__ASSEMBLY__" | "__ASSEMBLER__", _) if asked == "defined" => Some(false),
            ("__KERNEL__", _) if asked == "defined" => Some(true),
            (_, None) => None,
            (_, Some(option)) => {
                let value = self.config.value(option);
                Some(match asked {
                    "IS_ENABLED" => matches!(value, Some("y" | "m")),
                    "IS_MODULE" => value == Some("m"),
                    "defined" => value.is_some_and(|v| v != "m"),
                    _ => value == Some("y"),
                })
            }
        }
    }

    /// Takes the marks of `text` if they are next.
    fn takes(&mut self, text: &[u8]) -> bool {
        let next = self.source.tokens.get(self.at..self.at + text.len());
        let matches =
            next.is_some_and(|tokens| tokens.iter().zip(text).all(|(t, &b)| t.kind == TokenKind::Mark(b)));
        // `!=` is no negation.
        if matches
            && text == b"!"
            && self.source.tokens.get(self.at + 1).is_some_and(|t| t.kind == TokenKind::Mark(b'='))
        {
            return false;
        }
        self.at += if matches { text.len() } else { 0 };
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        let config = Config::parse(
            "# CONFIG_OFF is not set\nCONFIG_A=y\nCONFIG_M=m\nCONFIG_NAME=\"x\"\nCONFIG_HZ=250\nnoise\n",
        );
        assert!(config.is_on("A") && config.is_on("M") && !config.is_on("OFF") && !config.is_on("HZ"));
        assert_eq!(config.value("NAME"), Some("x"));
    }

    #[test]
    fn conditions_are_judged_or_left_open() {
        let config = Config::parse("CONFIG_A=y\nCONFIG_M=m\nCONFIG_HZ=250\n");
        for (condition, expected) in [
            ("defined(CONFIG_A)", Some(true)),
            ("defined CONFIG_B", Some(false)),
            ("!defined(CONFIG_A)", Some(false)),
            ("IS_ENABLED(CONFIG_M) && !defined(CONFIG_M)", Some(true)),
            ("IS_BUILTIN(CONFIG_M)", Some(false)),
            ("defined(CONFIG_B) || (defined(CONFIG_A) && !0)", Some(true)),
            ("CONFIG_HZ", Some(true)),
            ("CONFIG_HZ > 100", None),
            ("defined(foo)", None),
            ("defined(foo) && defined(CONFIG_B)", Some(false)),
            ("defined(foo) || defined(CONFIG_A)", Some(true)),
            ("BITS_PER_LONG == 64", None),
            ("0", Some(false)),
            ("", None),
            ("defined(CONFIG_A) garbage", None),
            ("defined(MODULE)", Some(false)),
        ] {
            assert_eq!(config.holds(condition), expected, "{condition}");
        }
        assert_eq!(config.holds(&"(".repeat(100_000)), None);
        assert_eq!(config.holds(&"!".repeat(100_000)), None);
    }
}
