// SPDX-License-Identifier: GPL-2.0-or-later
//! The reply as it would be mailed: headers and body (reply.md section 2,
//! formats.md section 7).

mod fit;
mod headers;

use super::story::{Story, answered};
use super::{ReportError, Templates};
use crate::findings::Findings;
use crate::plan::hex;
use headers::{Address, encoded, folded, message_ids, rfc5322};
use sha2::{Digest, Sha256};

/// Domain of mails that are never sent (RFC 2606).
const NO_DOMAIN: &str = "kernmark.invalid";

/// What a reply does not take from the findings: who sends it, when, to whom else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// `Name <address>`.
    pub from: String,
    /// Message-ID without angle brackets, in a domain of the sender: made and stored before the
    /// first attempt, so that a retry is the same mail.
    pub message_id: String,
    /// RFC 3339.
    pub date: String,
    /// Addresses that were on the mail and opted in.
    pub cc: Vec<String>,
}

impl Envelope {
    /// For a reply that nobody sends by itself: dated by the experiment, the same for the same
    /// findings, to the author alone.
    pub fn preview(findings: &Findings) -> Self {
        let provenance = &findings.provenance;
        let operator = provenance.operator.as_deref().and_then(|o| Address::parse(o).ok());
        let domain = operator.as_ref().map_or(NO_DOMAIN, Address::domain);
        let mut hash = Sha256::new();
        hash.update(&findings.protocol_sha256);
        for patch in &findings.series.patches {
            hash.update(&patch.diff_sha256);
            hash.update(&patch.message_id);
        }
        hash.update(&provenance.started);
        Self {
            message_id: format!("kernmark-{}@{domain}", &hex(&hash.finalize())[..24]),
            from: operator.map_or_else(|| format!("kernmark <kernmark@{NO_DOMAIN}>"), |o| o.to_string()),
            date: finished(findings).unwrap_or_else(|| provenance.started.clone()),
            cc: Vec::new(),
        }
    }
}

/// When the verdict was there.
fn finished(findings: &Findings) -> Option<String> {
    let started: jiff::Timestamp = findings.provenance.started.parse().ok()?;
    let seconds = i64::try_from(findings.provenance.duration_seconds).ok()?;
    Some(started.checked_add(jiff::SignedDuration::from_secs(seconds)).ok()?.to_string())
}

/// The preview as a whole message with headers.
pub fn render(findings: &Findings, templates: &Templates) -> Result<String, ReportError> {
    compose(findings, templates, &Envelope::preview(findings))
}

/// The whole message: 7-bit ASCII, LF line ends, body of at most 72 columns, 45 lines and 4 KB.
///
/// # Errors
/// A template is wrong, or an address of the envelope is none.
pub fn compose(
    findings: &Findings,
    templates: &Templates,
    envelope: &Envelope,
) -> Result<String, ReportError> {
    let body = fit::body(&Story::of(findings), templates)?;
    let parent = parent(findings);
    let given = |what: &'static str, value: &str| {
        Address::parse(value).map_err(|value| ReportError::Address { what, value })
    };
    let from = given("the sender", &envelope.from)?;
    let mut headers = vec![folded("From", &from.to_string())];
    // A patch from a git range has an author but no mail; a preview goes to nobody then.
    let to = Address::parse(parent.author).ok();
    headers.push(folded(
        "To",
        &to.as_ref().map_or_else(|| "undisclosed-recipients:;".into(), Address::to_string),
    ));
    let mut cc: Vec<String> = Vec::new();
    for address in &envelope.cc {
        let address = given("a recipient", address)?;
        let known = to.as_ref().is_some_and(|to| to.address == address.address)
            || cc.iter().any(|c| c.contains(&address.address));
        if !known {
            cc.push(address.to_string());
        }
    }
    if !cc.is_empty() {
        headers.push(folded("Cc", &cc.join(", ")));
    }
    headers.push(folded("Subject", &encoded(&subject(parent.subject))));
    if let Some(date) = rfc5322(&envelope.date) {
        headers.push(folded("Date", &date));
    }
    headers.push(folded("Message-ID", &message_ids([envelope.message_id.as_str()])));
    let answered = message_ids([parent.message_id]);
    if !answered.is_empty() {
        headers.push(folded("In-Reply-To", &answered));
        let references = parent.references.iter().map(String::as_str).chain([parent.message_id]);
        headers.push(folded("References", &message_ids(references)));
    }
    headers.push("Auto-Submitted: auto-replied".into());
    headers.push("MIME-Version: 1.0".into());
    headers.push("Content-Type: text/plain; charset=us-ascii".into());
    headers.push("Content-Transfer-Encoding: 7bit".into());
    Ok(format!("{}\n\n{body}", headers.join("\n")))
}

/// `Re: ` and the subject as it was.
fn subject(subject: &str) -> String {
    match subject.get(..3) {
        Some(start) if start.eq_ignore_ascii_case("re:") => subject.to_owned(),
        _ => format!("Re: {subject}"),
    }
}

/// What the reply answers.
struct Parent<'a> {
    subject: &'a str,
    message_id: &'a str,
    author: &'a str,
    references: &'a [String],
}

/// The one patch that the finding is about, else the cover letter, else the first patch.
fn parent(findings: &Findings) -> Parent<'_> {
    let series = &findings.series;
    let patch = answered(findings).and_then(|index| series.patches.iter().find(|p| p.index == index));
    match (patch, &series.cover, series.patches.first()) {
        (Some(patch), ..) | (None, None, Some(patch)) => Parent {
            subject: &patch.subject,
            message_id: &patch.message_id,
            author: &patch.author,
            references: &patch.references,
        },
        (None, Some(cover), _) => Parent {
            subject: &cover.subject,
            message_id: &cover.message_id,
            author: &cover.author,
            references: &cover.references,
        },
        (None, None, None) => Parent { subject: &series.title, message_id: "", author: "", references: &[] },
    }
}
