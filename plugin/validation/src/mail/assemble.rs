// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages to series, as patchwork and b4 put them together (formats.md 6.1, 6.2).

use super::body;
use super::message::{Message, one_line};
use super::series::{CoverLetter, Patch, Series, short_subject};
use super::subject::{Prefixes, prefixes};
use crate::plan::hex;
use sha2::{Digest, Sha256};

/// A message that is a cover letter or a patch.
struct Piece {
    prefixes: Prefixes,
    index: u32,
    total: u32,
    message: Message,
    body: body::Body,
}

/// Every series among `messages`, in order of first appearance, versions ascending.
pub fn assemble(messages: Vec<Message>) -> Vec<Series> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut replies: Vec<Message> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for message in messages {
        // The same mail through several lists.
        if !message.message_id.is_empty() {
            if seen.contains(&message.message_id) {
                continue;
            }
            seen.push(message.message_id.clone());
        }
        match piece(&message) {
            Some(piece) => pieces.push(piece),
            None => replies.push(message),
        }
    }
    // Covers first: patches find their series by them whatever the order in the file.
    let mut drafts: Vec<Vec<Piece>> = Vec::new();
    let (covers, patches): (Vec<Piece>, Vec<Piece>) = pieces.into_iter().partition(|p| p.index == 0);
    for piece in covers.into_iter().chain(patches) {
        match drafts.iter_mut().find(|draft| belongs(&piece, draft)) {
            Some(draft) => draft.push(piece),
            None => drafts.push(vec![piece]),
        }
    }
    let mut series: Vec<Series> = drafts.into_iter().map(|draft| finish(draft, &replies)).collect();
    series.sort_by_key(|s| s.version);
    series
}

/// Cover letter or patch; `None` for anything else.
fn piece(message: &Message) -> Option<Piece> {
    let body = body::read(&message.text);
    let subject = body.subject.clone().unwrap_or_else(|| message.subject.clone());
    let found = prefixes(&message.subject);
    let has_diff = !body.diff.is_empty();
    // A reply that holds a diff is a proposal, not a patch of the series.
    if found.reply || !(found.patch || has_diff) {
        return None;
    }
    let (index, total) = found.counter.unwrap_or((1, 1));
    // "[PATCH] is this right?" is a question.
    if found.counter.is_none() && !has_diff {
        return None;
    }
    let mut message = message.clone();
    message.subject = if body.subject.is_some() { one_line(&subject) } else { message.subject };
    Some(Piece { prefixes: found, index, total, message, body })
}

fn belongs(piece: &Piece, draft: &[Piece]) -> bool {
    let first = &draft[0];
    let same_version = first.prefixes.version.unwrap_or(1) == piece.prefixes.version.unwrap_or(1);
    if !same_version
        || first.total != piece.total
        || (piece.total == 1 && (first.index, piece.index) != (0, 1))
    {
        return false;
    }
    let threaded = draft.iter().any(|other| {
        piece.message.references.contains(&other.message.message_id)
            || other.message.references.contains(&piece.message.message_id)
            || piece.message.references.iter().any(|r| other.message.references.contains(r))
    });
    let unthreaded = piece.total > 1
        && piece.message.references.is_empty()
        && first.message.author == piece.message.author
        && draft.iter().all(|other| other.index != piece.index);
    threaded || unthreaded
}

