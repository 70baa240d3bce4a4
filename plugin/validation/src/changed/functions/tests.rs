// SPDX-License-Identifier: GPL-2.0-or-later
//! Every way of writing a function that the kernel uses, in small.

use super::super::callers;
use super::*;
use proptest::prelude::*;

/// `name first-last flags [conditions]` for each function.
fn outline(text: &str) -> Vec<String> {
    let source = Source::new(text);
    Outline::of(&source)
        .functions
        .iter()
        .map(|f| {
            let mut line = format!("{} {}-{}", f.name, f.first_line, f.last_line);
            line.push_str(if f.local { " local" } else { "" });
            line.push_str(if f.untraceable { " untraceable" } else { "" });
            if !f.conditions.is_empty() {
                line.push_str(&format!(" [{}]", f.conditions.join("; ")));
            }
            line
        })
        .collect()
}

#[test]
fn declarations_of_every_kind() {
    for (text, expected) in [
        ("int f(void)\n{\n\treturn 0;\n}\n", "f 1-4"),
        ("static int f(int a,\n\t int b)\n{\n}\n", "f 1-4 local"),
        ("static inline struct page *\nf(struct list_head *l) { }\n", "f 1-2 local"),
        ("struct page *f(struct list_head *l)\n{ if (l) { return 0; } }\n", "f 1-2"),
        ("static void __init notrace f(void) {}\n", "f 1-1 local untraceable"),
        ("noinstr void f(void) {}\n", "f 1-1 untraceable"),
        ("__printf(1, 2)\nvoid f(const char *fmt, ...)\n{\n}\n", "f 1-4"),
        ("static int f(struct a *a)\n\t__acquires(&a->lock)\n\t__must_hold(b)\n{\n}\n", "f 1-5 local"),
        ("void f(void) __attribute__((weak)) SOME_MARK(x) {}\n", "f 1-1"),
        ("static int (*f(int which))(void *, int)\n{\n}\n", "f 1-3 local"),
        ("int (f)(int a) {}\n", "f 1-1"),
        ("static int WALK(f)(int a) {}\n", "f 1-1 local"),
        ("SYSCALL_DEFINE2(rmdir, const char __user *, p, int, x)\n{\n}\n", "__x64_sys_rmdir 1-3"),
        ("COMPAT_SYSCALL_DEFINE1(f, int, x) {}\n", "__ia32_compat_sys_f 1-1"),
        ("DEFINE_IDTENTRY_ERRORCODE(exc_f) {}\n", "exc_f 1-1 untraceable"),
        ("BPF_CALL_1(bpf_f, int, x) {}\n", "bpf_f 1-1"),
        ("STATIC int\nf(\n\tint a)\n{\n}\n", "f 1-5 local"),
        ("int f(a, b)\n\tint a;\n\tstruct x *b;\n{\n}\n", "f 1-5"),
        ("module_init(g)\nstatic int f(void)\n{\n}\n", "f 2-4 local"),
        ("DEFINE_SHOW_ATTRIBUTE(g)\nSYSCALL_DEFINE0(f)\n{\n}\n", "__x64_sys_f 2-4"),
        ("extern \"C\" {\nint f(void) {}\n}\n", "f 2-2"),
        ("int x[] = { 1, 2 };\nEXPORT_SYMBOL(x);\nint f(void) {}\n", "f 3-3"),
        ("struct s { int a; } v = { 1 };\nint f(void) {}\n", "f 2-2"),
        ("const char *f(void) { return \"}\\\"{\"; /* } */ // }\n}\n", "f 1-2"),
        ("int f(void) { return '}' + '\\'' + '{'; }\n", "f 1-1"),
        ("TRACE_EVENT(x, TP_fast_assign(\n\t{ a = b; }\n));\nint f(void) {}\n", "f 4-4"),
        ("#define GEN(x) int x(void) { \\\n\treturn 1;\nint f(void) {}\n", "f 3-3"),
        ("typeof(x) f(int a) {}\n", "f 1-1"),
    ] {
        assert_eq!(outline(text), [expected], "{text}");
    }
    for text in [
        "int f(void);\n",
        "static const struct ops o = {\n\t.f = g(1),\n};\n",
        "enum { A, B };\nstruct s { int (*f)(int); };\n",
        "DEFINE_MUTEX(m);\nEXPORT_SYMBOL_GPL(f);\n",
        "struct s {\n\tint a;\n} __aligned(8);\n",
        "ITERATE_FUNCS(sb, SB)\n\nstruct s {\n\tint a;\n};\n",
        "struct __packed s {\n\tint a;\n};\n",
    ] {
        assert_eq!(outline(text), [""; 0], "{text}");
    }
}

