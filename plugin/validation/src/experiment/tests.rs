// SPDX-License-Identifier: GPL-2.0-or-later

use super::*;
use crate::mail::Series;

const PLAN: &str = "
version: 1
experiment: two locks
builds:
  - label: parent
  - label: child
    patches: [a.patch, b.mbox]
  - label: probe
    commit: v6.12.3
    config: [CONFIG_HZ=1000, '# CONFIG_SMP is not set']
    may_differ: [config, release-length]
order: nested
workloads: [{id: kernfs.rmdir, arms: [bare]}]
";

#[test]
fn a_plan_is_read_with_its_defaults_and_written_back() {
    let plan = Experiment::read(PLAN).expect("a good plan");
    assert_eq!(plan.boots(), Ok(vec![0, 1, 2, 1, 0]));
    assert_eq!((plan.repeats, plan.threshold_percent, plan.kernel_config.as_str()), (3, 5.0, "minimal"));
    assert_eq!(plan.builds[2].may_differ, [IdentityField::Config, IdentityField::ReleaseLength]);
    assert_eq!(Experiment::read(&plan.text()), Ok(plan));
}

#[test]
fn every_published_order_is_known() {
    for (order, builds, places) in [
        (NamedOrder::Sandwich, 2, &[0, 1, 0][..]),
        (NamedOrder::Palindrome, 2, &[0, 1, 1, 0]),
        (NamedOrder::Palindrome, 3, &[0, 1, 2, 2, 1, 0]),
        (NamedOrder::Diagnostic, 3, &[0, 1, 0, 2, 0]),
        (NamedOrder::Nested, 5, &[0, 1, 2, 3, 4, 3, 2, 1, 0]),
        (NamedOrder::ReleaseWindow, 2, &[0, 1, 0]),
        (NamedOrder::AbbaBaab, 2, &[0, 1, 1, 0, 1, 0, 0, 1]),
    ] {
        assert_eq!(order.places(builds).as_deref(), Ok(places), "{order}");
        let named: NamedOrder = serde_yaml::from_str(&order.to_string()).expect("its name");
        assert_eq!(named, order);
    }
    for (order, builds) in [(NamedOrder::Sandwich, 3), (NamedOrder::Diagnostic, 2), (NamedOrder::Nested, 2)] {
        assert_eq!(order.places(builds), Err(ExperimentProblem::OrderOf { order, builds }));
    }
}

#[test]
fn each_mistake_has_its_own_words() {
    for (from, to, said) in [
        ("version: 1", "version: 2", "version 2"),
        ("order: nested", "order: nested\nsequence: [parent]", "not both"),
        ("order: nested", "", "either order"),
        ("order: nested", "sequence: [parent, child, parent]", "probe is never booted"),
        ("order: nested", "sequence: [parent, child, prob]", "no build prob"),
        ("order: nested", "order: sandwich", "for 2 builds, and there are 3"),
        ("order: nested", "order: sideways", "sideways"),
        ("label: child", "label: parent", "parent is there twice"),
        ("label: child", "label: ../../x y", "not usable"),
        ("label: child", "label: child\n    image: bzImage", "booted as it is"),
        ("label: parent", "label: parent\n    system_map: m", "for images"),
        ("CONFIG_HZ=1000", "HZ=1000", "no line of a .config"),
        ("CONFIG_HZ=1000", "\"CONFIG_HZ=1\\nCONFIG_X=y\"", "no line of a .config"),
        ("order: nested", "order: nested\nrepeats: 0", "repeats 0"),
        ("order: nested", "order: nested\nthreshold_percent: -1", "threshold_percent -1"),
        ("order: nested", "order: nested\ncolour: red", "colour"),
        ("may_differ: [config", "may_differ: [colour", "colour"),
    ] {
        assert!(PLAN.contains(from), "{from}");
        let error = Experiment::read(&PLAN.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(said), "{to}: {error}");
    }
}

#[test]
fn a_series_becomes_a_palindrome_and_a_long_one_is_bisected() {
    let drafted = |each_patch, total| {
        let choice = Draft {
            each_patch,
            repeats: 3,
            threshold_percent: 5.0,
            kernel_config: minimal(),
            ..Draft::default()
        };
        draft(&choice, &Series { total, title: "t".into(), ..Series::default() })
    };
    let labels = |plan: &Experiment| -> Vec<String> { plan.builds.iter().map(|b| b.label.clone()).collect() };
    let each = drafted(true, 2);
    assert_eq!(labels(&each), ["base", "1/2", "2/2"]);
    assert_eq!(each.builds[2].patches, ["patches/0001.patch", "patches/0002.patch"]);
    assert_eq!(labels(&drafted(true, 1)), ["base", "patched"]);
    assert_eq!(labels(&drafted(false, 9)), ["base", "patched"]);
    for (total, attribution) in [(6, Attribution::EveryBuild), (7, Attribution::Bisection)] {
        let plan = drafted(true, total);
        assert_eq!((plan.attribution, plan.check()), (attribution, Ok(())));
        assert_eq!(Experiment::read(&plan.text()).as_ref(), Ok(&plan));
    }
    assert_eq!(drafted(false, 9).attribution, Attribution::EveryBuild);
}
