// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of a console that a person wants to see, made harmless.

/// Most lines an excerpt has.
pub const EXCERPT_LINES: usize = 40;
/// Lines shown before the first sign of trouble.
const LINES_BEFORE: usize = 8;
/// Longest line shown, in characters after escaping.
const MAX_COLUMNS: usize = 200;

/// What a kernel prints when it dies; the first hit is where an excerpt starts.
/// Names as in `kernel/panic.c`, `lib/bug.c` and `arch/x86/kernel/{dumpstack,traps}.c`.
const TROUBLE: &[&str] = &[
    "Kernel panic",
    "BUG:",
    "kernel BUG at",
    "Oops",
    "general protection fault",
    "Unable to handle",
    "divide error:",
    "invalid opcode:",
    "stack segment:",
    "Unrecoverable",
    "System halted",
];

/// The first line of a console that tells of a dying kernel, escaped.
pub fn trouble(console: &[u8]) -> Option<String> {
    lines(console).find(|line| is_trouble(line)).map(escape)
}

/// About [`EXCERPT_LINES`] lines of a console: around the first sign of
/// trouble, else the last ones. Every byte but printable ASCII is escaped, so
/// that no terminal, mail or page takes it for more than text.
pub fn excerpt(console: &[u8]) -> String {
    let total = lines(console).count();
    let start = match lines(console).position(is_trouble) {
        Some(at) => at.saturating_sub(LINES_BEFORE),
        None => total.saturating_sub(EXCERPT_LINES),
    };
    let mut text = String::new();
    if start > 0 {
        text.push_str(&format!("[{start} lines before]\n"));
    }
    for line in lines(console).skip(start).take(EXCERPT_LINES) {
        text.push_str(&escape(line));
        text.push('\n');
    }
    let after = total.saturating_sub(start + EXCERPT_LINES);
    if after > 0 {
        text.push_str(&format!("[{after} lines after]\n"));
    }
    text
}

/// One line of hostile text as printable ASCII; longer ones are cut.
pub fn escape(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len().min(MAX_COLUMNS));
    for &byte in line {
        if text.len() >= MAX_COLUMNS {
            text.push_str("...");
            break;
        }
        match byte {
            b'\t' => text.push(' '),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

fn is_trouble(line: &[u8]) -> bool {
    TROUBLE.iter().any(|word| line.windows(word.len()).any(|part| part == word.as_bytes()))
}

/// Lines without their ends; a trailing line end starts no further line.
fn lines(console: &[u8]) -> impl Iterator<Item = &[u8]> {
    let console = console.strip_suffix(b"\n").unwrap_or(console);
    let empty = console.is_empty();
    console.split(|&byte| byte == b'\n').filter(move |_| !empty).map(|line| {
        let end = line.iter().rposition(|&byte| byte != b'\r').map_or(0, |at| at + 1);
        &line[..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbered(count: usize) -> String {
        (0..count).map(|n| format!("line {n}\r\n")).collect()
    }

    #[test]
    fn a_quiet_console_shows_its_end() {
        assert_eq!(excerpt(b""), "");
        assert_eq!(excerpt(b"one\r\ntwo"), "one\ntwo\n");
        let text = excerpt(numbered(100).as_bytes());
        assert!(text.starts_with("[60 lines before]\nline 60\n"), "{text}");
        assert!(text.ends_with("line 99\n"), "{text}");
    }

    #[test]
    fn trouble_is_in_the_middle() {
        let console = format!("{}[ 1.0] Kernel panic - not syncing: x\r\n{}", numbered(50), numbered(90));
        let text = excerpt(console.as_bytes());
        assert!(text.starts_with("[42 lines before]\nline 42\n"), "{text}");
        assert!(text.contains("Kernel panic - not syncing: x\nline 0\n"), "{text}");
        assert!(text.ends_with("[59 lines after]\n"), "{text}");
        assert_eq!(trouble(console.as_bytes()).as_deref(), Some("[ 1.0] Kernel panic - not syncing: x"));
        assert_eq!(trouble(b"all is well"), None);
    }

    #[test]
    fn terminal_sequences_are_shown_not_obeyed() {
        assert_eq!(
            excerpt(b"\x1b[2J\x1b]0;owned\x07 a\tb \xe2\x80\xae\x9bm\r\r\n"),
            "\\x1b[2J\\x1b]0;owned\\x07 a b \\xe2\\x80\\xae\\x9bm\n"
        );
    }

    proptest! {
        #[test]
        fn any_console_gives_bounded_printable_text(console in proptest::collection::vec(any::<u8>(), 0..4000)) {
            let text = excerpt(&console);
            prop_assert!(text.bytes().all(|b| b == b'\n' || (b' '..=b'~').contains(&b)));
            prop_assert!(text.lines().count() <= EXCERPT_LINES + 2);
            prop_assert!(text.lines().all(|line| line.len() <= MAX_COLUMNS + 6));
        }
    }
}
