// SPDX-License-Identifier: GPL-2.0-or-later
//! Text as mail takes it: printable ASCII, 72 columns, and no line that another
//! program would take for a command, a trailer or a diff.

/// Longest line of a mail body.
pub const COLUMNS: usize = 72;

/// One paragraph, filled to [`COLUMNS`], with a line end; nothing for blank text. A word that is
/// longer than a line is cut.
pub fn fill(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace().map(|w| shorten(w, COLUMNS)) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A command line in shell notation: broken between words with a backslash. A single word is
/// never broken, since nobody could paste it then.
pub fn command(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS - 2 => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("    {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines.join(" \\\n")
}

/// Printable ASCII and line ends only: letters of Latin scripts and punctuation get their nearest
/// form, anything else `?`. Blanks at line ends go, but for the line that starts a signature.
pub fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | ' '..='~' => plain.push(character),
            '\t' | '\u{a0}' => plain.push(' '),
            _ => plain.push_str(nearest(character)),
        }
    }
    let lines: Vec<&str> = plain.split('\n').map(|l| if l == "-- " { l } else { l.trim_end() }).collect();
    lines.join("\n")
}

/// One line of it.
pub fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Base form of a letter, or plain punctuation.
fn nearest(character: char) -> &'static str {
    match character {
        '\u{c0}'..='\u{c3}' | '\u{c5}' | '\u{100}' | '\u{102}' | '\u{104}' => "A",
        '\u{c4}' => "Ae",
        '\u{c6}' => "AE",
        '\u{c7}' | '\u{106}' | '\u{108}' | '\u{10a}' | '\u{10c}' => "C",
        '\u{10e}' | '\u{110}' => "D",
        '\u{c8}'..='\u{cb}' | '\u{112}' | '\u{114}' | '\u{116}' | '\u{118}' | '\u{11a}' => "E",
        '\u{11c}' | '\u{11e}' | '\u{120}' | '\u{122}' => "G",
        '\u{cc}'..='\u{cf}' | '\u{130}' => "I",
        '\u{139}' | '\u{13b}' | '\u{13d}' | '\u{141}' => "L",
        '\u{d1}' | '\u{143}' | '\u{145}' | '\u{147}' => "N",
        '\u{d2}'..='\u{d5}' | '\u{d8}' | '\u{150}' => "O",
        '\u{d6}' => "Oe",
        '\u{158}' => "R",
        '\u{15a}' | '\u{15c}' | '\u{15e}' | '\u{160}' => "S",
        '\u{162}' | '\u{164}' => "T",
        '\u{d9}'..='\u{db}' | '\u{168}' | '\u{16a}' | '\u{16e}' | '\u{170}' => "U",
        '\u{dc}' => "Ue",
        '\u{dd}' | '\u{178}' => "Y",
        '\u{179}' | '\u{17b}' | '\u{17d}' => "Z",
        '\u{df}' => "ss",
        '\u{e0}'..='\u{e3}' | '\u{e5}' | '\u{101}' | '\u{103}' | '\u{105}' => "a",
        '\u{e4}' => "ae",
        '\u{e6}' => "ae",
        '\u{e7}' | '\u{107}' | '\u{109}' | '\u{10b}' | '\u{10d}' => "c",
        '\u{10f}' | '\u{111}' => "d",
        '\u{e8}'..='\u{eb}' | '\u{113}' | '\u{115}' | '\u{117}' | '\u{119}' | '\u{11b}' => "e",
        '\u{11d}' | '\u{11f}' | '\u{121}' | '\u{123}' => "g",
        '\u{ec}'..='\u{ef}' | '\u{131}' => "i",
        '\u{13a}' | '\u{13c}' | '\u{13e}' | '\u{142}' => "l",
        '\u{f1}' | '\u{144}' | '\u{146}' | '\u{148}' => "n",
        '\u{f2}'..='\u{f5}' | '\u{f8}' | '\u{151}' => "o",
        '\u{f6}' => "oe",
        '\u{159}' => "r",
        '\u{15b}' | '\u{15d}' | '\u{15f}' | '\u{161}' => "s",
        '\u{163}' | '\u{165}' => "t",
        '\u{f9}'..='\u{fb}' | '\u{169}' | '\u{16b}' | '\u{16f}' | '\u{171}' => "u",
        '\u{fc}' => "ue",
        '\u{fd}' | '\u{ff}' => "y",
        '\u{17a}' | '\u{17c}' | '\u{17e}' => "z",
        '\u{2018}' | '\u{2019}' => "'",
        '\u{201c}' | '\u{201d}' => "\"",
        '\u{2010}'..='\u{2015}' => "-",
        '\u{2026}' => "...",
        '\u{2192}' => "->",
        '\u{d7}' => "x",
        '\u{b5}' | '\u{3bc}' => "u",
        _ => "?",
    }
}

