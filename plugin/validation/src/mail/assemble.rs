// SPDX-License-Identifier: GPL-2.0-or-later
//! Drafts to series: what is missing, doubled or forbidden, and what the trailers say.

use super::body::{self, Body};
use super::message::{Message, one_line};
use super::paths::{self, Touched};
use super::series::{CoverLetter, Patch, Series, short_subject};
use super::thread::{self, Draft, Piece};
use crate::plan::hex;
use sha2::{Digest, Sha256};

/// Every series among `messages`, lower versions first.
pub fn assemble(messages: Vec<Message>) -> Vec<Series> {
    thread::gather(messages).into_iter().map(finish).collect()
}

/// Diffs that are no mails, in order, as one series without authors.
pub fn bare_series(messages: Vec<Message>) -> Series {
    let total = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    let mut series = Series {
        version: 1,
        total,
        problems: vec!["no mail headers: author, subject and thread are not known".into()],
        ..Series::default()
    };
    for (message, index) in messages.into_iter().zip(1..) {
        let body = body::read(message.text());
        add_patch(&mut series, index, message, body);
    }
    for patch in &mut series.patches {
        let first = patch.message.lines().next().map(one_line).filter(|l| !l.is_empty());
        patch.subject = first.unwrap_or_else(|| match patch.files.as_slice() {
            [file] => format!("change of {file}"),
            files => format!("change of {} files", files.len()),
        });
    }
    conclude(series)
}

fn finish(draft: Draft) -> Series {
    let announced = draft.pieces.first().map_or(1, |p| p.total);
    let version = draft.version();
    let Draft { pieces, replies, problems } = draft;
    let mut series = Series {
        version,
        total: pieces.iter().map(|p| p.total.max(p.index)).max().unwrap_or(1),
        rfc: pieces.iter().any(|p| p.prefixes.rfc),
        resend: pieces.iter().any(|p| p.prefixes.resend),
        replies,
        problems,
        ..Series::default()
    };
    if series.total > announced {
        series.problems.push(format!("a patch says it is {}/{announced}", series.total));
    }
    for piece in pieces {
        read_trailers(piece.message.text(), &mut series);
        let Piece { prefixes, index, message, body, .. } = piece;
        if let Some(counter) = prefixes.odd_counter {
            series.problems.push(format!("the counter {counter} is not believable and was ignored"));
        }
        if index == 0 {
            series.problems.extend(message.problems.iter().map(|p| format!("cover letter: {p}")));
            if !body.diff.text.is_empty() {
                series.problems.push("the cover letter holds a diff, which is not applied".into());
            }
            series.cover = Some(cover(message));
        } else {
            add_patch(&mut series, index, message, body);
        }
    }
    conclude(series)
}

/// Adds patch `index`, with what is wrong with it.
fn add_patch(series: &mut Series, index: u32, message: Message, body: Body) {
    let name = format!("patch {index}/{}", series.total);
    series.problems.extend(message.problems.iter().map(|p| format!("{name}: {p}")));
    if body.diff.text.is_empty() {
        series.problems.push(format!("{name} holds no diff"));
        return;
    }
    if body.diff.skipped {
        series.problems.push(format!("{name}: text between the files of its diff was left out"));
    }
    if let Some(damage) = &body.diff.damage {
        series.refused.push(format!("{name}: {damage}"));
    }
    let Touched { files, refused } = paths::of(&body.diff.text);
    if files.is_empty() && refused.is_empty() {
        series.refused.push(format!("{name} touches no file"));
    }
    series.refused.extend(refused.into_iter().map(|r| format!("{name}: {r}")));
    if let Some(at) = series.patches.iter().position(|p| p.index == index) {
        series.problems.push(format!("{name} is there twice; the later one counts"));
        series.patches.remove(at);
    }
    series.patches.push(Patch {
        index,
        subject: message.subject,
        message_id: message.message_id,
        author: body.author.as_deref().map_or(message.author, one_line),
        date: message.date,
        files,
        diff_sha256: hex(&Sha256::digest(body.diff.text.as_bytes())),
        recipients: message.recipients,
        references: message.references,
        message: body.message,
        diff: body.diff.text,
    });
}

/// Order, title, and whether everything is there.
fn conclude(mut series: Series) -> Series {
    series.patches.sort_by_key(|p| p.index);
    let missing: Vec<String> = (1..=series.total)
        .filter(|n| series.patches.iter().all(|p| p.index != *n))
        .map(|n| format!("{n}/{}", series.total))
        .collect();
    if !missing.is_empty() {
        series.problems.push(format!("missing: patch {}", missing.join(", ")));
    }
    series.complete = missing.is_empty() && series.refused.is_empty() && !series.patches.is_empty();
    let cover = series.cover.as_ref().map(|c| c.subject.as_str());
    let subject = cover.or(series.patches.first().map(|p| p.subject.as_str())).unwrap_or_default();
    series.title = match short_subject(subject) {
        "" => "no subject".to_owned(),
        title => title.to_owned(),
    };
    series
}

