// SPDX-License-Identifier: GPL-2.0-or-later
//! A patch series as patchwork and b4 understand one.

use serde::{Deserialize, Serialize};

/// All series found in one mail file; the JSON of `kernmark series`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesFile {
    /// 1.
    pub version: u32,
    /// Lower versions first; those of one version in order of first appearance.
    pub series: Vec<Series>,
    /// What was left out of the file, each for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// One version of one series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Subject without prefixes: of the cover letter, else of the first patch.
    pub title: String,
    /// 1 unless a `vN` prefix says otherwise.
    pub version: u32,
    /// Patches announced by the counters.
    pub total: u32,
    /// `[RESEND]`.
    pub resend: bool,
    /// `[RFC]`.
    pub rfc: bool,
    /// The 0/n mail.
    pub cover: Option<CoverLetter>,
    /// In index order.
    pub patches: Vec<Patch>,
    /// Message-IDs of replies that are no patches.
    pub replies: Vec<String>,
    /// `base-commit:` line, 40 hex digits.
    pub base_commit: Option<String>,
    /// `prerequisite-*` lines.
    pub prerequisites: Vec<String>,
    /// Every patch 1..=total is here exactly once.
    pub complete: bool,
    /// What is wrong, each for a person.
    pub problems: Vec<String>,
    /// What forbids applying the series, each for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// The 0/n mail of a series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverLetter {
    /// Whole subject, decoded, one line.
    pub subject: String,
    /// Without angle brackets.
    pub message_id: String,
    /// `Name <address>`.
    pub author: String,
    /// RFC 3339 with offset; empty when the header is unusable.
    pub date: String,
    /// Recipients of the mail, addresses only, To then Cc.
    #[serde(default)]
    pub recipients: Vec<String>,
    /// Message-IDs of the References header, oldest first.
    #[serde(default)]
    pub references: Vec<String>,
    /// Decoded text.
    #[serde(default)]
    pub body: String,
}

/// One patch of a series, decoded and ready to apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// 1-based.
    pub index: u32,
    /// Whole subject, decoded, one line.
    pub subject: String,
    /// Without angle brackets.
    pub message_id: String,
    /// `Name <address>`; an in-body `From:` wins.
    pub author: String,
    /// RFC 3339 with offset; empty when the header is unusable.
    pub date: String,
    /// Paths the diff touches, without `a/` and `b/`, sorted.
    pub files: Vec<String>,
    /// Lower-case hex SHA-256 of `diff`.
    pub diff_sha256: String,
    /// Recipients of the mail, addresses only, To then Cc.
    #[serde(default)]
    pub recipients: Vec<String>,
    /// Message-IDs of the References header, oldest first.
    #[serde(default)]
    pub references: Vec<String>,
    /// Commit message (text above `---`), decoded.
    #[serde(default)]
    pub message: String,
    /// From the first `diff --git` or `--- ` line to the end, LF line ends.
    #[serde(default)]
    pub diff: String,
}

impl Patch {
    /// Subject without its leading `[...]` prefixes.
    pub fn short_subject(&self) -> &str {
        short_subject(&self.subject)
    }
}

/// `subject` without leading `Re:` and `[...]` prefixes.
pub fn short_subject(subject: &str) -> &str {
    let mut rest = subject.trim();
    loop {
        if let Some(after) = rest.strip_prefix('[')
            && let Some(end) = after.find(']')
        {
            rest = after[end + 1..].trim_start();
            continue;
        }
        match rest.get(..3) {
            Some(start) if start.eq_ignore_ascii_case("re:") => rest = rest[3..].trim_start(),
            _ => return rest,
        }
    }
}
