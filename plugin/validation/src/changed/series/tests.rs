// SPDX-License-Identifier: GPL-2.0-or-later
//! Which functions count as changed, over small trees and series.

use super::*;

/// The base: path to text.
type Tree<'a> = &'a [(&'a str, &'a str)];

fn read(tree: Tree<'_>, path: &str) -> Option<String> {
    tree.iter().find(|(p, _)| *p == path).map(|(_, text)| (*text).to_owned())
}

fn run(tree: Tree<'_>, patches: &[&str]) -> ChangedCode {
    let patches: Vec<(u32, &str)> = patches.iter().zip(1..).map(|(d, n)| (n, *d)).collect();
    changed_functions(&patches, &|path| read(tree, path))
}

/// `file function patches change` for each function.
fn listed(code: &ChangedCode) -> Vec<String> {
    code.functions
        .iter()
        .map(|f| format!("{} {} {:?} {:?}", f.file, f.function, f.patches, f.change))
        .collect()
}

fn diff(path: &str, hunks: &str) -> String {
    format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{hunks}")
}

const ONE: &str = "\
#include <linux/fs.h>

/* Says one. */
static int one(int x)
{
	return x + 1;
}

int two(void)
{
	/* twice */
	return one(1);
}
";

#[test]
fn a_changed_body_is_found_on_both_sides() {
    let body =
        diff("fs/one.c", "@@ -4,4 +4,5 @@\n static int one(int x)\n {\n+\tx++;\n \treturn x + 1;\n }\n");
    let code = run(&[("fs/one.c", ONE)], &[&body]);
    assert_eq!(listed(&code), ["fs/one.c one [1] Changed"]);
    assert_eq!((code.outside.len(), code.problems.len()), (0, 0));
    assert!(code.functions[0].local);
    assert_eq!(code.functions[0].callers, ["two"]);
}

#[test]
fn comments_and_white_space_change_nothing() {
    let comment = diff(
        "fs/one.c",
        "@@ -3,4 +3,5 @@\n-/* Says one. */\n-static int one(int x)\n+/* Says one,\n+ * loudly. */\n+static int  one(int x)\n {\n \treturn x + 1;\n@@ -9,5 +10,4 @@\n int two(void)\n {\n-\t/* twice */\n-\treturn one(1);\n+\treturn one( 1 ); // once\n }\n",
    );
    let code = run(&[("fs/one.c", ONE)], &[&comment]);
    assert_eq!(code, ChangedCode::default());
}

#[test]
fn hunks_outside_functions_are_counted() {
    let data = diff(
        "fs/one.c",
        "@@ -1,2 +1,3 @@\n #include <linux/fs.h>\n+#include <linux/mm.h>\n \n@@ -7,2 +8,6 @@\n }\n \n+struct pair {\n+\tint left;\n+};\n+\n",
    );
    let make = diff("fs/Makefile", "@@ -1 +1,3 @@\n obj-y += one.o\n+# a comment\n+obj-y += two.o\n");
    let docs = diff("Documentation/x.rst", "@@ -1 +1,2 @@\n x\n+y\n");
    let tree = [("fs/one.c", ONE), ("fs/Makefile", "obj-y += one.o\n"), ("Documentation/x.rst", "x\n")];
    let code = run(&tree, &[&(data + &make + &docs)]);
    assert_eq!(listed(&code), [""; 0]);
    assert_eq!(code.outside, [("fs/Makefile".to_owned(), 1), ("fs/one.c".to_owned(), 2)]);
    // a structure that is new changes the layout of none
    assert_eq!(code.types, []);
}

#[test]
fn a_series_accumulates() {
    let first = diff("fs/one.c", "@@ -5,3 +5,3 @@\n {\n-\treturn x + 1;\n+\treturn x + 2;\n }\n");
    let second = diff(
        "fs/one.c",
        "@@ -3,6 +3,11 @@\n /* Says one. */\n static int one(int x)\n {\n-\treturn x + 2;\n+\treturn x + 3;\n+}\n+\n+int three(void)\n+{\n+\treturn 3;\n }\n \n",
    );
    let third =
        diff("fs/one.c", "@@ -13,6 +13,1 @@\n \n-int two(void)\n-{\n-\t/* twice */\n-\treturn one(1);\n-}\n");
    let code = run(&[("fs/one.c", ONE)], &[&first, &second, &third]);
    assert_eq!(code.problems, []);
    assert_eq!(
        listed(&code),
        ["fs/one.c one [1, 2] Changed", "fs/one.c three [2] Added", "fs/one.c two [3] Removed"]
    );
}

