// SPDX-License-Identifier: GPL-2.0-or-later
//! Profiles side by side, for people.

use super::{READ_LOCK, SLOW_PATH, SampledProfile, Share, doubts};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Functions with the largest self shares that are named.
const TOP: usize = 8;
const NONE: &str = "-";

/// The whole text.
pub fn text(profiles: &[SampledProfile]) -> String {
    let mut text = String::new();
    let width = profiles.iter().map(|p| p.name.len()).max().unwrap_or(0).max("profile".len());
    let mut line = |l: String| writeln!(text, "{}", l.trim_end()).expect("writing to a string");
    line("Self share of all samples of the workers, user space included, %".into());
    line(format!(
        "{:<width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>8}  event",
        "profile", "down_read", "up_read", "sum", "slow path", "samples"
    ));
    for profile in profiles {
        let samples = profile.counted.as_ref().map_or(NONE.to_owned(), |c| c.samples.to_string());
        line(format!(
            "{:<width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>8}  {}",
            profile.name,
            shown(profile.sum(&["down_read"])),
            shown(profile.sum(&["up_read"])),
            shown(profile.sum(&READ_LOCK)),
            shown(profile.sum(&SLOW_PATH)),
            samples,
            profile.event
        ));
    }
    line(String::new());
    let all = |of: &dyn Fn(&SampledProfile) -> String| {
        profiles.iter().map(of).collect::<Vec<String>>().join(" -> ")
    };
    line(format!(
        "down_read + up_read: {} % (about {} %)",
        all(&|p| shown(p.sum(&READ_LOCK))),
        all(&|p| p.sum(&READ_LOCK).map_or(NONE.to_owned(), |s| s.rounded().to_string()))
    ));
    if profiles.iter().any(|p| p.sum_with_children(&READ_LOCK).is_some()) {
        line(format!("with what they call: {} %", all(&|p| shown(p.sum_with_children(&READ_LOCK)))));
    }
    for function in READ_LOCK {
        let parts = callers(profiles, function);
        if !parts.is_empty() {
            line(String::new());
            line(format!("{function} by nearest caller, %"));
        }
        for (caller, ways) in parts {
            let of = |p: &SampledProfile| shown(p.caller(|c| c.function == function && c.caller == caller));
            line(format!("  {caller}: {}", all(&of)));
            // A single way says nothing that the sum does not.
            for way in ways.iter().filter(|_| ways.len() > 1) {
                let fits = |p: &SampledProfile| {
                    shown(p.caller(|c| c.function == function && c.caller == caller && c.way == *way))
                };
                line(format!("    by {way}: {}", all(&fits)));
            }
        }
    }
    for profile in profiles {
        details(profile, &mut line);
    }
    for doubt in doubts(profiles) {
        line(String::new());
        line(format!("INCONCLUSIVE: {doubt}"));
    }
    text
}

fn shown(share: Option<Share>) -> String {
    share.map_or(NONE.to_owned(), |share| share.to_string())
}

/// Callers of `function` in any of the profiles and the ways of each, largest first.
fn callers<'a>(profiles: &'a [SampledProfile], function: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let of_function = || profiles.iter().flat_map(|p| &p.callers).filter(|c| c.function == function);
    let names: BTreeSet<&str> = of_function().map(|c| c.caller.as_str()).collect();
    let mut found: Vec<(u128, &str, Vec<&str>)> = names
        .into_iter()
        .map(|caller| {
            let ways: BTreeSet<&str> =
                of_function().filter(|c| c.caller == caller).map(|c| c.way.as_str()).collect();
            let largest =
                profiles.iter().filter_map(|p| p.caller(|c| c.function == function && c.caller == caller));
            let size = largest.map(|s| u128::from(s.part) * 1_000_000 / u128::from(s.whole.max(1))).max();
            (size.unwrap_or(0), caller, ways.into_iter().collect())
        })
        .collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    found.into_iter().map(|(_, caller, ways)| (caller, ways)).collect()
}

/// What only a counted profile has.
fn details(profile: &SampledProfile, line: &mut dyn FnMut(String)) {
    let Some(counted) = &profile.counted else { return };
    line(String::new());
    let why =
        if profile.instead_of.is_empty() { String::new() } else { format!(" ({})", profile.instead_of) };
    line(format!(
        "{}: {} samples of {} workers by {}{why}, {} lost, held back {} times",
        profile.name, counted.samples, counted.workers, profile.event, counted.lost, counted.throttled
    ));
    match &counted.kernel_instructions {
        Ok(instructions) if counted.operations > 0 => line(format!(
            "  kernel instructions per operation: {:.1}",
            *instructions as f64 / counted.operations as f64
        )),
        Ok(_) => line("  kernel instructions per operation: not available: no operation was counted".into()),
        Err(reason) => line(format!("  kernel instructions per operation: not available: {reason}")),
    }
    let mut largest: Vec<(&String, &Share)> = profile.own.iter().collect();
    largest.sort_by(|a, b| b.1.part.cmp(&a.1.part).then(a.0.cmp(b.0)));
    for (function, share) in largest.into_iter().take(TOP) {
        line(format!("  {share:>6} % {function}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counted, from_table};
    use super::*;

    #[test]
    fn one_way_is_not_repeated_and_unknown_is_no_zero() {
        let rows = "a\t-\tdown_read\t-\t-\t10.00\t-\na\t-\tdown_read\tp\tw\t10.00\t-\nb\t-\tup_read\t-\t-\t1.00\t-\n";
        let header = "profile\tevent\tfunction\tcaller\tway\tself_percent\twith_children_percent\n";
        let text = text(&from_table("t", &format!("{header}{rows}")).expect("a table"));
        assert!(text.contains("down_read + up_read: 10.00 -> 1.00 % (about 10 -> 1 %)"), "{text}");
        assert!(text.contains("  p: 10.00 -> -\n") && !text.contains("by w"), "{text}");
    }

    #[test]
    fn instructions_per_operation_or_why_not() {
        for (instructions, operations, told) in [
            (Ok(1000), 4, "kernel instructions per operation: 250.0"),
            (Ok(1000), 0, "not available: no operation was counted"),
            (Err("no PMU".to_owned()), 4, "not available: no PMU"),
        ] {
            let counted = Counted {
                samples: 10,
                lost: 0,
                throttled: 0,
                operations,
                workers: 1,
                kernel_instructions: instructions,
            };
            let profile =
                SampledProfile { name: "p".into(), counted: Some(counted), ..SampledProfile::default() };
            let text = text(&[profile]);
            assert!(text.contains(told), "{text}");
        }
    }
}
