// SPDX-License-Identifier: GPL-2.0-or-later
//! perf_event_open(2): which counter serves, and a descriptor for one thread.

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;
use std::fs;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const HARDWARE_CYCLES: u64 = 0;
const HARDWARE_INSTRUCTIONS: u64 = 1;
const SOFTWARE_CPU_CLOCK: u64 = 0;
const SOFTWARE_TASK_CLOCK: u64 = 1;

/// PERF_SAMPLE_IP, _TID and _CALLCHAIN: what `ring.rs` reads, in this order.
const SAMPLE_FIELDS: u64 = 1 | 1 << 1 | 1 << 5;

/// Bits of the flags word of `perf_event_attr`.
const DISABLED: u64 = 1;
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const FREQUENCY: u64 = 1 << 10;
const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;

/// `_IO('$', 0)` and `_IO('$', 1)`.
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const FLAG_CLOEXEC: libc::c_ulong = 8;

/// `struct perf_event_attr` up to its fifth extension, which every kernel since 4.1 knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period_or_frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_registers_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_registers_interrupt: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// Something that counts, and may sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `cycles of cpu_core`, `cpu-clock` ...
    pub name: String,
    kind: u32,
    config: u64,
}

/// The sources of samples for a thread on an efficiency core or not, best first; `root` is that
/// of sysfs. On hybrid processors each kind of core has its own counters, whose id stands in the
/// upper half of the configuration.
pub fn sampling_sources(root: &Path, on_efficiency_core: bool) -> Vec<Source> {
    let software = |name: &str, config| Source { name: name.into(), kind: TYPE_SOFTWARE, config };
    let mut sources = hardware(root, on_efficiency_core, "cycles", HARDWARE_CYCLES);
    sources.push(software("cpu-clock", SOFTWARE_CPU_CLOCK));
    sources.push(software("task-clock", SOFTWARE_TASK_CLOCK));
    sources
}

/// The source that counts kernel instructions of a thread; `None` where the machine shows none.
pub fn instructions(root: &Path, on_efficiency_core: bool) -> Option<Source> {
    hardware(root, on_efficiency_core, "instructions", HARDWARE_INSTRUCTIONS).pop()
}

fn hardware(root: &Path, on_efficiency_core: bool, what: &str, config: u64) -> Vec<Source> {
    let devices = root.join("bus/event_source/devices");
    let hybrid = if on_efficiency_core { "cpu_atom" } else { "cpu_core" };
    let id =
        |name: &str| fs::read_to_string(devices.join(name).join("type")).ok()?.trim().parse::<u64>().ok();
    if let Some(id) = id(hybrid) {
        let name = format!("{what} of {hybrid}");
        return vec![Source { name, kind: TYPE_HARDWARE, config: id << 32 | config }];
    }
    if id("cpu").is_some() {
        return vec![Source { name: what.into(), kind: TYPE_HARDWARE, config }];
    }
    Vec::new()
}

/// A counter of one thread.
#[derive(Debug)]
pub struct Event {
    file: fs::File,
}

impl Event {
    /// Samples `thread` at `frequency` Hz, in user space too but with call chains of the kernel
    /// only. It is off at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn sampling(source: &Source, thread: Pid, frequency: u64) -> Result<Self, Errno> {
        Self::open(
            Attributes {
                sample_period_or_frequency: frequency,
                sample_type: SAMPLE_FIELDS,
                flags: DISABLED | EXCLUDE_HYPERVISOR | FREQUENCY | EXCLUDE_CALLCHAIN_USER,
                ..Attributes::of(source)
            },
            thread,
        )
    }

    /// Counts what `thread` does in the kernel. It is off at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counting_kernel(source: &Source, thread: Pid) -> Result<Self, Errno> {
        let flags = DISABLED | EXCLUDE_USER | EXCLUDE_HYPERVISOR;
        Self::open(Attributes { flags, ..Attributes::of(source) }, thread)
    }

    fn open(attributes: Attributes, thread: Pid) -> Result<Self, Errno> {
        // Any CPU, no group. Not inherited: each worker has its own.
        // SAFETY: the attributes live for the whole call and state their own size.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread.as_raw(),
                -1 as libc::c_int,
                -1 as libc::c_int,
                FLAG_CLOEXEC,
            )
        };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(Errno::last)?;
        // SAFETY: the call just made it, and nobody else knows it.
        Ok(Self { file: unsafe { OwnedFd::from_raw_fd(fd) }.into() })
    }

    /// Switches it on or off.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable(&self, on: bool) -> Result<(), Errno> {
        let request = if on { IOC_ENABLE } else { IOC_DISABLE };
        // SAFETY: these requests take a plain number.
        Errno::result(unsafe { libc::ioctl(self.file.as_raw_fd(), request, 0) }).map(|_| ())
    }

    /// What it has counted.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn count(&self) -> std::io::Result<u64> {
        let mut bytes = [0; 8];
        (&self.file).read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Its descriptor, to map its buffer.
    pub fn file(&self) -> &fs::File {
        &self.file
    }
}

impl Attributes {
    fn of(source: &Source) -> Self {
        let size = u32::try_from(size_of::<Self>()).expect("a small structure");
        Self { kind: source.kind, size, config: source.config, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysfs(devices: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("temporary directory");
        for (name, id) in devices {
            let place = root.path().join("bus/event_source/devices").join(name);
            fs::create_dir_all(&place).expect("writable");
            fs::write(place.join("type"), format!("{id}\n")).expect("writable");
        }
        root
    }

    #[test]
    fn attributes_have_the_size_that_kernels_know() {
        assert_eq!(size_of::<Attributes>(), 112);
    }

    #[test]
    fn hybrid_counters_are_chosen_by_the_kind_of_core() {
        let root = sysfs(&[("cpu_core", "4"), ("cpu_atom", "10"), ("software", "1")]);
        for (efficiency, name, config) in
            [(false, "cycles of cpu_core", 4 << 32), (true, "cycles of cpu_atom", 10 << 32)]
        {
            let first = sampling_sources(root.path(), efficiency).swap_remove(0);
            assert_eq!(first, Source { name: name.into(), kind: TYPE_HARDWARE, config });
        }
        let counted = instructions(root.path(), false).expect("has counters");
        assert_eq!(counted.config, 4 << 32 | 1);
    }

    #[test]
    fn a_plain_processor_has_one_kind_of_counter() {
        let names = |devices: &[(&str, &str)]| -> Vec<String> {
            sampling_sources(sysfs(devices).path(), false).into_iter().map(|s| s.name).collect()
        };
        assert_eq!(names(&[("cpu", "4")]), ["cycles", "cpu-clock", "task-clock"]);
        assert_eq!(names(&[("software", "1")]), ["cpu-clock", "task-clock"], "as virtual machines have it");
        assert_eq!(instructions(sysfs(&[("software", "1")]).path(), false), None);
    }

    #[test]
    fn an_unknown_source_is_refused_by_the_kernel() {
        let source = Source { name: "none".into(), kind: TYPE_SOFTWARE, config: 9999 };
        assert!(Event::sampling(&source, Pid::from_raw(0), 99).is_err());
    }
}
