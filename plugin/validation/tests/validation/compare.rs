// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables to comparisons: the published figures, and what must never matter.

use kernmark_validation::compare::{
    Comparison, ComparisonFile, FSNOTIFY, Gates, KERNFS, Values, VerdictName, compare_file, compare_tables,
    cv_population, median, read_tables, text, tsv,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const KERNFS_SAMPLES: &str = include_str!("../data/vectors/kernfs-rmdir-r1.samples.tsv");
const KERNFS_EXPECTED: &str = include_str!("../data/vectors/kernfs-rmdir-r1.expected.tsv");
const FSNOTIFY_POINTS: &str = include_str!("../data/vectors/fsnotify-exact.points.tsv");
const FSNOTIFY_EXPECTED: &str = include_str!("../data/vectors/fsnotify-exact.expected.tsv");

fn compare(text: &str, gates: &'static Gates) -> Vec<Comparison> {
    compare_tables(&read_tables(&[("table", text)]).expect("a good table"), Some(gates))
}

fn file(text: &str, gates: &'static Gates) -> ComparisonFile {
    compare_file(&read_tables(&[("table", text)]).expect("a good table"), Some(gates))
}

fn refusal(text: &str) -> String {
    read_tables(&[("t.tsv", text)]).expect_err("must be refused").to_string()
}

/// Rows of a TSV by column name.
fn rows(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("header").split('\t').collect();
    lines.map(|line| header.iter().copied().zip(line.split('\t')).collect()).collect()
}

fn assert_close(found: Option<f64>, expected: &str, what: &str) {
    let (found, expected): (f64, f64) = (found.expect(what), expected.parse().expect(what));
    assert!(((found - expected) / expected).abs() <= 1e-9, "{what}: {found}, not {expected}");
}

#[test]
fn the_kernfs_report_comes_out() {
    let comparisons = compare(KERNFS_SAMPLES, &KERNFS);
    let expected = rows(KERNFS_EXPECTED);
    assert_eq!(comparisons.len(), expected.len());
    for (c, e) in comparisons.iter().zip(&expected) {
        assert_eq!((c.experiment.as_str(), c.contrast.as_str()), (e["experiment"], e["contrast"]));
        for (found, column) in [
            (c.min_change_percent, "min_change_percent"),
            (c.max_change_percent, "max_change_percent"),
            (c.min_drop_first_percent, "min_drop_first_percent"),
            (c.max_drop_first_percent, "max_drop_first_percent"),
            (c.max_cv_percent, "max_cv_percent"),
            (c.old_drift_percent, "old_drift_percent"),
            (c.new_drift_percent, "new_drift_percent"),
        ] {
            assert_close(found, e[column], column);
        }
        assert_eq!(c.stability_pass, e["stability_pass"] == "yes");
        assert_eq!(c.signal_direction, e["signal_direction"]);
        assert_eq!(c.signal_pass, e["signal_pass"] == "yes");
        assert_eq!(c.endpoints.len(), 4);
        assert_eq!(c.label, None);
        assert_eq!(c.verdict.name, VerdictName::Inconclusive);
        assert!(c.verdict.reasons[0].starts_with("uncalibrated"));
    }
}

/// protocol.md 9.1: medians and population CVs of the six boots.
#[test]
fn the_kernfs_points_come_out() {
    let points = read_tables(&[("table", KERNFS_SAMPLES)]).expect("a good table");
    let expected = [
        ("base-A", 6496.7578125, "0.24371617503769752"),
        ("guard-A", 6905.5546875, "0.7982039932514418"),
        ("notify-A", 9538.9375, "0.5996203827248852"),
        ("notify-B", 9514.75, "0.40132670562037664"),
        ("guard-B", 6924.9609375, "0.32776920834960027"),
        ("base-B", 6507.8125, "0.3863439389273242"),
    ];
    assert_eq!(points.len(), expected.len());
    for (point, (name, middle, cv)) in points.iter().zip(expected) {
        let Values::Samples(samples) = &point.measurements[0].values else { panic!("samples") };
        assert_eq!((point.point.as_str(), median(samples)), (name, Some(middle)));
        assert_close(cv_population(samples), cv, name);
    }
}

#[test]
fn the_fsnotify_report_comes_out() {
    let comparisons = compare(FSNOTIFY_POINTS, &FSNOTIFY);
    let expected = rows(FSNOTIFY_EXPECTED);
    assert_eq!(comparisons.len(), expected.len());
    for (c, e) in comparisons.iter().zip(&expected) {
        assert_eq!((c.metric.as_str(), c.contrast.as_str()), (e["metric"], "child/parent"));
        let against: Vec<String> = c.endpoints.iter().map(|p| format!("{:.6}", p.change_percent)).collect();
        assert_eq!(against, [e["vs_parent_a_percent"], e["vs_parent_b_percent"]]);
        assert_eq!(c.old_drift_percent.map(|d| format!("{d:.6}")).as_deref(), Some(e["drift_percent"]));
        assert_eq!((c.new_drift_percent, c.max_cv_percent), (None, None));
        assert_eq!(c.label.as_deref(), Some(e["label"]));
    }
}

#[test]
fn two_experiments_are_compared_separately() {
    let second = KERNFS_SAMPLES.replace("r1\t", "r2\t");
    let both = read_tables(&[("one", KERNFS_SAMPLES), ("two", &second)]).expect("two experiments");
    let comparisons = compare_tables(&both, Some(&KERNFS));
    let names: Vec<&str> = comparisons.iter().map(|c| c.experiment.as_str()).collect();
    assert_eq!(names, ["r1", "r1", "r1", "r2", "r2", "r2"]);
    assert_eq!(comparisons[..3], compare(KERNFS_SAMPLES, &KERNFS));
    assert!(comparisons.iter().all(|c| c.endpoints.len() == 4));
}

#[test]
fn one_experiment_may_be_spread_over_files() {
    let (header, rows) = KERNFS_SAMPLES.split_once('\n').expect("header");
    let part = |wanted: &str| {
        let lines: Vec<&str> = rows.lines().filter(|l| l.contains(wanted)).collect();
        format!("# {wanted}\n{header}\n{}\n", lines.join("\n"))
    };
    let (base, guard, notify) = (part("\tbase\t"), part("\tguard\t"), part("\tnotify\t"));
    let points = read_tables(&[("a", &base), ("b", &guard), ("c", &notify)]).expect("three parts");
    assert_eq!(compare_tables(&points, Some(&KERNFS)), compare(KERNFS_SAMPLES, &KERNFS));
}

const HEADER: &str = "experiment\tpoint\tbuild\tboot\tworkload\tmetric\tunit\tbetter\tsample\tvalue\n";

/// A samples table of two boots; `edit` is applied to its text.
fn table(edit: impl Fn(String) -> String) -> String {
    let mut text = HEADER.to_owned();
    for (boot, build) in [(1, "base"), (2, "patched")] {
        for sample in 1..=2 {
            text +=
                &format!("x\tp{boot}\t{build}\t{boot}\tw\tm\tns\tlower\t{sample}\t{}\n", 10 * boot + sample);
        }
    }
    edit(text)
}

#[test]
fn tables_that_cannot_be_compared_are_refused_with_place_and_advice() {
    assert!(read_tables(&[("t", &table(|t| t))]).is_ok());
    assert!(read_tables(&[("t", &table(|t| t.replace('\n', "\r\n")))]).is_ok());
    let last = "x\tp2\tpatched\t2\tw\tm\tns\tlower\t2\t22\n";
    for (text, expected) in [
        (String::new(), "t.tsv: no rows"),
        (HEADER.into(), "t.tsv: no rows"),
        (table(|t| t.replace("\t21", "\tNaN")), "t.tsv:4: value `NaN` is not finite"),
        (table(|t| t.replace("\t21", "\t-inf")), "t.tsv:4: value `-inf` is not finite"),
        (table(|t| t.replace("\t21", "\t1e999")), "t.tsv:4: value `1e999` is not finite"),
        (table(|t| t.replace("\t21", "\t2,1")), "t.tsv:4: value `2,1` is not a number"),
        (table(|t| t.replace("\t21", "\t-2")), "t.tsv:4: value `-2` is negative"),
        (table(|t| t.replace("\t21", "\t")), "t.tsv:4: empty value"),
        (table(|t| t.replace("\t21", "")), "t.tsv:4: 9 cells where the header has 10"),
        (table(|t| t.replace("1\t11", "0\t11")), "t.tsv:2: sample `0` is not a whole number"),
        (table(|t| t.replacen("ns\tlower", "ns\tsmaller", 1)), "t.tsv:2: better `smaller`"),
        (table(|t| t.replacen("p1", "p\u{1b}1", 1)), "t.tsv:2: control character in point"),
        (table(|t| t.replace("sample\tvalue", "sample\tvalues")), "t.tsv:1: unknown column `values`"),
        (table(|t| t.replace("sample\tvalue", "sample\tsample")), "t.tsv:1: column `sample` is there twice"),
        (
            table(|t| t.replace("sample\tvalue", "sample\tmedian")),
            "t.tsv:1: columns of a samples and of a points",
        ),
        (table(|t| t.replace("unit\t", "")), "t.tsv:1: the header lacks unit"),
        (
            table(|t| t.replace("ns\tlower\t1\t21", "us\tlower\t1\t21")),
            "t.tsv:4: w m: mixed unit: `us` here, `ns`",
        ),
        (
            table(|t| t.replace("ns\tlower\t1\t21", "ns\thigher\t1\t21")),
            "t.tsv:4: w m: mixed better: `higher`",
        ),
        (
            table(|t| t.replace(last, "")),
            "x, boot 2 (p2), w m: unequal sides: 1 samples, the first boot has 2",
        ),
        (table(|t| t + &last.replace("\tm\t", "\tn\t")), "x, boot 1 (p1), w n: unequal sides: not measured"),
        (table(|t| t + last), "t.tsv:6: x: sample 2 of w m is there twice in p2; these look like two"),
        (
            table(|t| t.replace("p2\tpatched\t2", "p2\tpatched\t1")),
            "t.tsv:4: x: boot 1 is point p1 and point p2",
        ),
        (
            table(|t| t.replacen("p2\tpatched\t2", "p1\tpatched\t2", 1)),
            "t.tsv:4: x: point p1 is boot 1 and boot 2",
        ),
        (
            table(|t| t.replacen("p2\tpatched", "p2\tbase", 1)),
            "t.tsv:5: x: point p2 is build base and build patched",
        ),
        (table(|t| t.replace("patched", "base")), "x: only build base"),
        (table(|t| t.replace("\t11", "\t0").replace("\t12", "\t0")), "x, boot 1 (p1), w m: the median is 0"),
        (
            table(|t| {
                t.lines()
                    .filter(|l| !l.contains("\t2\t12") && !l.contains("\t2\t22"))
                    .fold(String::new(), |text, line| text + line + "\n")
            }),
            "x, boot 1 (p1), w m: a single sample shows no spread",
        ),
    ] {
        let message = refusal(&text);
        assert!(message.starts_with(expected), "{message:?} does not start with {expected:?}");
    }
}

#[test]
fn comments_and_column_order_do_not_matter() {
    let turned: String = table(|t| t).lines().fold("# made by hand\n\n".into(), |text, line| {
        let mut cells: Vec<&str> = line.split('\t').collect();
        cells.reverse();
        text + &cells.join("\t") + "\n# between\n"
    });
    assert_eq!(read_tables(&[("t", &turned)]), read_tables(&[("t", &table(|t| t))]));
}

/// A samples table of the palindrome first second second first, with a drift
/// per boot; `order` rearranges its rows.
fn palindrome(sides: [(&str, &[f64]); 2], better: &str, drift: f64, order: &[usize]) -> String {
    let mut lines = Vec::new();
    for (boot, side) in [0, 1, 1, 0].into_iter().enumerate() {
        let (build, samples) = sides[side];
        for (n, value) in samples.iter().enumerate() {
            let (place, sample, value) = (boot + 1, n + 1, value + drift * boot as f64);
            lines.push(format!("e\tp{boot}\t{build}\t{place}\tw\tm\tns\t{better}\t{sample}\t{value}\n"));
        }
    }
    let rows: String = order.iter().map(|n| lines[*n].as_str()).collect();
    format!("{HEADER}{rows}")
}

/// Effect of the only contrast on the log scale.
fn effect(comparison: &Comparison) -> f64 {
    (1.0 + comparison.verdict.change_percent.expect("an estimate") / 100.0).ln()
}

fn samples() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(1.0..1e6_f64, 5)
}

