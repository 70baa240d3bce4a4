// SPDX-License-Identifier: GPL-2.0-or-later
//! One file to its messages: mboxrd, mboxo, `git am` mailboxes, or one bare message.

/// Raw messages of `input`, in order, quoting of `From ` lines undone.
///
/// A file that does not start with a `From ` line is one message. A `From ` line only separates after
/// an empty line and when it carries a time, so that a sentence in a body that
/// starts with "From" does not split it.
pub fn split(input: &[u8]) -> Vec<Vec<u8>> {
    let start = input.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(input.len());
    let input = &input[start..];
    if input.is_empty() {
        return Vec::new();
    }
    if !input.starts_with(b"From ") {
        return vec![input.to_vec()];
    }
    let mut messages: Vec<Vec<u8>> = Vec::new();
    let mut after_empty = true;
    for line in input.split_inclusive(|b| *b == b'\n') {
        let content = line.trim_ascii_end();
        if after_empty && is_separator(content) {
            messages.push(Vec::new());
            after_empty = false;
            continue;
        }
        after_empty = content.is_empty();
        if let Some(message) = messages.last_mut() {
            message.extend_from_slice(unquoted(line));
        }
    }
    messages.retain(|m| !m.trim_ascii().is_empty());
    messages
}

/// `From sender Mon Sep 17 00:00:00 2001`: starts with `From ` and holds a time of day.
fn is_separator(line: &[u8]) -> bool {
    line.starts_with(b"From ")
        && line.split(|b| *b == b' ').any(|word| {
            word.len() == 8
                && word[2] == b':'
                && word[5] == b':'
                && word.iter().filter(|b| b.is_ascii_digit()).count() == 6
        })
}

/// Removes one `>` from `>From `, `>>From ` ...
fn unquoted(line: &[u8]) -> &[u8] {
    let rest = line.iter().position(|b| *b != b'>').unwrap_or(line.len());
    if rest > 0 && line[rest..].starts_with(b"From ") { &line[1..] } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(input: &str) -> Vec<String> {
        split(input.as_bytes()).into_iter().map(|m| String::from_utf8(m).expect("ascii")).collect()
    }

    #[test]
    fn separators_need_an_empty_line_and_a_time() {
        let separator = "From mboxrd@z Thu Jan  1 00:00:00 1970\n";
        for (input, expected) in [
            (String::new(), vec![]),
            ("\n\nSubject: a\n\nbody\n".into(), vec!["Subject: a\n\nbody\n"]),
            (format!("{separator}A: 1\n\nx\n\n{separator}B: 2\n\ny\n"), vec!["A: 1\n\nx\n\n", "B: 2\n\ny\n"]),
            (
                format!("{separator}A: 1\n\nx\n{separator}"),
                vec!["A: 1\n\nx\nFrom mboxrd@z Thu Jan  1 00:00:00 1970\n"],
            ),
            (
                format!("{separator}A: 1\n\nFrom here on it works.\n"),
                vec!["A: 1\n\nFrom here on it works.\n"],
            ),
            (format!("{separator}A: 1\n\n>From x\n>>From y\n"), vec!["A: 1\n\nFrom x\n>From y\n"]),
        ] {
            assert_eq!(texts(&input), expected);
        }
    }

    #[test]
    fn carriage_returns_do_not_hide_a_separator() {
        let input = "From a Thu Jan  1 00:00:00 1970\r\nA: 1\r\n\r\nx\r\n\r\nFrom a Thu Jan  1 00:00:00 1970\r\nB: 2\r\n";
        assert_eq!(split(input.as_bytes()).len(), 2);
    }
}
