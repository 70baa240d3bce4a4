// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages to drafts of series: which patches belong together, whatever the
//! threading (formats.md 6.1, 6.2).
//!
//! A patch belongs where its nearest known ancestor is; without one, where the same
//! missing ancestor is named; without any, to the same author's series with a gap.

use super::body::{self, Body};
use super::message::{Message, one_line};
use super::series::short_subject;
use super::subject::{Prefixes, prefixes};
use std::collections::{HashMap, HashSet};

/// A message that is a cover letter or a patch.
pub struct Piece {
    /// Place in the file.
    position: usize,
    pub prefixes: Prefixes,
    pub index: u32,
    pub total: u32,
    pub message: Message,
    pub body: Body,
}

/// Pieces that belong together: one version of one series.
#[derive(Default)]
pub struct Draft {
    pub pieces: Vec<Piece>,
    /// Message-IDs of what answers them.
    pub replies: Vec<String>,
    /// What was found while they were put together.
    pub problems: Vec<String>,
}

/// What a message is to a series.
enum Role {
    Piece(Box<Piece>),
    /// Its text is gone.
    Reply(Message),
}

/// Every draft among `messages`: lower versions first, else in order of first appearance.
pub fn gather(messages: Vec<Message>) -> Vec<Draft> {
    let mut seen = HashSet::new();
    let mut pieces = Vec::new();
    let mut replies = Vec::new();
    for (position, message) in messages.into_iter().enumerate() {
        // The same mail through several lists.
        if !message.message_id.is_empty() && !seen.insert(message.message_id.clone()) {
            continue;
        }
        match piece(position, message) {
            Role::Piece(piece) => pieces.push(*piece),
            Role::Reply(reply) => replies.push(reply),
        }
    }
    // Covers first, then ascending: whatever the order in the file, an ancestor is placed before its descendants.
    pieces.sort_by_key(|piece| piece.index);
    let mut gathering = Gathering::default();
    for piece in pieces {
        gathering.place(piece);
    }
    gathering.join_covers();
    for reply in replies {
        gathering.reply(reply);
    }
    let mut drafts = gathering.drafts;
    drafts.retain(|draft| !draft.pieces.is_empty());
    drafts.sort_by_key(|draft| (draft.version(), draft.pieces.iter().map(|p| p.position).min()));
    drafts
}

/// Cover letter or patch, or else a reply.
fn piece(position: usize, mut message: Message) -> Role {
    let prefixes = prefixes(&message.subject);
    // A reply that holds a diff is a proposal, not a patch of the series.
    let body = if prefixes.reply { Body::default() } else { body::read_any(&message.texts) };
    let has_diff = !body.diff.text.is_empty();
    let is_cover = matches!(prefixes.counter, Some((0, _)));
    // "[PATCH] is this right?" is a question; "[PATCH 2/3]" without a diff is a patch that lost it.
    let is_piece =
        !prefixes.reply && (has_diff || is_cover || (prefixes.patch && prefixes.counter.is_some()));
    if !is_piece {
        message.texts.clear();
        return Role::Reply(message);
    }
    let (index, total) = prefixes.counter.unwrap_or((1, 1));
    if !is_cover && let Some(subject) = &body.subject {
        message.subject = one_line(subject);
    }
    if has_diff && message.texts.len() > 1 {
        message.problems.push(
            "the mail is format=flowed, which damages patches; it was undone; ask for plain text if the patch does not apply".into(),
        );
    }
    message.texts.truncate(1);
    Role::Piece(Box::new(Piece { position, prefixes, index, total: total.max(1), message, body }))
}

impl Piece {
    fn version(&self) -> u32 {
        self.prefixes.version.unwrap_or(1)
    }

    fn title(&self) -> &str {
        short_subject(&self.message.subject)
    }
}

impl Draft {
    /// Version of the series.
    pub fn version(&self) -> u32 {
        self.pieces.first().map_or(1, Piece::version)
    }

    fn total(&self) -> u32 {
        self.pieces.first().map_or(1, |p| p.total)
    }

    fn with_index(&self, index: u32) -> Option<&Piece> {
        self.pieces.iter().find(|p| p.index == index)
    }

    fn is_like(&self, piece: &Piece) -> bool {
        self.version() == piece.version() && self.total() == piece.total
    }

    /// There is room for `piece`, or it is the same patch once more.
    fn takes(&self, piece: &Piece) -> bool {
        self.is_like(piece)
            && piece.index > 0
            && self.with_index(piece.index).is_none_or(|other| other.title() == piece.title())
    }
}

/// Version, total and author: what patches of one series share.
type Kind = (u32, u32, String);

#[derive(Default)]
struct Gathering {
    drafts: Vec<Draft>,
    /// Draft of each message of a series, and of each reply.
    by_id: HashMap<String, usize>,
    /// Newest draft whose patches name an ancestor.
    by_ancestor: HashMap<(Kind, String), usize>,
    /// Drafts without ancestors.
    by_kind: HashMap<Kind, Vec<usize>>,
}