#[test]
fn branches_of_an_if_stand_alone() {
    for (text, expected) in [
        (
            "#ifdef CONFIG_A\nint f(int a)\n{\n#else\nint g(void)\n{\n#endif\n\tx();\n}\nint h(void) {}\n",
            vec!["f 2-9 [defined(CONFIG_A)]", "g 5-9 [!defined(CONFIG_A)]", "h 10-10"],
        ),
        (
            "int f(void)\n{\n#if A\n\tif (x) {\n#else\n\tif (y) {\n#endif\n\t}\n}\nint g(void) {}\n",
            vec!["f 1-9", "g 10-10"],
        ),
        ("#if 0\nint f(void) { {\n#endif\nint g(void) {}\n", vec!["f 2-3 [0]", "g 4-4"]),
        ("#ifdef A\nint f(int a)\n#else\nint f(void)\n#endif\n{\n}\n", vec!["f 2-7"]),
        (
            "#if A\n#elif defined(B) || C\nint f(void) {}\n#else\nint g(void) {}\n#endif\n",
            vec!["f 3-3 [!A; defined(B) || C]", "g 5-5 [!A; !(defined(B) || C)]"],
        ),
        (
            "#ifndef _LINUX_F_H\n#define _LINUX_F_H\n#ifndef CONFIG_A\nstatic inline int f(void) {}\n#endif\n#endif\n",
            vec!["f 4-4 local [!defined(CONFIG_A)]"],
        ),
        (
            "int f(void)\n{\n#ifdef A\n\tif (a) {\n#endif\n\tx();\n}\n\nint g(void)\n{\n}\n",
            vec!["f 1-7", "g 9-11"],
        ),
    ] {
        assert_eq!(outline(text), expected, "{text}");
    }
}

#[test]
fn types_are_listed_with_their_lines() {
    let source = Source::new(
        "struct a {\n\tint x;\n};\ntypedef struct {\n\tint y;\n} b;\nunion __packed c {\n};\nstruct a *f(void) {}\n",
    );
    let types: Vec<(String, u32, u32)> =
        Outline::of(&source).types.into_iter().map(|t| (t.name, t.first_line, t.last_line)).collect();
    assert_eq!(types, [("a".to_owned(), 1, 3), (String::new(), 4, 6), ("c".to_owned(), 7, 8)]);
}

#[test]
fn hostile_nesting_is_bounded() {
    let text = "#if A\nint f(int a, int b)\n".repeat(20_000) + &"#else\n#endif\n".repeat(20_000) + "{\n}\n";
    assert!(outline(&text).len() <= 2);
    let branches = "#elif B\nint f(void) {\n".repeat(20_000);
    let many = outline(&format!("#if A\n{branches}#endif\n}}\n"));
    assert!(many.iter().all(|line| line.len() < 1000));
    assert_eq!(outline(&"x { } ".repeat(200_000)), [""; 0]);
    let braces = "{".repeat(100_000) + &"}".repeat(200_000);
    assert_eq!(outline(&braces), [""; 0]);
}

proptest! {
    #[test]
    fn any_text_has_an_outline(pieces in prop::collection::vec(prop_oneof![
        Just("#if A\n"), Just("#else\n"), Just("#elif B\n"), Just("#endif\n"), Just("int f(void)\n"), Just("{\n"),
        Just("}\n"), Just("("), Just(")"), Just(";"), Just("static "), Just("x = "), Just("/* "), Just("*/"), Just("\""),
        Just("SYSCALL_DEFINE1(\n"), Just("#define X(a) \\\n"), Just("struct s "), Just("a, b) int a; "),
    ], 0..60)) {
        let text = pieces.concat();
        let source = Source::new(&text);
        let outline = Outline::of(&source);
        let mentions = callers::Mentions::of(&outline, &source, &[]);
        for function in &outline.functions {
            prop_assert!(function.first_line <= function.last_line);
            prop_assert!(function.tokens.start <= function.tokens.end && function.tokens.end <= source.tokens.len());
            mentions.calls_to(&function.name);
            prop_assert!(outline.lines().contains(function.last_line));
        }
    }
}
