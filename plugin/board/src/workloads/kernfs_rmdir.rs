// SPDX-License-Identifier: GPL-2.0-or-later
//! mkdir, stat and rmdir of an empty cgroup v2 leaf (workloads.md section 2).

mod proof;

use super::cgroup::{self, Controller, Group};
use super::{Arm, Condition, Edge, Metric, Operations, Parameter, Prepared, Session, Setting, Workload};
use crate::guardian::own_name;
use crate::machine::read_word;
use crate::measure::{Amount, Clock, Timed, timed};
use crate::scx::{self, Scheduler, Variant};
use crate::stop::Stop;
use nix::errno::Errno;
use nix::libc;
use nix::sys::stat::stat;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A sample that takes longer than this has lost its machine.
const WATCHDOG: Duration = Duration::from_secs(45);
/// Names the state of sched_ext; absent where the kernel has none.
const SCHED_EXT_STATE: &str = "/sys/kernel/sched_ext/state";
/// Read instead, so that the gap between operations stays an open, a read and a close.
const OTHER_ONE_WORD_FILE: &str = "/sys/kernel/fscaps";

/// Parameter: milliseconds before each sequence.
const PACE: &str = "pace_ms";

const SCX_OFF: &str = "scx-off";
const BARE: &str = "bare";
const COLUMNS: &str = "columns";
const SCX_NOCB: &str = "scx-nocb";
const SCX_CB: &str = "scx-cb";

const CREATE: Metric = Metric { id: "create", unit: "ns", better: "lower", primary: false };
const REMOVE: Metric = Metric { id: "remove", unit: "ns", better: "lower", primary: true };
const STAT: Metric = Metric { id: "stat", unit: "ns", better: "lower", primary: false };
const SEQUENCE: Metric = Metric { id: "sequence", unit: "ns", better: "lower", primary: false };

/// The published ones.
const METRICS: &[Metric] = &[CREATE, REMOVE];
/// With those of the follow-ups (workloads.md 2.2). The sequence is from the start of mkdir to the
/// end of rmdir, on a clock around both.
const COLUMN_METRICS: &[Metric] = &[CREATE, REMOVE, STAT, SEQUENCE];

const fn arm(id: &'static str, seconds: u64, summary: &'static str) -> Arm {
    let amount = Amount { samples: 99, operations: 128, warmups: 16 };
    Arm {
        id,
        summary,
        metrics: METRICS,
        amount,
        seconds,
        on_boards: true,
        in_emulator: false,
        many_workers: false,
    }
}

/// rmdir(2) of an empty cgroup v2 leaf.
pub const KERNFS_RMDIR: Workload = Workload {
    id: "kernfs.rmdir",
    summary: "mkdir, stat and rmdir of an empty cgroup v2 leaf",
    arms: &[
        Arm {
            in_emulator: true,
            ..arm(SCX_OFF, 3, "the leaf has the cpu controller, no sched_ext scheduler is loaded")
        },
        Arm {
            on_boards: false,
            in_emulator: true,
            ..arm(BARE, 3, "the leaf has no controller: fewer kernfs nodes, for the growth per node")
        },
        Arm {
            metrics: COLUMN_METRICS,
            on_boards: false,
            ..arm(COLUMNS, 3, "as scx-off, with stat and the whole sequence timed too")
        },
        // Loading and unloading a scheduler for each sample takes most of it.
        arm(SCX_NOCB, 20, "a sched_ext scheduler without cgroup callbacks is loaded"),
        arm(SCX_CB, 20, "a sched_ext scheduler with cgroup callbacks is loaded"),
    ],
    emulator: Amount { samples: 4, operations: 128, warmups: 16 },
    parameters: &[Parameter {
        id: PACE,
        summary: "pause before each sequence",
        default: "0",
        values: &["0", "50", "200"],
    }],
    needs: &[
        "cgroup2",
        "the cpu controller in cgroup2 (not for arm bare)",
        "sched_ext with cgroup support and BTF (only for arms scx-nocb and scx-cb)",
        "root",
    ],
    preemption: Some("full"),
    prepare: |setting| Ok(Prepared::Operations(Box::new(Leaf::new(setting)?))),
};

