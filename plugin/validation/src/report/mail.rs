// SPDX-License-Identifier: GPL-2.0-or-later
//! The reply as it would be mailed: headers and body (reply.md section 2).

use super::story::Story;
use super::wrap::ascii;
use super::{ReportError, Templates};
use crate::findings::Findings;
use crate::plan::hex;
use sha2::{Digest, Sha256};

/// Longest header line before it is folded.
const HEADER_COLUMNS: usize = 76;

/// What the reply answers.
struct Parent<'a> {
    subject: &'a str,
    message_id: &'a str,
    author: &'a str,
    recipients: &'a [String],
    references: &'a [String],
}

/// The whole message with headers, LF line ends, ASCII.
pub fn render(findings: &Findings, templates: &Templates) -> Result<String, ReportError> {
    let body = ascii(&templates.render("mail/reply.txt.j2", &Story::of(findings))?);
    let parent = parent(findings);
    let mut headers = Vec::new();
    let sender =
        findings.provenance.operator.clone().unwrap_or_else(|| "kernmark <kernmark@kernmark.invalid>".into());
    headers.push(header("From", &mailbox(&sender)));
    headers.push(header("To", &mailbox(parent.author)));
    let cc: Vec<String> = parent
        .recipients
        .iter()
        .filter(|r| !parent.author.contains(r.as_str()))
        .map(|r| one_line(r))
        .collect();
    if !cc.is_empty() {
        headers.push(header("Cc", &cc.join(", ")));
    }
    let subject = match parent.subject.get(..3) {
        Some(start) if start.eq_ignore_ascii_case("re:") => parent.subject.to_owned(),
        _ => format!("Re: {}", parent.subject),
    };
    headers.push(header("Subject", &encoded(&subject)));
    if let Some(date) = rfc2822(&findings.provenance.started) {
        headers.push(header("Date", &date));
    }
    headers.push(header("Message-ID", &format!("<{}>", message_id(findings))));
    if !parent.message_id.is_empty() {
        headers.push(header("In-Reply-To", &format!("<{}>", id(parent.message_id))));
        let mut references: Vec<String> = parent.references.iter().map(|r| format!("<{}>", id(r))).collect();
        references.push(format!("<{}>", id(parent.message_id)));
        headers.push(header("References", &references.join(" ")));
    }
    headers.push("Auto-Submitted: auto-replied".into());
    headers.push("MIME-Version: 1.0".into());
    headers.push("Content-Type: text/plain; charset=us-ascii".into());
    headers.push("Content-Transfer-Encoding: 7bit".into());
    Ok(format!("{}\n\n{}", headers.join("\n"), body))
}

/// Message-ID of the reply, without angle brackets: the same for the same findings, so that a
/// retry is the same mail.
pub fn message_id(findings: &Findings) -> String {
    let mut hash = Sha256::new();
    hash.update(&findings.protocol_sha256);
    for patch in &findings.series.patches {
        hash.update(&patch.diff_sha256);
        hash.update(&patch.message_id);
    }
    hash.update(&findings.provenance.started);
    let domain = findings
        .provenance
        .operator
        .as_deref()
        .and_then(|o| o.rsplit_once('@'))
        .map_or("kernmark.invalid", |(_, domain)| domain.trim_end_matches('>'));
    format!("kernmark-{}@{}", &hex(&hash.finalize())[..24], id(domain))
}

/// The patch that the finding is about, else the cover letter, else the first patch.
fn parent(findings: &Findings) -> Parent<'_> {
    let series = &findings.series;
    let culprit = findings.verdict.headline.as_ref().and_then(|headline| {
        let (index, _) = headline.culprit.split_once('/')?;
        series.patches.iter().find(|p| p.index.to_string() == index)
    });
    match (culprit, &series.cover, series.patches.first()) {
        (Some(patch), ..) | (None, None, Some(patch)) => Parent {
            subject: &patch.subject,
            message_id: &patch.message_id,
            author: &patch.author,
            recipients: &patch.recipients,
            references: &patch.references,
        },
        (None, Some(cover), _) => Parent {
            subject: &cover.subject,
            message_id: &cover.message_id,
            author: &cover.author,
            recipients: &cover.recipients,
            references: &cover.references,
        },
        (None, None, None) => {
            Parent { subject: &series.title, message_id: "", author: "", recipients: &[], references: &[] }
        }
    }
}