fn cover(mut message: Message) -> CoverLetter {
    CoverLetter {
        subject: message.subject,
        message_id: message.message_id,
        author: message.author,
        date: message.date,
        recipients: message.recipients,
        references: message.references,
        body: if message.texts.is_empty() { String::new() } else { message.texts.swap_remove(0) },
    }
}

/// `base-commit:` and `prerequisite-*:` lines, which `git format-patch --base` writes (formats.md 6.3).
fn read_trailers(text: &str, series: &mut Series) {
    for line in text.lines() {
        if let Some(commit) = line.strip_prefix("base-commit:").map(str::trim)
            && commit.len() == 40
            && commit.bytes().all(|b| b.is_ascii_hexdigit())
        {
            let commit = commit.to_ascii_lowercase();
            match &series.base_commit {
                Some(other) if *other != commit => {
                    series.problems.push(format!("two base commits are named: {other} and {commit}"));
                }
                _ => series.base_commit = Some(commit),
            }
        } else if line.starts_with("prerequisite-") && line.contains(": ") {
            let line = one_line(line);
            if series.prerequisites.len() < 1000 && !series.prerequisites.contains(&line) {
                series.prerequisites.push(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::message;

    /// A mail with `subject` and the file `path` changed, below cover letter `0`; no diff for an empty path.
    fn mail(subject: &str, path: &str) -> Message {
        let diff = format!("---\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n");
        let diff = if path.is_empty() { "Text.\n" } else { &diff };
        let id = if subject.contains(" 0/") { "0".to_owned() } else { subject.replace(' ', "_") };
        let raw = format!(
            "From: A <a@example.org>\nSubject: {subject}\nMessage-ID: <{id}>\nReferences: <0>\n\n{diff}\nbase-commit: {}\nprerequisite-patch-id: abc\n",
            "1".repeat(40)
        );
        message::read(raw.as_bytes()).expect("a mail")
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (mails, problem) in [
            (vec![mail("[PATCH 0/3] t", ""), mail("[PATCH 3/3] c", "x.c")], "missing: patch 1/3, 2/3"),
            (vec![mail("[PATCH 3/2] a", "x.c")], "a patch says it is 3/2"),
            (vec![mail("[PATCH 1/2] a", "")], "patch 1/2 holds no diff"),
            (vec![mail("[PATCH 0/0] a", "")], "missing: patch 1/1"),
            (vec![mail("[PATCH 0/1] a", "x.c")], "the cover letter holds a diff, which is not applied"),
        ] {
            let series = assemble(mails);
            assert!(series[0].problems.iter().any(|p| p == problem), "{:?}", series[0].problems);
            assert!(!series[0].complete);
        }
        let odd = assemble(vec![mail("[PATCH 1/4000000000] a", "x.c")]);
        assert!(odd[0].problems[0].contains("not believable"), "{:?}", odd[0].problems);
        assert_eq!(odd[0].total, 1);
    }

    #[test]
    fn a_patch_that_is_there_twice_counts_once() {
        let mut again = mail("[PATCH 1/1] a", "y.c");
        again.message_id = "again".into();
        let series = assemble(vec![mail("[PATCH 0/1] t", ""), mail("[PATCH 1/1] a", "x.c"), again]);
        assert_eq!((series.len(), series[0].patches.len()), (1, 1));
        assert_eq!(series[0].patches[0].files, ["y.c"]);
        assert_eq!(series[0].problems, ["patch 1/1 is there twice; the later one counts"]);
        assert!(series[0].complete);
    }

    #[test]
    fn trailers_are_read_once() {
        let series = assemble(vec![mail("[PATCH 1/2] a", "x.c"), mail("[PATCH 2/2] b", "x.c")]);
        assert_eq!(series[0].base_commit, Some("1".repeat(40)));
        assert_eq!(series[0].prerequisites, ["prerequisite-patch-id: abc"]);
        assert!(series[0].complete && series[0].problems.is_empty(), "{:?}", series[0].problems);
    }

    #[test]
    fn a_file_outside_of_the_tree_forbids_the_series() {
        let series = assemble(vec![mail("[PATCH] a", "../../etc/passwd")]);
        assert!(!series[0].complete && series[0].refused[0].contains("out of the tree"), "{:?}", series[0]);
    }

    #[test]
    fn a_title_is_never_empty() {
        assert_eq!(assemble(vec![mail("[PATCH]", "x.c")])[0].title, "no subject");
    }

    #[test]
    fn bare_diffs_are_one_series_in_order() {
        let bare = |text: &str| message::read_bare(text.as_bytes()).expect("a diff");
        let series = bare_series(vec![
            bare("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"),
            bare("Say why\n\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"),
        ]);
        let subjects: Vec<&str> = series.patches.iter().map(|p| p.subject.as_str()).collect();
        assert_eq!((series.total, subjects), (2, vec!["change of x", "Say why"]));
        assert!(series.complete && series.problems[0].contains("no mail headers"));
    }
}