proptest! {
    #[test]
    fn swapped_sides_flip_the_sign(first in samples(), second in samples(), higher in any::<bool>()) {
        let better = if higher { "higher" } else { "lower" };
        let order: Vec<usize> = (0..20).collect();
        let forward = &compare(&palindrome([("a", &first), ("b", &second)], better, 0.0, &order), &KERNFS)[0];
        let swapped = &compare(&palindrome([("a", &second), ("b", &first)], better, 0.0, &order), &KERNFS)[0];
        prop_assert!((effect(forward) + effect(swapped)).abs() < 1e-9);
        // 5 % down is more than 5 % up, so near the gate only one of the two passes.
        let clear = |c: &Comparison| {
            [c.min_change_percent, c.max_change_percent, c.min_drop_first_percent, c.max_drop_first_percent]
                .iter()
                .flatten()
                .all(|change| !(4.5..5.5).contains(&change.abs()))
        };
        if clear(forward) && clear(swapped) {
            let opposite = match forward.signal_direction.as_str() {
                "slower" => "faster",
                "faster" => "slower",
                other => other,
            };
            prop_assert_eq!(opposite, swapped.signal_direction.as_str());
        }
    }

    #[test]
    fn names_of_builds_do_not_matter(first in samples(), second in samples()) {
        let order: Vec<usize> = (0..20).collect();
        let one = &compare(&palindrome([("a", &first), ("b", &second)], "lower", 1.0, &order), &KERNFS)[0];
        let other = &compare(&palindrome([("b", &first), ("a", &second)], "lower", 1.0, &order), &KERNFS)[0];
        prop_assert_eq!(&one.endpoints, &other.endpoints);
        prop_assert_eq!(&one.verdict, &other.verdict);
        prop_assert_eq!(&other.contrast, "a/b");
    }

    #[test]
    fn row_order_does_not_matter(
        first in samples(),
        second in samples(),
        order in Just((0..20).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let sides = [("a", first.as_slice()), ("b", second.as_slice())];
        let straight: Vec<usize> = (0..20).collect();
        let straight = &compare(&palindrome(sides, "lower", 1.0, &straight), &KERNFS)[0];
        let shuffled = &compare(&palindrome(sides, "lower", 1.0, &order), &KERNFS)[0];
        if shuffled.old_build == "a" {
            prop_assert_eq!(straight, shuffled);
        } else {
            // The build seen first is the old one, so here the sides are exchanged.
            prop_assert!((effect(straight) + effect(shuffled)).abs() < 1e-9);
            prop_assert_eq!(shuffled.new_drift_percent, straight.old_drift_percent);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[ -~\t\n#]{0,300}") {
        let _ = read_tables(&[("t", &text)]);
        let _ = read_tables(&[("t", &format!("{HEADER}{text}"))]);
    }
}

/// What people and programs read, as real files; `UPDATE_GOLDEN=1` rewrites them.
#[test]
fn printed_tables_stay_as_they_are() {
    for (name, found) in [
        ("kernfs.txt", text(&file(KERNFS_SAMPLES, &KERNFS))),
        ("kernfs.tsv", tsv(&compare(KERNFS_SAMPLES, &KERNFS))),
        ("fsnotify.txt", text(&file(FSNOTIFY_POINTS, &FSNOTIFY))),
        ("fsnotify.tsv", tsv(&compare(FSNOTIFY_POINTS, &FSNOTIFY))),
    ] {
        let path = format!("{}/tests/data/compare/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &found).expect("golden can be written");
        }
        let expected = std::fs::read_to_string(&path).expect("golden exists");
        assert_eq!(found, expected, "{name}: run with UPDATE_GOLDEN=1 if this is meant");
    }
}
