// SPDX-License-Identifier: GPL-2.0-or-later
//! C text as tokens with line numbers, without comments and white space.
//!
//! This is the part of translation phases 1 to 3 that is needed to find
//! functions and to see whether a change is more than a comment. It is total:
//! an unterminated literal ends with its line, a comment with the text.

/// C text and its tokens.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    text: &'a str,
    /// In the order of the text.
    pub tokens: Vec<Token>,
}

/// One token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Byte offset of its start.
    pub start: u32,
    /// Byte offset behind it.
    pub end: u32,
    /// 1-based line on which it starts.
    pub line: u32,
    /// Whether it stands in the first column.
    pub first_column: bool,
    /// Part of a preprocessor line; its `#` has [`TokenKind::Hash`].
    pub in_directive: bool,
}

/// The kinds of token that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Identifier, keyword or number.
    Word,
    /// A string or character literal with its quotes.
    Literal,
    /// The `#` that starts a preprocessor line.
    Hash,
    /// Any other single character.
    Mark(u8),
}

impl<'a> Source<'a> {
    /// Splits `text` into tokens. Text beyond 4 GiB is not looked at.
    pub fn new(text: &'a str) -> Self {
        let mut lexer = Lexer {
            bytes: text.as_bytes(),
            at: 0,
            line: 1,
            line_start: 0,
            fresh_line: true,
            directive: false,
        };
        let mut tokens = Vec::new();
        while lexer.at < u32::MAX as usize
            && let Some(token) = lexer.next_token()
        {
            tokens.push(token);
        }
        Self { text, tokens }
    }

    /// The text of a token.
    pub fn text(&self, token: Token) -> &'a str {
        self.text.get(token.start as usize..token.end as usize).unwrap_or_default()
    }

    /// The word at token `index`, if it is one.
    pub fn word(&self, index: usize) -> Option<&'a str> {
        let token = *self.tokens.get(index)?;
        (token.kind == TokenKind::Word).then(|| self.text(token))
    }

    /// Texts of the tokens that start on lines `first..=last`: what the lines
    /// mean, whatever their layout and comments.
    pub fn meaning(&self, first: u32, last: u32) -> Vec<&'a str> {
        let from = self.tokens.partition_point(|t| t.line < first);
        let to = self.tokens.partition_point(|t| t.line <= last);
        self.tokens.get(from..to).unwrap_or_default().iter().map(|&t| self.text(t)).collect()
    }

    /// The tokens of the preprocessor line whose `#` is token `index`, without
    /// the `#`, as a range of token indices.
    pub fn directive(&self, index: usize) -> std::ops::Range<usize> {
        let rest = self.tokens.get(index + 1..).unwrap_or_default();
        let count = rest.iter().take_while(|t| t.in_directive && t.kind != TokenKind::Hash).count();
        index + 1..index + 1 + count
    }

    /// Tokens of a range joined, one blank where the text has any space.
    pub fn joined(&self, range: std::ops::Range<usize>) -> String {
        let mut out = String::new();
        let mut end = None;
        for &token in self.tokens.get(range).unwrap_or_default() {
            if end.is_some_and(|end| end != token.start) {
                out.push(' ');
            }
            out.push_str(self.text(token));
            end = Some(token.end);
        }
        out
    }
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
    /// Nothing but white space and comments since the line began.
    fresh_line: bool,
    directive: bool,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn next_token(&mut self) -> Option<Token> {
        loop {
            match (self.peek(0)?, self.peek(1)) {
                (b'\n', _) => {
                    self.new_line();
                    self.fresh_line = true;
                    self.directive = false;
                }
                (b'\\', Some(b'\n')) => {
                    self.at += 1;
                    self.new_line();
                }
                (b'\\', Some(b'\r')) if self.peek(2) == Some(b'\n') => {
                    self.at += 2;
                    self.new_line();
                }
                (b'/', Some(b'*')) => self.skip_block_comment(),
                (b'/', Some(b'/')) => self.skip_line_comment(),
                (byte, _) if byte.is_ascii_whitespace() => self.at += 1,
                _ => break,
            }
        }
        let (start, line) = (self.at, self.line);
        let first_column = start == self.line_start;
        let kind = self.take();
        self.fresh_line = false;
        Some(Token {
            kind,
            start: start as u32,
            end: self.at as u32,
            line,
            first_column,
            in_directive: self.directive,
        })
    }

    /// Consumes one token that starts here.
    fn take(&mut self) -> TokenKind {
        let byte = self.bytes[self.at];
        match byte {
            b'"' | b'\'' => {
                self.skip_literal(byte);
                TokenKind::Literal
            }
            b'#' if self.fresh_line => {
                self.at += 1;
                self.directive = true;
                TokenKind::Hash
            }
            _ if is_word(byte) => {
                while self.peek(0).is_some_and(is_word) {
                    self.at += 1;
                }
                TokenKind::Word
            }
            _ => {
                self.at += 1;
                TokenKind::Mark(byte)
            }
        }
    }

    /// Steps over the line feed at the current position.
    fn new_line(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
    }

    fn skip_block_comment(&mut self) {
        self.at += 2;
        while let Some(byte) = self.peek(0) {
            if byte == b'*' && self.peek(1) == Some(b'/') {
                self.at += 2;
                return;
            }
            if byte == b'\n' {
                self.new_line();
            } else {
                self.at += 1;
            }
        }
    }

    fn skip_line_comment(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' if self.peek(1) == Some(b'\n') => {
                    self.at += 1;
                    self.new_line();
                }
                b'\n' => return,
                _ => self.at += 1,
            }
        }
    }

    fn skip_literal(&mut self, quote: u8) {
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => {
                    self.at += 1;
                    match self.peek(0) {
                        Some(b'\n') => self.new_line(),
                        Some(_) => self.at += 1,
                        None => return,
                    }
                }
                b'\n' => return,
                _ => {
                    self.at += 1;
                    if byte == quote {
                        return;
                    }
                }
            }
        }
    }
}

