// SPDX-License-Identifier: GPL-2.0-or-later
//! A minimal sched_ext scheduler that schedules nothing: no ordinary task moves
//! to it, only the hooks of cgroups differ (workloads.md 2.4).

mod btf;
mod load;

use crate::machine::read_word;
use crate::stop::Stop;
use btf::{Btf, BtfError, Structure};
use nix::errno::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use load::loaded_callbacks;

/// Where the kernel tells about schedulers.
pub const SYSFS: &str = "/sys/kernel/sched_ext";
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
const KERNEL_LOG: &str = "/dev/kmsg";
/// Under this name the kernel shows it.
const NAME: &str = "kernmark";
/// The state must follow within this time.
const STATE_LIMIT: Duration = Duration::from_secs(5);

/// Callbacks of the variant that has some.
const CALLBACKS: [&str; 6] = [
    "cgroup_init",
    "cgroup_exit",
    "cgroup_prep_move",
    "cgroup_move",
    "cgroup_cancel_move",
    "cgroup_set_weight",
];

/// Which scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// A name and a flag, no program at all.
    WithoutCallbacks,
    /// Also callbacks at the making and removal of a cgroup, at a move and at a change of weight.
    WithCallbacks,
}

/// The loaded scheduler; unregistered when dropped.
#[derive(Debug)]
pub struct Scheduler {
    sysfs: PathBuf,
    link: Option<OwnedFd>,
    programs: Vec<(&'static str, OwnedFd)>,
    log: Option<KernelLog>,
}

/// A condition: its name, whether it held, what was seen.
pub type Condition = (&'static str, bool, String);

impl Scheduler {
    /// Loads it and waits until it is in force.
    ///
    /// # Errors
    /// [`Stop::Missing`] where this kernel or user cannot have it; [`Stop::Failed`] where it did not
    /// come up as it should.
    pub fn load(variant: Variant) -> Result<Self, Stop> {
        let sysfs = Path::new(SYSFS);
        require_none(sysfs)?;
        let before = sequence_number(sysfs)?;
        let types = fs::read(KERNEL_TYPES).map_err(|e| {
            Stop::Missing(format!(
                "the kernel does not describe its types ({KERNEL_TYPES}: {e}); it needs CONFIG_DEBUG_INFO_BTF"
            ))
        })?;
        let layout = Layout::of(&Btf::read(&types).map_err(because)?, variant).map_err(because)?;
        // From before the load: a late refusal stands there too.
        let log = KernelLog::from_now_on();
        let (link, programs) = register(&layout)?;
        let scheduler = Self { sysfs: sysfs.to_owned(), link: Some(link), programs, log };
        wait_for_state(sysfs, "enabled")
            .map_err(|e| Stop::Failed(format!("{e} after it was registered; the kernel's log says why")))?;
        let failed = in_force(sysfs, before)?.into_iter().find(|(_, held, _)| !held);
        failed
            .map_or(Ok(scheduler), |(name, _, seen)| Err(Stop::Failed(format!("scheduler: {name}: {seen}"))))
    }

    /// Counts runs of the callbacks while `work` runs, and until `settle` says that what it left is
    /// done: (callback, runs) for each callback there is.
    ///
    /// # Errors
    /// Those of `work`, or the kernel does not count.
    pub fn count(&self, work: impl FnOnce() -> Result<(), Stop>) -> Result<Vec<(&'static str, u64)>, Stop> {
        let counting = load::count_runs().map_err(|e| Stop::failed("counting runs of programs", e))?;
        let before = self.runs()?;
        work()?;
        let after = self.runs()?;
        drop(counting);
        Ok(after.into_iter().zip(before).map(|((name, after), (_, before))| (name, after - before)).collect())
    }

    fn runs(&self) -> Result<Vec<(&'static str, u64)>, Stop> {
        self.programs
            .iter()
            .map(|(name, fd)| {
                let program = load::program(fd).map_err(|e| Stop::failed(name, e))?;
                Ok((*name, program.runs))
            })
            .collect()
    }

    /// Unregisters it, and says whether it was in force to the end and is gone.
    ///
    /// # Errors
    /// The kernel does not tell about schedulers any more.
    pub fn unload(mut self) -> Result<Vec<Condition>, Stop> {
        let name = read_word(&self.sysfs.join("root/ops")).unwrap_or_else(|_| "nothing".into());
        let kept = (NAME == name, format!("root/ops: {name}"));
        drop(self.link.take());
        let gone = wait_for_state(&self.sysfs, "disabled");
        let mut conditions = vec![
            ("scheduler", kept.0, kept.1),
            ("unloaded", gone.is_ok(), gone.err().unwrap_or_else(|| "state: disabled".into())),
        ];
        // Where the log cannot be read nothing is claimed.
        if let Some(text) = self.log.take().and_then(KernelLog::read) {
            conditions.push(unregistered(&text));
        }
        Ok(conditions)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            drop(link);
            // The next arm must not find it; one that stays is that arm's failure.
            let _ = wait_for_state(&self.sysfs, "disabled");
        }
    }
}

/// What the kernel's types say about schedulers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layout {
    /// Number of `struct sched_ext_ops`.
    ops: u32,
    /// Number and size of the value of its map.
    value_type: u32,
    value_size: u32,
    /// Where in the value name and flags stand, bytes.
    name_at: usize,
    flags_at: usize,
    flags: u64,
    /// (callback, index among the members, place in the value).
    callbacks: Vec<(&'static str, u32, usize)>,
}

impl Layout {
    fn of(types: &Btf<'_>, variant: Variant) -> Result<Self, BtfError> {
        let ops = types.structure("sched_ext_ops")?;
        let value = types.structure("bpf_struct_ops_sched_ext_ops")?;
        let data = value.member("data")?.offset;
        let at = |name: &str, size: usize| {
            let place = data + ops.member(name)?.offset;
            let fits = place + size <= usize::try_from(value.size).expect("64-bit");
            if fits { Ok(place) } else { Err(BtfError::Damaged("a member beyond the end of its struct")) }
        };
        let callbacks = match variant {
            Variant::WithoutCallbacks => Vec::new(),
            Variant::WithCallbacks => CALLBACKS
                .iter()
                .map(|name| Ok((*name, index_of(&ops, name)?, at(name, size_of::<u64>())?)))
                .collect::<Result<_, BtfError>>()?,
        };
        let flags = types.enumerator("SCX_OPS_SWITCH_PARTIAL")?;
        if flags.count_ones() != 1 {
            return Err(BtfError::Damaged("SCX_OPS_SWITCH_PARTIAL is not one bit"));
        }
        Ok(Self {
            ops: ops.id,
            value_type: value.id,
            value_size: value.size,
            // One more byte ends the name.
            name_at: at("name", NAME.len() + 1)?,
            flags_at: at("flags", size_of::<u64>())?,
            flags,
            callbacks,
        })
    }