/// One header, folded at blanks.
fn header(name: &str, value: &str) -> String {
    let mut text = format!("{name}:");
    let mut column = text.len();
    for word in value.split(' ').filter(|w| !w.is_empty()) {
        if column + 1 + word.len() > HEADER_COLUMNS && column > name.len() + 1 {
            text.push_str("\n ");
            column = 1;
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text
}

/// `Name <address>` with the name quoted or encoded where it has to be.
fn mailbox(author: &str) -> String {
    let author = one_line(author);
    match author.rsplit_once('<') {
        Some((name, address)) => {
            let name = name.trim().trim_matches('"');
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || " -_'".contains(c));
            let name = match (name.is_ascii(), plain) {
                (true, true) => name.to_owned(),
                (true, false) => format!("\"{}\"", name.replace(['"', '\\'], "")),
                (false, _) => encoded(name),
            };
            format!("{name} <{}>", id(address.trim_end_matches('>')))
        }
        None => id(&author),
    }
}

/// RFC 2047 for what is not ASCII; words of at most 45 bytes, cut between characters.
fn encoded(text: &str) -> String {
    let text = one_line(text);
    if text.is_ascii() {
        return text;
    }
    let mut words: Vec<String> = Vec::new();
    let mut part = String::new();
    for character in text.chars() {
        if part.len() + character.len_utf8() > 42 {
            words.push(std::mem::take(&mut part));
        }
        part.push(character);
    }
    words.push(part);
    let word = |part: &String| {
        let hex: String = part.bytes().map(quoted_byte).collect();
        format!("=?utf-8?q?{hex}?=")
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn quoted_byte(byte: u8) -> String {
    match byte {
        b' ' => "_".into(),
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        _ => format!("={byte:02X}"),
    }
}

/// Printable ASCII without blanks and angle brackets: what an address or id may hold here.
fn id(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() && !"<>,;\"".contains(*c)).collect()
}

fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// `Mon, 5 Oct 2026 10:00:00 +0000` of an RFC 3339 time.
fn rfc2822(time: &str) -> Option<String> {
    let time: jiff::Timestamp = time.parse().ok()?;
    jiff::fmt::rfc2822::to_string(&time.to_zoned(jiff::tz::TimeZone::UTC)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_mail_starts_a_new_header() {
        for (value, expected) in [
            ("a\r\nBcc: evil@example.org", "a Bcc: evil@example.org"),
            ("a\n\nbody", "a body"),
            ("J\u{f6}rg\nX: y", "=?utf-8?q?J=C3=B6rg_X=3A_y?="),
        ] {
            assert_eq!(encoded(value), expected);
        }
        assert_eq!(mailbox("A, B <a@x\r\nBcc: b@y>"), "\"A, B\" <a@xBcc:b@y>");
    }

    #[test]
    fn long_headers_are_folded() {
        let folded = header("References", &["<20261005-kernfs-removal-0@example.org>"; 4].join(" "));
        assert!(folded.lines().count() > 1 && folded.lines().all(|l| l.len() <= 78), "{folded}");
        assert!(folded.lines().skip(1).all(|l| l.starts_with(' ')));
    }

    #[test]
    fn times_are_as_in_mail() {
        assert_eq!(rfc2822("2026-10-05T10:00:00Z").as_deref(), Some("Mon, 5 Oct 2026 10:00:00 +0000"));
        assert_eq!(rfc2822("yesterday"), None);
    }
}