#[test]
fn changed_structures_and_lock_calls_are_listed() {
    let tree = [(
        "fs/one.c",
        "struct pair {\n\tint left;\n};\nenum e { A };\nvoid f(struct pair *p)\n{\n\t/* spin_lock(here) */\n\tp->left = 1;\n}\n",
    )];
    let change = diff(
        "fs/one.c",
        "@@ -1,9 +1,12 @@\n struct pair {\n \tint left;\n+\tint right;\n };\n-enum e { A };\n+enum e { A, B };\n void f(struct pair *p)\n {\n \t/* spin_lock(here) */\n+\t/* mutex_lock(there) */\n+\tdown_read(&p->sem);\n \tp->left = 1;\n }\n",
    );
    let code = run(&tree, &[&change]);
    assert_eq!(code.problems, []);
    assert_eq!(code.types, [("fs/one.c".to_owned(), vec!["pair".to_owned()])]);
    assert_eq!(code.locks, [("fs/one.c".to_owned(), vec!["down_read".to_owned()])]);
}

#[test]
fn new_deleted_and_renamed_files() {
    let new = "diff --git a/fs/new.c b/fs/new.c\nnew file mode 100644\n--- /dev/null\n+++ b/fs/new.c\n@@ -0,0 +1,3 @@\n+void fresh(void)\n+{\n+}\n";
    let gone = format!(
        "diff --git a/fs/one.c b/fs/one.c\ndeleted file mode 100644\n--- a/fs/one.c\n+++ /dev/null\n@@ -1,{} +0,0 @@\n{}",
        ONE.lines().count(),
        ONE.lines().map(|l| format!("-{l}\n")).collect::<String>()
    );
    let moved = "diff --git a/fs/two.c b/fs/kept.c\nsimilarity index 90%\nrename from fs/two.c\nrename to fs/kept.c\n--- a/fs/two.c\n+++ b/fs/kept.c\n@@ -1 +1,2 @@\n int same(void) { return 1; }\n+int more(void) { return 2; }\n";
    let tree = [("fs/one.c", ONE), ("fs/two.c", "int same(void) { return 1; }\n")];
    let code = run(&tree, &[&format!("{new}{gone}{moved}")]);
    assert_eq!(code.problems, []);
    assert_eq!(
        listed(&code),
        [
            "fs/kept.c more [1] Added",
            "fs/new.c fresh [1] Added",
            "fs/one.c one [1] Removed",
            "fs/one.c two [1] Removed",
        ]
    );
}

#[test]
fn a_new_condition_around_a_function_changes_it() {
    let wrapped = diff(
        "fs/one.c",
        "@@ -8,6 +8,8 @@\n \n+#ifdef CONFIG_TWO\n int two(void)\n {\n \t/* twice */\n \treturn one(1);\n }\n+#endif\n",
    );
    let code = run(&[("fs/one.c", ONE)], &[&wrapped]);
    assert_eq!(listed(&code), ["fs/one.c two [1] Changed"]);
    assert_eq!(code.functions[0].conditions, ["defined(CONFIG_TWO)"]);
    assert_eq!(code.outside, [("fs/one.c".to_owned(), 1)]);
}

#[test]
fn what_cannot_be_told_is_said() {
    let missing = diff("fs/none.c", "@@ -1 +1 @@\n-a\n+b\n");
    let misfit = diff("fs/one.c", "@@ -1 +1 @@\n-a\n+b\n");
    let code = run(&[("fs/one.c", ONE)], &[&missing, &misfit]);
    let texts: Vec<String> = code.problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        texts,
        [
            "patch 1: fs/none.c is not in the base as text: name the right base with --base",
            "patch 2: fs/one.c: failed to find the place of hunk 1 near line 1: the patch is for another base",
        ]
    );
}

#[test]
fn callers_of_a_header_function_are_added_from_its_users() {
    let mut functions = vec![ChangedFunction {
        file: "include/linux/one.h".into(),
        function: "leaf".into(),
        local: true,
        callers: vec!["wrap".into()],
        calls: vec![("wrap".into(), "leaf".into())],
        ..ChangedFunction::default()
    }];
    let users = [
        (
            "a.c".to_owned(),
            "static int s(void) { return wrap(); }\nint user(void) { return s(); }\n".to_owned(),
        ),
        ("b.c".to_owned(), "int idle(void) { return 0; }\n".to_owned()),
    ];
    add_callers(&mut functions, &users);
    assert_eq!(functions[0].callers, ["s", "user", "wrap"]);
}
