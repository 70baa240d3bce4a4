// SPDX-License-Identifier: GPL-2.0-or-later
//! Which CPUs the workers get (workloads.md 3.3).

use crate::machine::{CpuList, Topology};
use crate::stop::Stop;

/// The CPUs of the workers: one for each performance core, then their siblings, then others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// In the order of the workers.
    pub cpus: CpuList,
    /// Workers on performance cores of their own.
    pub physical: u64,
    /// Workers on second threads of performance cores.
    pub siblings: u64,
    /// Workers on efficiency cores.
    pub efficiency: u64,
}

impl Places {
    /// CPUs for `count` workers.
    ///
    /// # Errors
    /// There are fewer.
    pub fn choose(machine: &Topology, count: usize) -> Result<Self, Stop> {
        let cpus = machine.fill(count)?;
        let of = |list: &CpuList| cpus.0.iter().filter(|cpu| list.0.contains(cpu)).count() as u64;
        let physical = of(&machine.physical_performance);
        Ok(Self {
            physical,
            siblings: of(&machine.performance) - physical,
            efficiency: of(&machine.efficiency),
            cpus,
        })
    }
}

impl std::fmt::Display for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cpus: Vec<String> = self.cpus.0.iter().map(usize::to_string).collect();
        write!(
            f,
            "CPUs {}: {} on cores of their own, {} on second threads, {} on efficiency cores",
            cpus.join(" "),
            self.physical,
            self.siblings,
            self.efficiency
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::synthetic::i7_12700kf;

    fn chosen(usable: &str, count: usize) -> Result<Places, Stop> {
        let machine = i7_12700kf().tree();
        let topology = Topology::read_with(machine.path(), |_| None);
        Places::choose(&topology.limited_to(&usable.parse().expect("a list")), count)
    }

    #[test]
    fn cores_fill_before_second_threads_before_efficiency_cores() {
        for (count, text) in [
            (
                8,
                "CPUs 0 2 4 6 8 10 12 14: 8 on cores of their own, 0 on second threads, 0 on efficiency cores",
            ),
            (
                12,
                "CPUs 0 2 4 6 8 10 12 14 1 3 5 7: 8 on cores of their own, 4 on second threads, 0 on efficiency cores",
            ),
            (
                20,
                "CPUs 0 2 4 6 8 10 12 14 1 3 5 7 9 11 13 15 16 17 18 19: 8 on cores of their own, 8 on second \
                 threads, 4 on efficiency cores",
            ),
        ] {
            assert_eq!(chosen("0-19", count).expect("enough").to_string(), text);
        }
    }

    #[test]
    fn only_usable_cpus_are_taken() {
        assert_eq!(chosen("1,4-5", 2).expect("enough").cpus.0, [1, 4]);
        assert_eq!(chosen("4-7", 3).expect("enough").cpus.0, [4, 6, 5]);
        let error = chosen("2-3", 4).expect_err("too few");
        assert!(
            matches!(&error, Stop::Missing(text) if text.contains("4 workers need a CPU each, and there are 2 (CPUs 2-3)")),
            "{error}"
        );
    }
}
