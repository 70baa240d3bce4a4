// SPDX-License-Identifier: GPL-2.0-or-later
//! Orders that say more than a contrast, and tables of counted instructions.

use crate::path::{boots, plan};
use kernmark_validation::compare::{
    ComparisonFile, FSNOTIFY, Gates, KERNFS, VerdictName, compare_file, path_orders, read_tables,
};
use kernmark_validation::plan::Evidence;

fn file(text: &str, gates: &'static Gates) -> ComparisonFile {
    compare_file(&read_tables(&[("table", text)]).expect("a good table"), Some(gates))
}

/// A points table of one experiment: (build, median) in boot order.
fn points_table(unit: &str, better: &str, boots: &[(&str, f64)]) -> String {
    let mut text =
        String::from("experiment\tpoint\tbuild\tboot\tworkload\tmetric\tunit\tbetter\tmedian\tcv_percent\n");
    for (n, (build, median)) in boots.iter().enumerate() {
        let boot = n + 1;
        text += &format!("e\tp{boot}\t{build}\t{boot}\tw\tm\t{unit}\t{better}\t{median}\t\n");
    }
    text
}

/// Median of lock-only and of nolist among full boots of 100, reductions and label.
#[test]
fn diagnostic_orders_name_the_mechanism() {
    for (lock_only, nolist, label) in [
        (90.0, 80.0, "MIXED_LOCK_AND_LIST_COST"),
        (90.0, 88.0, "LIST"),
        (98.0, 85.0, "LOCK"),
        (99.0, 98.0, "NONE"),
        (94.9, 89.8, "MIXED_LOCK_AND_LIST_COST"),
    ] {
        let order =
            [("full", 100.0), ("lock-only", lock_only), ("full", 100.0), ("nolist", nolist), ("full", 100.0)];
        let found = file(&points_table("ns", "lower", &order), &FSNOTIFY);
        assert_eq!(found.mechanism.len(), 1);
        assert_eq!(found.mechanism[0].label, label);
        assert!((found.mechanism[0].gap_points - (lock_only - nolist)).abs() < 1e-9);
        let builds: Vec<&str> = found.reductions.iter().map(|r| r.build.as_str()).collect();
        assert_eq!(builds, ["lock-only", "nolist"]);
        assert!(found.recovery.is_empty());
    }
    // Each reduction is the mean over the two full boots around it.
    let order = [("f", 100.0), ("l", 90.0), ("f", 120.0), ("n", 60.0), ("f", 80.0)];
    let found = file(&points_table("ns", "lower", &order), &FSNOTIFY);
    for (reduction, percent) in found.reductions.iter().zip([17.5, 37.5]) {
        assert!((reduction.reduction_percent - percent).abs() < 1e-9);
    }
}

#[test]
fn nested_orders_share_out_the_gap() {
    let order = [
        ("parent", 100.0),
        ("child", 200.0),
        ("fast", 160.0),
        ("folio", 120.0),
        ("nofolio", 105.0),
        ("folio", 122.0),
        ("fast", 160.0),
        ("child", 200.0),
        ("parent", 100.0),
    ];
    let found = file(&points_table("ns", "lower", &order), &KERNFS);
    let shares: Vec<(&str, f64, f64, f64)> = found
        .recovery
        .iter()
        .map(|r| (r.build.as_str(), r.recovery_percent, r.step_percent, r.residual_percent))
        .collect();
    assert_eq!(
        shares,
        [("fast", 40.0, 40.0, 60.0), ("folio", 79.0, 39.0, 21.0), ("nofolio", 95.0, 16.0, 5.0)]
    );
    let labels: Vec<Option<&str>> = found.recovery.iter().map(|r| r.label.as_deref()).collect();
    assert_eq!(labels, [None, None, Some("major")]);
    assert!(
        (found.recovery[1].drift_percent.expect("two boots") - 100.0 * (122.0 / 120.0 - 1.0)).abs() < 1e-9
    );
    assert_eq!(found.recovery[2].drift_percent, None);
    assert!(found.mechanism.is_empty());
    let label = |probe: f64, parent: f64| {
        let order = [("p", parent), ("c", 200.0), ("x", probe), ("c", 200.0), ("p", 100.0)];
        file(&points_table("ns", "lower", &order), &KERNFS).recovery[0].label.clone()
    };
    assert_eq!(label(130.0, 100.0).as_deref(), Some("partial"));
    assert_eq!(label(190.0, 100.0).as_deref(), Some("minor"));
    // The parent drifts by more than 3 %: nothing is claimed.
    assert_eq!(label(105.0, 104.0), None);
    // A palindrome of two builds, or of builds that each boot twice, is not nested.
    for order in
        [&[("a", 1.0), ("b", 2.0), ("a", 1.0)][..], &[("a", 1.0), ("b", 2.0), ("b", 2.0), ("a", 1.0)]]
    {
        assert!(file(&points_table("ns", "lower", order), &KERNFS).recovery.is_empty());
    }
}

#[test]
fn counted_instructions_in_a_table_are_path_evidence() {
    for (patched, name) in
        [(1000.0, VerdictName::Same), (1002.0, VerdictName::Longer), (990.0, VerdictName::Shorter)]
    {
        let order = [("base", 1000.0), ("patched", patched), ("patched", patched), ("base", 1000.0)];
        let comparison = &file(&points_table("instructions", "lower", &order), &KERNFS).comparisons[0];
        assert_eq!((comparison.verdict.evidence, comparison.verdict.name), (Evidence::Path, name));
    }
    let order = [("base", 1000.0), ("patched", 1000.0), ("patched", 1010.0), ("base", 1000.0)];
    let comparison = &file(&points_table("instructions", "lower", &order), &KERNFS).comparisons[0];
    assert_eq!(comparison.verdict.name, VerdictName::Inconclusive);
}

/// The deterministic runner runs an order once for each seed.
#[test]
fn orders_of_counted_instructions_are_read_over_seeds() {
    let mut nested = plan(&["parent", "child", "probe"], &[1, 2, 3]);
    nested.order = vec![0, 1, 2, 1, 0];
    let costs = [1e4, 1.4e4, 1.1e4];
    let points = boots(&nested, |build, seed| vec![("remove", costs[build] + seed as f64, 0.0)]);
    let (_, _, recovery) = path_orders(&nested, &points);
    assert_eq!((recovery.len(), recovery[0].build.as_str()), (1, "probe"));
    assert_eq!((recovery[0].recovery_percent, recovery[0].label.as_deref()), (75.0, Some("major")));
    let mut diagnostic = plan(&["full", "lock-only", "nolist"], &[1, 2]);
    diagnostic.order = vec![0, 1, 0, 2, 0];
    let costs = [1e4, 0.9e4, 0.8e4];
    let points = boots(&diagnostic, |build, _| vec![("remove", costs[build], 0.0)]);
    let (reductions, mechanism, _) = path_orders(&diagnostic, &points);
    assert_eq!((reductions.len(), mechanism[0].label.as_str()), (2, "MIXED_LOCK_AND_LIST_COST"));
    // A place without a boot: nothing is read.
    assert!(path_orders(&diagnostic, &points[..3]).1.is_empty());
}