impl Gathering {
    fn place(&mut self, piece: Piece) {
        let kind = (piece.version(), piece.total, piece.message.author.clone());
        let draft = if piece.index == 0 { None } else { self.find(&piece, &kind) };
        let draft = draft.unwrap_or_else(|| {
            self.drafts.push(Draft::default());
            self.drafts.len() - 1
        });
        if !piece.message.message_id.is_empty() {
            self.by_id.insert(piece.message.message_id.clone(), draft);
        }
        for ancestor in &piece.message.references {
            self.by_ancestor.insert((kind.clone(), ancestor.clone()), draft);
        }
        if piece.message.references.is_empty() {
            let alike = self.by_kind.entry(kind).or_default();
            if alike.last() != Some(&draft) {
                alike.push(draft);
            }
        }
        self.drafts[draft].pieces.push(piece);
    }

    fn find(&self, piece: &Piece, kind: &Kind) -> Option<usize> {
        let ancestors = || piece.message.references.iter().rev();
        let known = ancestors().filter_map(|id| self.by_id.get(id)).find(|d| self.drafts[**d].takes(piece));
        let counted = piece.prefixes.counter.is_some();
        let has_room = |draft: &&usize| {
            let draft = &self.drafts[**draft];
            counted && draft.is_like(piece) && draft.with_index(piece.index).is_none()
        };
        known
            .or_else(|| {
                ancestors().filter_map(|id| self.by_ancestor.get(&(kind.clone(), id.clone()))).find(has_room)
            })
            .or_else(|| {
                if ancestors().next().is_some() {
                    return None;
                }
                self.by_kind.get(kind)?.iter().rev().take(100).find(has_room)
            })
            .copied()
    }

    /// A cover letter that says another version than the patches below it is still theirs.
    fn join_covers(&mut self) {
        for at in 0..self.drafts.len() {
            if self.drafts[at].with_index(0).is_some() {
                continue;
            }
            let covers = self.drafts[at].pieces.iter().flat_map(|p| p.message.references.iter().rev());
            let cover = covers.filter_map(|id| self.by_id.get(id)).copied().find(|&other| {
                let other = &self.drafts[other];
                other.pieces.len() == 1
                    && other.with_index(0).is_some()
                    && other.total() == self.drafts[at].total()
                    && other.pieces[0].message.author == self.drafts[at].pieces[0].message.author
            });
            if let Some(cover) = cover {
                let said = self.drafts[cover].version();
                let version = self.drafts[at].version();
                let pieces = std::mem::take(&mut self.drafts[cover].pieces);
                let draft = &mut self.drafts[at];
                draft.problems.push(format!("the cover letter says v{said}, its patches say v{version}"));
                draft.pieces.extend(pieces);
                for id in self.by_id.values_mut().filter(|d| **d == cover) {
                    *id = at;
                }
            }
        }
    }

