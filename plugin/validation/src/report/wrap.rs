// SPDX-License-Identifier: GPL-2.0-or-later
//! Text as mail takes it: 7-bit, 72 columns.

/// Longest line of a mail body.
pub const COLUMNS: usize = 72;

/// One paragraph, filled to [`COLUMNS`]; a longer word keeps its own line.
pub fn fill(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Printable ASCII and line ends only; anything else becomes `?`. Blanks at line ends go, but
/// for those of the line that starts a signature.
pub fn ascii(text: &str) -> String {
    let plain: String =
        text.chars().map(|c| if c == '\n' || (' '..='~').contains(&c) { c } else { '?' }).collect();
    let lines: Vec<&str> = plain.split('\n').map(|l| if l == "-- " { l } else { l.trim_end() }).collect();
    lines.join("\n")
}

/// At most `width` characters; a cut text ends in two dots.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(2)).collect();
    format!("{}..", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filled_and_never_too_long() {
        let text = "word ".repeat(40);
        let filled = fill(&text);
        assert!(filled.lines().all(|l| l.len() <= COLUMNS));
        assert_eq!(filled.split_whitespace().count(), 40);
        assert_eq!(fill(&"x".repeat(90)).len(), 90);
    }

    #[test]
    fn only_ascii_is_left() {
        assert_eq!(ascii("J\u{f6}rg\u{1b}[2J  \n-- \nx\n"), "J?rg?[2J\n-- \nx\n");
    }

    #[test]
    fn a_cut_text_says_so() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcd..");
    }
}