/// The scheduler that an arm needs; none for the others.
fn scheduler_of(arm: &str) -> Option<Variant> {
    match arm {
        SCX_NOCB => Some(Variant::WithoutCallbacks),
        SCX_CB => Some(Variant::WithCallbacks),
        _ => None,
    }
}

/// The parent group with two idle children, and the leaf that comes and goes.
/// Fields are dropped in order: files, children, parent, controller, scheduler.
struct Leaf {
    arm: &'static str,
    pace: Duration,
    root: PathBuf,
    /// What the root gave to its children before this run.
    given: String,
    started: Instant,
    state_file: PathBuf,
    state: String,
    leaf: CString,
    held: Vec<File>,
    children: Vec<Group>,
    parent_controller: Option<Controller>,
    parent: Option<Group>,
    root_controller: Option<Controller>,
    scheduler: Option<Scheduler>,
    /// Conditions found before the end.
    conditions: Vec<Condition>,
    dying_at_most: u64,
    sequences: u64,
}

impl Leaf {
    fn new(setting: &Setting<'_>) -> Result<Self, Stop> {
        let arm = setting.arm;
        let root = cgroup::root()?;
        let scheduler = scheduler_of(arm).map(Scheduler::load).transpose()?;
        let state_file = PathBuf::from(if Path::new(SCHED_EXT_STATE).exists() {
            SCHED_EXT_STATE
        } else {
            OTHER_ONE_WORD_FILE
        });
        let state = read_word(&state_file)?;
        if state_file == Path::new(SCHED_EXT_STATE) {
            require_state(arm, &state)?;
        }
        let with_cpu = arm != BARE;
        let given = given(&root)?;
        let root_controller = with_cpu.then(|| Controller::enable(&root, "cpu")).transpose()?;
        let parent = Group::new(root.join(own_name()))?;
        let parent_controller = with_cpu.then(|| Controller::enable(parent.path(), "cpu")).transpose()?;
        let mut held = Vec::new();
        let mut children = Vec::new();
        for name in ["a", "b"] {
            let child = Group::new(parent.path().join(name))?;
            held.push(open(&child.path().join("cgroup.procs"))?);
            children.push(child);
        }
        if with_cpu {
            let weight = parent.path().join("a/cpu.weight");
            held.push(open(&weight)?);
            let value = read_word(&weight)?;
            if value != "100" {
                return Err(Stop::Failed(format!("{} is {value}, not 100", weight.display())));
            }
        }
        let leaf =
            CString::new(parent.path().join("leaf").as_os_str().as_bytes()).expect("a path without NUL");
        Ok(Self {
            arm,
            pace: Duration::from_millis(setting.parameters.number(PACE)),
            root,
            given,
            started: Instant::now(),
            state_file,
            state,
            leaf,
            held,
            children,
            parent_controller,
            parent: Some(parent),
            root_controller,
            scheduler,
            conditions: Vec::new(),
            dying_at_most: 0,
            sequences: 0,
        })
    }

    fn parent(&self) -> Result<&Path, Stop> {
        self.parent.as_ref().map(Group::path).ok_or_else(|| Stop::Failed("the session has ended".into()))
    }

    fn mkdir(&self) -> libc::c_int {
        // SAFETY: `leaf` is a NUL-terminated string that lives for the whole call.
        unsafe { libc::mkdir(self.leaf.as_ptr(), 0o755) }
    }

    fn rmdir(&self) -> libc::c_int {
        // SAFETY: `leaf` is a NUL-terminated string that lives for the whole call.
        unsafe { libc::rmdir(self.leaf.as_ptr()) }
    }

