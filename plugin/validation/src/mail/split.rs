// SPDX-License-Identifier: GPL-2.0-or-later
//! One file to its messages: mboxrd, mboxo, `git am` mailboxes, or one bare message.

/// Raw messages of `input`, in order, at most `limit`; quoting of `From ` lines undone.
///
/// A `From ` line only separates at the start or after an empty line, when it carries a time of
/// day and a header follows: neither a sentence in a body that starts with "From"
/// nor a missing first `From ` line (relayed mails have none) loses a message.
pub fn split(input: &[u8], limit: usize) -> Vec<Vec<u8>> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let input = input.trim_ascii_start();
    let mut messages: Vec<Vec<u8>> = Vec::new();
    let mut current = Vec::new();
    let mut mailbox = input.starts_with(b"From ");
    let mut after_empty = true;
    let mut position = 0;
    for line in input.split_inclusive(|b| *b == b'\n') {
        let next = &input[position + line.len()..];
        let first = position == 0;
        position += line.len();
        let content = line.trim_ascii_end();
        if (first && mailbox) || (after_empty && is_separator(content) && starts_header(next)) {
            mailbox = true;
            finish(&mut current, &mut messages);
            if messages.len() == limit {
                return messages;
            }
        } else {
            current.extend_from_slice(if mailbox { unquoted(line) } else { line });
        }
        after_empty = content.is_empty();
    }
    finish(&mut current, &mut messages);
    messages
}

fn finish(current: &mut Vec<u8>, messages: &mut Vec<Vec<u8>>) {
    if !current.trim_ascii().is_empty() {
        messages.push(std::mem::take(current));
    }
    current.clear();
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

/// `Name: value`; some mailers put the `From ` line of another mailbox before it, quoted.
fn starts_header(text: &[u8]) -> bool {
    let name = text.iter().take(100).take_while(|b| b.is_ascii_alphanumeric() || **b == b'-').count();
    text.starts_with(b">From ") || (name > 0 && text.get(name) == Some(&b':'))
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
        split(input.as_bytes(), 9).into_iter().map(|m| String::from_utf8(m).expect("ascii")).collect()
    }

    #[test]
    fn separators_need_an_empty_line_a_time_and_a_header() {
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
            (
                format!("{separator}A: 1\n\n{separator}was in the log\n"),
                vec!["A: 1\n\nFrom mboxrd@z Thu Jan  1 00:00:00 1970\nwas in the log\n"],
            ),
            (format!("{separator}A: 1\n\n>From x\n>>From y\n"), vec!["A: 1\n\nFrom x\n>From y\n"]),
            (format!("A: 1\n\nx\n\n{separator}B: 2\n\ny\n"), vec!["A: 1\n\nx\n\n", "B: 2\n\ny\n"]),
            ("A: 1\n\n>From x\n".into(), vec!["A: 1\n\n>From x\n"]),
            ("From nobody\nA: 1\n\nx\n".into(), vec!["A: 1\n\nx\n"]),
            ("\u{feff}A: 1\n\nx\n".into(), vec!["A: 1\n\nx\n"]),
        ] {
            assert_eq!(texts(&input), expected, "{input}");
        }
    }

    #[test]
    fn carriage_returns_do_not_hide_a_separator() {
        let input = "From a Thu Jan  1 00:00:00 1970\r\nA: 1\r\n\r\nx\r\n\r\nFrom a Thu Jan  1 00:00:00 1970\r\nB: 2\r\n";
        assert_eq!(texts(input).len(), 2);
    }

    #[test]
    fn the_limit_ends_the_work() {
        assert_eq!(texts(&"From a Thu Jan  1 00:00:00 1970\nA: 1\n\nx\n\n".repeat(20)).len(), 9);
    }
}
