// SPDX-License-Identifier: GPL-2.0-or-later
//! Mail headers from other people's text: nothing in a value starts a new
//! header, ends the headers or smuggles an address (RFC 5322, RFC 2047).

use crate::report::wrap::one_line;

/// Longest header line; folded before.
const COLUMNS: usize = 76;
/// Longest Message-ID that is taken.
const MAX_ID: usize = 250;
/// References kept: the first and the last ones.
const MAX_REFERENCES: usize = 20;
/// Longest text in one encoded word: 75 less `=?utf-8?q?` and `?=`.
const ENCODED_TEXT: usize = 63;

/// A name and an address, both fit for a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    name: String,
    /// `user@example.org`.
    pub address: String,
}

impl Address {
    /// Takes `Name <address>` or `address`. Control characters end nothing: they become blanks.
    ///
    /// # Errors
    /// Returns the text when there is no plain address in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = one_line(text);
        let (name, address) = match line.rsplit_once('<') {
            Some((name, rest)) => (name.trim(), rest.strip_suffix('>').ok_or_else(|| text.to_owned())?),
            None => ("", line.as_str()),
        };
        let inner = name.strip_prefix('"').and_then(|n| n.strip_suffix('"'));
        let name = inner.unwrap_or(name).replace('\\', "");
        if !is_address(address) {
            return Err(text.to_owned());
        }
        Ok(Self { name, address: address.to_owned() })
    }

    /// Behind the `@`.
    pub fn domain(&self) -> &str {
        self.address.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let atoms = |c: char| c.is_ascii_alphanumeric() || " !#$%&'*+-/=?^_`{|}~".contains(c);
        if self.name.is_empty() {
            f.write_str(&self.address)
        } else if !self.name.is_ascii() {
            write!(f, "{} <{}>", encoded(&self.name), self.address)
        } else if self.name.chars().all(atoms) && !self.name.contains("=?") {
            write!(f, "{} <{}>", self.name, self.address)
        } else {
            write!(f, "\"{}\" <{}>", self.name.replace('"', "'"), self.address)
        }
    }
}

/// A local part of atoms and dots, one `@`, a domain of letters, digits, dots and dashes. Quoted
/// local parts are legal and not taken.
fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    !local.is_empty()
        && !domain.is_empty()
        && text.len() <= MAX_ID
        && local.chars().all(atom)
        && domain.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
}

/// `<id>` for each of the ids that is one; the middle of a long list is left out.
pub fn message_ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    let plain = |id: &str| -> Option<String> {
        let id = id.trim().trim_start_matches('<').trim_end_matches('>');
        let fits = id.contains('@')
            && id.len() <= MAX_ID
            && id.chars().all(|c| c.is_ascii_graphic() && !"<>()\\\",;".contains(c));
        fits.then(|| format!("<{id}>"))
    };
    let mut found: Vec<String> = ids.into_iter().filter_map(plain).collect();
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|id| seen.insert(id.clone()));
    if found.len() > MAX_REFERENCES {
        found.drain(1..found.len() - (MAX_REFERENCES - 1));
    }
    found.join(" ")
}