/// At most `width` characters; a cut text ends in two dots.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(2)).collect();
    format!("{}..", kept.trim_end())
}

/// The line with `| ` in front where it starts like something that a program acts on: a bot
/// command, a trailer (b4 takes them indented too, and some from anyone), a diff, an mbox
/// separator, a signature. Names and reasons in a report are other people's text.
pub fn quiet(line: &str) -> String {
    if !acts(line) {
        return line.to_owned();
    }
    shorten(&format!("| {line}"), COLUMNS)
}

fn acts(line: &str) -> bool {
    const STARTS: [&str; 10] =
        ["#", "from ", ">from ", "diff ", "--- ", "+++ ", "@@", "index: ", "prerequisite-", "base-commit"];
    const TRAILERS: [&str; 12] = [
        "fixes",
        "closes",
        "link",
        "buglink",
        "bug",
        "cc",
        "message-id",
        "change-id",
        "depends-on",
        "references",
        "reference",
        "url",
    ];
    let line = line.trim_start().to_ascii_lowercase();
    let trailer = line.split_once(':').is_some_and(|(name, _)| {
        let name = name.trim_end();
        TRAILERS.contains(&name) || (name.ends_with("-by") && !name.contains(' '))
    });
    trailer || line == "--" || line == "-- " || line == "---" || STARTS.iter().any(|s| line.starts_with(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filled_and_never_too_long() {
        let text = "word ".repeat(40);
        let filled = fill(&text);
        assert!(filled.ends_with('\n') && filled.lines().all(|l| l.len() <= COLUMNS));
        assert_eq!(filled.split_whitespace().count(), 40);
        assert_eq!(fill(&"x".repeat(90)).trim_end().len(), COLUMNS);
        assert_eq!(fill(" \n "), "");
    }

    #[test]
    fn commands_stay_commands() {
        let text = format!("kernmark check {} --each-patch --boots 4", "p".repeat(60));
        assert_eq!(
            command(&text),
            format!("kernmark check \\\n    {} \\\n    --each-patch --boots 4", "p".repeat(60))
        );
        assert!(command(&"p".repeat(100)).len() == 100);
    }

    #[test]
    fn only_ascii_is_left() {
        for (text, plain) in [
            ("J\u{f6}rg \u{141}ukasz\u{1b}[2J  \n-- \nx\n", "Joerg Lukasz?[2J\n-- \nx\n"),
            ("a\u{2014}b \u{201c}c\u{201d}\u{202e}", "a-b \"c\"?"),
        ] {
            assert_eq!(ascii(text), plain);
        }
    }

    #[test]
    fn a_cut_text_says_so() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdefg", 6), "abcd..");
    }

    #[test]
    fn nothing_in_a_report_acts() {
        for line in [
            "#regzbot introduced: v6.1..v6.2",
            "  #syz invalid",
            "Reported-by: A <a@b>",
            "  Tested-By : A <a@b>",
            "Fixes: 123456789012 (\"x\")",
            "From a@b Mon",
            "-- ",
            "---",
            "diff --git a/x b/x",
        ] {
            assert!(quiet(line).starts_with("| "), "{line}");
        }
        for line in
            ["Tree: vfs.all", "Calls per rmdir(): ilookup", "stand-by is fine: x", "Same within 0.1%: a"]
        {
            assert_eq!(quiet(line), line);
        }
        assert!(quiet(&format!("#{}", "x".repeat(71))).len() <= COLUMNS);
    }
}