    fn reply(&mut self, reply: Message) {
        let Some(&draft) = reply.references.iter().rev().find_map(|id| self.by_id.get(id)) else { return };
        if !reply.message_id.is_empty() {
            self.by_id.insert(reply.message_id.clone(), draft);
            self.drafts[draft].replies.push(reply.message_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::message;

    /// A mail `id` with `subject` and `references`; a diff unless it is a cover letter or says not to.
    fn mail(id: &str, subject: &str, references: &str) -> Message {
        let author = if subject.contains("by B") { "B <b@x>" } else { "A <a@x>" };
        let references: String = references.split_whitespace().map(|r| format!(" <{r}>")).collect();
        let line = if references.is_empty() { String::new() } else { format!("References:{references}\n") };
        let has_no_diff = subject.contains("0/") || subject.contains('?');
        let diff = if has_no_diff { "Text.\n" } else { "---\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n" };
        let raw = format!("From: {author}\nSubject: {subject}\nMessage-ID: <{id}>\n{line}\n{diff}");
        message::read(raw.as_bytes()).expect("a mail")
    }

    /// Id, subject, references.
    type Mail<'a> = (&'a str, &'a str, &'a str);

    /// Each draft as `vN: ids; replies`.
    fn drafts(mails: &[Mail<'_>]) -> Vec<String> {
        gather(mails.iter().map(|(id, subject, references)| mail(id, subject, references)).collect())
            .iter()
            .map(|d| {
                let ids: Vec<&str> = d.pieces.iter().map(|p| p.message.message_id.as_str()).collect();
                format!("v{}: {}; {}", d.version(), ids.join(" "), d.replies.join(" "))
            })
            .collect()
    }

    #[test]
    fn threads_of_every_shape_become_series() {
        let cover = ("0", "[PATCH 0/2] t", "");
        let cases: &[(&str, &[Mail<'_>], &[&str])] = &[
            ("shallow", &[cover, ("1", "[PATCH 1/2] a", "0"), ("2", "[PATCH 2/2] b", "0")], &["v1: 0 1 2; "]),
            ("deep", &[cover, ("1", "[PATCH 1/2] a", "0"), ("2", "[PATCH 2/2] b", "1")], &["v1: 0 1 2; "]),
            (
                "out of order",
                &[("2", "[PATCH 2/2] b", "1"), ("1", "[PATCH 1/2] a", "0"), cover],
                &["v1: 0 1 2; "],
            ),
            ("cover missing", &[("2", "[PATCH 2/2] b", "0"), ("1", "[PATCH 1/2] a", "0")], &["v1: 1 2; "]),
            (
                "not threaded",
                &[cover, ("1", "[PATCH 1/2] a", ""), ("2", "[PATCH 2/2] b", "")],
                &["v1: 0 1 2; "],
            ),
            (
                "no threading, no cover",
                &[("1", "[PATCH 1/2] a", ""), ("2", "[PATCH 2/2] b", "")],
                &["v1: 1 2; "],
            ),
            (
                "other author, not threaded",
                &[("1", "[PATCH 1/2] a", ""), ("2", "[PATCH 2/2] by B", "")],
                &["v1: 1; ", "v1: 2; "],
            ),
            (
                "other author, threaded",
                &[cover, ("1", "[PATCH 1/2] a", "0"), ("2", "[PATCH 2/2] by B", "0")],
                &["v1: 0 1 2; "],
            ),
            (
                "through two lists",
                &[cover, ("1", "[PATCH 1/2] a", "0"), ("1", "[PATCH 1/2] a", "0")],
                &["v1: 0 1; "],
            ),
            ("two singles", &[("1", "[PATCH] a", ""), ("2", "[PATCH] b", "")], &["v1: 1; ", "v1: 2; "]),
            (
                "single in reply to review",
                &[("1", "[PATCH] a", "x"), ("2", "[PATCH] b", "x")],
                &["v1: 1; ", "v1: 2; "],
            ),
            ("no prefix at all", &[("1", "a change", "")], &["v1: 1; "]),
            ("0/1", &[("0", "[PATCH 0/1] t", ""), ("1", "[PATCH 1/1] a", "0")], &["v1: 0 1; "]),
            ("question", &[("1", "[PATCH] is this right?", "")], &[]),
            (
                "v2 in reply to v1",
                &[
                    ("v2", "[PATCH v2 0/1] t", "0"),
                    ("v21", "[PATCH v2 1/1] a", "0 v2"),
                    ("0", "[PATCH 0/1] t", ""),
                    ("1", "[PATCH 1/1] a", "0"),
                ],
                &["v1: 0 1; ", "v2: v2 v21; "],
            ),
            (
                "a series in reply to a series of the same length",
                &[
                    cover,
                    ("1", "[PATCH 1/2] a", "0"),
                    ("2", "[PATCH 2/2] b", "0"),
                    ("B0", "[PATCH 0/2] by B", "0"),
                    ("B1", "[PATCH 1/2] c by B", "0 B0"),
                    ("B2", "[PATCH 2/2] d by B", "0 B0"),
                ],
                &["v1: 0 1 2; ", "v1: B0 B1 B2; "],
            ),
            (
                "the same without its cover",
                &[
                    cover,
                    ("1", "[PATCH 1/2] a", "0"),
                    ("2", "[PATCH 2/2] b", "0"),
                    ("B1", "[PATCH 1/2] c by B", "0"),
                    ("B2", "[PATCH 2/2] d by B", "0"),
                ],
                &["v1: 0 1 2; ", "v1: B1 B2; "],
            ),
            (
                "not threaded, twice",
                &[
                    ("1", "[PATCH 1/2] a", ""),
                    ("2", "[PATCH 2/2] b", ""),
                    ("3", "[PATCH 1/2] c", ""),
                    ("4", "[PATCH 2/2] d", ""),
                ],
                &["v1: 1 4; ", "v1: 3 2; "],
            ),
            (
                "one patch once more",
                &[cover, ("1", "[PATCH 1/2] a", "0"), ("1b", "[PATCH 1/2] a", "0")],
                &["v1: 0 1 1b; "],
            ),
            (
                "cover of another version",
                &[cover, ("1", "[PATCH v2 1/2] a", "0"), ("2", "[PATCH v2 2/2] b", "0")],
                &["v2: 1 2 0; "],
            ),
            (
                "replies and replies to replies",
                &[
                    ("1", "[PATCH] a", ""),
                    ("r", "Re: [PATCH] a", "1"),
                    ("s", "Re: a diff", "r"),
                    ("t", "Re: other", "z"),
                ],
                &["v1: 1; r s"],
            ),
        ];
        for (name, mails, expected) in cases {
            assert_eq!(drafts(mails), *expected, "{name}");
        }
    }
}