    /// The gap between two operations: watchdog, and one open, read and close.
    fn gap(&self) -> Result<(), Stop> {
        in_time(self.started.elapsed())?;
        let mut buffer = [0; 64];
        let length = File::open(&self.state_file)
            .and_then(|mut file| file.read(&mut buffer))
            .map_err(|e| Stop::failed(self.state_file.display(), e))?;
        if buffer[..length].trim_ascii() == self.state.as_bytes() {
            Ok(())
        } else {
            Err(Stop::Failed(format!("{} is no longer {}", self.state_file.display(), self.state)))
        }
    }

    /// mkdir, stat and rmdir; the times of the three.
    fn timed_sequence(&self, clock: Clock) -> Result<[Timed; 3], Stop> {
        let (create, made) = timed(clock, || self.mkdir());
        if made != 0 {
            return Err(Stop::failed("mkdir of the leaf", Errno::last()));
        }
        let (stat, seen) = timed(clock, || self.see());
        seen?;
        let (remove, removed) = timed(clock, || self.rmdir());
        if removed != 0 {
            return Err(Stop::failed("rmdir of the leaf", Errno::last()));
        }
        Ok([create, remove, stat])
    }

    /// The same without a clock.
    fn untimed_sequence(&self) -> Result<(), Stop> {
        if self.mkdir() != 0 {
            return Err(Stop::failed("mkdir of the leaf", Errno::last()));
        }
        self.see()?;
        if self.rmdir() != 0 {
            return Err(Stop::failed("rmdir of the leaf", Errno::last()));
        }
        self.see_gone()
    }

    /// stat(2) of the leaf makes its inode, which a later lookup then finds.
    fn see(&self) -> Result<(), Stop> {
        match stat(self.leaf.as_c_str()) {
            Ok(found) if found.st_ino != 0 => Ok(()),
            Ok(_) => Err(Stop::Failed("the new leaf has inode number 0".into())),
            Err(e) => Err(Stop::failed("stat of the new leaf", e)),
        }
    }

    fn see_gone(&self) -> Result<(), Stop> {
        match stat(self.leaf.as_c_str()) {
            Err(Errno::ENOENT) => Ok(()),
            Err(e) => Err(Stop::failed("stat of the removed leaf", e)),
            Ok(_) => Err(Stop::Failed("the leaf is still there after rmdir".into())),
        }
    }
}

impl Operations for Leaf {
    fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop> {
        if !self.pace.is_zero() {
            std::thread::sleep(self.pace);
        }
        self.gap()?;
        let (sequence, done) = timed(clock, || self.timed_sequence(clock));
        let [create, remove, stat] = done?;
        for (place, time) in times.iter_mut().zip([create, remove, stat, sequence]) {
            *place = time;
        }
        self.sequences += 1;
        self.see_gone()
    }
}

impl Session for Leaf {
    fn settle(&mut self) -> Result<(), Stop> {
        let dying = cgroup::wait_for_dying(self.parent()?)?;
        self.dying_at_most = self.dying_at_most.max(dying);
        self.started = Instant::now();
        Ok(())
    }

    fn facts(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        if self.mkdir() != 0 {
            return Err(Stop::failed("mkdir of the leaf", Errno::last()));
        }
        let path = self.parent()?.join("leaf");
        let files = fs::read_dir(&path)
            .map(|d| d.flatten().filter(|f| f.file_type().is_ok_and(|t| t.is_file())).count());
        if self.rmdir() != 0 {
            return Err(Stop::failed("rmdir of the leaf", Errno::last()));
        }
        let files = files.map_err(|e| Stop::failed(path.display(), e))? as u64;
        let mountinfo = fs::read_to_string("/proc/self/mountinfo")
            .map_err(|e| Stop::failed("/proc/self/mountinfo", e))?;
        Ok(vec![("nodes", files + 1), ("superblocks", cgroup::superblocks(&mountinfo))])
    }

