// SPDX-License-Identifier: GPL-2.0-or-later
//! The measuring program as a file: it goes to every board as it is, so it
//! needs nothing there, is small and starts at once.

use crate::machine::board_binary;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// 3 MB.
const MOST_BYTES: usize = 3_000_000;
/// Processor time of a start that does nothing.
const MOST_TIME: Duration = Duration::from_millis(50);

/// Types of the program headers of a 64-bit ELF file (elf(5)).
fn program_headers(file: &[u8]) -> Vec<u32> {
    assert_eq!(file[..5], *b"\x7fELF\x02");
    let number = |at: usize, bytes: usize| {
        file[at..at + bytes].iter().rev().fold(0_usize, |value, byte| value << 8 | usize::from(*byte))
    };
    let (first, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).map(|index| number(first + index * size, 4) as u32).collect()
}

#[test]
fn it_is_static_and_small() {
    /// Asks for a dynamic loader.
    const PT_INTERP: u32 = 3;
    let file = board_binary();
    let headers = program_headers(&file);
    assert!(headers.len() > 2 && !headers.contains(&PT_INTERP), "{headers:?}");
    assert!(file.len() <= MOST_BYTES, "{} bytes", file.len());
    // The test's own program is linked the usual way: the header would be seen.
    let own = std::fs::read("/proc/self/exe").expect("readable");
    assert!(program_headers(&own).contains(&PT_INTERP));
}

#[test]
fn it_starts_at_once() {
    let place = tempfile::tempdir().expect("temporary directory");
    let program = place.path().join("kernmark-board");
    std::fs::write(&program, board_binary()).expect("writable");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    // Processor time, not time on the wall: that of others does not count.
    let quickest = (0..5).map(|_| processor_time(&program)).min().expect("five starts");
    assert!(quickest < MOST_TIME, "{quickest:?}");
}

/// Of one start, as the shell counts its children: the second line of `times`, user and system.
fn processor_time(program: &Path) -> Duration {
    let script = "\"$1\" --version > /dev/null && times";
    let output = Command::new("sh").args(["-c", script, "sh"]).arg(program).output().expect("a shell");
    let text = String::from_utf8(output.stdout).expect("ASCII");
    let children = text.lines().nth(1).unwrap_or_else(|| panic!("it starts: {text}"));
    let seconds = |time: &str| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').expect("minutes and seconds");
        60.0 * minutes.parse::<f64>().expect("a number") + seconds.parse::<f64>().expect("a number")
    };
    Duration::from_secs_f64(children.split(' ').map(seconds).sum())
}
