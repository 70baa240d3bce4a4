// SPDX-License-Identifier: GPL-2.0-or-later
//! What became of one boot, and whose fault it is.

use kernmark_validation::samples::{Expected, LogProblem, PointLog, escape, parse_log, trouble};
use serde::{Deserialize, Serialize};

/// How the machine of a boot ended, before anybody looked at its logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum MachineEnd {
    /// The guest ended it through the exit device: all went well there.
    Good,
    /// The guest ended it through the exit device: the measuring program gave up.
    Failed,
    /// The guest reset itself: a panic, or something else that reboots.
    Reset,
    /// It was stopped by the watchdog.
    TimedOut {
        /// The limit, for a person: `45 s of CPU time`.
        limit: String,
    },
    /// It was stopped because its serial ports wrote more than a run ever does.
    Flooded {
        /// The limit.
        bytes: u64,
    },
    /// The emulator itself went wrong.
    Emulator {
        /// What it said, escaped.
        detail: String,
    },
    /// Nothing ran: it was to be replayed and there is no recording.
    NotRecorded {
        /// What is missing.
        what: String,
    },
}

/// What became of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Booted, measured, ended; the log is whole.
    Done,
    /// The measuring program gave up.
    Failed {
        /// Its reason, or where to look for it.
        reason: String,
    },
    /// The kernel panicked.
    Panic {
        /// The line that says so, escaped.
        line: String,
    },
    /// The kernel reported a bug of its own and went on.
    KernelBug {
        /// The line that says so, escaped.
        line: String,
    },
    /// The machine rebooted without saying why.
    Reset,
    /// Nothing happened for too long.
    Hang {
        /// The limit, for a person.
        limit: String,
        /// Records that had arrived.
        records: u64,
    },
    /// The kernel wrote without end.
    Flood {
        /// Where it was stopped, bytes.
        bytes: u64,
    },
    /// The results stop in the middle.
    Truncated {
        /// Records that arrived.
        records: u64,
    },
    /// The results do not hold: altered, forged, or of another point.
    Invalid {
        /// What is wrong.
        problems: Vec<LogProblem>,
    },
    /// The kernel ended the machine but no result came.
    NoResults,
    /// The emulator itself went wrong.
    Emulator {
        /// What it said, escaped.
        detail: String,
    },
    /// There is no recording of this point.
    NotRecorded {
        /// What is missing.
        what: String,
    },
}

/// Whose fault an outcome is; decides how it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nobody's: all is well.
    None,
    /// The kernel under test: FAIL.
    Kernel,
    /// This machine or the lab: ERROR.
    Lab,
    /// Nothing came: MISS.
    Missing,
}

impl Outcome {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Done => Fault::None,
            Self::Failed { .. }
            | Self::Panic { .. }
            | Self::KernelBug { .. }
            | Self::Reset
            | Self::Hang { .. }
            | Self::Flood { .. }
            | Self::Truncated { .. }
            | Self::Invalid { .. } => Fault::Kernel,
            Self::Emulator { .. } => Fault::Lab,
            Self::NoResults | Self::NotRecorded { .. } => Fault::Missing,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => write!(f, "done"),
            Self::Failed { reason } => write!(f, "the measurement failed: {reason}"),
            Self::Panic { line } => write!(f, "the kernel panicked: {line}"),
            Self::KernelBug { line } => {
                write!(f, "the kernel reported a bug of its own and went on, so its numbers are void: {line}")
            }
            Self::Reset => write!(f, "the kernel rebooted without a message; look at the end of its console"),
            Self::Hang { limit, records: 0 } => {
                write!(f, "the kernel hung before its first result: stopped after {limit}")
            }
            Self::Hang { limit, records } => {
                write!(f, "the kernel hung after {}: stopped after {limit}", counted(*records))
            }
            Self::Flood { bytes } => {
                write!(f, "the kernel wrote more than {} MiB to a serial port and was stopped", bytes >> 20)
            }
            Self::Truncated { records } => {
                write!(
                    f,
                    "the results stop after {}, and the kernel ended the machine itself",
                    counted(*records)
                )
            }
            Self::Invalid { problems } => {
                let texts: Vec<String> = problems.iter().take(3).map(ToString::to_string).collect();
                let more = problems.len().saturating_sub(3);
                write!(f, "the results do not hold: {}", texts.join("; "))?;
                if more > 0 { write!(f, "; and {more} more") } else { Ok(()) }
            }
            Self::NoResults => {
                write!(f, "no results came, though the kernel ended without a panic; look at its console")
            }
            Self::Emulator { detail } => write!(
                f,
                "the emulator failed: {detail}. Try the same command again; if it stays, reinstall qemu-system-x86"
            ),
            Self::NotRecorded { what } => {
                write!(f, "there is no recording of this point: {what}; run it again, without replay")
            }
        }
    }
}

