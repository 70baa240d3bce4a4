// SPDX-License-Identifier: GPL-2.0-or-later
//! Profiles as a table of percents, for published figures: one row for each
//! function, and one for each caller of it that was told apart.

use super::{CallerShare, SampledProfile, Share};
use std::fmt::Write;

/// Columns of the table, tab separated.
const COLUMNS: [&str; 7] =
    ["profile", "event", "function", "caller", "way", "self_percent", "with_children_percent"];
/// What is not known or not told apart.
const NONE: &str = "-";

/// Why a table is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The first line does not name the columns.
    #[error(
        "{name}: no profile: neither results of kernmark-board profile nor a table with the columns {COLUMNS:?}"
    )]
    NoTable {
        /// File name.
        name: String,
    },
    /// A line cannot be read.
    #[error("{name}:{line}: {reason}")]
    Line {
        /// File name.
        name: String,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// The profiles of a table, in order of appearance. Lines that begin with `#` are remarks.
///
/// # Errors
/// It is no such table, or a line of it is wrong.
pub fn from_table(name: &str, text: &str) -> Result<Vec<SampledProfile>, TableError> {
    let mut rows = text.lines().enumerate().filter(|(_, l)| !l.starts_with('#') && !l.trim().is_empty());
    let header: Vec<&str> = rows.next().map(|(_, line)| line.split('\t').collect()).unwrap_or_default();
    if header != COLUMNS {
        return Err(TableError::NoTable { name: name.to_owned() });
    }
    let mut profiles: Vec<SampledProfile> = Vec::new();
    for (number, row) in rows {
        let fields: Vec<&str> = row.split('\t').collect();
        add(&mut profiles, &fields).map_err(|reason| TableError::Line {
            name: name.to_owned(),
            line: number + 1,
            reason,
        })?;
    }
    if profiles.is_empty() {
        return Err(TableError::Line {
            name: name.to_owned(),
            line: 1,
            reason: "the table has no rows".into(),
        });
    }
    Ok(profiles)
}

fn add(profiles: &mut Vec<SampledProfile>, fields: &[&str]) -> Result<(), String> {
    let &[profile, event, function, caller, way, own, with_children] = fields else {
        return Err(format!("{} columns instead of {}", fields.len(), COLUMNS.len()));
    };
    if let Some(bad) =
        fields.iter().find(|f| f.is_empty() || !f.bytes().all(|b| b.is_ascii_graphic() || b == b' '))
    {
        return Err(format!("{:?} is no name and no number; write {NONE} where there is none", bad));
    }
    let percent = |text: &str| {
        Share::of_percent(text).ok_or_else(|| format!("{text:?} is no percent with at most two decimals"))
    };
    let index = profiles.iter().position(|p| p.name == profile).unwrap_or_else(|| {
        let (name, event) = (profile.to_owned(), event.to_owned());
        profiles.push(SampledProfile { name, event, ..SampledProfile::default() });
        profiles.len() - 1
    });
    let known = &mut profiles[index];
    if known.event != event {
        return Err(format!("{profile} was sampled by {} above and by {event} here", known.event));
    }
    if caller == NONE {
        if known.own.insert(function.to_owned(), percent(own)?).is_some() {
            return Err(format!("{function} of {profile} stands there twice"));
        }
        if with_children != NONE {
            known.with_children.insert(function.to_owned(), percent(with_children)?);
        }
    } else {
        let (function, caller, way) = (function.to_owned(), caller.to_owned(), way.to_owned());
        known.callers.push(CallerShare { function, caller, way, share: percent(own)? });
    }
    Ok(())
}

/// The table of these profiles.
pub fn to_table(profiles: &[SampledProfile]) -> String {
    let mut table = COLUMNS.join("\t") + "\n";
    for profile in profiles {
        let (name, event) = (&profile.name, &profile.event);
        for (function, share) in &profile.own {
            let with = profile.with_children.get(function).map_or(NONE.to_owned(), Share::to_string);
            writeln!(table, "{name}\t{event}\t{function}\t{NONE}\t{NONE}\t{share}\t{with}")
                .expect("a string");
        }
        for c in &profile.callers {
            let (function, caller, way, share) = (&c.function, &c.caller, &c.way, c.share);
            writeln!(table, "{name}\t{event}\t{function}\t{caller}\t{way}\t{share}\t{NONE}")
                .expect("a string");
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(rows: &str) -> String {
        COLUMNS.join("\t") + "\n" + rows
    }

    #[test]
    fn a_table_reads_back() {
        let text = with("a\tcycles\tdown_read\t-\t-\t38.98\t39.16\na\tcycles\tdown_read\tp\tw\t1.20\t-\n");
        let profiles = from_table("t", &format!("# a remark\n{text}")).expect("a table");
        assert_eq!(profiles.len(), 1);
        assert_eq!(to_table(&profiles), text);
    }

    #[test]
    fn each_mistake_is_named_with_its_line() {
        for (rows, line, part) in [
            ("a\t-\tf\t-\t-\t1.00\n", 2, "6 columns"),
            ("a\t-\tf\t-\t-\t1.001\t-\n", 2, "no percent"),
            ("a\t-\tf\tg\t-\tmuch\t-\n", 2, "no percent"),
            ("a\t-\tf\t-\t-\t1\t-\na\t-\tf\t-\t-\t1\t-\n", 3, "twice"),
            ("a\tx\tf\t-\t-\t1\t-\na\ty\tg\t-\t-\t1\t-\n", 3, "sampled by x above"),
            ("a\t-\t\t-\t-\t1\t-\n", 2, "no name"),
            ("a\u{1b}[2J\t-\tf\t-\t-\t1\t-\n", 2, "no name"),
            ("", 1, "no rows"),
        ] {
            let error = from_table("t", &with(rows)).expect_err(rows);
            assert!(
                matches!(&error, TableError::Line { line: l, reason, .. } if *l == line && reason.contains(part)),
                "{error}"
            );
        }
        assert!(matches!(from_table("t", "a\tb\n"), Err(TableError::NoTable { .. })));
        assert!(matches!(from_table("t", ""), Err(TableError::NoTable { .. })));
    }
}
