// SPDX-License-Identifier: GPL-2.0-or-later
//! What the scheduler and the memory did to the measuring thread meanwhile
//! (getrusage(2), RUSAGE_THREAD, and its own file in procfs).

use crate::workloads::Condition;
use nix::sys::resource::{UsageWho, getrusage};
use std::fs::File;
use std::io::Read;

/// Page faults for each hundred sequences from which on they belong to the numbers.
const FAULTS_PER_HUNDRED: u64 = 1;
/// Pages of program and stack that are touched for the first time, where memory may not be locked.
const FIRST_TOUCHES: u64 = 16;

/// Where a thread's own scheduling is told (CONFIG_SCHED_DEBUG).
const SCHEDULING: &str = "/proc/thread-self/sched";

/// Counts of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disturbances {
    voluntary: u64,
    involuntary: u64,
    faults: u64,
    /// `None` where the kernel does not say.
    migrations: Option<u64>,
}

impl Disturbances {
    /// Of this thread since it began; zero where the kernel does not say.
    pub fn so_far() -> Self {
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let migrations = migrations();
        getrusage(UsageWho::RUSAGE_THREAD).map_or_else(
            |_| Self { migrations, ..Self::default() },
            |usage| Self {
                voluntary: count(usage.voluntary_context_switches()),
                involuntary: count(usage.involuntary_context_switches()),
                faults: count(usage.minor_page_faults()) + count(usage.major_page_faults()),
                migrations,
            },
        )
    }

    /// Adds what came since `before`.
    pub fn add_since(&mut self, before: Self) {
        let now = Self::so_far();
        self.voluntary += now.voluntary - before.voluntary;
        self.involuntary += now.involuntary - before.involuntary;
        self.faults += now.faults - before.faults;
        if let (Some(now), Some(before)) = (now.migrations, before.migrations) {
            *self.migrations.get_or_insert(0) += now - before;
        }
    }

    /// Page faults must be rare among this many sequences, and the thread must have stayed on its
    /// CPU; switches are only told.
    pub fn conditions(self, sequences: u64) -> Vec<Condition> {
        let Self { voluntary, involuntary, faults, migrations } = self;
        let detail = format!(
            "{faults} page faults, {voluntary} voluntary and {involuntary} involuntary switches in {sequences} \
             sequences"
        );
        let rare = faults <= FIRST_TOUCHES + sequences / 100 * FAULTS_PER_HUNDRED;
        let moved = |count| {
            let detail = format!("the measuring thread changed its CPU {count} times");
            Condition::new("migrations", count == 0, detail)
        };
        std::iter::once(Condition::new("page_faults", rare, detail)).chain(migrations.map(moved)).collect()
    }
}

/// Of this thread since it began. Allocates nothing: it is asked next to a timed loop.
fn migrations() -> Option<u64> {
    let mut text = [0; 8192];
    let length = File::open(SCHEDULING).ok()?.read(&mut text).ok()?;
    migrations_in(std::str::from_utf8(&text[..length]).ok()?)
}

fn migrations_in(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(found: Disturbances, sequences: u64) -> Vec<&'static str> {
        found.conditions(sequences).iter().filter(|c| !c.pass).map(|c| c.name).collect()
    }

    #[test]
    fn faults_fail_when_they_are_many() {
        for (faults, sequences, pass) in
            [(0, 8, true), (16, 8, true), (17, 8, false), (26, 1000, true), (27, 1000, false)]
        {
            let found = Disturbances { faults, ..Disturbances::default() };
            let expected: &[&str] = if pass { &[] } else { &["page_faults"] };
            assert_eq!(failed(found, sequences), expected, "{faults} in {sequences}");
        }
    }

    #[test]
    fn a_single_migration_fails_and_an_unknown_number_claims_nothing() {
        let of = |migrations| Disturbances { migrations, ..Disturbances::default() };
        assert_eq!(failed(of(Some(1)), 1000), ["migrations"]);
        assert_eq!(failed(of(Some(0)), 1000), [""; 0]);
        assert_eq!(of(None).conditions(1000).len(), 1);
    }

    #[test]
    fn migrations_are_read_from_the_text_of_the_kernel() {
        let text = "board (7, #threads: 1)\nse.exec_start  :  7.1\nse.nr_migrations      :        12\n";
        assert_eq!(migrations_in(text), Some(12));
        assert_eq!(migrations_in("nr_switches : 3\n"), None);
    }

    #[test]
    fn a_touched_page_is_counted() {
        let mut found = Disturbances::default();
        let before = Disturbances::so_far();
        // Larger than what an allocator keeps mapped.
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        found.add_since(before);
        assert!(found.faults > 0 && memory[0] == 1, "{found:?}");
    }
}