/// What became of a boot, from how its machine ended and what it wrote.
pub fn judge(
    point: &str,
    protocol: &str,
    end: &MachineEnd,
    results: &[u8],
    console: &[u8],
) -> (Outcome, PointLog) {
    let expected = Expected { point, protocol };
    let log = parse_log(results, console, expected);
    let died = || trouble(console).map(|line| Outcome::Panic { line });
    let outcome = match end {
        MachineEnd::Emulator { detail } => Outcome::Emulator { detail: detail.clone() },
        MachineEnd::NotRecorded { what } => Outcome::NotRecorded { what: what.clone() },
        MachineEnd::Flooded { bytes } => Outcome::Flood { bytes: *bytes },
        // A kernel that reports its death and then spins is dead, not hung.
        MachineEnd::TimedOut { limit } => {
            died().unwrap_or_else(|| Outcome::Hang { limit: limit.clone(), records: arrived(&log) })
        }
        // Without a usable exit device the measuring program reboots at its end.
        MachineEnd::Reset if log.status.is_some() => completed(&log, console),
        MachineEnd::Reset => died().unwrap_or(Outcome::Reset),
        MachineEnd::Failed => failure(&log, console),
        MachineEnd::Good => completed(&log, console),
    };
    (outcome, log)
}

fn counted(records: u64) -> String {
    if records == 1 { "1 record".into() } else { format!("{records} records") }
}

/// Records of a log that has no end.
fn arrived(log: &PointLog) -> u64 {
    let records = log.problems.iter().find_map(|problem| match problem {
        LogProblem::Truncated { records } => Some(*records),
        _ => None,
    });
    records.unwrap_or(0)
}

fn failure(log: &PointLog, console: &[u8]) -> Outcome {
    let said = log.problems.iter().find_map(|problem| match problem {
        LogProblem::Failed { reason } => Some(reason.clone()),
        _ => None,
    });
    let lines = || console.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    let last = || lines().rfind(|line| !line.is_empty()).map(escape);
    Outcome::Failed { reason: said.or_else(last).unwrap_or_else(|| "it said nothing".into()) }
}

fn completed(log: &PointLog, console: &[u8]) -> Outcome {
    if let Some(line) = trouble(console) {
        return Outcome::KernelBug { line };
    }
    match &log.problems[..] {
        [] => Outcome::Done,
        [LogProblem::Empty] => Outcome::NoResults,
        [LogProblem::Truncated { records }] => Outcome::Truncated { records: *records },
        [LogProblem::Failed { reason }] => Outcome::Failed { reason: reason.clone() },
        problems => Outcome::Invalid { problems: problems.to_vec() },
    }
}

#[cfg(test)]
mod tests {
    use super::super::boot::tests::boot;
    use super::*;
    use kernmark_wire::{End, FORMAT, Record, Start, frame};

    /// A whole log of `boot(1)` whose last record has this status.
    fn results(status: &str) -> String {
        let start = Record::Start(Start {
            format: FORMAT,
            pass: "run".into(),
            protocol: boot(1).protocol,
            point: boot(1).name,
            boot_id: "x".into(),
            clock: "tsc".into(),
            version: "0".into(),
            default_arms: [].into(),
        });
        let end = Record::End(End { records: 1, status: status.into() });
        format!("{}\n{}\n", frame(0, &start), frame(1, &end))
    }

