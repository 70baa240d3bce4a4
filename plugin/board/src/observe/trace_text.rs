// SPDX-License-Identifier: GPL-2.0-or-later
//! The text of a trace buffer, between our marks.
//!
//! `  init-1  [000] d.h1.  1.234567: down_write <-__kernfs_remove`: the third
//! letter of the flags tells interrupts (`h`, `H`, `s`, `z`, `Z`), whose calls
//! are not the operation's. What an interrupt calls before the kernel counts
//! itself as interrupted has no such letter, but an entry as its caller.

/// Callers that enter the kernel for an interrupt.
const INTERRUPT_ENTRIES: &[&str] = &["asm_sysvec_", "asm_common_interrupt", "asm_exc_nmi"];

/// One traced operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window<'a> {
    /// Which.
    pub operation: &'static str,
    /// Whether an interrupt came in.
    pub interrupted: bool,
    /// What stands after the time stamp, without lines of interrupts.
    pub lines: Vec<&'a str>,
}

impl<'a> Window<'a> {
    /// (function, caller) of each call.
    pub fn calls(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.lines.iter().filter_map(|line| line.split_once(" <-")).map(|(f, c)| (f.trim(), c.trim()))
    }

    /// The value of each return event.
    ///
    /// # Errors
    /// An event has no value.
    pub fn returns(&self) -> Result<Vec<u64>, String> {
        let values = self.lines.iter().filter_map(|line| Some((line, line.rsplit_once("ret=0x")?.1)));
        values
            .map(|(line, value)| {
                u64::from_str_radix(value.trim(), 16)
                    .map_err(|_| format!("return event without a value: {line}"))
            })
            .collect()
    }
}

/// The traced operations, in order.
///
/// # Errors
/// The trace lost events, or does not hold `sequences` of each operation.
pub fn windows<'a>(
    text: &'a str,
    sequences: u64,
    operations: &[&'static str],
) -> Result<Vec<Window<'a>>, String> {
    let mut current: Option<Window<'a>> = None;
    let mut found: Vec<Window<'a>> = Vec::new();
    for line in text.lines() {
        if let Some(header) = line.strip_prefix('#') {
            complete_buffer(header)?;
            continue;
        }
        if line.contains("LOST") {
            return Err(format!("the trace lost events: {}", line.trim()));
        }
        let Some((flags, body)) = split_line(line) else { continue };
        if let Some(mark) = body.split_once("tracing_mark_write: ").map(|(_, mark)| mark.trim()) {
            let (edge, name) = mark.split_once(' ').unwrap_or((mark, ""));
            let Some(operation) = operations.iter().find(|o| **o == name) else { continue };
            match edge {
                "BEGIN" => current = Some(Window { operation, interrupted: false, lines: Vec::new() }),
                _ => found.extend(current.take().filter(|window| window.operation == *operation)),
            }
            continue;
        }
        let Some(window) = &mut current else { continue };
        if in_interrupt(flags) || enters_interrupt(body) {
            window.interrupted = true;
        } else {
            window.lines.push(body);
        }
    }
    for operation in operations {
        let ended = found.iter().filter(|window| window.operation == *operation).count() as u64;
        if ended != sequences {
            return Err(format!(
                "the trace holds {ended} of {sequences} {operation} operations; its buffer was too small or \
                 tracing stopped"
            ));
        }
    }
    Ok(found)
}

/// The header says `entries-in-buffer/entries-written: 10/10`.
fn complete_buffer(header: &str) -> Result<(), String> {
    let Some((_, counts)) = header.split_once("entries-written:") else { return Ok(()) };
    let counts = counts.split_whitespace().next().unwrap_or_default();
    match counts.split_once('/') {
        Some((kept, written)) if kept == written => Ok(()),
        _ => Err(format!("the trace buffer overflowed ({counts} entries kept/written)")),
    }
}

/// Flags and what stands after the time stamp.
fn split_line(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once('[')?;
    let (_, rest) = rest.split_once("] ")?;
    let (flags, rest) = rest.trim_start().split_once(' ')?;
    let (_, body) = rest.split_once(": ")?;
    Some((flags, body))
}

fn in_interrupt(flags: &str) -> bool {
    matches!(flags.as_bytes().get(2), Some(b'h' | b'H' | b's' | b'z' | b'Z'))
}

fn enters_interrupt(body: &str) -> bool {
    let caller = body.split_once(" <-").map_or("", |(_, caller)| caller);
    INTERRUPT_ENTRIES.iter().any(|entry| caller.starts_with(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
# tracer: function
#
# entries-in-buffer/entries-written: 12/12   #P:1
#
            init-1       [000] .....     1.000001: ilookup <-before_the_mark
            init-1       [000] .....     1.000002: tracing_mark_write: BEGIN rmdir
            init-1       [000] .....     1.000003: down_write <-__kernfs_remove
            init-1       [000] ...1.     1.000005: ilookup <-kernfs_clear
            init-1       [000] .....     1.000007: ilookup <-kernfs_clear
            init-1       [000] .....     1.000008: tracing_mark_write: END rmdir
            init-1       [000] .....     1.000009: ilookup <-after_the_mark
";

    fn interrupted() -> String {
        TRACE.replace(
            "            init-1       [000] ...1.     1.000005",
            "            init-1       [000] d....     1.000003: sysvec_apic_timer_interrupt <-asm_sysvec_apic_timer_interrupt
            init-1       [000] d.h1.     1.000004: down_write <-an_interrupt
            init-1       [000] ..s1.     1.000006: rcu_core <-softirq
            init-1       [000] ...1.     1.000005",
        )
    }

    fn calls(text: &str, sequences: u64) -> Result<(bool, Vec<String>), String> {
        let windows = windows(text, sequences, &["rmdir"])?;
        let [window] = &windows[..] else { panic!("{windows:?}") };
        Ok((window.interrupted, window.calls().map(|(f, c)| format!("{f} {c}")).collect()))
    }

    #[test]
    fn only_calls_of_the_operation_count() {
        let expected: Vec<String> =
            ["down_write __kernfs_remove", "ilookup kernfs_clear", "ilookup kernfs_clear"]
                .map(str::to_owned)
                .into();
        assert_eq!(calls(TRACE, 1), Ok((false, expected.clone())));
        assert_eq!(calls(&interrupted(), 1), Ok((true, expected)));
    }

    #[test]
    fn a_loss_is_an_error_and_never_a_smaller_count() {
        for (text, sequences, expected) in [
            (TRACE.replace("12/12", "9/12"), 1, "overflowed"),
            (TRACE.to_owned(), 2, "1 of 2"),
            (TRACE.replace("BEGIN rmdir", "BEGIN mkdir"), 1, "0 of 1"),
            (format!("{TRACE}CPU:0 [LOST 12 EVENTS]\n"), 1, "lost"),
        ] {
            let error = calls(&text, sequences).expect_err("incomplete");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn returns_are_told_apart() {
        let text = TRACE
            .replace("ilookup <-kernfs_clear", "ilookup_return: (kernfs_clear+0x1/0x2 <- ilookup) ret=0x0")
            .replacen("ret=0x0", "ret=0xffff888001234560", 1);
        let found = windows(&text, 1, &["rmdir"]).expect("complete");
        assert_eq!(found[0].returns(), Ok(vec![0xffff_8880_0123_4560, 0]));
        let cut = text.replace("ret=0x0", "ret=0x");
        assert!(windows(&cut, 1, &["rmdir"]).expect("complete")[0].returns().is_err());
    }
}