    /// The value of the map, with one program for each callback.
    fn value(&self, programs: &[u64]) -> Vec<u8> {
        let mut value = vec![0; usize::try_from(self.value_size).expect("64-bit")];
        value[self.name_at..self.name_at + NAME.len()].copy_from_slice(NAME.as_bytes());
        let numbers = self.callbacks.iter().map(|(_, _, at)| *at).zip(programs.iter().copied());
        for (at, number) in numbers.chain([(self.flags_at, self.flags)]) {
            value[at..at + size_of::<u64>()].copy_from_slice(&number.to_le_bytes());
        }
        value
    }
}

fn index_of(ops: &Structure, name: &str) -> Result<u32, BtfError> {
    Ok(ops.member(name)?.index)
}

fn because(error: BtfError) -> Stop {
    match error {
        BtfError::NotThere(what) => Stop::Missing(format!(
            "the kernel has no {what}; a scheduler with cgroup callbacks needs CONFIG_SCHED_CLASS_EXT and \
             CONFIG_EXT_GROUP_SCHED"
        )),
        error @ (BtfError::NotBtf | BtfError::Damaged(_) | BtfError::Kind(_)) => {
            Stop::failed(KERNEL_TYPES, error)
        }
    }
}

/// The link that holds the registration, and the callbacks.
type Registered = (OwnedFd, Vec<(&'static str, OwnedFd)>);

fn register(layout: &Layout) -> Result<Registered, Stop> {
    use std::os::fd::AsRawFd;
    let refused = |what: &'static str| move |e: Errno| refusal(what, e);
    let btf = load::load_btf(&btf::own_btf()).map_err(refused("types of our own"))?;
    let map = load::create_map(&btf, layout.value_type, layout.value_size).map_err(refused("a map"))?;
    let mut programs = Vec::new();
    for (name, index, _) in &layout.callbacks {
        programs.push((*name, load::load_callback(layout.ops, *index).map_err(refused(name))?));
    }
    let numbers: Vec<u64> =
        programs.iter().map(|(_, fd)| u64::from(fd.as_raw_fd().cast_unsigned())).collect();
    load::update_map(&map, &layout.value(&numbers)).map_err(refused("the description of the scheduler"))?;
    let link = load::create_link(&map).map_err(refused("the scheduler"))?;
    Ok((link, programs))
}

fn refusal(what: &str, error: Errno) -> Stop {
    match error {
        Errno::EPERM | Errno::EACCES => Stop::Missing(format!(
            "a scheduler cannot be loaded ({what}: {error}); run as root, outside a container"
        )),
        Errno::ENOSYS => Stop::Missing(format!(
            "a scheduler cannot be loaded ({error}); the kernel needs CONFIG_BPF_SYSCALL"
        )),
        Errno::EBUSY => Stop::Missing(format!("another scheduler is being loaded ({error}); stop it first")),
        _ => Stop::Failed(format!(
            "the kernel refused {what}: {error}; it does so too when booted with isolcpus=domain"
        )),
    }
}

/// Only one scheduler can be loaded, and it must be ours.
fn require_none(sysfs: &Path) -> Result<(), Stop> {
    let Ok(state) = read_word(&sysfs.join("state")) else {
        return Err(Stop::Missing(
            "the kernel has no sched_ext; boot one with CONFIG_SCHED_CLASS_EXT (6.12 or later)".into(),
        ));
    };
    if state == "disabled" {
        return Ok(());
    }
    let who = read_word(&sysfs.join("root/ops")).unwrap_or_else(|_| "unknown".into());
    Err(Stop::Missing(format!("sched_ext is {state} with scheduler {who}; stop it first")))
}

/// What must hold of a scheduler of ours that was loaded after sequence number `before`.
fn in_force(sysfs: &Path, before: u64) -> Result<Vec<Condition>, Stop> {
    let name = read_word(&sysfs.join("root/ops"))?;
    let all = read_word(&sysfs.join("switch_all"))?;
    let now = sequence_number(sysfs)?;
    Ok(vec![
        ("name", name == NAME, format!("root/ops is {name}, not {NAME}")),
        ("partial", all == "0", format!("switch_all is {all}, so ordinary tasks moved")),
        ("sequence", now == before + 1, format!("enable_seq went from {before} to {now}, not up by one")),
    ])
}

fn sequence_number(sysfs: &Path) -> Result<u64, Stop> {
    let file = sysfs.join("enable_seq");
    read_word(&file)?.parse().map_err(|e| Stop::failed(file.display(), e))
}

/// Polls the state; what it is in the end, where it is another.
fn wait_for_state(sysfs: &Path, wanted: &str) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let state = read_word(&sysfs.join("state")).map_err(|e| e.to_string())?;
        if state == wanted {
            return Ok(());
        }
        if start.elapsed() > STATE_LIMIT {
            return Err(format!("sched_ext is {state}, not {wanted}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the kernel says that it was unregistered by us, and not thrown out.
fn unregistered(log: &str) -> Condition {
    let ours = format!("sched_ext: BPF scheduler \"{NAME}\" disabled (");
    let last = log.lines().rev().find_map(|text| Some(text.split_once(&ours)?.1.trim_end_matches(')')));
    let held = last == Some("unregistered from user space");
    ("unregistered", held, format!("the kernel's log: {}", last.unwrap_or("nothing of it")))
}

/// The kernel's log from a moment on.
#[derive(Debug)]
struct KernelLog(File);

impl KernelLog {
    fn from_now_on() -> Option<Self> {
        let open = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(KERNEL_LOG);
        let mut file = open.ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    /// Its messages up to now; `None` when some were lost.
    fn read(mut self) -> Option<String> {
        let mut text = String::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(length) => text.push_str(&String::from_utf8_lossy(&record[..length])),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Some(text),
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests;