/// Bytes of identifiers and numbers; non-ASCII text counts as a word.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        let source = Source::new(text);
        source.tokens.iter().map(|&t| source.text(t).to_owned()).collect()
    }

    #[test]
    fn comments_and_layout_mean_nothing() {
        let plain = "int a = f(1, \"/* no */\");\nchar c = '\"';\n";
        let dressed =
            "int /* why */ a =\n\tf( 1, // one\n \"/* no */\" ); /* two\nlines */ char c=\\\n'\"' ;";
        assert_eq!(words(plain), words(dressed));
        assert_ne!(words("f(\"a b\")"), words("f(\"ab\")"));
        assert_ne!(words("return x;"), words("returnx;"));
    }

    #[test]
    fn lines_are_counted_through_comments_literals_and_continuations() {
        let source = Source::new("/*\n\n*/ a \\\n b\n\"x\\\ny\" c\n  d");
        let lines: Vec<(String, u32)> =
            source.tokens.iter().map(|&t| (source.text(t).to_owned(), t.line)).collect();
        let expected = [("a", 3), ("b", 4), ("\"x\\\ny\"", 5), ("c", 6), ("d", 7)];
        assert_eq!(lines, expected.map(|(t, l)| (t.to_owned(), l)));
    }

    #[test]
    fn a_preprocessor_line_ends_with_its_last_continuation() {
        let source = Source::new("#define two(x) \\\n  (x) # x\n#error don't\nint a;\n");
        assert_eq!(source.joined(source.directive(0)), "define two(x) (x) # x");
        let hashes: Vec<u32> =
            source.tokens.iter().filter(|t| t.kind == TokenKind::Hash).map(|t| t.line).collect();
        assert_eq!(hashes, [1, 3]);
        assert!(source.tokens.iter().filter(|t| t.line == 4).all(|t| !t.in_directive));
    }

    proptest! {
        #[test]
        fn any_text_is_split_without_a_panic(text in "[a-z\"'/*\\\\\n\r#{}();\u{e4} ]{0,200}") {
            let source = Source::new(&text);
            let lines = text.matches('\n').count() as u32 + 1;
            prop_assert!(source.tokens.iter().all(|t| t.start < t.end && t.line <= lines));
            prop_assert!(source.meaning(1, lines).len() == source.tokens.len());
        }
    }
}
