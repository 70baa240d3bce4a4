// SPDX-License-Identifier: GPL-2.0-or-later
//! The text of a patch mail: what it overrides, its message, its diff.

use super::diff::{self, Diff};

/// A mail's text taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body {
    /// In-body `From:`.
    pub author: Option<String>,
    /// In-body `Subject:`.
    pub subject: Option<String>,
    /// Text above `---` or the diff, trimmed.
    pub message: String,
    /// The diff; without text when there is none.
    pub diff: Diff,
}

/// The first of `texts` whose diff is whole; without one, the last that holds a diff.
pub fn read_any(texts: &[String]) -> Body {
    let mut best = Body::default();
    for (number, text) in texts.iter().enumerate() {
        let body = read(text);
        let whole = !body.diff.text.is_empty() && body.diff.damage.is_none();
        if whole {
            return body;
        }
        if number == 0 || !body.diff.text.is_empty() {
            best = body;
        }
    }
    best
}

/// Takes the text of a mail apart; line ends are LF.
pub fn read(text: &str) -> Body {
    let lines: Vec<&str> = text.lines().map(|l| l.trim_end_matches('\r')).collect();
    let start = diff::start(&lines).unwrap_or(lines.len());
    let (above, below) = lines.split_at(start);
    // Text above the last scissors line is a letter, not the message.
    let above = above.iter().rposition(|l| is_scissors(l)).map_or(above, |at| &above[at + 1..]);
    let (headers, message) = in_body_headers(above);
    let end = message.iter().position(|l| l.trim_end() == "---").unwrap_or(message.len());
    let mut body = Body {
        message: message[..end].join("\n").trim().to_owned(),
        diff: diff::read(below),
        ..Body::default()
    };
    for (name, value) in headers {
        match name {
            "From" => body.author = Some(value),
            "Subject" => body.subject = Some(value),
            _ => {}
        }
    }
    body
}

/// `-- >8 --` and its like.
fn is_scissors(line: &str) -> bool {
    (line.contains(">8") || line.contains("8<"))
        && line.contains("--")
        && line.chars().all(|c| "-><8%cut here".contains(c))
}

/// `From:`, `Subject:` and `Date:` at the very start, folded or not; then the rest.
fn in_body_headers<'a>(lines: &'a [&'a str]) -> (Vec<(&'static str, String)>, &'a [&'a str]) {
    let mut headers: Vec<(&'static str, String)> = Vec::new();
    let mut at = lines.iter().position(|l| !l.trim().is_empty()).unwrap_or(lines.len());
    while let Some(line) = lines.get(at) {
        let named = ["From", "Subject", "Date"]
            .into_iter()
            .find_map(|name| Some((name, line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned())));
        match (named, headers.last_mut()) {
            (Some(header), _) => headers.push(header),
            (None, Some((_, value))) if line.starts_with([' ', '\t']) && !line.trim().is_empty() => {
                value.push(' ');
                value.push_str(line.trim());
            }
            _ => break,
        }
        at += 1;
    }
    // "From: all I know ..." is a sentence.
    let is_sentence = headers.iter().any(|(name, value)| *name == "From" && !value.contains('@'));
    if is_sentence { (Vec::new(), lines) } else { (headers, &lines[at..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/x.c b/x.c\nindex 1..2 100644\n--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n";

    #[test]
    fn message_and_diff_are_told_apart() {
        let body = read(&format!("Why.\n\nSigned-off-by: A\n---\n x.c | 2 +-\n\n{DIFF}-- \n2.39\n"));
        assert_eq!(body.diff.text, DIFF);
        assert_eq!(body.message, "Why.\n\nSigned-off-by: A");
    }

    #[test]
    fn headers_in_the_body_win() {
        for (above, author, subject, message) in [
            ("From: B <b@x>\nSubject: other\n\nText.\n", Some("B <b@x>"), Some("other"), "Text."),
            ("\nFrom: B <b@x>\nSubject: a\n b\n\nText.\n", Some("B <b@x>"), Some("a b"), "Text."),
            ("From: B <b@x>\n\nSubject: of this text\n", Some("B <b@x>"), None, "Subject: of this text"),
            ("From: all I know\nit works.\n", None, None, "From: all I know\nit works."),
            ("Text.\nFrom: B <b@x>\n", None, None, "Text.\nFrom: B <b@x>"),
        ] {
            let body = read(&format!("{above}---\n{DIFF}"));
            assert_eq!(
                (body.author.as_deref(), body.subject.as_deref(), body.message.as_str()),
                (author, subject, message)
            );
        }
    }

    #[test]
    fn what_stands_above_the_scissors_is_dropped() {
        assert_eq!(read(&format!("Hi all,\n-- >8 --\nText.\n---\n{DIFF}")).message, "Text.");
    }

    #[test]
    fn a_diff_in_the_message_of_a_quote_is_no_diff() {
        assert_eq!(read("> diff --git a/x b/x\n> --- a/x\n").diff.text, "");
    }

    #[test]
    fn a_fragment_in_the_message_does_not_hide_the_diff() {
        let body = read(&format!("As in\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\nit helps.\n---\n{DIFF}"));
        assert!(body.diff.text.ends_with(DIFF) && body.diff.skipped, "{body:?}");
    }

    #[test]
    fn the_reading_with_a_whole_diff_is_taken() {
        let wrapped = format!("Text.\n---\n{}", DIFF.replace("+new", "+ne\nw"));
        let body = read_any(&[wrapped.clone(), format!("Text.\n---\n{DIFF}")]);
        assert_eq!(body.diff.text, DIFF);
        assert!(read_any(&[wrapped, "Text.\n".into()]).diff.damage.is_some());
    }
}
