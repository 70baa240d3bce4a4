// SPDX-License-Identifier: GPL-2.0-or-later
//! Secondary metrics: listed as "also moved" under false-discovery control
//! (Benjamini and Hochberg; statistics.md 3.7).

/// Which of the p-values are discoveries at this false discovery rate. What
/// has no p-value is none and does not count.
pub fn discoveries(p_values: &[Option<f64>], rate: f64) -> Vec<bool> {
    let mut sorted: Vec<f64> = p_values.iter().flatten().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let cut = sorted
        .iter()
        .zip(1..)
        .filter(|(p, rank)| **p <= f64::from(*rank) / count * rate)
        .map(|(p, _)| *p)
        .last();
    p_values.iter().map(|p| p.zip(cut).is_some_and(|(p, cut)| p <= cut)).collect()
}

#[cfg(test)]
mod tests {
    use super::discoveries;

    #[test]
    fn the_largest_p_value_under_the_line_takes_all_smaller_ones_along() {
        let found = discoveries(&[Some(0.01), Some(0.9), None, Some(0.02), Some(0.03), Some(0.5)], 0.05);
        // Lines at rank/5 x 0.05: .01 .02 .03 .04 .05.
        assert_eq!(found, [true, false, false, true, true, false]);
        // .03 alone is above its line (.01), but .028 at rank 3 of 5 carries it.
        assert_eq!(
            discoveries(&[Some(0.025), Some(0.026), Some(0.028), Some(0.9), Some(0.9)], 0.05),
            [true, true, true, false, false]
        );
        assert_eq!(discoveries(&[Some(0.02), Some(0.9), Some(0.9)], 0.05), [false; 3]);
        assert!(discoveries(&[], 0.05).is_empty());
    }
}
