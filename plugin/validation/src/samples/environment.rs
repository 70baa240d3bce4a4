// SPDX-License-Identifier: GPL-2.0-or-later
//! `environment.tsv`: what the machine was like before and after the measurement.

use super::PointLog;
use std::collections::BTreeSet;

/// One row for each key, sorted; a value that was not recorded is `-`.
pub fn environment_tsv(log: &PointLog) -> String {
    let keys: BTreeSet<&String> = log.environment_before.keys().chain(log.environment_after.keys()).collect();
    let mut text = String::from("key\tbefore\tafter\n");
    for key in keys {
        let cell = |side: &std::collections::BTreeMap<String, String>| {
            side.get(key).map_or_else(|| "-".to_owned(), |value| value.replace(['\t', '\n', '\r'], " "))
        };
        text.push_str(&format!(
            "{key}\t{}\t{}\n",
            cell(&log.environment_before),
            cell(&log.environment_after)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_both_sides_in_order() {
        let log = PointLog {
            environment_before: [("b".into(), "1\t2".into()), ("a".into(), "x".into())].into(),
            environment_after: [("b".into(), "3".into()), ("c".into(), "y".into())].into(),
            ..PointLog::default()
        };
        assert_eq!(environment_tsv(&log), "key\tbefore\tafter\na\tx\t-\nb\t1 2\t3\nc\t-\ty\n");
    }
}