    fn prove(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        let runs = match &self.scheduler {
            Some(scheduler) => scheduler.count(|| {
                for _ in 0..proof::SEQUENCES {
                    self.untimed_sequence()?;
                }
                // A callback runs when the group is put off line, some time after rmdir.
                cgroup::wait_for_dying(self.parent()?).map(drop)
            })?,
            None => Vec::new(),
        };
        let mut facts = proof::facts(&runs);
        // Where there is no bpf(2), or not for us, nothing is said.
        facts.extend(scx::loaded_callbacks().ok().map(|count| ("struct_ops_callbacks", count)));
        self.conditions.push(proof::condition(scheduler_of(self.arm), &runs));
        Ok(facts)
    }

    fn operations(&self) -> &'static [&'static str] {
        &["mkdir", "rmdir"]
    }

    fn observe(&mut self, mark: &mut dyn FnMut(Edge) -> Result<(), Stop>) -> Result<(), Stop> {
        self.gap()?;
        mark(Edge::Begin("mkdir"))?;
        let made = self.mkdir();
        mark(Edge::End("mkdir"))?;
        if made != 0 {
            return Err(Stop::failed("mkdir of the leaf", Errno::last()));
        }
        self.see()?;
        mark(Edge::Begin("rmdir"))?;
        let removed = self.rmdir();
        mark(Edge::End("rmdir"))?;
        if removed != 0 {
            return Err(Stop::failed("rmdir of the leaf", Errno::last()));
        }
        self.sequences += 1;
        self.see_gone()
    }

    /// The removal path (workloads.md 2.3).
    fn functions(&self) -> &'static [&'static str] {
        &[
            "clear_nlink",
            "down_read",
            "down_write",
            "ilookup",
            "iput",
            "kernfs_clear_inode_nlink",
            "kernfs_drain",
            "kernfs_remove",
            "kernfs_remove_by_name_ns",
            "kernfs_unlink_sibling",
            "__kernfs_remove",
        ]
    }

    fn returns(&self) -> &'static [&'static str] {
        &["ilookup"]
    }

    fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
        let parent = self.parent()?.to_owned();
        let weight = (self.arm != BARE).then(|| read_word(&parent.join("a/cpu.weight"))).transpose()?;
        let state = read_word(&self.state_file)?;
        self.held.clear();
        self.children.clear();
        self.parent_controller = None;
        self.parent = None;
        self.root_controller = None;
        let mut conditions = std::mem::take(&mut self.conditions);
        if let Some(scheduler) = self.scheduler.take() {
            conditions.extend(
                scheduler.unload()?.into_iter().map(|(n, pass, detail)| Condition::new(n, pass, detail)),
            );
        }
        let end = proof::End {
            sequences: self.sequences,
            state: (self.state.clone(), state),
            weight,
            dying_at_most: self.dying_at_most,
            given: (self.given.clone(), given(&self.root)?),
            left: parent.exists(),
        };
        conditions.extend(end.conditions());
        Ok(conditions)
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        // Left by an operation that failed between mkdir and rmdir; ENOENT otherwise.
        self.rmdir();
        self.held.clear();
    }
}

/// Whether the state is the one of the arm; Scheduler::load has waited for it.
fn require_state(arm: &str, state: &str) -> Result<(), Stop> {
    let wanted = if scheduler_of(arm).is_some() { "enabled" } else { "disabled" };
    if state == wanted {
        return Ok(());
    }
    Err(Stop::Missing(format!(
        "sched_ext is {state}, arm {arm} needs it {wanted}; stop the loaded scheduler first"
    )))
}

fn in_time(elapsed: Duration) -> Result<(), Stop> {
    if elapsed > WATCHDOG {
        return Err(Stop::Failed("the sample ran longer than its watchdog of 45 s".into()));
    }
    Ok(())
}

/// The controllers that `group` gives to its children.
fn given(group: &Path) -> Result<String, Stop> {
    read_word(&group.join("cgroup.subtree_control"))
}

fn open(path: &Path) -> Result<File, Stop> {
    File::open(path).map_err(|e| Stop::failed(path.display(), e))
}

#[cfg(test)]
mod tests;
