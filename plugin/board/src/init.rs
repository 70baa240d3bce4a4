// SPDX-License-Identifier: GPL-2.0-or-later
//! PID 1 of a guest: mounts what the workloads need, runs the command line that
//! the kernel hands over, prints results on the second serial port, and ends
//! the machine with a code that says how it went.

use crate::cli;
use crate::stop::Exit;
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::termios::{SetArg, cfmakeraw, tcdrain, tcgetattr, tcsetattr};
use std::fs::{self, File, OpenOptions};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Results go here, where no kernel message cuts into them.
const RESULTS_PORT: &str = "/dev/ttyS1";
/// I/O port of QEMU's isa-debug-exit device: writing `n` ends QEMU with `2 n + 1`.
const EXIT_PORT: u16 = 0xf4;
const EXIT_GOOD: u8 = 0x10;
const EXIT_FAILED: u8 = 0x11;

/// (source and type, where) of what is mounted; what the kernel lacks is left out.
const MOUNTS: &[(&str, &str)] = &[
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/tmp"),
    ("cgroup2", "/sys/fs/cgroup"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
];

/// (file, limit): the defaults are too small for the workloads.
const LIMITS: &[(&str, &str)] = &[
    ("/proc/sys/fs/inotify/max_user_instances", "1024"),
    ("/proc/sys/fs/inotify/max_user_watches", "1048576"),
    ("/proc/sys/kernel/printk", "4 4 1 4"),
];

/// The kernel replaces this clock source by a better one some time after the boot.
const EARLY_CLOCK: &str = "tsc-early";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// It does so within this time; with an instruction clock, idle time costs nothing.
const CLOCK_LIMIT: Duration = Duration::from_secs(5);

/// Runs as PID 1. Returns only where the machine cannot be ended.
pub fn run() -> ExitCode {
    for (kind, place) in MOUNTS {
        // A directory or file system that is not there is a workload's `skip`, not ours.
        let _ = fs::create_dir_all(place);
        let _ = mount(Some(*kind), *place, Some(*kind), MsFlags::empty(), None::<&str>);
    }
    for (file, value) in LIMITS {
        let _ = fs::write(file, value);
    }
    seed_randomness();
    wait_for_clock();
    let results = results_port();
    let exit = match &results {
        Ok(port) => {
            let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
            let arguments = std::iter::once("kernmark-board".to_owned()).chain(own_arguments(&command_line));
            match port.try_clone() {
                Ok(writer) => std::panic::catch_unwind(|| cli::run(arguments, Some(Box::new(writer))))
                    .unwrap_or(Exit::Bug),
                Err(error) => failed(&format!("{RESULTS_PORT}: {error}")),
            }
        }
        Err(reason) => failed(reason),
    };
    if let Ok(port) = &results {
        // Nothing can be done about a port that does not drain; the host sees a cut log.
        let _ = tcdrain(port);
    }
    // What was skipped stands in the results; the host decides what it means.
    end_machine(if matches!(exit, Exit::Done | Exit::Missing) { EXIT_GOOD } else { EXIT_FAILED });
    // Without the exit device: the host knows by the end record that all went well.
    let error = reboot(RebootMode::RB_AUTOBOOT);
    eprintln!("kernmark-board: cannot end the machine: {error:?}");
    exit.into()
}

/// Credits the kernel's random number generator with what it has, so that it is ready from the
/// start. Until it is, every random number costs some 10,000 instructions, and when that ends
/// depends on the seed of the boot: medians of mkdir then differ by a tenth.
fn seed_randomness() {
    #[repr(C)]
    struct Entropy {
        bits: libc::c_int,
        bytes: libc::c_int,
        data: [u8; 32],
    }
    /// `_IOW('R', 0x03, int[2])`, include/uapi/linux/random.h.
    const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
    let entropy = Entropy { bits: 256, bytes: 32, data: [0; 32] };
    if let Ok(device) = OpenOptions::new().write(true).open("/dev/random") {
        // SAFETY: the request reads one `Entropy`, which lives for the whole call. Should it
        // fail, numbers are only less alike between seeds.
        unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&device), RNDADDENTROPY, &raw const entropy) };
    }
}

/// Waits until the boot is over as far as the clock is concerned: the change of its source would
/// fall into the measurement. A kernel that stays with the early one fails the clock gate.
fn wait_for_clock() {
    let start = Instant::now();
    let early = || fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim() == EARLY_CLOCK);
    while early() && start.elapsed() < CLOCK_LIMIT {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Words after the lone `--`. The kernel also hands over words before it that it
/// does not know itself, so the argument vector of PID 1 is not the one to read.
fn own_arguments(command_line: &str) -> impl Iterator<Item = String> {
    command_line.split_whitespace().skip_while(|word| *word != "--").skip(1).map(str::to_owned)
}

fn failed(reason: &str) -> Exit {
    eprintln!("kernmark-board: no results can be written: {reason}");
    Exit::Machine
}

/// The second serial port, raw, so that bytes arrive as they are.
fn results_port() -> Result<File, String> {
    let port = OpenOptions::new()
        .read(true)
        .write(true)
        .open(RESULTS_PORT)
        .map_err(|e| format!("{RESULTS_PORT}: {e}"))?;
    let mut settings = tcgetattr(&port).map_err(|e| format!("{RESULTS_PORT}: {e}"))?;
    cfmakeraw(&mut settings);
    tcsetattr(&port, SetArg::TCSANOW, &settings).map_err(|e| format!("{RESULTS_PORT}: {e}"))?;
    Ok(port)
}

/// Ends QEMU through its exit device; returns where there is none.
fn end_machine(value: u8) {
    // SAFETY: as PID 1 of a guest nothing else uses this port; without the
    // device the write goes nowhere.
    unsafe {
        if libc::ioperm(u64::from(EXIT_PORT), 4, 1) == 0 {
            std::arch::asm!("out dx, eax", in("dx") EXIT_PORT, in("eax") u32::from(value), options(nomem, nostack));
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_words_after_the_dashes_are_ours() {
        for (line, expected) in [
            ("quiet nokaslr -- run a --arm b\n", vec!["run", "a", "--arm", "b"]),
            ("quiet", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(super::own_arguments(line).collect::<Vec<_>>(), expected);
        }
    }
}
