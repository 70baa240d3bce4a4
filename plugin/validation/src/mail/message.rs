// SPDX-License-Identifier: GPL-2.0-or-later
//! One raw message to its decoded headers and text, over mail-parser, with its
//! traps closed (formats.md 8.2): doubled headers, HTML-only mails, patch parts.

use super::flowed;
use super::mime;
use mail_parser::{Address, HeaderValue, MessageParser};
use std::collections::HashSet;

/// Longest header of one message, bytes; relays add some ten thousand.
const MAX_HEADER_BYTES: usize = 256 << 10;
/// Most recipients of one message that are kept.
const MAX_RECIPIENTS: usize = 1000;
/// Most references of one message that are kept.
const MAX_REFERENCES: usize = 200;
/// Longest subject, name or id, characters (RFC 5322 section 2.1.1).
const MAX_VALUE: usize = 998;

/// A decoded message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Without angle brackets; empty when there is none.
    pub message_id: String,
    /// Decoded, one line.
    pub subject: String,
    /// `Name <address>`.
    pub author: String,
    /// RFC 3339; empty when unusable.
    pub date: String,
    /// Addresses, To then Cc.
    pub recipients: Vec<String>,
    /// References and In-Reply-To, the direct parent last, each once.
    pub references: Vec<String>,
    /// The text in each way it can be read, the likeliest first; never empty. More than
    /// one only when the mail is `format=flowed`.
    pub texts: Vec<String>,
    /// What is wrong, for a person.
    pub problems: Vec<String>,
}

impl Message {
    /// The text in its likeliest reading.
    pub fn text(&self) -> &str {
        self.texts.first().map(String::as_str).unwrap_or_default()
    }
}

/// Decodes one message. `None` when it has no header at all: not a mail.
pub fn read(raw: &[u8]) -> Option<Message> {
    let (header, body) = mime::split_header(raw);
    let mut problems = Vec::new();
    let mut kept = header;
    if header.len() > MAX_HEADER_BYTES {
        problems.push("the header of the mail is too long; only its start was read".to_owned());
        kept = &header[..MAX_HEADER_BYTES];
    }
    let parsed = MessageParser::default().parse_headers(kept)?;
    let has = |name: &str| parsed.headers().iter().filter(|h| h.name().eq_ignore_ascii_case(name)).count();
    if has("From") == 0 && has("Subject") == 0 && has("Date") == 0 {
        return None;
    }
    for name in ["From", "Subject", "Message-ID", "Date"] {
        if has(name) > 1 {
            problems.push(format!("the mail has {} {name} headers; the last one counts", has(name)));
        }
    }
    let mut recipients = addresses(parsed.to());
    recipients.extend(addresses(parsed.cc()));
    recipients.truncate(MAX_RECIPIENTS);
    let text = mime::text_of(kept, body);
    problems.extend(text.problems);
    Some(Message {
        message_id: one_line(parsed.message_id().unwrap_or_default()),
        subject: one_line(parsed.subject().unwrap_or_default()),
        author: parsed.from().map(author).unwrap_or_default(),
        date: parsed.date().filter(|d| d.is_valid()).map(|d| d.to_rfc3339()).unwrap_or_default(),
        recipients,
        references: references(parsed.references(), parsed.in_reply_to()),
        texts: match text.flowed {
            Some(delete_blank) => flowed::readings(text.text, delete_blank),
            None => vec![text.text],
        },
        problems,
    })
}

/// A diff that is no mail, as a message without headers. `None` when there is no diff either.
pub fn read_bare(raw: &[u8]) -> Option<Message> {
    let text = mime::text_of(b"", raw);
    let message = Message { texts: vec![text.text], problems: text.problems, ..Message::default() };
    (!super::body::read(message.text()).diff.text.is_empty()).then_some(message)
}

/// White space and control characters become single blanks; what is too long is cut.
pub fn one_line(text: &str) -> String {
    let line = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    match line.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => line[..end].to_owned(),
        None => line,
    }
}

