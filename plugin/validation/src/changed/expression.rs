// SPDX-License-Identifier: GPL-2.0-or-later
//! Kconfig expressions: `A && (B || !C) && D=y`.

use std::fmt;

/// A condition on options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Expression {
    /// Always; also what cannot be judged here, such as `$(cc-option,...)`:
    /// `make olddefconfig` has the last word.
    #[default]
    Yes,
    /// Never.
    No,
    /// `m`: only as a module.
    Module,
    /// The option is on.
    Option(String),
    /// The value of the option (`n` for off) compared with another.
    Compare {
        /// The option.
        option: String,
        /// What it is compared with.
        value: String,
        /// How.
        operator: Operator,
    },
    /// Not.
    Not(Box<Expression>),
    /// All of them.
    And(Vec<Expression>),
    /// Any of them.
    Or(Vec<Expression>),
}

/// A comparison. Order needs numbers on both sides; without them it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Operator {
    fn text(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }

    fn holds(self, have: &str, wanted: &str) -> bool {
        let numbers = have.parse::<i64>().ok().zip(wanted.parse::<i64>().ok());
        let ordered = |test: fn(i64, i64) -> bool| numbers.is_none_or(|(have, wanted)| test(have, wanted));
        match self {
            Self::Equal => have == wanted,
            Self::Unequal => have != wanted,
            Self::Less => ordered(|a, b| a < b),
            Self::AtMost => ordered(|a, b| a <= b),
            Self::Greater => ordered(|a, b| a > b),
            Self::AtLeast => ordered(|a, b| a >= b),
        }
    }
}

/// Deepest nesting that is read; below it everything holds.
const MAX_DEPTH: u32 = 50;

impl Expression {
    /// Reads an expression; what it does not understand holds.
    pub fn parse(text: &str) -> Self {
        let tokens = tokens(text);
        Reader { tokens: &tokens, at: 0, depth: 0 }.or()
    }

    /// Both.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, one) | (one, Self::Yes) => one,
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::And(mut all), one) => {
                all.push(one);
                Self::And(all)
            }
            (one, other) => Self::And(vec![one, other]),
        }
    }

    /// Whether it holds when `value` gives the values of options (`None`: off).
    pub fn holds(&self, value: &dyn Fn(&str) -> Option<String>) -> bool {
        match self {
            Self::Yes => true,
            Self::No => false,
            Self::Module => value("MODULES").is_some(),
            Self::Option(option) => value(option).is_some_and(|v| v != "n"),
            Self::Compare { option, value: wanted, operator } => {
                operator.holds(value(option).as_deref().unwrap_or("n"), wanted)
            }
            Self::Not(inner) => !inner.holds(value),
            Self::And(all) => all.iter().all(|e| e.holds(value)),
            Self::Or(any) => any.iter().any(|e| e.holds(value)),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Self], between: &str| {
            for (n, part) in parts.iter().enumerate() {
                f.write_str(if n > 0 { between } else { "" })?;
                if matches!(part, Self::And(_) | Self::Or(_)) {
                    write!(f, "({part})")?;
                } else {
                    write!(f, "{part}")?;
                }
            }
            Ok(())
        };
        match self {
            Self::Yes => f.write_str("y"),
            Self::No => f.write_str("n"),
            Self::Module => f.write_str("m"),
            Self::Option(option) => f.write_str(option),
            Self::Compare { option, value, operator } => write!(f, "{option}{}{value}", operator.text()),
            Self::Not(inner) if matches!(**inner, Self::And(_) | Self::Or(_)) => write!(f, "!({inner})"),
            Self::Not(inner) => write!(f, "!{inner}"),
            Self::And(all) => joined(f, all, " && "),
            Self::Or(any) => joined(f, any, " || "),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    /// A quoted value.
    Text(String),
    /// `$(...)`.
    Macro,
    And,
    Or,
    Not,
    Open,
    Close,
    Compare(Operator),
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return out };
        let (token, length) = match first {
            '#' => return out,
            '&' => (Token::And, if rest.starts_with("&&") { 2 } else { 1 }),
            '|' => (Token::Or, if rest.starts_with("||") { 2 } else { 1 }),
            '!' if rest.starts_with("!=") => (Token::Compare(Operator::Unequal), 2),
            '!' => (Token::Not, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '=' => (Token::Compare(Operator::Equal), 1),
            '<' if rest.starts_with("<=") => (Token::Compare(Operator::AtMost), 2),
            '<' => (Token::Compare(Operator::Less), 1),
            '>' if rest.starts_with(">=") => (Token::Compare(Operator::AtLeast), 2),
            '>' => (Token::Compare(Operator::Greater), 1),
            '"' | '\'' => {
                let end = rest[1..].find(first).map_or(rest.len(), |at| at + 2);
                (Token::Text(rest[1..end].trim_end_matches(first).to_owned()), end)
            }
            '$' => (Token::Macro, macro_length(rest)),
            _ => {
                let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
                let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let length = if length == 0 { first.len_utf8() } else { length };
                (Token::Name(rest[..length].to_owned()), length)
            }
        };
        out.push(token);
        rest = &rest[length..];
    }
}

