// SPDX-License-Identifier: GPL-2.0-or-later
//! Idle time of a machine with one CPU, to the nanosecond. What is neither
//! idle nor this thread is work left to others: kernel threads, interrupts and soft interrupts.

use crate::stop::Stop;
use std::fs;

const FILE: &str = "/proc/timer_list";
const KEY: &str = ".idle_sleeptime";

/// Idle time since the boot, ns.
///
/// # Errors
/// [`Stop::Missing`] where the kernel does not say, or has several CPUs: those that are idle now
/// have not counted that yet.
pub fn idle_ns() -> Result<u64, Stop> {
    let text = fs::read_to_string(FILE).map_err(|e| {
        Stop::Missing(format!("{FILE} cannot be read ({e}), so idle time is not known; run as root"))
    })?;
    idle_in(&text)
}

/// From the text of timer_list: `  .idle_sleeptime : 123 nsecs`, once for each CPU.
fn idle_in(text: &str) -> Result<u64, Stop> {
    let mut found = text.lines().filter_map(|line| {
        let value = line.trim_start().strip_prefix(KEY)?.trim_start().strip_prefix(':')?;
        value.split_whitespace().next()?.parse::<u64>().ok()
    });
    match (found.next(), found.next()) {
        (Some(idle), None) => Ok(idle),
        (None, _) => Err(Stop::Missing(format!(
            "{FILE} has no {KEY}; the kernel needs CONFIG_NO_HZ_IDLE=y or CONFIG_HIGH_RES_TIMERS=y"
        ))),
        (Some(_), Some(_)) => Err(Stop::Missing(
            "this machine has several CPUs; exact deferred work is counted with one CPU, as the emulator has, \
             and the arms v015 and v0201 count it by kernel thread"
                .into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_that_of_the_one_cpu() {
        let one = "cpu: 0\n clock 0:\n  .nohz_mode      : 2\n  .idle_sleeptime : 1234567 nsecs\n  .iowait_sleeptime: 5 nsecs\n";
        assert_eq!(idle_in(one).expect("there"), 1_234_567);
        let two = one.repeat(2);
        for (text, wanted) in [("cpu: 0\n", "CONFIG_NO_HZ_IDLE"), (two.as_str(), "several CPUs")] {
            let Err(Stop::Missing(reason)) = idle_in(text) else { panic!("{text}") };
            assert!(reason.contains(wanted), "{reason}");
        }
    }
}
