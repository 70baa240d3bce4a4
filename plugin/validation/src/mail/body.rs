// SPDX-License-Identifier: GPL-2.0-or-later
//! The text of a patch mail: what it overrides, its message, its diff.

/// A mail's text taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body {
    /// In-body `From:`.
    pub author: Option<String>,
    /// In-body `Subject:`.
    pub subject: Option<String>,
    /// In-body `Date:`.
    pub date: Option<String>,
    /// Text above `---` or the diff, trimmed.
    pub message: String,
    /// From the first `diff --git`, `Index:` or `--- ` line to the end of the last hunk; empty without a diff.
    pub diff: String,
    /// A hunk has fewer lines than it says.
    pub cut: bool,
}

/// Takes the text of a mail apart; line ends are LF.
pub fn read(text: &str) -> Body {
    let lines: Vec<&str> = after_scissors(text.lines().map(|l| l.trim_end_matches('\r')).collect());
    let start = (0..lines.len()).find(|&at| starts_diff(&lines[at..])).unwrap_or(lines.len());
    let mut body = Body::default();
    let mut above = lines[..start].to_vec();
    while let Some((line, rest)) = above.split_first().map(|(l, r)| (*l, r.to_vec())) {
        let value = |name: &str| line.strip_prefix(name).map(|v| v.trim().to_owned());
        if let Some(author) = value("From:") {
            body.author = Some(author);
        } else if let Some(subject) = value("Subject:") {
            body.subject = Some(subject);
        } else if let Some(date) = value("Date:") {
            body.date = Some(date);
        } else if !line.trim().is_empty() {
            break;
        }
        above = rest;
    }
    let end = above.iter().position(|l| *l == "---").unwrap_or(above.len());
    body.message = above[..end].join("\n").trim().to_owned();
    if start < lines.len() {
        (body.diff, body.cut) = diff(&lines[start..]);
    }
    body
}

/// Lines below the last scissors line (`-- >8 --`) above the diff.
fn after_scissors(lines: Vec<&str>) -> Vec<&str> {
    let diff = (0..lines.len()).find(|&at| starts_diff(&lines[at..])).unwrap_or(lines.len());
    let is_scissors = |line: &&str| {
        (line.contains(">8") || line.contains("8<"))
            && line.contains("--")
            && line.chars().all(|c| "-><8%cut here".contains(c))
    };
    match lines[..diff].iter().rposition(is_scissors) {
        Some(at) => lines[at + 1..].to_vec(),
        None => lines,
    }
}

fn starts_diff(lines: &[&str]) -> bool {
    let next = lines.get(1).copied().unwrap_or_default();
    lines[0].starts_with("diff --git ")
        || (lines[0].starts_with("Index: ") && next.starts_with("====="))
        || (lines[0].starts_with("--- ") && next.starts_with("+++ "))
}

/// Lines that may stand between hunks of a git diff.
const HEADERS: &[&str] = &[
    "diff --git ",
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
    "Index: ",
    "=====",
    "\\ No newline",
];