/// References, then In-Reply-To unless it is among them. Of too many, the first (the
/// root of the thread) and the last (the nearest) are kept.
fn references(references: &HeaderValue<'_>, in_reply_to: &HeaderValue<'_>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut all: Vec<String> =
        ids(references).into_iter().chain(ids(in_reply_to)).filter(|id| seen.insert(id.clone())).collect();
    if all.len() > MAX_REFERENCES {
        all.drain(1..=all.len() - MAX_REFERENCES);
    }
    all
}

fn ids(value: &HeaderValue<'_>) -> Vec<String> {
    match value {
        HeaderValue::Text(id) => vec![one_line(id)],
        HeaderValue::TextList(ids) => ids.iter().map(|id| one_line(id)).collect(),
        _ => Vec::new(),
    }
}

fn author(address: &Address<'_>) -> String {
    let Some(first) = address.first() else { return String::new() };
    let mail = one_line(first.address().unwrap_or_default());
    match first.name().map(one_line) {
        Some(name) if !name.is_empty() => format!("{name} <{mail}>"),
        _ => mail,
    }
}

fn addresses(address: Option<&Address<'_>>) -> Vec<String> {
    address.map(|a| a.iter().filter_map(|one| one.address().map(one_line)).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_decoded_to_one_line() {
        let raw = b"From: =?utf-8?q?J=C3=B6rg?= <j@example.org>\r\nTo: a@x, B <b@y>\r\nCc: c@z\r\nSubject: [PATCH]\r\n =?utf-8?q?a=0Ab?=\r\nMessage-Id: <1@x>\r\nReferences: <0@x>\r\n <r@x>\r\nIn-Reply-To: <p@x>\r\nDate: Mon, 5 Oct 2026 10:00:00 +0200\r\n\r\nHi\r\n";
        let message = read(raw).expect("a mail");
        assert_eq!(message.author, "J\u{f6}rg <j@example.org>");
        assert_eq!(message.subject, "[PATCH] a b");
        assert_eq!(message.recipients, ["a@x", "b@y", "c@z"]);
        assert_eq!(message.references, ["0@x", "r@x", "p@x"]);
        assert_eq!(message.date, "2026-10-05T10:00:00+02:00");
        assert_eq!(message.texts, ["Hi\n"]);
        assert!(message.problems.is_empty(), "{:?}", message.problems);
    }

    #[test]
    fn odd_mails_are_named() {
        let doubled = read(b"From: a@x\nFrom: b@x\nSubject: s\n\nx\n").expect("a mail");
        assert!(doubled.problems[0].contains("2 From headers"), "{:?}", doubled.problems);
        let raw = format!("From: a@x\nX-Long: {}\nSubject: s\n\nx\n", "y".repeat(MAX_HEADER_BYTES));
        let long = read(raw.as_bytes()).expect("a mail");
        assert!(long.problems[0].contains("too long") && long.text() == "x\n", "{:?}", long.problems);
    }

    #[test]
    fn a_mail_may_leave_out_most_headers() {
        let message = read(b"Subject: s\nDate: yesterday\n\nx\n").expect("a mail");
        assert_eq!(
            (message.date.as_str(), message.author.as_str(), message.message_id.as_str()),
            ("", "", "")
        );
        assert_eq!(read(b"Subject: only a header").expect("a mail").text(), "");
    }

    #[test]
    fn long_values_and_lists_are_cut() {
        let many: String = (0..5000).map(|n| format!(" <{n}@x>\n")).collect();
        let raw = format!("From: a@x\nSubject: {}\nReferences:{many}\nx\n", "s".repeat(5000));
        let message = read(raw.as_bytes()).expect("a mail");
        assert_eq!((message.subject.len(), message.references.len()), (MAX_VALUE, MAX_REFERENCES));
        assert_eq!(message.references[0], "0@x");
        assert_eq!(message.references.last().map(String::as_str), Some("4999@x"));
    }

    #[test]
    fn what_has_no_header_is_no_mail() {
        for raw in [&b""[..], b"just words\n", b"\x7fELF\x02\x01\x01\0\0\0", b"Some: thing\n\nelse\n"] {
            assert_eq!(read(raw), None);
            assert_eq!(read_bare(raw), None);
        }
        assert!(read_bare(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n").is_some());
    }
}
