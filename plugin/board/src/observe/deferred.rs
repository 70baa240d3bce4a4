// SPDX-License-Identifier: GPL-2.0-or-later
//! Work that operations leave to others (workloads.md 5.4): CPU time of kernel
//! threads and interrupts, and how long it takes until they are done. A patch
//! may make a system call faster only by putting its work off.

mod idle;
mod kernel_threads;
mod pass;
mod works;

pub use idle::idle_ns;
pub use kernel_threads::KernelThreads;
pub use pass::{EVENTS, report as deferred_work};