fn finish(draft: Vec<Piece>, replies: &[Message]) -> Series {
    let mut series = Series {
        version: draft[0].prefixes.version.unwrap_or(1),
        total: draft.iter().map(|p| p.total.max(p.index)).max().unwrap_or(1),
        rfc: draft.iter().any(|p| p.prefixes.rfc),
        resend: draft.iter().any(|p| p.prefixes.resend),
        ..Series::default()
    };
    let announced = draft[0].total;
    if series.total > announced {
        series.problems.push(format!("a patch says it is {}/{announced}", series.total));
    }
    let ids: Vec<String> = draft.iter().map(|p| p.message.message_id.clone()).collect();
    for piece in draft {
        let name = format!("patch {}/{}", piece.index, series.total);
        read_trailers(&piece.message.text, &mut series);
        if piece.index == 0 {
            series.problems.extend(piece.message.problems.iter().map(|p| format!("cover letter: {p}")));
            series.cover = Some(cover(piece.message));
            continue;
        }
        series.problems.extend(piece.message.problems.iter().map(|p| format!("{name}: {p}")));
        if piece.body.diff.is_empty() {
            series.problems.push(format!("{name} holds no diff"));
            continue;
        }
        if piece.body.cut {
            series.refused.push(format!("{name}: its last hunk is cut off"));
        }
        let (files, refused) = body::files(&piece.body.diff);
        series.refused.extend(refused.into_iter().map(|r| format!("{name}: {r}")));
        if files.is_empty() {
            series.refused.push(format!("{name} touches no file"));
        }
        if let Some(at) = series.patches.iter().position(|p| p.index == piece.index) {
            series.problems.push(format!("{name} is there twice; the later one counts"));
            series.patches.remove(at);
        }
        series.patches.push(patch(piece, files));
    }
    series.patches.sort_by_key(|p| p.index);
    let missing: Vec<String> = (1..=series.total)
        .filter(|n| series.patches.iter().all(|p| p.index != *n))
        .map(|n| format!("{n}/{}", series.total))
        .collect();
    if !missing.is_empty() {
        series.problems.push(format!("missing: patch {}", missing.join(", ")));
    }
    series.complete = missing.is_empty() && series.refused.is_empty();
    series.title = series
        .cover
        .as_ref()
        .map(|c| c.subject.as_str())
        .or(series.patches.first().map(|p| p.subject.as_str()))
        .map(short_subject)
        .unwrap_or_default()
        .to_owned();
    series.replies = replies
        .iter()
        .filter(|r| r.references.iter().any(|id| ids.contains(id)))
        .map(|r| r.message_id.clone())
        .collect();
    series
}

fn cover(message: Message) -> CoverLetter {
    CoverLetter {
        subject: message.subject,
        message_id: message.message_id,
        author: message.author,
        date: message.date,
        recipients: message.recipients,
        references: message.references,
        body: message.text,
    }
}

fn patch(piece: Piece, files: Vec<String>) -> Patch {
    let Piece { index, message, body, .. } = piece;
    Patch {
        index,
        subject: message.subject,
        message_id: message.message_id,
        author: body.author.as_deref().map_or(message.author, one_line),
        date: message.date,
        files,
        diff_sha256: hex(&Sha256::digest(body.diff.as_bytes())),
        recipients: message.recipients,
        references: message.references,
        message: body.message,
        diff: body.diff,
    }
}

