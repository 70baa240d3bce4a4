// SPDX-License-Identifier: GPL-2.0-or-later
//! The text of a trace buffer, between our marks.
//!
//! `  init-1  [000] d.h1.  1.234567: down_write <-__kernfs_remove`: the third
//! letter of the flags tells interrupts (`h`, `H`, `s`, `z`, `Z`), whose calls
//! are not the operation's.

/// Calls `each(operation, function, caller)` for every function call of the
/// operations, in order.
///
/// # Errors
/// The trace lost events, or does not hold `sequences` of each operation.
pub fn for_each_call(
    text: &str,
    sequences: u64,
    operations: &[&'static str],
    mut each: impl FnMut(&'static str, &str, &str),
) -> Result<(), String> {
    for_each_line(text, sequences, operations, |operation, body| {
        if let Some((function, caller)) = body.split_once(" <-") {
            each(operation, function.trim(), caller.trim());
        }
        Ok(())
    })
}

/// Calls `each(operation, value)` for every return event of the operations.
///
/// # Errors
/// As [`for_each_call`]; or an event has no return value.
pub fn for_each_return(
    text: &str,
    sequences: u64,
    operations: &[&'static str],
    mut each: impl FnMut(&'static str, u64),
) -> Result<(), String> {
    for_each_line(text, sequences, operations, |operation, body| {
        if let Some((_, value)) = body.rsplit_once("ret=0x") {
            let value = u64::from_str_radix(value.trim(), 16)
                .map_err(|_| format!("return event without a value: {body}"))?;
            each(operation, value);
        }
        Ok(())
    })
}

fn for_each_line(
    text: &str,
    sequences: u64,
    operations: &[&'static str],
    mut each: impl FnMut(&'static str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let mut current: Option<&'static str> = None;
    let mut ended = vec![0_u64; operations.len()];
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
            let Some(index) = operations.iter().position(|o| *o == name) else { continue };
            match edge {
                "BEGIN" => current = Some(operations[index]),
                _ => {
                    current = None;
                    ended[index] += 1;
                }
            }
            continue;
        }
        let Some(operation) = current else { continue };
        if !in_interrupt(flags) {
            each(operation, body)?;
        }
    }
    match ended.iter().position(|n| *n != sequences) {
        None => Ok(()),
        Some(index) => Err(format!(
            "the trace holds {} of {sequences} {} operations; its buffer was too small or tracing stopped",
            ended[index], operations[index]
        )),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
# tracer: function
#
# entries-in-buffer/entries-written: 9/9   #P:1
#
            init-1       [000] .....     1.000001: ilookup <-before_the_mark
            init-1       [000] .....     1.000002: tracing_mark_write: BEGIN rmdir
            init-1       [000] .....     1.000003: down_write <-__kernfs_remove
            init-1       [000] d.h1.     1.000004: down_write <-an_interrupt
            init-1       [000] ...1.     1.000005: ilookup <-kernfs_clear
            init-1       [000] ..s1.     1.000006: rcu_core <-softirq
            init-1       [000] .....     1.000007: ilookup <-kernfs_clear
            init-1       [000] .....     1.000008: tracing_mark_write: END rmdir
            init-1       [000] .....     1.000009: ilookup <-after_the_mark
";

    fn calls(text: &str, sequences: u64) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for_each_call(text, sequences, &["rmdir"], |o, f, c| found.push(format!("{o} {f} {c}")))?;
        Ok(found)
    }

    #[test]
    fn only_calls_of_the_operation_count() {
        assert_eq!(
            calls(TRACE, 1).expect("complete"),
            ["rmdir down_write __kernfs_remove", "rmdir ilookup kernfs_clear", "rmdir ilookup kernfs_clear"]
        );
    }

    #[test]
    fn a_loss_is_an_error_and_never_a_smaller_count() {
        for (text, sequences, expected) in [
            (TRACE.replace("9/9", "9/12"), 1, "overflowed"),
            (TRACE.to_owned(), 2, "1 of 2"),
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
        let mut values = Vec::new();
        for_each_return(&text, 1, &["rmdir"], |_, v| values.push(v)).expect("complete");
        assert_eq!(values, [0xffff_8880_0123_4560, 0]);
    }
}
