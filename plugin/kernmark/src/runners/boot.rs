// SPDX-License-Identifier: GPL-2.0-or-later
//! One boot to be made: what runs, and how long it may take.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Longest kernel command line on x86 (`COMMAND_LINE_SIZE`), less its end.
const MAX_COMMAND_LINE_BYTES: usize = 2047;
/// Most words for init (`CONFIG_INIT_ENV_ARG_LIMIT`, `set_init_arg` of init/main.c); one more and
/// the kernel panics before anything can say so.
const MAX_WORDS_FOR_INIT: usize = 32;

/// One boot to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// 1-based place over the whole experiment; the directory of the point.
    pub index: usize,
    /// Name of the point. Without the place in the order, so that two boots of
    /// one image and seed print the same bytes.
    pub name: String,
    /// The kernel.
    pub image: Input,
    /// The archive with the measuring program.
    pub initramfs: Input,
    /// Seed of everything the guest takes for random.
    pub seed: u64,
    /// Command line of the measuring program: `run kernfs.rmdir --samples 4`.
    /// Output format, point and protocol are added.
    pub arguments: Vec<String>,
    /// Protocol hash.
    pub protocol: String,
    /// When it counts as hung.
    pub watchdog: Watchdog,
}

/// A file that decides what a boot does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Where it is.
    pub path: PathBuf,
    /// SHA-256 of its content, lower-case hex.
    pub sha256: String,
}

/// When a boot counts as hung: whichever limit comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watchdog {
    /// Seconds of the host's CPU. In the emulator an instruction costs about the
    /// same however busy the host is, so this bounds the guest's own time.
    pub cpu_s: u64,
    /// Seconds of wall time, for a guest that sleeps for ever.
    pub wall_s: u64,
}

impl Watchdog {
    /// For a boot that measures about this many operations: a good one needs
    /// some 3 s of CPU and 1 ms for each operation.
    pub fn for_operations(operations: u64) -> Self {
        let cpu_s = 45 + operations / 200;
        Self { cpu_s, wall_s: 4 * cpu_s }
    }
}

/// Why a boot cannot be prepared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BootError {
    /// The kernel splits its command line at blanks and reads quotes.
    #[error("hand {word:?} to the guest: only printable characters without blanks and quotes arrive there")]
    Word {
        /// The word.
        word: String,
    },
    /// The kernel would cut it.
    #[error(
        "hand {bytes} bytes of command line to the kernel: it takes {MAX_COMMAND_LINE_BYTES}; \
         name fewer workloads or arms"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The kernel would panic.
    #[error(
        "hand {words} words to the guest: the kernel has room for {room} and panics at more; \
         name fewer workloads, arms or parameters"
    )]
    TooManyWords {
        /// Their number.
        words: usize,
        /// What would fit.
        room: usize,
    },
}

impl Boot {
    /// The command line of the measuring program, all options included.
    pub fn board_arguments(&self) -> Vec<String> {
        let mut words = self.arguments.clone();
        let options = ["--format", "jsonl", "--point", &self.name, "--protocol", &self.protocol];
        words.extend(options.map(str::to_owned));
        words
    }

    /// `parameters`, then the words for PID 1 behind `--`.
    ///
    /// # Errors
    /// It would not arrive as it is.
    pub fn kernel_command_line(&self, parameters: &str) -> Result<String, BootError> {
        let words = self.board_arguments();
        let arrives = |word: &str| {
            !word.is_empty()
                && word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\'')
        };
        if let Some(word) = words.iter().find(|word| !arrives(word)) {
            return Err(BootError::Word { word: word.clone() });
        }
        // A bare word that a kernel does not know goes to init as well, and which it knows depends
        // on its configuration (`unknown_bootoption` of init/main.c).
        let bare = parameters.split_whitespace().filter(|word| !word.contains('=')).count();
        let room = MAX_WORDS_FOR_INIT.saturating_sub(bare);
        if words.len() > room {
            return Err(BootError::TooManyWords { words: words.len(), room });
        }
        let line = format!("{parameters} -- {}", words.join(" "));
        if line.len() > MAX_COMMAND_LINE_BYTES {
            return Err(BootError::TooLong { bytes: line.len() });
        }
        Ok(line)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A boot as the tests of all runners use it.
    pub fn boot(index: usize) -> Boot {
        let input = |path: &str, byte: &str| Input { path: path.into(), sha256: byte.repeat(32) };
        Boot {
            index,
            name: "base-seed1".into(),
            image: input("/cache/images/base/bzImage", "aa"),
            initramfs: input("/bundle/initramfs.cpio.gz", "bb"),
            seed: 1,
            arguments: ["run", "kernfs.rmdir", "--arm", "scx-off", "--clock", "tsc"]
                .map(str::to_owned)
                .into(),
            protocol: "cc".repeat(32),
            watchdog: Watchdog::for_operations(1000),
        }
    }

    #[test]
    fn the_guest_gets_its_words_behind_the_dashes() {
        assert_eq!(
            boot(3).kernel_command_line("quiet").expect("fits"),
            format!(
                "quiet -- run kernfs.rmdir --arm scx-off --clock tsc --format jsonl \
                 --point base-seed1 --protocol {}",
                "cc".repeat(32)
            )
        );
    }

    #[test]
    fn words_that_would_not_arrive_are_refused() {
        for word in ["", "a b", "a\"b", "a'b", "a\nb", "\u{1b}", "é"] {
            let boot = Boot { name: word.into(), ..boot(1) };
            assert_eq!(boot.kernel_command_line("quiet"), Err(BootError::Word { word: word.into() }));
        }
        let long = Boot { arguments: vec!["a".repeat(2000)], ..boot(1) };
        assert!(matches!(long.kernel_command_line("quiet"), Err(BootError::TooLong { bytes: 2001.. })));
    }

    #[test]
    fn more_words_than_the_kernel_takes_are_refused() {
        // Output format, point and protocol are six more.
        for (own, parameters, refused) in [
            (26, "panic=-1", None),
            (27, "panic=-1", Some((33, 32))),
            (24, "quiet panic=-1 nokaslr", None),
            (25, "quiet panic=-1 nokaslr", Some((31, 30))),
        ] {
            let boot = Boot { arguments: vec!["a".into(); own], ..boot(1) };
            let refused = refused.map(|(words, room)| BootError::TooManyWords { words, room });
            assert_eq!(boot.kernel_command_line(parameters).err(), refused, "{own} {parameters}");
        }
        let error = BootError::TooManyWords { words: 33, room: 32 }.to_string();
        assert!(error.contains("room for 32") && error.contains("fewer workloads"), "{error}");
    }

    #[test]
    fn the_watchdog_grows_with_the_work() {
        assert_eq!(Watchdog::for_operations(0), Watchdog { cpu_s: 45, wall_s: 180 });
        assert_eq!(Watchdog::for_operations(100_000).cpu_s, 545);
    }
}
