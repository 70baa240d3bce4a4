// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts of interrupts by CPU, from the text of /proc/interrupts.

use std::collections::BTreeMap;

/// Counts at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// For each row: its name, and what it counts for each CPU that is online.
    rows: Vec<(String, BTreeMap<usize, u64>)>,
}

impl Interrupts {
    /// Reads the text; a row for all CPUs together (`ERR`, `MIS`) is left out.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        // CPUs that are offline have no column.
        let cpus: Vec<usize> = lines
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|name| name.strip_prefix("CPU")?.parse().ok())
            .collect();
        let rows = lines
            .filter_map(|line| {
                let (name, rest) = line.split_once(':')?;
                let counts: Vec<u64> =
                    rest.split_whitespace().take(cpus.len()).map_while(|count| count.parse().ok()).collect();
                let whole = counts.len() == cpus.len() && !["ERR", "MIS"].contains(&name.trim());
                whole.then(|| (name.trim().to_owned(), cpus.iter().copied().zip(counts).collect()))
            })
            .collect();
        Self { rows }
    }

    /// All on one CPU; `None` where it has no column.
    pub fn total(&self, cpu: usize) -> Option<u64> {
        self.sum(cpu, |_| true)
    }

    /// Those of devices on one CPU: their rows have a number, not a name.
    pub fn of_devices(&self, cpu: usize) -> Option<u64> {
        self.sum(cpu, |name| name.bytes().all(|b| b.is_ascii_digit()))
    }

    fn sum(&self, cpu: usize, wanted: impl Fn(&str) -> bool) -> Option<u64> {
        self.rows.iter().any(|(_, counts)| counts.contains_key(&cpu)).then(|| {
            let rows = self.rows.iter().filter(|(name, _)| wanted(name));
            rows.filter_map(|(_, counts)| counts.get(&cpu)).sum()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
           CPU0       CPU2
  0:         10          1   IO-APIC   2-edge      timer
 24:          3          4   PCI-MSI  9-edge  nvme0q1
LOC:          5          7   Local timer interrupts
ERR:          9
MIS:          0
";

    #[test]
    fn interrupts_are_summed_by_cpu() {
        let found = Interrupts::parse(TEXT);
        assert_eq!((found.total(0), found.total(2)), (Some(18), Some(12)));
        assert_eq!((found.of_devices(0), found.of_devices(2)), (Some(13), Some(5)));
        assert_eq!((found.total(1), found.of_devices(1)), (None, None), "it is offline");
        assert_eq!(Interrupts::parse("").total(0), None);
    }

    #[test]
    fn a_row_for_all_cpus_belongs_to_none() {
        let text = "  CPU0\n  1: 4 x\nERR: 7\n";
        assert_eq!(Interrupts::parse(text).total(0), Some(4));
    }
}
