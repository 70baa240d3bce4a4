// SPDX-License-Identifier: GPL-2.0-or-later
//! What a diff may look like, and what a hostile one must not do.

use super::*;
use proptest::prelude::*;

const TWO_FILES: &str = "\
diff --git a/fs/one.c b/fs/one.c
index 111..222 100644
--- a/fs/one.c
+++ b/fs/one.c
@@ -10,4 +10,5 @@ int one(void)
 keep

--- removed text that looks like a header
+++ added text that looks like one
+more
 keep
@@ -30 +31 @@ static int two(void)
-old
+new
diff --git a/fs/old name.c b/fs/new name.c
similarity index 97%
rename from fs/old name.c
rename to fs/new name.c
-- 
2.43.0
";

#[test]
fn files_hunks_and_lines_are_read() {
    let diff = parse(TWO_FILES);
    assert_eq!(diff.problems, []);
    assert_eq!(diff.files.len(), 2);
    let one = &diff.files[0];
    assert_eq!((one.old_path.as_deref(), one.new_path.as_deref()), (Some("fs/one.c"), Some("fs/one.c")));
    assert_eq!(one.hunks.len(), 2);
    assert_eq!(one.hunks[0].heading, "int one(void)");
    let kinds: Vec<LineKind> = one.hunks[0].lines.iter().map(|l| l.kind).collect();
    use LineKind::{Added, Context, Removed};
    assert_eq!(kinds, [Context, Context, Removed, Added, Added, Context]);
    assert_eq!(one.hunks[0].lines[2].text, "-- removed text that looks like a header");
    assert_eq!((one.hunks[1].old_count, one.hunks[1].new_start), (1, 31));
    let renamed = &diff.files[1];
    assert_eq!(renamed.old_path.as_deref(), Some("fs/old name.c"));
    assert_eq!(renamed.path(), "fs/new name.c");
    assert!(!renamed.copied && renamed.hunks.is_empty());
}

#[test]
fn new_deleted_binary_and_mode_changes_are_told_apart() {
    let diff = parse(
        "diff --git a/new.c b/new.c\nnew file mode 100644\n--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+int x;\n\\ No newline at end of file\n\
         diff --git a/gone.c b/gone.c\ndeleted file mode 100644\n--- a/gone.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-int x;\n\
         diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n\
         diff --git a/logo.png b/logo.png\nnew file mode 100644\nBinary files /dev/null and b/logo.png differ\n\
         diff --git \"a/fs/\\303\\244.c\" \"b/fs/\\303\\244.c\"\nold mode 100755\nnew mode 100644\n\
         diff --git a/x.c b/y.c\nsimilarity index 100%\ncopy from x.c\ncopy to y.c\n",
    );
    assert_eq!(diff.problems, []);
    let paths: Vec<_> = diff.files.iter().map(|f| (f.old_path.as_deref(), f.new_path.as_deref())).collect();
    assert_eq!(
        paths,
        [
            (None, Some("new.c")),
            (Some("gone.c"), None),
            (Some("run.sh"), Some("run.sh")),
            (None, Some("logo.png")),
            (Some("fs/\u{e4}.c"), Some("fs/\u{e4}.c")),
            (Some("x.c"), Some("y.c")),
        ]
    );
    assert!(diff.files[0].hunks[0].lines[0].unterminated);
    assert_eq!(diff.files[2].mode, Some(("100644".into(), "100755".into())));
    assert!(diff.files[3].binary && diff.files[5].copied);
}

#[test]
fn a_diff_without_git_headers_is_read() {
    let diff = parse(
        "--- a/x.c\t2026-01-01\n+++ b/x.c\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n--- a/y.c\n+++ b/y.c\n@@ -1 +1 @@\n-a\n+b\n",
    );
    let names: Vec<&str> = diff.files.iter().map(FileDiff::path).collect();
    assert_eq!(names, ["x.c", "y.c"]);
    assert_eq!(diff.files[1].hunks.len(), 1);
}

#[test]
fn paths_that_leave_the_tree_are_refused() {
    for path in
        ["b/../../etc/passwd", "b//etc/passwd", "b/a/../../../x", "b/.git/hooks/post-commit", "b/x\u{1b}[2J"]
    {
        let text = format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n");
        let diff = parse(&text);
        assert_eq!(diff.files, [], "{path}");
        assert!(matches!(diff.problems[..], [DiffProblem::UnsafePath { .. }]), "{path}");
        assert!(!diff.problems[0].to_string().contains('\u{1b}'));
    }
}

#[test]
fn damage_is_named() {
    let short = parse("--- a/x.c\n+++ b/x.c\n@@ -1,5 +1,5 @@\n a\n-b\n+c\n");
    assert_eq!(short.problems, [DiffProblem::ShortHunk { file: "x.c".into(), line: 6 }]);
    assert_eq!(short.files[0].hunks[0].lines.len(), 3);
    let bad = parse("--- a/x.c\n+++ b/x.c\n@@ -1,99999999999 +1 @@\n a\n");
    assert_eq!(bad.problems, [DiffProblem::BadHunkHeader { line: 3 }]);
    let empty_name = parse("diff --git \nnew file mode 100644\n");
    assert_eq!(empty_name.files, []);
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(lines in prop::collection::vec(
        prop_oneof![
            Just("diff --git a/x b/x".to_owned()), Just("--- a/x".to_owned()), Just("+++ b/x".to_owned()),
            Just("@@ -1,2 +1,2 @@".to_owned()), Just("@@ -0,0 +4294967295,4294967295 @@".to_owned()),
            Just("\\ No newline".to_owned()), Just("diff --git \"a/\\".to_owned()), "[ +-]?.{0,12}",
        ], 0..40)) {
        let text = lines.join("\n");
        let diff = parse(&text);
        prop_assert!(diff.files.iter().all(|f| paths::is_inside_tree(f.path())));
    }
}
