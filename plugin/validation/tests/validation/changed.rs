// SPDX-License-Identifier: GPL-2.0-or-later
//! The sample series from mail to changed code, over a base that holds just the
//! lines their hunks show.

use kernmark_validation::changed::boards::{BoardReason, layout_or_locking};
use kernmark_validation::changed::diff::{self, LineKind};
use kernmark_validation::changed::series::{ChangedCode, changed_functions};
use kernmark_validation::mail::{Series, read_series};
use std::collections::BTreeMap;

fn example(name: &str) -> Series {
    let path = format!("{}/../../examples/series/{name}.mbox", env!("CARGO_MANIFEST_DIR"));
    let file = read_series(&std::fs::read(path).expect("sample series")).expect("a series");
    file.series.into_iter().next().expect("one series")
}

/// The lines in front of the first patch that touches a file, at their places;
/// all others are empty.
fn base_of(series: &Series) -> BTreeMap<String, String> {
    let mut base: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for patch in &series.patches {
        let diff = diff::parse(&patch.diff);
        assert_eq!(diff.problems, [], "{}", patch.subject);
        for file in diff.files {
            let path = file.old_path.clone().expect("the samples change files that exist");
            if base.contains_key(&path) {
                continue;
            }
            let lines = base.entry(path).or_default();
            for hunk in &file.hunks {
                lines.resize(hunk.old_start as usize - 1, String::new());
                let old = hunk.lines.iter().filter(|l| l.kind != LineKind::Added);
                lines.extend(old.map(|l| l.text.to_owned()));
            }
            lines.resize(lines.len() + 2000, String::new());
        }
    }
    base.into_iter().map(|(path, lines)| (path, lines.join("\n") + "\n")).collect()
}

fn changed(name: &str) -> ChangedCode {
    let series = example(name);
    let base = base_of(&series);
    let patches: Vec<(u32, &str)> = series.patches.iter().map(|p| (p.index, p.diff.as_str())).collect();
    changed_functions(&patches, &|path| base.get(path).cloned())
}

#[test]
fn locking_sends_a_sample_series_to_boards() {
    for (name, expected) in [
        ("kernfs-removal", true),
        ("fsnotify-connector-list", true),
        ("shrinker-grace-period", true),
        ("xfs-only", false),
        ("null", false),
    ] {
        let reasons = layout_or_locking(&changed(name));
        let locking = reasons.iter().any(|r| matches!(r, BoardReason::Locking { .. }));
        assert_eq!(locking, expected, "{name}: {reasons:?}");
    }
}

#[test]
fn the_null_series_adds_one_function_and_changes_none() {
    let code = changed("null");
    let names: Vec<(&str, &str)> =
        code.functions.iter().map(|f| (f.file.as_str(), f.function.as_str())).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(names[0].0, "fs/namei.c");
    assert_eq!(code.problems, []);
}
