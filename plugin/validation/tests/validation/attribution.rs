// SPDX-License-Identifier: GPL-2.0-or-later
//! Which patch it was: palindromes of all builds, bisection of long series, builds that fail.

use crate::path::{boots, plan};
use kernmark_validation::attribution::{Known, next_builds};
use kernmark_validation::builds::{BuildIdentity, BuildRecord};
use kernmark_validation::compare::{Point, VerdictName, compare_path};
use kernmark_validation::plan::{Attribution, Plan};
use kernmark_validation::verdict::{Incident, Outcome, Verdict, decide};

fn record(label: &str, same_image_as: Option<&str>) -> BuildRecord {
    BuildRecord {
        label: label.into(),
        patches: 0,
        source: String::new(),
        identity: BuildIdentity {
            compiler: "gcc".into(),
            config_sha256: String::new(),
            timestamp: String::new(),
            user: String::new(),
            host: String::new(),
            release_length: 1,
            release: "1".into(),
        },
        image_sha256: String::new(),
        system_map_sha256: String::new(),
        same_image_as: same_image_as.map(str::to_owned),
        allowed_differences: vec![],
    }
}

/// A series with one build for each patch; `costs[k]` is what the removal executes with k patches.
struct Series {
    plan: Plan,
    costs: Vec<f64>,
    failing: Vec<usize>,
}

/// What came of it.
struct Attributed {
    verdict: Verdict,
    /// Places of the builds that were booted, in the order in which they were asked for.
    booted: Vec<usize>,
}

impl Series {
    fn new(attribution: Attribution, costs: &[f64]) -> Self {
        let total = costs.len() - 1;
        let labels: Vec<String> =
            std::iter::once("base".to_owned()).chain((1..=total).map(|n| format!("{n}/{total}"))).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        Self { plan: Plan { attribution, ..plan(&labels, &[1, 2]) }, costs: costs.into(), failing: vec![] }
    }

    fn failing(mut self, places: &[usize]) -> Self {
        self.failing = places.into();
        self
    }

    /// Makes and boots what is asked for until nothing is.
    fn attributed(&self) -> Attributed {
        let (mut records, mut failed): (Vec<BuildRecord>, Vec<String>) = (vec![], vec![]);
        let mut points: Vec<Point> = vec![];
        let mut booted = vec![];
        loop {
            let known = Known { plan: &self.plan, builds: &records, failed: &failed, points: &points };
            let next = next_builds(&known);
            if next.is_empty() {
                break;
            }
            for at in next {
                let label = &self.plan.builds[at].label;
                if self.failing.contains(&at) {
                    failed.push(label.clone());
                    continue;
                }
                records.push(record(label, None));
                let all = boots(&self.plan, |build, _| vec![("remove", self.costs[build], 0.0)]);
                points.extend(all.into_iter().filter(|p| p.build == *label));
                booted.push(at);
            }
        }
        points.sort_by_key(|p| p.boot);
        let incidents: Vec<Incident> = failed
            .iter()
            .map(|build| Incident::BuildFailed { build: build.clone(), reason: "x.c:1: error".into() })
            .collect();
        let comparisons = compare_path(&self.plan, &points);
        Attributed { verdict: decide(&self.plan, &comparisons, &[], &incidents, None), booted }
    }
}

impl Attributed {
    fn culprits(&self) -> Vec<&str> {
        self.verdict.culprits.iter().map(|c| c.build.as_str()).collect()
    }

    fn says(&self, words: &str) -> bool {
        self.verdict.reasons.iter().any(|r| r.contains(words))
    }

    fn name(&self) -> VerdictName {
        match self.verdict.outcome {
            Outcome::Measured { verdict, .. } => verdict,
            _ => panic!("{:?}", self.verdict.outcome),
        }
    }
}

#[test]
fn of_five_patches_the_third_is_found() {
    let found = Series::new(Attribution::EveryBuild, &[1e4, 1e4, 1e4, 1.1e4, 1.1e4, 1.1e4]).attributed();
    assert_eq!((found.culprits(), found.verdict.exit_code), (vec!["3/5"], 1));
    assert_eq!(found.verdict.headline.expect("one").culprit, "3/5");
}

#[test]
fn of_a_fixing_series_only_the_last_patch_pays() {
    for (attribution, costs) in [
        (Attribution::EveryBuild, &[1e4, 1e4, 1e4, 0.8e4][..]),
        (Attribution::Bisection, &[1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 0.8e4]),
    ] {
        let found = Series::new(attribution, costs).attributed();
        assert_eq!((found.name(), found.verdict.exit_code), (VerdictName::Shorter, 0));
        let last = format!("{0}/{0}", costs.len() - 1);
        assert_eq!(found.verdict.headline.expect("one").culprit, last);
    }
}

#[test]
fn a_patch_that_does_not_build_is_said_and_the_others_are_measured() {
    // Nothing else is wrong: the whole series is the same, but a result is missing.
    let found = Series::new(Attribution::EveryBuild, &[1e4; 5]).failing(&[2]).attributed();
    assert_eq!((found.name(), found.verdict.exit_code), (VerdictName::Same, 3));
    assert!(found.says("2/4 does not build: x.c:1: error"), "{:?}", found.verdict.reasons);
    assert_eq!(found.booted, [0, 1, 3, 4]);
    // The fourth patch costs: found in spite of the gap.
    let found = Series::new(Attribution::EveryBuild, &[1e4, 1e4, 1e4, 1e4, 1.2e4]).failing(&[2]).attributed();
    assert_eq!((found.culprits(), found.verdict.exit_code), (vec!["4/4"], 1));
    assert!(found.verdict.culprits[0].after.is_none());
    // The cost is in the gap: patches 2 and 3 are not told apart.
    let found =
        Series::new(Attribution::EveryBuild, &[1e4, 1e4, 1e4, 1.2e4, 1.2e4]).failing(&[2]).attributed();
    assert_eq!(found.culprits(), ["3/4"]);
    assert_eq!(found.verdict.culprits[0].after.as_deref(), Some("1/4"));
    assert!(found.says("the patches after 1/4 up to 3/4 carry"), "{:?}", found.verdict.reasons);
    // The series as a whole does not build: there is no result.
    let found = Series::new(Attribution::EveryBuild, &[1e4; 5]).failing(&[4]).attributed();
    assert!(matches!(&found.verdict.outcome, Outcome::Invalid { place, .. } if place == "4/4"));
    assert_eq!(found.verdict.exit_code, 3);
}

