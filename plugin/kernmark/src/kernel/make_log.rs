// SPDX-License-Identifier: GPL-2.0-or-later
//! What `make` printed: how far it is, and the first thing that went wrong.

/// Counts compile steps in output that comes piece by piece.
#[derive(Debug, Default)]
pub struct StepCounter {
    partial: Vec<u8>,
    steps: u64,
}

impl StepCounter {
    /// Takes the next piece; the number of steps so far.
    pub fn add(&mut self, piece: &[u8]) -> u64 {
        for &byte in piece {
            if byte != b'\n' {
                if self.partial.len() < 80 {
                    self.partial.push(byte);
                }
                continue;
            }
            let is_step =
                [b"  CC ".as_slice(), b"  AS ", b"  HOSTCC "].iter().any(|p| self.partial.starts_with(p));
            self.steps += u64::from(is_step);
            self.partial.clear();
        }
        self.steps
    }
}

/// The first error in a build log: the compiler's own line where there is one.
pub fn first_error(log: &str) -> String {
    let of = |wanted: &dyn Fn(&str) -> bool| log.lines().find(|line| wanted(line));
    let found = of(&|l| l.contains(": error:") || l.contains(": fatal error:"))
        .or_else(|| of(&|l| l.contains("undefined reference to") || l.contains("undefined symbol")))
        .or_else(|| of(&|l| l.contains("No space left on device")))
        .or_else(|| of(&|l| l.contains("*** ")))
        .or_else(|| log.lines().rev().find(|l| !l.trim().is_empty()));
    let line = found.unwrap_or("make gave no reason").trim();
    let line: String = line.chars().take(300).collect();
    line.replace("/kernmark/source/", "")
        .escape_default()
        .to_string()
        .replace("\\'", "'")
        .replace("\\\"", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_over_pieces() {
        let mut counter = StepCounter::default();
        assert_eq!(counter.add(b"  CC      a.o\n  C"), 1);
        assert_eq!(counter.add(b"C      b.o\n  LD  x\n  AS      c.o\n"), 3);
    }

    #[test]
    fn the_compilers_line_comes_first() {
        for (log, expected) in [
            (
                "  CC a.o\n/kernmark/source/fs/a.c:3:1: error: 'x' undeclared\nmake: *** [a.o] Error 1\n",
                "fs/a.c:3:1: error: 'x' undeclared",
            ),
            ("ld: a.o: undefined reference to `f'\nmake: *** x\n", "ld: a.o: undefined reference to `f'"),
            (
                "make: *** No rule to make target 'x'.  Stop.\n",
                "make: *** No rule to make target 'x'.  Stop.",
            ),
            ("", "make gave no reason"),
        ] {
            assert_eq!(first_error(log), expected);
        }
        assert!(first_error("\u{1b}[2J: error: \u{7}").contains("\\u{1b}"));
    }
}
