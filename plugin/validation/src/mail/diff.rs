// SPDX-License-Identifier: GPL-2.0-or-later
//! The diff of a patch mail: where it starts, what belongs to it, where it is damaged.
//!
//! Hunks are followed by the lengths they announce, so that a removed line that
//! looks like a signature stays and a list's footer goes.

/// A diff without the text around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Every file of it, LF line ends; empty when there is none.
    pub text: String,
    /// The first hunk that is not what it announces, for a person.
    pub damage: Option<String>,
    /// Text between two files of the diff was left out, as `git apply` does.
    pub skipped: bool,
}

/// Index of the first line of a diff.
pub fn start(lines: &[&str]) -> Option<usize> {
    (0..lines.len()).find(|&at| starts_file(&lines[at..]))
}

fn starts_file(lines: &[&str]) -> bool {
    let next = lines.get(1).copied().unwrap_or_default();
    lines[0].starts_with("diff --git ")
        || (lines[0].starts_with("Index: ") && next.starts_with("====="))
        || (lines[0].starts_with("--- ") && next.starts_with("+++ "))
}

/// Lines that may stand beside the hunks of a file.
const HEADERS: &[&str] = &[
    "index ",
    "--- ",
    "+++ ",
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "similarity index ",
    "dissimilarity index ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "Binary files ",
    "=====",
    "\\ No newline",
];

/// Where the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Text of a mail, dropped.
    Outside,
    /// Header of a file, or between its hunks.
    File,
    /// Inside a hunk: lines left on both sides.
    Hunk(u64, u64),
    /// Behind `GIT binary patch`.
    Binary,
}

/// The diff in `lines`, which start with it.
pub fn read(lines: &[&str]) -> Diff {
    let mut diff = Diff::default();
    let mut place = Place::Outside;
    let mut file = "";
    let mut hunk = "";
    let mut text_between = false;
    for (at, line) in lines.iter().enumerate() {
        if let Place::Hunk(old, new) = place {
            let left = match line.as_bytes().first() {
                Some(b'-') => old.checked_sub(1).map(|old| (old, new)),
                Some(b'+') => new.checked_sub(1).map(|new| (old, new)),
                // Mailers strip the blank of an empty context line.
                Some(b' ') | None => old.checked_sub(1).zip(new.checked_sub(1)),
                Some(b'\\') => Some((old, new)),
                _ => None,
            };
            if let Some((old, new)) = left {
                place = if (old, new) == (0, 0) { Place::File } else { Place::Hunk(old, new) };
                push(&mut diff.text, line);
                continue;
            }
            damage(&mut diff, file, hunk);
            place = Place::Outside;
        }
        if starts_file(&lines[at..]) {
            diff.skipped |= text_between && !diff.text.is_empty();
            text_between = false;
            place = Place::File;
            file = line;
            push(&mut diff.text, line);
            continue;
        }
        let belongs = match place {
            Place::Outside | Place::Hunk(..) => false,
            Place::File if line.starts_with("GIT binary patch") => {
                place = Place::Binary;
                true
            }
            Place::File => match hunk_lengths(line) {
                Some((0, 0)) => true,
                Some((old, new)) => {
                    hunk = line;
                    place = Place::Hunk(old, new);
                    true
                }
                None => HEADERS.iter().any(|header| line.starts_with(header)),
            },
            Place::Binary => is_binary_line(line),
        };
        if belongs {
            push(&mut diff.text, line);
        } else {
            place = Place::Outside;
            text_between |= !line.trim().is_empty();
        }
    }
    if let Place::Hunk(..) = place {
        damage(&mut diff, file, hunk);
    }
    diff
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn damage(diff: &mut Diff, file: &str, hunk: &str) {
    let place = format!("{} {}", file.trim_start_matches("diff --git "), hunk);
    diff.damage.get_or_insert_with(|| {
        format!(
            "the hunk at {} is cut off or its lines were wrapped by a mailer; ask for the patch as git send-email sends it",
            super::message::one_line(&place).escape_default()
        )
    });
}

/// `literal N`, `delta N`, base 85 lines (length letter, then groups of five), and the empty lines between.
fn is_binary_line(line: &str) -> bool {
    let is_data = line.len() % 5 == 1 && line.len() > 1 && line.bytes().all(|b| b.is_ascii_graphic());
    line.is_empty() || line.starts_with("literal ") || line.starts_with("delta ") || is_data
}

/// Lines on both sides that `@@ -a,b +c,d @@` announces.
pub fn hunk_lengths(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let mut length = |sign: char| {
        let range = words.next()?.strip_prefix(sign)?;
        range.split_once(',').map_or(Some(1), |(_, n)| n.parse().ok())
    };
    Some((length('-')?, length('+')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "diff --git a/x.c b/x.c\nindex 1..2 100644\n--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n-- \n+new\n same\n";

    fn of(text: &str) -> Diff {
        read(&text.lines().collect::<Vec<_>>())
    }

    #[test]
    fn a_removed_line_that_looks_like_a_signature_stays() {
        let diff = of(&format!("{FILE}-- \n2.39\n_____\nlist footer\n"));
        assert_eq!(diff, Diff { text: FILE.to_owned(), damage: None, skipped: false });
    }

    #[test]
    fn files_behind_other_text_are_not_lost() {
        let second = FILE.replace("x.c", "y.c");
        let diff = of(&format!("{FILE}-- \n2.39\n\n{second}"));
        assert_eq!((diff.text, diff.skipped), (format!("{FILE}{second}"), true));
        assert!(!of(&format!("{FILE}\n{second}")).skipped);
    }

    #[test]
    fn what_is_cut_or_wrapped_is_named() {
        for text in [
            "--- a/x.c\n+++ b/x.c\n@@ -1,9 +1,9 @@\n-old\n+new\n",
            "--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n-old\n+a long line that a mailer\nwrapped\n same\n",
            "--- a/x.c\n+++ b/x.c\n@@ -1,1 +1,2 @@\n-old\n-older\n+new\n",
            "--- a/x.c\n+++ b/x.c\n@@ -1,99999999999 +1,2 @@\n-old\n",
        ] {
            let damage = of(text).damage.unwrap_or_default();
            assert!(damage.contains("--- a/x.c @@ -1,"), "{text}: {damage}");
        }
    }

    #[test]
    fn binary_files_end_where_they_end() {
        let binary = "diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZQzWMT#Y01f~L\n\nliteral 2\nJcmZQzWMT#Y01f~L\n\n";
        let diff = of(&format!("{binary}-- \n2.39.5\nlist footer here\n"));
        assert_eq!(diff.text, binary);
    }

    #[test]
    fn stripped_blanks_and_missing_newlines_are_part_of_a_hunk() {
        let text = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n";
        assert_eq!(of(text), Diff { text: text.to_owned(), damage: None, skipped: false });
    }
}