    const PANIC: &str = "[ 0.3] x\r\n[ 0.4] Kernel panic - not syncing: \u{1b}[31mno\r\n[ 0.5] ---[ end\r\n";

    #[test]
    fn each_end_has_its_own_message_and_fault() {
        let good = results("ok");
        let cut = &good[..good.len() - 9];
        let limit = || MachineEnd::TimedOut { limit: "45 s of CPU time".into() };
        let broken = MachineEnd::Emulator { detail: "no machine".into() };
        for (end, results, console, fault, text) in [
            (MachineEnd::Good, &good[..], "kernmark-board: 1/4\r\n", Fault::None, "done"),
            (
                MachineEnd::Good,
                &good,
                "[ 1.0] BUG: sleeping\r\n",
                Fault::Kernel,
                "went on, so its numbers are void: [ 1.0] BUG: sleeping",
            ),
            (MachineEnd::Good, cut, "", Fault::Kernel, "stop after 1 record,"),
            (MachineEnd::Good, "", "hello\r\n", Fault::Missing, "no results came"),
            (
                MachineEnd::Good,
                "garbage\n",
                "",
                Fault::Kernel,
                "do not hold: line 1 of the results: no result: garbage",
            ),
            (MachineEnd::Good, &good, "@kernmark 0 x\r\n", Fault::Kernel, "line 1 of the console"),
            (MachineEnd::Good, &results("failed: x"), "", Fault::Kernel, "the measurement failed: x"),
            (MachineEnd::Failed, &results("failed: rmdir: EBUSY"), "", Fault::Kernel, "failed: rmdir: EBUSY"),
            (MachineEnd::Failed, "", "a\r\nno \u{1b}port\r\n", Fault::Kernel, "failed: no \\x1bport"),
            (MachineEnd::Failed, "", "", Fault::Kernel, "it said nothing"),
            (
                MachineEnd::Reset,
                cut,
                PANIC,
                Fault::Kernel,
                "panicked: [ 0.4] Kernel panic - not syncing: \\x1b[31mno",
            ),
            (MachineEnd::Reset, &good, "", Fault::None, "done"),
            (MachineEnd::Reset, &results("failed: x"), "", Fault::Kernel, "the measurement failed: x"),
            (MachineEnd::Reset, "", "hello", Fault::Kernel, "rebooted without a message"),
            (limit(), cut, "", Fault::Kernel, "hung after 1 record: stopped after 45 s of CPU time"),
            (limit(), "", "", Fault::Kernel, "hung before its first result"),
            (limit(), cut, PANIC, Fault::Kernel, "panicked"),
            (MachineEnd::Flooded { bytes: 16 << 20 }, "", "", Fault::Kernel, "more than 16 MiB"),
            (
                MachineEnd::NotRecorded { what: "no points/3".into() },
                "",
                "",
                Fault::Missing,
                "no recording of this point: no points/3",
            ),
            (broken, "", "", Fault::Lab, "the emulator failed: no machine"),
        ] {
            let asked = boot(1);
            let (outcome, _) =
                judge(&asked.name, &asked.protocol, &end, results.as_bytes(), console.as_bytes());
            assert_eq!(outcome.fault(), fault, "{outcome}");
            assert!(outcome.to_string().contains(text), "{outcome}");
        }
    }

    #[test]
    fn outcomes_read_back() {
        for outcome in [
            Outcome::Done,
            Outcome::Invalid { problems: vec![LogProblem::Empty] },
            Outcome::Emulator { detail: "x".into() },
        ] {
            let json = serde_json::to_string(&outcome).expect("serialisable");
            assert_eq!(serde_json::from_str::<Outcome>(&json).expect("reads back"), outcome);
        }
    }
}
