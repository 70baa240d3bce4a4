// SPDX-License-Identifier: GPL-2.0-or-later
//! One number for each boot: the unit of the verdict view (statistics.md 3.3).

use super::super::Values;
use super::super::report_view::MetricSeries;
use super::super::summary::{cv_sample, mean, median};

/// Values of the boots of one build, in boot order. A boot is summarised by
/// the median of its blocks; a metric of several threads by the mean of its
/// rounds, which finds more (statistics.md 3.9b).
pub(super) fn boot_values(series: &MetricSeries, build: &str) -> Vec<f64> {
    let threads = is_multi_threaded(&series.example.metric);
    let mut boots: Vec<(u64, f64)> = series
        .boots
        .iter()
        .filter(|(point, _)| point.build == build)
        .filter_map(|(point, measurement)| {
            let value = match &measurement.values {
                Values::Samples(samples) if threads => mean(samples)?,
                Values::Samples(samples) => median(samples)?,
                Values::Summary { median, .. } => *median,
            };
            Some((point.boot, value))
        })
        .collect();
    boots.sort_by_key(|(boot, _)| *boot);
    boots.into_iter().map(|(_, value)| value).collect()
}

/// Largest standard error of the mean of the blocks of one boot, percent;
/// `None` for points tables.
pub(super) fn worst_block_error_percent(series: &MetricSeries, builds: &[&str]) -> Option<f64> {
    let errors = series.boots.iter().filter(|(point, _)| builds.contains(&point.build.as_str())).filter_map(
        |(_, measurement)| match &measurement.values {
            Values::Samples(samples) => Some(cv_sample(samples)? / (samples.len() as f64).sqrt()),
            Values::Summary { .. } => None,
        },
    );
    errors.max_by(f64::total_cmp)
}

/// Whether a metric's arm runs several threads: `p8_`, `w16_`, but not `p1_`.
fn is_multi_threaded(metric: &str) -> bool {
    let Some((arm, _)) = metric.split_once('_') else { return false };
    let count = arm.strip_prefix('p').or_else(|| arm.strip_prefix('w')).and_then(|n| n.parse::<u32>().ok());
    count.is_some_and(|threads| threads > 1)
}

#[cfg(test)]
mod tests {
    use super::is_multi_threaded;

    #[test]
    fn arms_tell_the_number_of_threads() {
        for (metric, several) in [
            ("p8_distinct", true),
            ("w16_shared", true),
            ("p1_distinct", false),
            ("path_lookup", false),
            ("bulk", false),
        ] {
            assert_eq!(is_multi_threaded(metric), several, "{metric}");
        }
    }
}
