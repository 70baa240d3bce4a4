// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers as people read them: three digits and a unit of the right size.

/// How the numbers of one row are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    divisor: f64,
    unit: String,
    decimals: usize,
}

const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
const COUNTS: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

impl Scale {
    /// The one that shows `value` of `unit` best. Nanoseconds and whatever is counted by the
    /// second are scaled, anything else is shown as it is.
    pub fn of(unit: &str, value: f64) -> Self {
        let fit = |steps: &[(f64, &'static str); 4]| {
            let found = steps.iter().find(|(size, _)| value.abs() >= *size).copied();
            found.unwrap_or(steps[3])
        };
        let (divisor, unit) = match unit {
            "ns" => {
                let (size, name) = fit(&TIMES);
                (size, name.to_owned())
            }
            rate if rate.ends_with("/s") => {
                let (size, prefix) = fit(&COUNTS);
                (size, format!("{prefix} {rate}").trim_start().to_owned())
            }
            other => (1.0, other.to_owned()),
        };
        let shown = (value / divisor).abs();
        let decimals = match unit.as_str() {
            "ratio" => 6,
            _ if shown >= 100.0 => 0,
            _ if shown >= 20.0 && divisor > 1.0 => 1,
            _ => 2,
        };
        Self { divisor, unit, decimals }
    }

    /// Without the unit.
    pub fn number(&self, value: f64) -> String {
        format!("{:.*}", self.decimals, value / self.divisor)
    }

    /// With it.
    pub fn with_unit(&self, value: f64) -> String {
        format!("{} {}", self.number(value), self.unit)
    }
}

/// One number with its unit.
pub fn scaled(unit: &str, value: f64) -> String {
    Scale::of(unit, value).with_unit(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        for (unit, value, text) in [
            ("ns", 61.25, "61.25 ns"),
            ("ns", 999.4, "999 ns"),
            ("ns", 6551.0, "6.55 us"),
            ("ns", 65_510.0, "65.5 us"),
            ("ns", 655_100.0, "655 us"),
            ("ns", 2.5e9, "2.50 s"),
            ("ns", 0.0, "0.00 ns"),
            ("ops/s", 1_234_567.0, "1.23 M ops/s"),
            ("ops/s", 12.0, "12.00 ops/s"),
            ("ratio", 1.234_567_8, "1.234568 ratio"),
            ("percent", 98.7, "98.70 percent"),
        ] {
            assert_eq!(scaled(unit, value), text);
        }
    }

    #[test]
    fn a_range_keeps_the_scale_of_its_middle() {
        let scale = Scale::of("ns", 1_020.0);
        assert_eq!((scale.number(980.0), scale.with_unit(1_100.0)), ("0.98".into(), "1.10 us".into()));
    }
}
