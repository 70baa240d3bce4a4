// SPDX-License-Identifier: GPL-2.0-or-later
//! One raw message to its decoded parts, over mail-parser, with its traps
//! closed (formats.md 8.2): doubled headers, HTML-only mails, text/x-patch parts.

use mail_parser::{Address, HeaderValue, MessageParser, MimeHeaders, PartType};

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
    /// In-Reply-To and References, oldest first, each once.
    pub references: Vec<String>,
    /// Text and patch parts, one after another, LF line ends.
    pub text: String,
    /// What is wrong, for a person.
    pub problems: Vec<String>,
}

/// Decodes one message. `None` when it has no header at all: not a mail.
pub fn read(raw: &[u8]) -> Option<Message> {
    let parsed = MessageParser::default().parse(raw)?;
    let has = |name: &str| parsed.headers().iter().filter(|h| h.name().eq_ignore_ascii_case(name)).count();
    if has("From") == 0 && has("Subject") == 0 && has("Date") == 0 {
        return None;
    }
    let mut problems = Vec::new();
    for name in ["From", "Subject", "Message-ID", "Date"] {
        if has(name) > 1 {
            problems.push(format!("the mail has {} {name} headers; the last one counts", has(name)));
        }
    }
    let mut references = Vec::new();
    for value in [parsed.references(), parsed.in_reply_to()] {
        for id in ids(value) {
            if !references.contains(&id) {
                references.push(id);
            }
        }
    }
    let (text, text_problems) = text_of(&parsed);
    problems.extend(text_problems);
    let date =
        parsed.date().filter(|d| d.is_valid()).map(mail_parser::DateTime::to_rfc3339).unwrap_or_default();
    Some(Message {
        message_id: one_line(parsed.message_id().unwrap_or_default()),
        subject: one_line(parsed.subject().unwrap_or_default()),
        author: parsed.from().map(author).unwrap_or_default(),
        date,
        recipients: addresses(parsed.to()).into_iter().chain(addresses(parsed.cc())).collect(),
        references,
        text,
        problems,
    })
}

/// White space and control characters become single blanks.
pub fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
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

/// Every plain text and patch part, and what is wrong with the text.
fn text_of(parsed: &mail_parser::Message<'_>) -> (String, Vec<String>) {
    let mut text = String::new();
    let mut problems = Vec::new();
    let mut html = false;
    for part in &parsed.parts {
        let kind = part.content_type();
        let subtype = kind.and_then(|k| k.subtype()).unwrap_or("plain").to_ascii_lowercase();
        let is_patch = ["x-patch", "x-diff", "patch", "diff"].contains(&subtype.as_str());
        let content = match &part.body {
            PartType::Text(content) => content.to_string(),
            PartType::Binary(bytes) | PartType::InlineBinary(bytes) if is_patch => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            PartType::Html(_) => {
                html = true;
                continue;
            }
            _ => continue,
        };
        let flowed =
            kind.and_then(|k| k.attribute("format")).is_some_and(|f| f.eq_ignore_ascii_case("flowed"));
        let content = content.replace("\r\n", "\n");
        if flowed && content.contains("\ndiff --git ") {
            problems
                .push("the mail is format=flowed, which damages patches; ask for it as plain text".into());
        }
        if flowed {
            // Space stuffing, RFC 3676 section 4.4.
            text.extend(content.split_inclusive('\n').map(|l| l.strip_prefix(' ').unwrap_or(l)));
        } else {
            text.push_str(&content);
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    if html && text.trim().is_empty() {
        problems.push("the mail has only HTML, no plain text".into());
        text.clear();
    }
    (text.replace('\0', ""), problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_decoded_to_one_line() {
        let raw = b"From: =?utf-8?q?J=C3=B6rg?= <j@example.org>\r\nTo: a@x, B <b@y>\r\nCc: c@z\r\nSubject: [PATCH]\r\n =?utf-8?q?a=0Ab?=\r\nMessage-Id: <1@x>\r\nReferences: <0@x>\r\n <r@x>\r\nIn-Reply-To: <0@x>\r\nDate: Mon, 5 Oct 2026 10:00:00 +0200\r\n\r\nHi\r\n";
        let message = read(raw).expect("a mail");
        assert_eq!(message.author, "J\u{f6}rg <j@example.org>");
        assert_eq!(message.subject, "[PATCH] a b");
        assert_eq!(message.recipients, ["a@x", "b@y", "c@z"]);
        assert_eq!(message.references, ["0@x", "r@x"]);
        assert_eq!(message.date, "2026-10-05T10:00:00+02:00");
        assert_eq!(message.text, "Hi\n");
        assert!(message.problems.is_empty(), "{:?}", message.problems);
    }

    #[test]
    fn encodings_and_patch_parts_become_text() {
        for (headers, body, expected) in [
            ("Content-Transfer-Encoding: base64\n", "SGVsbG8=\n", "Hello\n"),
            ("Content-Transfer-Encoding: quoted-printable\n", "a=3Db=\nc\n", "a=bc\n"),
            (
                "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n",
                "=E9\n",
                "\u{e9}\n",
            ),
            (
                "Content-Type: multipart/mixed; boundary=x\n",
                "--x\nContent-Type: text/plain\n\nText\n--x\nContent-Type: text/x-patch\n\ndiff --git a/x b/x\n--x--\n",
                "Text\ndiff --git a/x b/x\n",
            ),
        ] {
            let raw = format!("From: a@x\nSubject: s\nMIME-Version: 1.0\n{headers}\n{body}");
            assert_eq!(read(raw.as_bytes()).expect("a mail").text, expected, "{headers}");
        }
    }

    #[test]
    fn odd_mails_are_named() {
        let doubled = read(b"From: a@x\nFrom: b@x\nSubject: s\n\nx\n").expect("a mail");
        assert!(doubled.problems[0].contains("2 From headers"), "{:?}", doubled.problems);
        let html = read(b"From: a@x\nSubject: s\nContent-Type: text/html\n\n<p>hi</p>\n").expect("a mail");
        assert!(html.text.is_empty() && html.problems[0].contains("HTML"), "{html:?}");
    }

    #[test]
    fn what_has_no_header_is_no_mail() {
        for raw in [&b""[..], b"just words\n", b"\x7fELF\x02\x01\x01\0\0\0", b"Some: thing\n\nelse\n"] {
            assert_eq!(read(raw), None);
        }
    }
}