/// `base-commit:` and `prerequisite-*:` lines.
fn read_trailers(text: &str, series: &mut Series) {
    for line in text.lines() {
        if let Some(commit) = line.strip_prefix("base-commit: ").map(str::trim)
            && commit.len() == 40
            && commit.bytes().all(|b| b.is_ascii_hexdigit())
        {
            series.base_commit = Some(commit.to_ascii_lowercase());
        } else if line.starts_with("prerequisite-") && line.contains(": ") {
            series.prerequisites.push(one_line(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::message;

    const DIFF: &str = "---\ndiff --git a/x.c b/x.c\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n";

    /// A mail `id` with `subject`, in reply to `parent`; a diff unless it is a cover letter or a reply.
    fn mail(id: &str, subject: &str, parent: &str, diff: bool) -> Message {
        let references = if parent.is_empty() { String::new() } else { format!("References: <{parent}>\n") };
        let text = if diff { DIFF } else { "Text.\n" };
        let raw = format!(
            "From: A <a@example.org>\nSubject: {subject}\nMessage-ID: <{id}>\n{references}\n{text}base-commit: {}\n",
            "1".repeat(40)
        );
        message::read(raw.as_bytes()).expect("a mail")
    }

    /// `title vV total complete [indices]` of each series.
    fn summary(messages: Vec<Message>) -> Vec<String> {
        assemble(messages)
            .iter()
            .map(|s| {
                let indices: Vec<u32> = s.patches.iter().map(|p| p.index).collect();
                format!("{} v{} {} {} {indices:?}", s.title, s.version, s.total, s.complete)
            })
            .collect()
    }

    #[test]
    fn threads_of_every_shape_become_series() {
        let cover = || mail("0", "[PATCH 0/2] t", "", false);
        let cases: Vec<(&str, Vec<Message>, Vec<&str>)> = vec![
            (
                "shallow",
                vec![cover(), mail("1", "[PATCH 1/2] a", "0", true), mail("2", "[PATCH 2/2] b", "0", true)],
                vec!["t v1 2 true [1, 2]"],
            ),
            (
                "deep",
                vec![cover(), mail("1", "[PATCH 1/2] a", "0", true), mail("2", "[PATCH 2/2] b", "1", true)],
                vec!["t v1 2 true [1, 2]"],
            ),
            (
                "out of order",
                vec![mail("2", "[PATCH 2/2] b", "0", true), mail("1", "[PATCH 1/2] a", "0", true), cover()],
                vec!["t v1 2 true [1, 2]"],
            ),
            (
                "no threading, no cover",
                vec![mail("1", "[PATCH 1/2] a", "", true), mail("2", "[PATCH 2/2] b", "", true)],
                vec!["a v1 2 true [1, 2]"],
            ),
            (
                "through two lists",
                vec![cover(), mail("1", "[PATCH 1/2] a", "0", true), mail("1", "[PATCH 1/2] a", "0", true)],
                vec!["t v1 2 false [1]"],
            ),
            ("single", vec![mail("1", "[PATCH] a", "", true)], vec!["a v1 1 true [1]"]),
            (
                "0/1",
                vec![mail("0", "[PATCH 0/1] t", "", false), mail("1", "[PATCH 1/1] a", "0", true)],
                vec!["t v1 1 true [1]"],
            ),
            (
                "v2 in reply to v1",
                vec![
                    mail("0", "[PATCH 0/1] t", "", false),
                    mail("1", "[PATCH 1/1] a", "0", true),
                    mail("v2", "[PATCH v2 0/1] t", "0", false),
                    mail("v21", "[PATCH v2 1/1] a", "v2", true),
                ],
                vec!["t v1 1 true [1]", "t v2 1 true [1]"],
            ),
            ("question", vec![mail("1", "[PATCH] is this right?", "", false)], vec![]),
        ];
        for (name, messages, expected) in cases {
            assert_eq!(summary(messages), expected, "{name}");
        }
    }

    #[test]
    fn what_is_missing_or_extra_is_said() {
        let series =
            assemble(vec![mail("0", "[PATCH 0/3] t", "", false), mail("3", "[PATCH 3/3] c", "0", true)]);
        assert_eq!(series[0].problems, ["missing: patch 1/3, 2/3"]);
        let series = assemble(vec![mail("1", "[PATCH 3/2] a", "", true)]);
        assert!(series[0].problems.iter().any(|p| p.contains("3/2")), "{:?}", series[0].problems);
    }

    #[test]
    fn replies_are_listed_and_their_diffs_are_no_patches() {
        let series = assemble(vec![
            mail("1", "[PATCH] a", "", true),
            mail("r", "Re: [PATCH] a", "1", false),
            mail("d", "Re: [PATCH] a", "1", true),
        ]);
        assert_eq!((series[0].patches.len(), &series[0].replies), (1, &vec!["r".to_owned(), "d".to_owned()]));
    }

    #[test]
    fn the_base_commit_is_read_above_and_below() {
        let series = assemble(vec![mail("1", "[PATCH] a", "", false), mail("2", "[PATCH 1/1] b", "", true)]);
        assert_eq!(series[0].base_commit, Some("1".repeat(40)));
    }

    #[test]
    fn a_file_outside_of_the_tree_forbids_the_series() {
        let mut evil = mail("1", "[PATCH] a", "", true);
        evil.text = evil.text.replace("x.c", "../../etc/passwd");
        let series = assemble(vec![evil]);
        assert!(!series[0].complete && series[0].refused[0].contains("out of the tree"), "{:?}", series[0]);
    }
}
