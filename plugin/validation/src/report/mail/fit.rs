// SPDX-License-Identifier: GPL-2.0-or-later
//! A body that fits: 72 columns, 45 lines, 4 KB, ASCII, nothing that acts. What
//! does not fit is said less fully, step by step, never cut in a sentence.

use crate::report::story::Story;
use crate::report::wrap::{ascii, quiet};
use crate::report::{ReportError, Templates};

/// Most lines of a body, signature included.
pub const LINES: usize = 45;
/// Most bytes of a body.
pub const BYTES: usize = 4096;

/// Separates text and signature.
const SIGNATURE: &str = "\n-- \n";

/// Rows, calls, names in a list, reasons: at most so many, from full to terse.
const STEPS: [[usize; 4]; 4] = [[12, 5, 12, 6], [8, 4, 6, 3], [5, 2, 3, 2], [3, 0, 1, 1]];

/// The body of the reply.
///
/// # Errors
/// A template is wrong.
pub fn body(story: &Story, templates: &Templates) -> Result<String, ReportError> {
    let mut text = String::new();
    for limits in STEPS {
        text = quieted(&ascii(&templates.render("mail/reply.txt.j2", &terser(story, limits))?));
        if fits(&text) {
            return Ok(text);
        }
    }
    Ok(cut(&text))
}

fn fits(text: &str) -> bool {
    text.lines().count() <= LINES && text.len() <= BYTES
}

fn quieted(text: &str) -> String {
    let (above, below) = text.rsplit_once(SIGNATURE).unwrap_or((text, ""));
    let above: Vec<String> = above.lines().map(quiet).collect();
    format!("{}{SIGNATURE}{below}", above.join("\n"))
}

/// The story with shorter lists.
fn terser(story: &Story, [rows, calls, names, reasons]: [usize; 4]) -> Story {
    let mut story = story.clone();
    if let Some(table) = &mut story.table {
        table.shorten(rows);
    }
    story.more_calls += story.calls.len().saturating_sub(calls);
    story.calls.truncate(calls);
    for same in &mut story.same {
        list(&mut same.names, names, |n| format!("{n} more"));
    }
    story.same.truncate(names);
    story.others.truncate(names);
    story.at_most.truncate(names);
    list(&mut story.coverage.missing, names, |n| format!("{n} more"));
    list(&mut story.coverage.merged, names, |n| format!("{n} more"));
    list(&mut story.coverage.outside, names, |n| format!("{n} more"));
    list(&mut story.obstacles, reasons, |n| format!("{n} more reasons are in the bundle"));
    story.tampering.truncate(reasons);
    story
}

/// Keeps the first `most` and says how many are left out.
fn list(names: &mut Vec<String>, most: usize, more: impl Fn(usize) -> String) {
    if names.len() > most {
        let left = names.len() - most;
        names.truncate(most);
        names.push(more(left));
    }
}

/// For texts that stay too long, of templates or reasons that nobody foresaw.
fn cut(text: &str) -> String {
    const REST: &str = "(The rest is in the bundle.)";
    let (above, below) = text.rsplit_once(SIGNATURE).unwrap_or((text, ""));
    let below: String =
        below.lines().take(2).map(|l| format!("{}\n", l.chars().take(200).collect::<String>())).collect();
    let room = LINES - 2 - below.lines().count();
    let mut left = BYTES.saturating_sub(below.len() + SIGNATURE.len() + REST.len() + 1);
    let mut kept = Vec::new();
    for line in above.lines().take(room) {
        if line.len() + 1 > left {
            break;
        }
        left -= line.len() + 1;
        kept.push(line);
    }
    format!("{}\n{REST}{SIGNATURE}{below}", kept.join("\n"))
}
