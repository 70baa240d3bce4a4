// SPDX-License-Identifier: GPL-2.0-or-later
//! The paths a diff touches, checked: a stranger's file names never leave the tree.

use super::diff::hunk_lengths;
use std::collections::BTreeSet;

/// Longest path, bytes (`PATH_MAX`).
const MAX_PATH_BYTES: usize = 4096;

/// What a diff touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// Both sides, without their first component (`a/`, `b/`), sorted.
    pub files: Vec<String>,
    /// What forbids applying the diff, for a person.
    pub refused: Vec<String>,
}

/// Paths of `diff`.
pub fn of(diff: &str) -> Touched {
    let mut found = Found::default();
    let mut inside = (0_u64, 0_u64);
    for line in diff.lines() {
        if inside != (0, 0) {
            match line.as_bytes().first() {
                Some(b'-') => inside.0 = inside.0.saturating_sub(1),
                Some(b'+') => inside.1 = inside.1.saturating_sub(1),
                Some(b'\\') => {}
                _ => inside = (inside.0.saturating_sub(1), inside.1.saturating_sub(1)),
            }
        } else if let Some(lengths) = hunk_lengths(line) {
            inside = lengths;
        } else {
            found.header(line);
        }
    }
    found.end_file();
    Touched { files: found.files.into_iter().collect(), refused: found.refused.into_iter().collect() }
}

#[derive(Default)]
struct Found {
    files: BTreeSet<String>,
    refused: BTreeSet<String>,
    /// A `diff --git` line whose two names differ: they must come again below it.
    unnamed: Option<String>,
}

impl Found {
    fn header(&mut self, line: &str) {
        if let Some(both) = line.strip_prefix("diff --git ") {
            self.end_file();
            self.git_names(both);
        } else if let Some(path) = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ ")) {
            let path = path.split('\t').next().unwrap_or_default().trim_end();
            if path != "/dev/null" {
                self.take(path, true);
            }
        } else if let Some(path) = ["rename from ", "rename to ", "copy from ", "copy to "]
            .iter()
            .find_map(|mark| line.strip_prefix(mark))
        {
            self.take(path, false);
        } else if line.starts_with("Binary files ") {
            self.refuse("a binary file comes without its content; make the patch with git format-patch", "");
        } else if let Some(mode) = mode(line) {
            // As git prints them. It reads more spellings, so whatever else stands here may be a link.
            match mode {
                "100644" | "100755" => {}
                "120000" => self.refuse("the patch changes a symbolic link, which is not tested", ""),
                "160000" => self.refuse("the patch changes a submodule, which is not tested", ""),
                _ => self.refuse("a file mode is not 100644 or 100755", mode),
            }
        }
    }

    /// The names of `diff --git a/NAME b/NAME`: the only ones of a mode change or an empty file.
    fn git_names(&mut self, both: &str) {
        if both.contains('"') {
            self.refuse("a file name is quoted or odd", both);
            return;
        }
        // The two names are the same but for their first component: the blank between is in the middle.
        let middle = both.len() / 2;
        let halves = both.get(..middle).zip(both.get(middle..).and_then(|b| b.strip_prefix(' ')));
        match halves {
            Some((a, b)) if a == b => {
                self.refuse("the diff has no a/ and b/ before its paths; make it with git format-patch", a);
            }
            Some((a, b)) if without_first(a) == without_first(b) => self.take(b, true),
            _ => self.unnamed = Some(both.to_owned()),
        }
    }

    fn end_file(&mut self) {
        if let Some(both) = self.unnamed.take() {
            self.refuse("a file name is quoted or odd", &both);
        }
    }

    fn take(&mut self, path: &str, prefixed: bool) {
        self.unnamed = None;
        if path.starts_with('"')
            || path.len() > MAX_PATH_BYTES
            || path.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER)
        {
            self.refuse("a file name is quoted or odd", path);
            return;
        }
        let inside = if prefixed { without_first(path) } else { path };
        let leaves = |path: &str| {
            path.starts_with('/')
                || path
                    .split('/')
                    .any(|part| matches!(part, ".." | "." | "") || part.eq_ignore_ascii_case(".git"))
        };
        if leaves(path) || leaves(inside) {
            self.refuse("a file name leads out of the tree", path);
        } else {
            self.files.insert(inside.to_owned());
        }
    }

    fn refuse(&mut self, why: &str, what: &str) {
        let what: String = what.chars().take(200).collect();
        self.refused.insert(if what.is_empty() {
            why.to_owned()
        } else {
            format!("{why}: {}", what.escape_default())
        });
    }
}

/// What `git apply -p1` leaves of a path; a path of one component stays.
fn without_first(path: &str) -> &str {
    path.split_once('/').map_or(path, |(_, rest)| rest)
}