/// One header, folded at blanks.
pub fn folded(name: &str, value: &str) -> String {
    let mut text = format!("{name}:");
    let mut column = text.len();
    for word in value.split(' ').filter(|w| !w.is_empty()) {
        if column + 1 + word.len() > COLUMNS && column > name.len() + 1 {
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

/// Encodes the words that are not ASCII, so that `[PATCH v2 1/3]` stays readable; a word that
/// looks encoded already is encoded once more, since it is to be shown as it is.
pub fn encoded(text: &str) -> String {
    let text = one_line(text);
    let foreign = |word: &str| !word.is_ascii() || word.contains("=?") || word.len() > 200;
    let mut out: Vec<String> = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    for word in text.split(' ') {
        if foreign(word) {
            run.push(word);
            continue;
        }
        flush(&mut run, &mut out);
        out.push(word.to_owned());
    }
    flush(&mut run, &mut out);
    out.join(" ")
}

/// Neighbouring encoded words are joined by readers without the blank between
/// them, so a run is encoded as a whole.
fn flush(run: &mut Vec<&str>, out: &mut Vec<String>) {
    if run.is_empty() {
        return;
    }
    let mut part = String::new();
    for character in run.join(" ").chars() {
        let mut bytes = [0; 4];
        let next: String = character.encode_utf8(&mut bytes).bytes().map(quoted_byte).collect();
        if part.len() + next.len() > ENCODED_TEXT {
            out.push(format!("=?utf-8?q?{part}?="));
            part.clear();
        }
        part.push_str(&next);
    }
    out.push(format!("=?utf-8?q?{part}?="));
    run.clear();
}

fn quoted_byte(byte: u8) -> String {
    match byte {
        b' ' => "_".into(),
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        _ => format!("={byte:02X}"),
    }
}

/// `Mon, 5 Oct 2026 10:00:00 +0000` of an RFC 3339 time.
pub fn rfc5322(time: &str) -> Option<String> {
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
            ("a\u{85}\u{2028}b\0c", "a b c"),
            ("J\u{f6}rg\nX: y", "=?utf-8?q?J=C3=B6rg?= X: y"),
            (
                "[PATCH 1/2] \u{fc}ber =?utf-8?q?x?= z",
                "[PATCH 1/2] =?utf-8?q?=C3=BCber_=3D=3Futf=2D8=3Fq=3Fx=3F=3D?= z",
            ),
        ] {
            assert_eq!(encoded(value), expected);
        }
    }

    #[test]
    fn addresses_are_plain_or_refused() {
        for (text, expected) in [
            ("A, B <a@x.org>", "\"A, B\" <a@x.org>"),
            ("\"A \\\"q\\\" B\" <a@x.org>", "\"A 'q' B\" <a@x.org>"),
            ("a@x.org", "a@x.org"),
            ("J\u{f6}rg M <j@x.org>", "=?utf-8?q?J=C3=B6rg?= M <j@x.org>"),
            ("A\r\nBcc: b@y <a@x>", "\"A Bcc: b@y\" <a@x>"),
            ("a+tag@x-y.org", "a+tag@x-y.org"),
        ] {
            assert_eq!(Address::parse(text).expect(text).to_string(), expected);
        }
        for text in
            ["", "A", "A <>", "A <a@x\r\nBcc: b@y>", "a@x, b@y", "A <a@x>, B <b@y", "<a b@c>", "a@b@c"]
        {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ids_are_plain_or_left_out() {
        assert_eq!(message_ids(["a@b", "<c@d>", "no id", "e@f>\r\nBcc: x", "a@b"]), "<a@b> <c@d>");
        let many: Vec<String> = (0..50).map(|n| format!("{n}@x")).collect();
        let kept = message_ids(many.iter().map(String::as_str));
        assert_eq!(kept.split(' ').count(), MAX_REFERENCES);
        assert!(kept.starts_with("<0@x> <31@x>") && kept.ends_with("<49@x>"), "{kept}");
    }

    #[test]
    fn long_headers_are_folded() {
        let value = ["<20261005-kernfs-removal-0@example.org>"; 4].join(" ");
        let folded = folded("References", &value);
        assert!(folded.lines().count() > 1 && folded.lines().all(|l| l.len() <= 78), "{folded}");
        assert!(folded.lines().skip(1).all(|l| l.starts_with(' ')));
    }

    #[test]
    fn encoded_words_are_short_and_whole() {
        let text = "\u{1f600}".repeat(60);
        let encoded = encoded(&text);
        assert!(encoded.split(' ').all(|w| w.len() <= 75 && (w.len() - 12) % 12 == 0), "{encoded}");
    }

    #[test]
    fn times_are_as_in_mail() {
        assert_eq!(rfc5322("2026-10-05T10:00:00Z").as_deref(), Some("Mon, 5 Oct 2026 10:00:00 +0000"));
        assert_eq!(rfc5322("yesterday"), None);
    }
}
