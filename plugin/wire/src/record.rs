// SPDX-License-Identifier: GPL-2.0-or-later
//! The records of one boot, in the order a boot prints them.
//!
//! All numbers are integers; the host turns them into floats. Units: `_ns` is
//! nanoseconds of the clock that [`Start::clock`] names. On the deterministic
//! runner one nanosecond of the guest's TSC is one executed instruction.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the record format, in [`Start::format`].
pub const FORMAT: u32 = 1;

/// One line of results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// First line of a boot.
    Start(Start),
    /// One field of the environment record (workloads.md 1.5).
    Environment(Environment),
    /// A whole number that a workload states about its set-up.
    Fact(Fact),
    /// Single operations, timed one by one.
    Operations(Operations),
    /// One sample: a summarised block of operations.
    Sample(Sample),
    /// Distribution of single operations.
    Histogram(Histogram),
    /// Function hits of an untimed pass (function profiler).
    Profile(Profile),
    /// Function calls by caller of an untimed pass (function tracer).
    Calls(Calls),
    /// NULL and other return values of one function in an untimed pass.
    Returns(Returns),
    /// A sampling profile of an untimed pass: how it was made.
    Sampling(Sampling),
    /// The same: samples by function.
    SelfSamples(SelfSamples),
    /// The same: samples of some functions by caller.
    CallerSamples(CallerSamples),
    /// An observation that could not be made, and why. Never a zero.
    NotAvailable(NotAvailable),
    /// A correctness condition of a workload and whether it held.
    Check(Check),
    /// A workload or arm that cannot run here, and why.
    Skip(Skip),
    /// Last line of a boot.
    End(End),
}

/// First line of a boot: who prints, for which point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// [`FORMAT`].
    pub format: u32,
    /// `run`, `observe` or `profile`.
    pub pass: String,
    /// Protocol hash handed in by the host; empty when run by hand.
    pub protocol: String,
    /// Point name handed in by the host; empty when run by hand.
    pub point: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// `monotonic_raw`, `monotonic` or `tsc`.
    pub clock: String,
    /// Version of the board binary.
    pub version: String,
    /// Default arm of each workload: its metrics carry no arm as prefix.
    #[serde(default)]
    pub default_arms: BTreeMap<String, String>,
}

/// One field of the environment record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// `before` or `after` the measurement.
    pub when: String,
    /// Field name, dotted (`cpu.model`, `kernel.release`).
    pub key: String,
    /// Value as read, one line.
    pub value: String,
}

/// A whole number that a workload states about its set-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// `nodes`, `superblocks` ...
    pub name: String,
    /// The number.
    pub value: u64,
}

/// A run of single operations, timed one by one; one chunk of a longer series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// Metric id without the arm, e.g. `remove`.
    pub metric: String,
    /// `ns`.
    pub unit: String,
    /// `lower` or `higher`.
    pub better: String,
    /// 0-based index of the first value among the non-warmup operations.
    pub first: u64,
    /// Duration of each operation, ns.
    pub values: Vec<u64>,
    /// Of that, time off the CPU (wall minus thread CPU time), ns; empty when not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<u64>,
}

/// One sample: a block of operations summarised on the board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// Metric id without the arm.
    pub metric: String,
    /// `ns`.
    pub unit: String,
    /// `lower` or `higher`.
    pub better: String,
    /// 1-based number of the sample; warmups are not reported.
    pub sample: u64,
    /// Operations in the sample.
    pub operations: u64,
    /// Sum over the operations, in `unit`; the sample value is `sum / operations`.
    pub sum: u64,
}

/// Distribution of single operations (hdrhistogram, 3 significant digits).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// Metric id without the arm.
    pub metric: String,
    /// `ns`.
    pub unit: String,
    /// Recorded buckets: (highest equivalent value, count), ascending.
    pub buckets: Vec<(u64, u64)>,
    /// Smallest operation.
    pub min: u64,
    /// Largest operation.
    pub max: u64,
}

/// Function hits over a whole section, all tasks and interrupts included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// `workload` (set-up, operations, teardown) or an operation's name (`rmdir`).
    pub section: String,
    /// Operations performed while the profiler was on; 0 for `workload`.
    pub operations: u64,
    /// (function, hits); one chunk of a longer list.
    pub functions: Vec<(String, u64)>,
}

/// Function calls made by the measuring task itself in one kind of operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// The traced operation, e.g. `rmdir`.
    pub operation: String,
    /// How many operations were counted; counts are totals over them. Operations into which
    /// an interrupt fell are left out while there are enough others.
    pub operations: u64,
    /// (function, caller, calls); one chunk of a longer list.
    pub calls: Vec<(String, String, u64)>,
}

/// Return values of one function called by the measuring task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returns {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// The traced operation, e.g. `rmdir`.
    pub operation: String,
    /// How many operations were traced; counts are totals over them.
    pub operations: u64,
    /// The function.
    pub function: String,
    /// Calls that returned NULL (0).
    pub null: u64,
    /// Calls that returned something else.
    pub other: u64,
}

/// A sampling profile: where the workers of one arm were found at regular moments
/// (workloads.md 3.4). The denominator of every share is `samples`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// What gave the moments: `cycles`, `cycles of cpu_core`, `cpu-clock` ...
    pub event: String,
    /// Why nothing better did; empty when it is the best there is.
    #[serde(default)]
    pub instead_of: String,
    /// Samples in a second of each worker that were asked for.
    pub frequency: u64,
    /// Threads that were sampled.
    pub workers: u64,
    /// How long.
    pub milliseconds: u64,
    /// Operations of all workers in that time.
    pub operations: u64,
    /// All samples, user space included.
    pub samples: u64,
    /// Of these in user space.
    pub user: u64,
    /// Records that the kernel could not write for want of room.
    pub lost: u64,
    /// Times that the kernel held the sampling back.
    pub throttled: u64,
    /// Instructions that the workers executed in the kernel in that time, where counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_instructions: Option<u64>,
}

/// Samples of a profile by the function that was executing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfSamples {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// (function, samples); one chunk of a longer list.
    pub functions: Vec<(String, u64)>,
}

/// Samples of a profile in the functions whose callers matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallerSamples {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// (function, nearest of the callers that are told apart or `other`, the way it was reached
    /// or `other`, samples); one chunk of a longer list.
    pub callers: Vec<(String, String, String, u64)>,
}

/// An observation that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotAvailable {
    /// Workload id.
    pub workload: String,
    /// Arm id.
    pub arm: String,
    /// `profile`; `calls`, `calls of all functions` (then only some were counted),
    /// `calls of FUNCTION`; `returns of FUNCTION`.
    pub what: String,
    /// Why, for a person.
    pub reason: String,
}

/// A correctness condition and whether it held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Workload id; empty for the machine as a whole.
    pub workload: String,
    /// Arm id; empty for the machine as a whole.
    pub arm: String,
    /// Name of the condition.
    pub name: String,
    /// Whether it held.
    pub pass: bool,
    /// What was seen.
    pub detail: String,
}

/// A workload or arm that cannot run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// Workload id.
    pub workload: String,
    /// Arm id; empty when the whole workload is skipped.
    pub arm: String,
    /// Why, and what would make it run.
    pub reason: String,
}

/// Last line of a boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Number of records before this one.
    pub records: u64,
    /// `ok`, or `failed: REASON`.
    pub status: String,
}
