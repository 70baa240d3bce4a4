// SPDX-License-Identifier: GPL-2.0-or-later
//! mkdir, stat and rmdir of an empty cgroup v2 leaf (workloads.md section 2).

use super::cgroup::{self, Controller, Group};
use super::{Arm, Condition, Edge, Metric, Operations, Prepared, Session, Workload};
use crate::measure::{Amount, Clock, Timed, timed};
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

const SCX_OFF: &str = "scx-off";
const BARE: &str = "bare";

const METRICS: &[Metric] = &[
    Metric { id: "create", unit: "ns", better: "lower", primary: false },
    Metric { id: "remove", unit: "ns", better: "lower", primary: true },
];

const fn arm(id: &'static str, on_boards: bool, in_emulator: bool, summary: &'static str) -> Arm {
    let amount = Amount { samples: 99, operations: 128, warmups: 16 };
    Arm { id, summary, metrics: METRICS, amount, seconds: 3, on_boards, in_emulator, many_workers: false }
}

/// rmdir(2) of an empty cgroup v2 leaf.
pub const KERNFS_RMDIR: Workload = Workload {
    id: "kernfs.rmdir",
    summary: "mkdir, stat and rmdir of an empty cgroup v2 leaf",
    arms: &[
        arm(SCX_OFF, true, true, "the leaf has the cpu controller, no sched_ext scheduler is loaded"),
        arm(BARE, false, true, "the leaf has no controller: fewer kernfs nodes, for the growth per node"),
        arm("scx-nocb", true, false, "a sched_ext scheduler without cgroup callbacks is loaded"),
        arm("scx-cb", true, false, "a sched_ext scheduler with cgroup callbacks is loaded"),
    ],
    emulator: Amount { samples: 4, operations: 128, warmups: 16 },
    parameters: &[],
    needs: &["cgroup2", "the cpu controller in cgroup2 (not for arm bare)", "root"],
    preemption: Some("full"),
    prepare: |setting| {
        let arm = setting.arm;
        if arm.starts_with("scx-") && arm != SCX_OFF {
            return Err(Stop::Missing(format!(
                "arm {arm} needs a sched_ext scheduler, and this program cannot load one"
            )));
        }
        Ok(Prepared::Operations(Box::new(Leaf::new(arm)?)))
    },
};

/// The parent group with two idle children, and the leaf that comes and goes.
/// Fields are dropped in order: files, children, parent, controller.
struct Leaf {
    arm: String,
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
    dying_at_most: u64,
    sequences: u64,
}

impl Leaf {
    fn new(arm: &str) -> Result<Self, Stop> {
        let root = cgroup::root()?;
        let state_file = PathBuf::from(if Path::new(SCHED_EXT_STATE).exists() {
            SCHED_EXT_STATE
        } else {
            OTHER_ONE_WORD_FILE
        });
        let state = read_word(&state_file)?;
        if state_file == Path::new(SCHED_EXT_STATE) && state != "disabled" {
            return Err(Stop::Missing(format!(
                "sched_ext is {state}, arm {arm} needs it disabled; stop the loaded scheduler first"
            )));
        }
        let with_cpu = arm == SCX_OFF;
        let given = given(&root)?;
        let root_controller = with_cpu.then(|| Controller::enable(&root, "cpu")).transpose()?;
        let parent = Group::new(root.join(format!("kernmark-{}", std::process::id())))?;
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
            arm: arm.to_owned(),
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
        if self.started.elapsed() > WATCHDOG {
            return Err(Stop::Failed("the sample ran longer than its watchdog of 45 s".into()));
        }
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
        self.gap()?;
        let (create, made) = timed(clock, || self.mkdir());
        times[0] = create;
        if made != 0 {
            return Err(Stop::failed("mkdir of the leaf", Errno::last()));
        }
        self.see()?;
        let (remove, removed) = timed(clock, || self.rmdir());
        times[1] = remove;
        if removed != 0 {
            return Err(Stop::failed("rmdir of the leaf", Errno::last()));
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
        let weight = parent.join("a/cpu.weight");
        let weight_kept = self.arm != SCX_OFF || read_word(&weight)? == "100";
        let state = read_word(&self.state_file)?;
        self.held.clear();
        self.children.clear();
        self.parent_controller = None;
        self.parent = None;
        self.root_controller = None;
        let given = given(&self.root)?;
        let restored = !parent.exists() && given == self.given;
        Ok(vec![
            // Any other outcome has ended the run already.
            Condition::new(
                "operations",
                true,
                format!("{} times mkdir, stat, rmdir and ENOENT", self.sequences),
            ),
            Condition::new("state", state == self.state, format!("{}: {state}", self.state_file.display())),
            Condition::new("weight", weight_kept, "cpu.weight of the idle child"),
            Condition::new(
                "settled",
                true,
                format!("at most {} dying groups before a sample", self.dying_at_most),
            ),
            Condition::new(
                "restored",
                restored,
                format!("no group is left; the root gives {given:?} as before"),
            ),
        ])
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        // Left by an operation that failed between mkdir and rmdir; ENOENT otherwise.
        self.rmdir();
        self.held.clear();
    }
}

/// The controllers that `group` gives to its children.
fn given(group: &Path) -> Result<String, Stop> {
    read_word(&group.join("cgroup.subtree_control"))
}

fn open(path: &Path) -> Result<File, Stop> {
    File::open(path).map_err(|e| Stop::failed(path.display(), e))
}

fn read_word(path: &Path) -> Result<String, Stop> {
    let text = fs::read_to_string(path).map_err(|e| Stop::failed(path.display(), e))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Topology;
    use crate::measure::Cpu;
    use crate::workloads::{Parameters, Setting};

    #[test]
    fn arms_that_need_a_scheduler_say_so() {
        let (topology, parameters) = (Topology::default(), Parameters::default());
        for arm in ["scx-nocb", "scx-cb"] {
            let setting =
                Setting { arm, topology: &topology, asked_cpus: None, cpu: Cpu(0), parameters: &parameters };
            let Err(Stop::Missing(reason)) = (KERNFS_RMDIR.prepare)(&setting) else { panic!("{arm} ran") };
            assert!(reason.contains("sched_ext") && reason.contains(arm), "{reason}");
        }
    }
}
