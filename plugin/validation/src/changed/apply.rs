// SPDX-License-Identifier: GPL-2.0-or-later
//! Applies the hunks for one file to its text, as `git apply` does: every
//! context line must match, the place may have moved.
//!
//! The kernel builder applies patches with git itself; this is for reading the
//! text that comes of it.

use super::diff::{FileDiff, Hunk, LineKind};

/// What came of applying the hunks for one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// The text after.
    pub text: String,
    /// For each hunk its first line before and after, 1-based.
    pub places: Vec<(u32, u32)>,
}

/// The hunk that does not fit, 0-based, and the line it was looked for at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("find the place of hunk {} near line {line}: the patch is for another base", .hunk + 1)]
pub struct DoesNotApply {
    /// 0-based index of the hunk.
    pub hunk: usize,
    /// 1-based line before.
    pub line: u32,
}

/// Line comparisons after which a hunk counts as not fitting; a hostile diff
/// could otherwise search for hours.
const MAX_COMPARISONS: u64 = 50_000_000;

/// Applies all hunks of `file` to `old`.
///
/// # Errors
/// [`DoesNotApply`] names the first hunk whose lines are not there.
pub fn apply(file: &FileDiff<'_>, old: &str) -> Result<Applied, DoesNotApply> {
    let old_lines: Vec<&str> = old.lines().collect();
    let mut applied = Applied { text: String::with_capacity(old.len()), places: Vec::new() };
    let mut comparisons = 0;
    let mut done = 0usize;
    let mut new_line = 1usize;
    let mut offset = 0i64;
    let mut unterminated = !old.is_empty() && !old.ends_with('\n');
    for (index, hunk) in file.hunks.iter().enumerate() {
        let before: Vec<&str> =
            hunk.lines.iter().filter(|l| l.kind != LineKind::Added).map(|l| l.text).collect();
        let stated = i64::from(hunk.old_start) - i64::from(hunk.old_count > 0);
        let expected = usize::try_from(stated.saturating_add(offset)).unwrap_or(0);
        let place = find(&old_lines, &before, done, expected, &mut comparisons)
            .ok_or(DoesNotApply { hunk: index, line: hunk.old_start })?;
        offset = i64::try_from(place).unwrap_or(i64::MAX).saturating_sub(stated);
        for line in &old_lines[done..place] {
            push_line(&mut applied.text, line);
        }
        new_line += place - done;
        applied.places.push((place as u32 + 1, new_line as u32));
        for line in hunk.lines.iter().filter(|l| l.kind != LineKind::Removed) {
            push_line(&mut applied.text, line.text);
            new_line += 1;
        }
        done = place + before.len();
        if done == old_lines.len() {
            unterminated = ends_unterminated(hunk, unterminated);
        }
    }
    for line in &old_lines[done..] {
        push_line(&mut applied.text, line);
    }
    if unterminated {
        applied.text.pop();
    }
    Ok(applied)
}

/// Whether the last line after the hunk at the end of the file has no line end.
fn ends_unterminated(hunk: &Hunk<'_>, before: bool) -> bool {
    match hunk.lines.iter().rfind(|l| l.kind != LineKind::Removed) {
        Some(last) => last.unterminated || (before && last.kind == LineKind::Context),
        None => false,
    }
}

/// Index at which `wanted` stands in `lines`, the nearest one to `expected`
/// that is not in front of `from`.
fn find(
    lines: &[&str],
    wanted: &[&str],
    from: usize,
    expected: usize,
    comparisons: &mut u64,
) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len()).filter(|&last| last >= from)?;
    let expected = expected.clamp(from, last);
    for distance in 0..=last - from {
        let candidates = [expected.checked_sub(distance), expected.checked_add(distance)];
        for place in candidates.into_iter().flatten().filter(|p| (from..=last).contains(p)) {
            let equal = lines[place..].iter().zip(wanted).take_while(|(have, want)| have == want).count();
            *comparisons += equal as u64 + 1;
            if equal == wanted.len() {
                return Some(place);
            }
            if *comparisons > MAX_COMPARISONS {
                return None;
            }
        }
    }
    None
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::diff::parse;
    use super::*;

    const OLD: &str = "a\nb\nc\nd\ne\nf\ng\n";

    fn patched(old: &str, hunks: &str) -> Result<Applied, DoesNotApply> {
        let text = format!("--- a/x\n+++ b/x\n{hunks}");
        apply(&parse(&text).files[0], old)
    }

    #[test]
    fn hunks_are_applied_where_they_stand() {
        let applied = patched(OLD, "@@ -1,2 +1,3 @@\n a\n+new\n b\n@@ -5,3 +6,2 @@\n e\n-f\n g\n");
        assert_eq!(
            applied,
            Ok(Applied { text: "a\nnew\nb\nc\nd\ne\ng\n".into(), places: vec![(1, 1), (5, 6)] })
        );
    }

    #[test]
    fn a_moved_place_is_found_and_carried_on() {
        let old = format!("0\n0\n{OLD}");
        let applied =
            patched(&old, "@@ -2,2 +2,1 @@\n b\n-c\n@@ -6,2 +5,2 @@\n f\n-g\n+h\n").expect("applies");
        assert_eq!(applied.text, "0\n0\na\nb\nd\ne\nf\nh\n");
        assert_eq!(applied.places, [(4, 4), (8, 7)]);
    }

    #[test]
    fn the_hunk_that_does_not_fit_is_named() {
        let error = patched(OLD, "@@ -1,1 +1,1 @@\n-a\n+b\n@@ -4,2 +4,2 @@\n d\n-x\n+y\n").expect_err("no x");
        assert_eq!(error, DoesNotApply { hunk: 1, line: 4 });
        assert!(error.to_string().contains("hunk 2 near line 4"));
    }

    #[test]
    fn new_empty_and_unterminated_files() {
        assert_eq!(patched("", "@@ -0,0 +1,2 @@\n+a\n+b\n").expect("applies").text, "a\nb\n");
        assert_eq!(patched("a\n", "@@ -1 +0,0 @@\n-a\n").expect("applies").text, "");
        let no_end = "\\ No newline at end of file\n";
        let hunk = format!("@@ -1 +1 @@\n-a\n{no_end}+b\n");
        assert_eq!(patched("a", &hunk).expect("applies").text, "b\n");
        let hunk = format!("@@ -1 +1 @@\n-a\n+b\n{no_end}");
        assert_eq!(patched("a\n", &hunk).expect("applies").text, "b");
        assert_eq!(patched("a\nb\nc", "@@ -1 +1 @@\n-a\n+x\n").expect("applies").text, "x\nb\nc");
    }
}