/// The diff itself, and whether its last hunk is cut. The signature and what lists append end it.
fn diff(lines: &[&str]) -> (String, bool) {
    let mut text = String::new();
    let (mut old, mut new) = (0_u64, 0_u64);
    let mut binary = false;
    for line in lines {
        if old > 0 || new > 0 {
            match line.as_bytes().first() {
                Some(b'-') => old = old.saturating_sub(1),
                Some(b'+') => new = new.saturating_sub(1),
                // Mailers strip the blank of an empty context line.
                Some(b' ') | None => {
                    old = old.saturating_sub(1);
                    new = new.saturating_sub(1);
                }
                Some(b'\\') => {}
                _ => break,
            }
        } else if let Some((a, b)) = hunk_lengths(line) {
            (old, new) = (a, b);
        } else if line.starts_with("GIT binary patch") {
            binary = true;
        } else if HEADERS.iter().any(|h| line.starts_with(h)) {
            binary = false;
        } else if !binary {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    (text, old > 0 || new > 0)
}

/// Lines on both sides that `@@ -a,b +c,d @@` announces.
fn hunk_lengths(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let mut length = |sign: char| {
        let range = words.next()?.strip_prefix(sign)?;
        range.split_once(',').map_or(Some(1), |(_, n)| n.parse().ok())
    };
    Some((length('-')?, length('+')?))
}

/// Paths a diff touches, both sides, without `a/` and `b/`, sorted; and what is wrong with them.
pub fn files(diff: &str) -> (Vec<String>, Vec<String>) {
    let mut found = Vec::new();
    let mut refused = Vec::new();
    let mut inside = (0_u64, 0_u64);
    for line in diff.lines() {
        if inside != (0, 0) {
            match line.as_bytes().first() {
                Some(b'-') => inside.0 = inside.0.saturating_sub(1),
                Some(b'+') => inside.1 = inside.1.saturating_sub(1),
                Some(b'\\') => {}
                _ => inside = (inside.0.saturating_sub(1), inside.1.saturating_sub(1)),
            }
            continue;
        }
        if let Some(lengths) = hunk_lengths(line) {
            inside = lengths;
            continue;
        }
        let stripped = [
            ("--- ", "a/"),
            ("+++ ", "b/"),
            ("rename from ", ""),
            ("rename to ", ""),
            ("copy from ", ""),
            ("copy to ", ""),
        ]
        .iter()
        .find_map(|(mark, side)| line.strip_prefix(mark).map(|path| (path, *side)));
        if let Some((path, side)) = stripped {
            let path = path.split('\t').next().unwrap_or_default().trim_end();
            if path != "/dev/null" {
                take_path(path.strip_prefix(side).unwrap_or(path), &mut found, &mut refused);
            }
        } else if let Some(both) = line.strip_prefix("diff --git ") {
            // Covers mode changes and empty files, which have no --- line.
            match both.split_once(" b/") {
                Some((a, b)) if a.strip_prefix("a/") == Some(b) => take_path(b, &mut found, &mut refused),
                Some(_) => {}
                None => refused.push(format!("a file name is quoted or odd: {}", both.escape_default())),
            }
        }
    }
    found.sort();
    found.dedup();
    refused.sort();
    refused.dedup();
    (found, refused)
}

fn take_path(path: &str, found: &mut Vec<String>, refused: &mut Vec<String>) {
    let leaves =
        path.starts_with('/') || path.split('/').any(|part| matches!(part, ".." | "." | ".git" | ""));
    if leaves {
        refused.push(format!("a file name leads out of the tree: {}", path.escape_default()));
    } else if path.starts_with('"') || path.chars().any(char::is_control) {
        refused.push(format!("a file name is quoted or odd: {}", path.escape_default()));
    } else {
        found.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/x.c b/x.c\nindex 1..2 100644\n--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n-- \n+new\n same\n";

    #[test]
    fn a_removed_line_that_looks_like_a_signature_stays() {
        let body = read(&format!(
            "Why.\n\nSigned-off-by: A\n---\n x.c | 2 +-\n\n{DIFF}-- \n2.39\n_____\nlist footer\n"
        ));
        assert_eq!(body.diff, DIFF);
        assert_eq!(body.message, "Why.\n\nSigned-off-by: A");
        assert!(!body.cut);
    }

    #[test]
    fn headers_in_the_body_win() {
        let body = read(&format!("From: B <b@example.org>\nSubject: other\n\nText.\n---\n{DIFF}"));
        assert_eq!(body.author.as_deref(), Some("B <b@example.org>"));
        assert_eq!(body.subject.as_deref(), Some("other"));
        assert_eq!(body.message, "Text.");
    }

    #[test]
    fn what_stands_above_the_scissors_is_dropped() {
        assert_eq!(read(&format!("Hi all,\n-- >8 --\nText.\n---\n{DIFF}")).message, "Text.");
    }

    #[test]
    fn a_cut_hunk_is_noticed() {
        let body = read("Text.\n---\n--- a/x.c\n+++ b/x.c\n@@ -1,9 +1,9 @@\n-old\n+new\n");
        assert!(body.cut);
    }

    #[test]
    fn a_diff_in_the_message_of_a_quote_is_no_diff() {
        assert_eq!(read("> diff --git a/x b/x\n> --- a/x\n").diff, "");
    }

    #[test]
    fn paths_are_checked() {
        for (name, refused) in [
            ("fs/a.c", None),
            ("../etc/passwd", Some("out of the tree")),
            ("/etc/passwd", Some("out of the tree")),
            ("fs/../../x", Some("out of the tree")),
            (".git/hooks/x", Some("out of the tree")),
            ("fs/\u{1b}[2J", Some("odd")),
        ] {
            let (found, problems) = files(&format!("--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a\n+b\n"));
            match refused {
                None => assert_eq!((found, problems), (vec![name.to_owned()], vec![])),
                Some(word) => assert!(found.is_empty() && problems[0].contains(word), "{problems:?}"),
            }
        }
    }

    #[test]
    fn renames_and_modes_are_touched_files() {
        let diff = "diff --git a/old.c b/new.c\nrename from old.c\nrename to new.c\ndiff --git a/s.sh b/s.sh\nold mode 100644\nnew mode 100755\n";
        assert_eq!(files(diff).0, ["new.c", "old.c", "s.sh"]);
    }

    #[test]
    fn lines_of_a_hunk_are_no_paths() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- /etc/passwd\n-y\n+++ ../z\n";
        assert_eq!(files(diff), (vec!["x".to_owned()], vec![]));
    }
}
