// SPDX-License-Identifier: GPL-2.0-or-later
//! What the prefixes of a subject say: version, counter, RFC, RESEND (formats.md 6.1, 6.2).

/// Largest number a counter is believed with.
const MAX_COUNT: u32 = 999;

/// The prefixes of a subject, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// Starts with `Re:` or another reply mark.
    pub reply: bool,
    /// Some prefix says PATCH.
    pub patch: bool,
    /// `vN`; `None` when not said.
    pub version: Option<u32>,
    /// `n/m`.
    pub counter: Option<(u32, u32)>,
    /// A counter that is too large to be one.
    pub odd_counter: Option<String>,
    /// `RFC`.
    pub rfc: bool,
    /// `RESEND`.
    pub resend: bool,
}

/// Takes the prefixes of a decoded subject apart.
pub fn prefixes(subject: &str) -> Prefixes {
    let mut found = Prefixes::default();
    let mut rest = subject.trim();
    loop {
        if let Some(after) = reply_mark(rest) {
            found.reply = true;
            rest = after.trim_start();
        } else if rest.starts_with('[') {
            let end = closing_bracket(rest);
            read_group(&rest[1..end], &mut found);
            rest = rest[(end + 1).min(rest.len())..].trim_start();
        } else {
            if found.version.is_none() {
                found.version = version_in_text(rest);
            }
            return found;
        }
    }
}

/// Index of the bracket that closes the one at the start; the end when there is none.
fn closing_bracket(text: &str) -> usize {
    let mut depth = 0;
    for (index, character) in text.char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    text.len()
}

fn reply_mark(text: &str) -> Option<&str> {
    let (word, rest) = text.split_once(':')?;
    let known = ["re", "aw", "fwd", "fw", "sv"].iter().any(|mark| word.eq_ignore_ascii_case(mark));
    // Any other short word before a prefix: reply marks of other languages (formats.md 6.2).
    let other = word.chars().count() == 2
        && word.chars().all(char::is_alphabetic)
        && rest.trim_start().starts_with('[');
    (known || other).then_some(rest)
}

/// `(v2)` in a subject without a version among its prefixes.
fn version_in_text(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("(v").or_else(|| text.split_once("(V"))?;
    let (number, _) = rest.split_once(')')?;
    number.parse().ok()
}

fn read_group(group: &str, found: &mut Prefixes) {
    let words: Vec<&str> = group
        .split(|c: char| c.is_whitespace() || c == ',' || c == '[' || c == ']')
        .filter(|w| !w.is_empty())
        .collect();
    for (index, word) in words.iter().enumerate() {
        let upper = word.to_ascii_uppercase();
        found.rfc |= upper.contains("RFC");
        found.resend |= upper.contains("RESEND");
        found.patch |= upper.contains("PATCH");
        let of = (upper == "OF" && index > 0 && index + 1 < words.len())
            .then(|| words[index - 1].parse().ok().zip(words[index + 1].parse().ok()))
            .flatten();
        match counter(&upper).or(of) {
            Some((number, total)) if number > MAX_COUNT || total > MAX_COUNT => {
                found.odd_counter = Some(format!("{number}/{total}"));
            }
            Some(counter) => found.counter = Some(counter),
            None => {}
        }
        if let Some(version) = version(&upper) {
            found.version = Some(version);
        }
    }
}

/// `3/8` at the end of a word: also `PATCH3/8`, but not `X86/64`.
fn counter(upper: &str) -> Option<(u32, u32)> {
    let (before, total) = upper.split_once('/')?;
    let name = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let known = name.is_empty() || ["PATCH", "RFC", "RESEND"].iter().any(|mark| name.ends_with(mark));
    known.then_some((before[name.len()..].parse().ok()?, total.parse().ok()?))
}

/// `V2`, `PATCHV2`, `V2PATCH3/8`; not the v of an ordinary word.
fn version(upper: &str) -> Option<u32> {
    let number_at = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok().map(|n| (n, text[digits.len()..].to_owned()))
    };
    if let Some(rest) = upper.strip_prefix('V') {
        let (number, after) = number_at(rest)?;
        return (after.is_empty() || after.starts_with("PATCH") || after.starts_with("RFC"))
            .then_some(number);
    }
    let (_, rest) = upper.split_once("PATCHV").or_else(|| upper.split_once("RFCV"))?;
    number_at(rest).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_counter() {
        for (subject, version, counter, reply) in [
            ("[PATCH] x", None, None, false),
            ("[PATCH 1/8] x", None, Some((1, 8)), false),
            ("[PATCH1/8] x", None, Some((1, 8)), false),
            ("[v2PATCH1/4] x", Some(2), Some((1, 4)), false),
            ("[PATCH v6,19/24] x", Some(6), Some((19, 24)), false),
            ("[PATCHv3 02/10] x", Some(3), Some((2, 10)), false),
            ("[PATCH 1 of 2] x", None, Some((1, 2)), false),
            ("[PATCH V2 0/3] x", Some(2), Some((0, 3)), false),
            ("[net-next][PATCH v2 1/2] x", Some(2), Some((1, 2)), false),
            ("[[PATCH v2] 3/7] x", Some(2), Some((3, 7)), false),
            ("Re: [PATCH v2 1/2] x", Some(2), Some((1, 2)), true),
            ("AW: [PATCH] x", None, None, true),
            ("[PATCH vfs 1/2] x", None, Some((1, 2)), false),
            ("no prefix 1/2", None, None, false),
            ("[PATCH x86/64] x", None, None, false),
            ("[PATCH 6.1/6.6 1/2] x", None, Some((1, 2)), false),
            ("[PATCH 5.10 007/120] x", None, Some((7, 120)), false),
            ("[PATCH 1/5000] x", None, None, false),
            ("[PATCH 99999999999/1] x", None, None, false),
            ("[1/2] x", None, Some((1, 2)), false),
            ("[PATCH] x (v3)", Some(3), None, false),
            ("[PATCH v2] x (v3)", Some(2), None, false),
            ("\u{56de}\u{590d}: [PATCH 1/2] x", None, Some((1, 2)), true),
            ("mm: [PATCH] looks odd", None, None, true),
            ("mm: fix it", None, None, false),
        ] {
            let found = prefixes(subject);
            assert_eq!((found.version, found.counter, found.reply), (version, counter, reply), "{subject}");
        }
    }

    #[test]
    fn marks_are_seen_in_any_group() {
        let found = prefixes("[RFC PATCH RESEND v2] x");
        assert!(found.rfc && found.resend && found.patch);
        assert!(!prefixes("[GIT PULL] x").patch);
    }

    #[test]
    fn an_open_bracket_ends_the_prefixes() {
        assert!(prefixes("[PATCH 1/2 x").patch);
    }
}