#[test]
fn two_culprits_are_both_named_largest_first() {
    for attribution in [Attribution::EveryBuild, Attribution::Bisection] {
        let costs = [1e4, 1e4, 1.06e4, 1.06e4, 1.06e4, 1.06e4, 1.3e4, 1.3e4];
        let found = Series::new(attribution, &costs).attributed();
        assert_eq!(found.culprits(), ["6/7", "2/7"], "{attribution:?}");
    }
}

#[test]
fn a_cost_that_is_undone_and_who_undoes_it_are_both_said() {
    let found = Series::new(Attribution::EveryBuild, &[1e4, 1e4, 1.2e4, 1.2e4, 1e4]).attributed();
    assert_eq!((found.name(), found.verdict.exit_code), (VerdictName::Same, 0));
    assert!(
        found.says("2/4 costs +20.000 %") && found.says("4/4 takes it away"),
        "{:?}",
        found.verdict.reasons
    );
    // The same with a cost that stays: only that one is blamed.
    let found = Series::new(Attribution::EveryBuild, &[1e4, 1.2e4, 1e4, 1e4, 1.1e4]).attributed();
    assert_eq!(found.culprits(), ["4/4"]);
    assert!(
        found.says("1/4 costs +20.000 %") && found.says("2/4 takes it away"),
        "{:?}",
        found.verdict.reasons
    );
}

#[test]
fn bisection_boots_few_builds_and_finds_any_patch() {
    for total in [7_usize, 8, 16, 33] {
        for guilty in 1..=total {
            let costs: Vec<f64> = (0..=total).map(|n| if n >= guilty { 1.1e4 } else { 1e4 }).collect();
            let found = Series::new(Attribution::Bisection, &costs).attributed();
            assert_eq!(found.culprits(), [format!("{guilty}/{total}")]);
            let most = 3 + total.ilog2() as usize;
            assert!(found.booted.len() <= most, "{total} {guilty}: {:?}", found.booted);
            assert!(found.says("bisection: "), "{:?}", found.verdict.reasons);
        }
    }
}

#[test]
fn bisection_stops_where_nothing_changes() {
    let found = Series::new(Attribution::Bisection, &[1e4; 10]).attributed();
    assert_eq!((found.booted, found.verdict.exit_code), (vec![0, 9], 0));
}

#[test]
fn bisection_goes_round_builds_that_fail() {
    let costs: Vec<f64> = (0..=8).map(|n| if n >= 4 { 1.1e4 } else { 1e4 }).collect();
    let found = Series::new(Attribution::Bisection, &costs).failing(&[4]).attributed();
    assert_eq!(found.culprits(), ["5/8"]);
    assert_eq!(found.verdict.culprits[0].after.as_deref(), Some("3/8"));
    // Neither end can be had: nothing more is asked for.
    let found = Series::new(Attribution::Bisection, &costs).failing(&[8]).attributed();
    assert_eq!(found.booted, [0]);
}

#[test]
fn an_image_that_is_identical_needs_no_boot() {
    let series = Series::new(Attribution::Bisection, &[1e4, 1e4, 1e4, 1e4, 1.1e4, 1.1e4, 1.1e4, 1.1e4]);
    let points: Vec<Point> = boots(&series.plan, |build, _| vec![("remove", series.costs[build], 0.0)])
        .into_iter()
        .filter(|p| p.build == "base" || p.build == "7/7")
        .collect();
    let records = [record("base", None), record("7/7", None), record("3/7", Some("base"))];
    let known = Known { plan: &series.plan, builds: &records, failed: &[], points: &points };
    assert_eq!(next_builds(&known), [5], "3/7 is the base: the patch is behind it");
}

#[test]
fn an_image_seen_again_places_the_step() {
    let series = Series::new(Attribution::Bisection, &[1e4, 1e4, 1e4, 1e4, 1e4, 1.1e4, 1.1e4, 1.1e4]);
    let points: Vec<Point> = boots(&series.plan, |build, _| vec![("remove", series.costs[build], 0.0)])
        .into_iter()
        .filter(|p| p.build == "base" || p.build == "7/7")
        .collect();
    let twin = |build: &str, same_as: &str| Incident::IdenticalImage {
        build: build.into(),
        same_as: same_as.into(),
    };
    let comparisons = compare_path(&series.plan, &points);
    let verdict = |twins: &[Incident]| decide(&series.plan, &comparisons, &[], twins, None);
    let found = verdict(&[twin("3/7", "base"), twin("5/7", "7/7"), twin("4/7", "base")]);
    assert_eq!(found.culprits[0].build, "5/7");
    assert_eq!(
        (found.culprits[0].after.as_deref(), found.headline.expect("one").culprit.as_str()),
        (None, "5/7")
    );
    assert!(found.reasons.iter().any(|r| r.starts_with("5/7 carries +10.000 %")), "{:?}", found.reasons);
}
