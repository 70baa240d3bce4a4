// SPDX-License-Identifier: GPL-2.0-or-later
//! The text of a mail: transfer encodings, charsets and parts, with bounded nesting.
//!
//! mail-parser reads the headers and decodes; the parts are walked here,
//! because its own walk keeps each nested mail in a box of the one around it and
//! a hostile mail overflows the stack when that is dropped.

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{ContentType, MessageParser, MimeHeaders};

/// Deepest nesting of parts.
const MAX_DEPTH: usize = 8;
/// Most parts on one level.
const MAX_PARTS: usize = 200;

/// Plain text and patch parts, one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    /// Decoded, LF line ends.
    pub text: String,
    /// Some part is `format=flowed` (RFC 3676); whether blanks before soft breaks go (`DelSp`).
    pub flowed: Option<bool>,
    /// What is wrong, for a person.
    pub problems: Vec<String>,
}

/// Headers of a message or part without the empty line, and its body.
pub fn split_header(raw: &[u8]) -> (&[u8], &[u8]) {
    let mut position = 0;
    for line in raw.split_inclusive(|b| *b == b'\n') {
        let end = position + line.len();
        if matches!(line, b"\n" | b"\r\n") {
            return (&raw[..position], &raw[end..]);
        }
        position = end;
    }
    (raw, &[])
}

/// The text of `body` below `header`.
pub fn text_of(header: &[u8], body: &[u8]) -> Text {
    let mut found = Text::default();
    let mut html = false;
    walk(header, body, MAX_DEPTH, &mut found, &mut html);
    if html && found.text.trim().is_empty() {
        found.problem("the mail has only HTML, no plain text; ask for it as plain text");
    }
    if found.text.contains('\0') {
        found.problem("the mail holds NUL characters, which were dropped");
        found.text.retain(|c| c != '\0');
    }
    found
}

fn walk(header: &[u8], body: &[u8], depth: usize, found: &mut Text, html: &mut bool) {
    let parsed = MessageParser::default().parse_headers(header);
    let kind = parsed.as_ref().and_then(|p| p.content_type());
    let main = kind.map_or("text", |k| k.ctype()).to_ascii_lowercase();
    let sub = kind.map_or(Some("plain"), |k| k.subtype()).unwrap_or_default().to_ascii_lowercase();
    if main == "multipart" {
        let Some(boundary) = kind.and_then(|k| k.attribute("boundary")).filter(|b| !b.is_empty()) else {
            found.problem("the parts of the mail cannot be told apart: no boundary");
            return;
        };
        if depth == 0 {
            found.problem("the parts of the mail are nested too deeply and were not read");
            return;
        }
        let parts = parts(body, boundary.as_bytes());
        if parts.len() > MAX_PARTS {
            found.problem("the mail has too many parts; only the first ones were read");
        }
        for part in parts.into_iter().take(MAX_PARTS) {
            let (header, body) = split_header(part);
            walk(header, body, depth - 1, found, html);
        }
        return;
    }
    let is_patch = ["x-patch", "x-diff", "patch", "diff"].contains(&sub.as_str());
    match (main.as_str(), sub.as_str()) {
        ("text", "html") => *html = true,
        ("message", _) => found.problem("a mail inside the mail was not read"),
        ("text", "plain") => {
            let transfer = parsed.as_ref().and_then(|p| p.content_transfer_encoding());
            append(body, transfer, kind, found);
        }
        ("text" | "application", _) if is_patch => {
            let transfer = parsed.as_ref().and_then(|p| p.content_transfer_encoding());
            append(body, transfer, kind, found);
        }
        _ => {}
    }
}

/// What stands between the boundary lines of a multipart body (RFC 2046 section 5.1).
fn parts<'a>(body: &'a [u8], boundary: &[u8]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    let mut start = None;
    let mut position = 0;
    for line in body.split_inclusive(|b| *b == b'\n') {
        let rest =
            line.strip_prefix(b"--").and_then(|l| l.strip_prefix(boundary)).map(<[u8]>::trim_ascii_end);
        if matches!(rest, Some(b"" | b"--")) {
            found.extend(start.map(|start| &body[start..position]));
            start = (rest == Some(b"")).then_some(position + line.len());
            if start.is_none() || found.len() > MAX_PARTS {
                return found;
            }
        }
        position += line.len();
    }
    // A part that is not closed is still there.
    found.extend(start.map(|start| &body[start..]));
    found
}

fn append(body: &[u8], transfer: Option<&str>, kind: Option<&ContentType<'_>>, found: &mut Text) {
    let decoded = match transfer.map(|t| t.trim().to_ascii_lowercase()).as_deref() {
        Some("base64") => base64_decode(body),
        Some("quoted-printable") => quoted_printable_decode(body),
        _ => Some(body.to_vec()),
    };
    let bytes = decoded.unwrap_or_else(|| {
        found.problem("the transfer encoding of the mail is damaged; its text was taken as it is");
        body.to_vec()
    });
    let charset = kind.and_then(|k| k.attribute("charset"));
    let text = decode(bytes, charset, found);
    found.text.push_str(&text.replace("\r\n", "\n"));
    if !found.text.is_empty() && !found.text.ends_with('\n') {
        found.text.push('\n');
    }
    if kind.and_then(|k| k.attribute("format")).is_some_and(|f| f.eq_ignore_ascii_case("flowed")) {
        let delete = kind.and_then(|k| k.attribute("delsp")).is_some_and(|d| d.eq_ignore_ascii_case("yes"));
        found.flowed = Some(delete);
    }
}