/// Length of the `$(...)` or `$name` at the start of `text`.
fn macro_length(text: &str) -> usize {
    if !text.starts_with("$(") {
        return text.find(char::is_whitespace).unwrap_or(text.len());
    }
    let mut open = 0u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => open += 1,
            b')' if open == 1 => return at + 1,
            b')' => open -= 1,
            _ => {}
        }
    }
    text.len()
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: u32,
}

impl Reader<'_> {
    fn or(&mut self) -> Expression {
        let first = self.and();
        let mut any = vec![first];
        while self.takes(&Token::Or) {
            any.push(self.and());
        }
        if any.len() == 1 { any.remove(0) } else { Expression::Or(any) }
    }

    fn and(&mut self) -> Expression {
        let mut all = self.not();
        while self.takes(&Token::And) {
            all = all.and(self.not());
        }
        all
    }

    fn not(&mut self) -> Expression {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Expression::Yes;
        }
        let value = if self.takes(&Token::Not) {
            Expression::Not(Box::new(self.not()))
        } else if self.takes(&Token::Open) {
            let inner = self.or();
            self.takes(&Token::Close);
            inner
        } else {
            self.comparison()
        };
        self.depth -= 1;
        value
    }

    fn comparison(&mut self) -> Expression {
        let left = self.operand();
        let Some(&Token::Compare(operator)) = self.tokens.get(self.at) else {
            return match left {
                Some(Token::Name(name) | Token::Text(name)) => match name.as_str() {
                    "y" => Expression::Yes,
                    "n" => Expression::No,
                    "m" => Expression::Module,
                    _ => Expression::Option(name),
                },
                _ => Expression::Yes,
            };
        };
        self.at += 1;
        match (left, self.operand()) {
            (Some(Token::Name(option)), Some(Token::Name(value) | Token::Text(value))) => {
                Expression::Compare { option, value, operator }
            }
            _ => Expression::Yes,
        }
    }

    fn operand(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        match token {
            Some(Token::Name(_) | Token::Text(_) | Token::Macro) => {
                self.at += 1;
                token
            }
            _ => None,
        }
    }

    fn takes(&mut self, token: &Token) -> bool {
        let takes = self.tokens.get(self.at) == Some(token);
        self.at += usize::from(takes);
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expressions_hold_or_not() {
        let value = |name: &str| match name {
            "A" | "B" => Some("y".to_owned()),
            "M" => Some("m".to_owned()),
            "HZ" => Some("250".to_owned()),
            _ => None,
        };
        for (text, expected) in [
            ("A", true),
            ("OFF", false),
            ("A && !OFF", true),
            ("A && (OFF || B) # why", true),
            ("OFF || !(A && B)", false),
            ("A=y && OFF=n && M!=y", true),
            ("HZ = \"250\"", true),
            ("HZ>100 && A", true),
            ("HZ >= 251", false),
            ("HZ<250 || HZ <= 249", false),
            ("GCC_VERSION >= 50000", true),
            ("$(cc-option,-m64 (x)) && OFF", false),
            ("y", true),
            ("n", false),
            ("m", false),
            ("", true),
        ] {
            assert_eq!(Expression::parse(text).holds(&value), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_expression(text in "[A-C!&|()=<>\"$m \u{e4}]{0,60}") {
            Expression::parse(&text).holds(&|_| None);
        }
    }

    #[test]
    fn expressions_are_shown_as_written() {
        for text in ["A && !B && (C || D=y)", "!(A || B)", "A!=n || (B && C)", "A>=3 && B<4"] {
            assert_eq!(Expression::parse(text).to_string(), text);
        }
    }

    #[test]
    fn hostile_nesting_is_bounded() {
        Expression::parse(&"(".repeat(100_000)).holds(&|_| None);
        Expression::parse(&"!".repeat(100_000)).holds(&|_| None);
    }
}