/// The file mode that a header line gives a file, before or after.
fn mode(line: &str) -> Option<&str> {
    ["new file mode ", "deleted file mode ", "new mode ", "old mode "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
        .or_else(|| line.strip_prefix("index ").and_then(|rest| rest.split_once(' ')).map(|(_, mode)| mode))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked() {
        for (name, refused) in [
            ("fs/a.c", None),
            ("a b.c", None),
            ("../etc/passwd", Some("out of the tree")),
            ("/etc/passwd", Some("out of the tree")),
            ("fs/../../x", Some("out of the tree")),
            ("fs//x", Some("out of the tree")),
            (".git/hooks/x", Some("out of the tree")),
            ("fs/.GIT/x", Some("out of the tree")),
            ("fs/\u{1b}[2J", Some("odd")),
            ("fs/\u{fffd}", Some("odd")),
        ] {
            let touched = of(&format!("--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a\n+b\n"));
            match refused {
                None => assert_eq!((touched.files, touched.refused), (vec![name.to_owned()], vec![])),
                Some(word) => {
                    assert!(touched.files.is_empty() && touched.refused[0].contains(word), "{touched:?}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_applied_is_refused() {
        for (diff, word) in [
            ("--- \"a/f\\303\\251.c\"\n+++ \"b/f\\303\\251.c\"\n", "quoted"),
            ("diff --git \"a/f\\n.c\" \"b/f\\n.c\"\nold mode 100644\nnew mode 100755\n", "quoted"),
            ("diff --git fs/x.c fs/x.c\n--- fs/x.c\n+++ fs/x.c\n", "no a/ and b/"),
            ("diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n", "symbolic link"),
            ("diff --git a/x b/x\nindex 1..2 120000\n--- a/x\n+++ b/x\n", "symbolic link"),
            ("diff --git a/x b/x\nindex 1..2 160000\n--- a/x\n+++ b/x\n", "submodule"),
            ("diff --git a/x b/x\nnew file mode 0120000\n--- /dev/null\n+++ b/x\n", "not 100644"),
            ("diff --git a/x b/x\nnew file mode 120000 100644\n--- /dev/null\n+++ b/x\n", "not 100644"),
            ("diff --git a/x b/x\nindex 1..2  +120000\n--- a/x\n+++ b/x\n", "not 100644"),
            ("diff --git a/x b/x\ndeleted file mode 120000\n--- a/x\n+++ /dev/null\n", "symbolic link"),
            ("diff --git a/x b/x\nold mode 120000\nnew mode 100644\n", "symbolic link"),
            ("diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n", "binary"),
            ("diff --git a/x b/y\nold mode 100644\nnew mode 100755\n", "odd"),
            ("diff --git a/../../x b/../../x\nold mode 100644\nnew mode 100755\n", "out of the tree"),
            ("rename from a/x\nrename to ../x\n", "out of the tree"),
            ("--- ../x\n+++ ../x\n", "out of the tree"),
            ("--- /etc/passwd\n+++ /etc/passwd\n", "out of the tree"),
        ] {
            let touched = of(diff);
            assert!(touched.refused.iter().any(|r| r.contains(word)), "{diff}: {touched:?}");
            assert!(touched.files.iter().all(|f| !f.contains("..")), "{touched:?}");
        }
    }

    #[test]
    fn renames_modes_and_other_first_components_are_touched_files() {
        for (diff, files) in [
            ("diff --git a/old.c b/new.c\nrename from old.c\nrename to new.c\n", &["new.c", "old.c"][..]),
            ("diff --git a/s b.sh b/s b.sh\nold mode 100644\nnew mode 100755\n", &["s b.sh"]),
            ("diff --git a/empty b/empty\nnew file mode 100644\nindex 0..e69de29\n", &["empty"]),
            ("--- linux-6.12.orig/fs/x.c\t2026-01-01\n+++ linux-6.12/fs/x.c\t2026-01-02\n", &["fs/x.c"]),
            ("diff --git i/fs/x.c w/fs/x.c\n--- i/fs/x.c\n+++ w/fs/x.c\n", &["fs/x.c"]),
            ("diff --git a/x.c b/x.c\ndeleted file mode 100644\n--- a/x.c\n+++ /dev/null\n", &["x.c"]),
        ] {
            assert_eq!(
                (of(diff).files, of(diff).refused),
                (files.iter().map(ToString::to_string).collect(), vec![]),
                "{diff}"
            );
        }
    }

    #[test]
    fn lines_of_a_hunk_are_no_paths() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- /etc/passwd\n-y\n+++ ../z\n";
        assert_eq!((of(diff).files, of(diff).refused), (vec!["x".to_owned()], vec![]));
    }
}