/// UTF-8 wherever it is valid and nothing else is said; what is neither is read as windows-1252.
fn decode(bytes: Vec<u8>, charset: Option<&str>, found: &mut Text) -> String {
    let named = charset.map(str::to_ascii_lowercase);
    let known = named.as_deref().and_then(|n| charset_decoder(n.as_bytes()));
    let is_utf8 = matches!(named.as_deref(), None | Some("utf-8" | "utf8" | "us-ascii" | "ascii"));
    let text = match (is_utf8, known) {
        (false, Some(decoder)) => decoder(&bytes),
        _ => {
            if !is_utf8 {
                found.problem("the charset of the mail is unknown; it was read as UTF-8");
            }
            String::from_utf8(bytes).unwrap_or_else(|error| {
                found.problem("the mail is not valid in its charset; it was read as windows-1252");
                let windows = charset_decoder(b"windows-1252");
                windows.map_or_else(
                    || String::from_utf8_lossy(error.as_bytes()).into_owned(),
                    |decoder| decoder(error.as_bytes()),
                )
            })
        }
    };
    if text.contains(char::REPLACEMENT_CHARACTER) {
        found.problem("some characters of the mail cannot be decoded; the patch may not apply");
    }
    text
}

impl Text {
    fn problem(&mut self, text: &str) {
        if !self.problems.iter().any(|p| p == text) {
            self.problems.push(text.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &str, body: &[u8]) -> Text {
        text_of(headers.as_bytes(), body)
    }

    #[test]
    fn encodings_and_patch_parts_become_text() {
        let mixed = "Content-Type: multipart/mixed; boundary=x\n";
        for (headers, body, expected) in [
            ("Content-Transfer-Encoding: base64\n", &b"SGVsbG8=\n"[..], "Hello\n"),
            ("Content-Transfer-Encoding: Quoted-Printable\n", b"a=3Db=\nc\n", "a=b\u{63}\n"),
            ("Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n", b"=E9\n", "\u{e9}\n"),
            ("Content-Type: text/plain; charset=us-ascii\n", "\u{e9}\n".as_bytes(), "\u{e9}\n"),
            (mixed, b"--x\nContent-Type: text/plain\n\nText\n--x\nContent-Type: text/x-patch\n\ndiff --git a/x b/x\n--x--\nbye\n", "Text\ndiff --git a/x b/x\n"),
            (mixed, b"--x\n\nText\n--x\nContent-Type: application/pgp-signature\n\nabc\n--x--\n", "Text\n"),
            (mixed, b"--x\r\n\r\nnot closed\r\n", "not closed\n"),
            ("Content-Type: multipart/alternative; boundary=x\n", b"--x\n\nText\n--x\nContent-Type: text/html\n\n<p>x\n--x--\n", "Text\n"),
        ] {
            let found = read(headers, body);
            assert_eq!(found.text, expected, "{headers}");
            assert!(found.problems.is_empty(), "{headers}: {:?}", found.problems);
        }
    }

    #[test]
    fn damage_is_named() {
        for (headers, body, word) in [
            ("Content-Type: text/html\n", &b"<p>hi</p>\n"[..], "only HTML"),
            ("Content-Type: text/plain; charset=klingon\n", b"x\n", "unknown"),
            ("Content-Type: text/plain; charset=utf-8\n", b"\xe9\n", "windows-1252"),
            ("Content-Transfer-Encoding: base64\n", b"!!!!", "damaged"),
            ("Content-Type: multipart/mixed\n", b"x\n", "no boundary"),
            ("Content-Type: message/rfc822\n", b"From: a@x\n\nx\n", "inside"),
            ("", b"a\0b\n", "NUL"),
        ] {
            let found = read(headers, body);
            assert!(found.problems.iter().any(|p| p.contains(word)), "{headers}: {:?}", found.problems);
        }
    }

    #[test]
    fn nesting_and_counts_are_bounded() {
        let mixed = "Content-Type: multipart/mixed; boundary=x\n";
        let many = read(mixed, "--x\n\na\n".repeat(1000).as_bytes());
        assert_eq!(many.text.lines().count(), MAX_PARTS);
        let mut body = "text\n".to_owned();
        for level in 0..100 {
            body = format!("--b{}\nContent-Type: multipart/mixed; boundary=b{level}\n\n{body}", level + 1);
        }
        let deep = read("Content-Type: multipart/mixed; boundary=b100\n", body.as_bytes());
        assert!(deep.problems.iter().any(|p| p.contains("nested")), "{:?}", deep.problems);
        let mails = read(
            "Content-Type: message/rfc822\n",
            "Content-Type: message/rfc822\n\n".repeat(100_000).as_bytes(),
        );
        assert!(mails.text.is_empty());
    }
}
