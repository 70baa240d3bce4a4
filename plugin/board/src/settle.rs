// SPDX-License-Identifier: GPL-2.0-or-later
//! Waiting until a machine has come to rest (workloads.md 1.4): after its boot,
//! after its settings were changed, between samples.

use crate::signals;
use crate::stop::Stop;
use std::time::{Duration, Instant};

/// A signal is noticed within this time.
const GLANCE: Duration = Duration::from_millis(100);

/// Times to wait, seconds; none by default. A board of a lab takes `45,10,2`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settle {
    /// Least time since the boot.
    pub boot: Duration,
    /// After settings were applied.
    pub settings: Duration,
    /// Before each sample of operations timed one by one.
    pub samples: Duration,
}

impl std::str::FromStr for Settle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no list of three times in seconds; write it like 45,10,2");
        let numbers: Vec<u64> =
            text.split(',').map(|part| part.parse().map_err(|_| bad())).collect::<Result<_, _>>()?;
        match numbers[..] {
            // A day is a mistake.
            [boot, settings, samples] if numbers.iter().all(|n| *n <= 3600) => Ok(Self {
                boot: Duration::from_secs(boot),
                settings: Duration::from_secs(settings),
                samples: Duration::from_secs(samples),
            }),
            _ => Err(bad()),
        }
    }
}

impl std::fmt::Display for Settle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{},{}", self.boot.as_secs(), self.settings.as_secs(), self.samples.as_secs())
    }
}

impl Settle {
    /// Time that is waited for before the first sample, with this uptime; seconds.
    pub fn before_first(self, uptime: Duration) -> Duration {
        self.boot.saturating_sub(uptime) + self.settings
    }

    /// Waits until the boot is long enough ago.
    ///
    /// # Errors
    /// A signal came in.
    pub fn after_boot(self) -> Result<(), Stop> {
        pause(self.boot.saturating_sub(uptime()))
    }
}

/// Time since the boot; no time where the kernel does not say, so that all of it is waited for.
pub fn uptime() -> Duration {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split(' ').next().and_then(|first| first.split('.').next()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

/// Sleeps.
///
/// # Errors
/// A signal came in.
pub fn pause(time: Duration) -> Result<(), Stop> {
    let start = Instant::now();
    loop {
        signals::check()?;
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(GLANCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_three_whole_numbers() {
        let found: Settle = "45,10,2".parse().expect("valid");
        assert_eq!((found.to_string(), found.samples), ("45,10,2".to_owned(), Duration::from_secs(2)));
        for text in ["", "45", "45,10", "1,2,3,4", "a,b,c", "-1,0,0", "0,0,86400"] {
            assert!(text.parse::<Settle>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_what_is_left_of_the_time_after_the_boot_is_waited_for() {
        let settle: Settle = "45,10,2".parse().expect("valid");
        for (uptime, wait) in [(0, 55), (40, 15), (4000, 10)] {
            assert_eq!(settle.before_first(Duration::from_secs(uptime)), Duration::from_secs(wait));
        }
    }
}
