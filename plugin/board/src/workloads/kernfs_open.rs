// SPDX-License-Identifier: GPL-2.0-or-later
//! open, read and close of kernfs files, by one worker and by many at once
//! (workloads.md section 3).

mod access;
mod places;
mod scaling;
mod single;
mod tree;

use super::{Arm, Metric, Parameter, Prepared, Setting, Workload};
use crate::measure::Amount;
use crate::observe::Frames;
use crate::stop::Stop;
use access::Access;
use scaling::Scaling;
use single::Single;
use tree::Tree;

const SINGLE: &str = "single";
const O_PATH: &str = "o_path";
const STAT: &str = "stat";
const PREAD: &str = "pread";
const TMPFS: &str = "tmpfs";

/// Windows of a second: one to warm up, nine measured.
const WINDOWS: Amount = Amount { samples: 9, operations: 1, warmups: 1 };
const OPERATIONS: Amount = Amount { samples: 9, operations: 1024, warmups: 64 };

/// open(2), read(2) and close(2) of kernfs files.
pub const KERNFS_OPEN: Workload = Workload {
    id: "kernfs.open",
    summary: "open, read and close of kernfs files: what the locks of the path walk cost, and how they scale",
    arms: &[
        Arm {
            id: SINGLE,
            summary: "one worker, timed one by one",
            metrics: &[Metric { id: "open", unit: "ns", better: "lower", primary: true }],
            amount: OPERATIONS,
            seconds: 1,
            on_boards: true,
            in_emulator: true,
            many_workers: false,
        },
        control(O_PATH, "control: open with O_PATH and close, so the walk alone", true),
        control(STAT, "control: stat of the file", false),
        control(PREAD, "control: read from a file held open, so no walk", true),
        control(TMPFS, "control: the same loop on a tmpfs file as deep", false),
        workers("w1", "1 worker, in windows of a second", true),
        workers("w2", "2 workers at once", false),
        workers("w4", "4 workers at once", false),
        workers("w6", "6 workers at once", false),
        workers("w8", "8 workers at once", true),
        workers("w12", "12 workers at once", false),
        workers("w16", "16 workers at once", false),
        workers("w20", "20 workers at once", false),
    ],
    emulator: Amount { samples: 1, operations: 1024, warmups: 64 },
    parameters: &[
        Parameter {
            id: "tree",
            summary: "which files: CPU topology, the same by a symbolic link, a private cgroup, InfiniBand",
            default: "cpu",
            values: &["cpu", "cpulink", "cgroup", "ib"],
        },
        Parameter {
            id: "worker",
            summary: "of the arms w1 to w20: processes, or threads with open files of their own",
            default: "process",
            values: &["process", "thread"],
        },
        Parameter {
            id: "files",
            summary: "of the arms w1 to w20: files of its own for each worker, or one for all",
            default: "disjoint",
            values: &["disjoint", "same"],
        },
        Parameter {
            id: "access",
            summary: "of the arms w1 to w20: what the workers do; all but open are controls",
            default: "open",
            values: &["open", O_PATH, STAT, PREAD, TMPFS],
        },
        Parameter {
            id: "window_ms",
            summary: "of the arms w1 to w20: length of a window",
            default: "1000",
            values: &[],
        },
    ],
    needs: &["sysfs", "as many CPUs as the arm has workers"],
    preemption: None,
    prepare,
};

/// The locks of the walk, who takes them, and on which way (workloads.md 3.4). Their slow paths
/// are a group of their own.
const FRAMES: Frames = Frames {
    functions: &[
        "down_read",
        "up_read",
        "rwsem_down_read_slowpath",
        "osq_lock",
        "native_queued_spin_lock_slowpath",
        "__pv_queued_spin_lock_slowpath",
    ],
    callers: &["kernfs_iop_permission", "kernfs_dop_revalidate", "kernfs_iop_get_link"],
    ways: &["link_path_walk", "may_open", "lookup_fast"],
};

const fn control(id: &'static str, summary: &'static str, on_boards: bool) -> Arm {
    Arm {
        id,
        summary,
        metrics: &[Metric { id: "call", unit: "ns", better: "lower", primary: false }],
        amount: OPERATIONS,
        seconds: 1,
        on_boards,
        in_emulator: false,
        many_workers: false,
    }
}

const fn workers(id: &'static str, summary: &'static str, on_boards: bool) -> Arm {
    Arm {
        id,
        summary,
        metrics: &[
            Metric { id: "opens_per_s", unit: "1/s", better: "higher", primary: true },
            Metric { id: "ns_per_open", unit: "ns", better: "lower", primary: false },
        ],
        amount: WINDOWS,
        seconds: 11,
        on_boards,
        in_emulator: false,
        many_workers: true,
    }
}

fn prepare(setting: &Setting<'_>) -> Result<Prepared, Stop> {
    if let Some(count) = setting.arm.strip_prefix('w') {
        let count: usize = count.parse().map_err(|_| Stop::Bug(format!("arm {}", setting.arm)))?;
        let access = setting.parameters.text("access");
        let tree = tree_of(setting, access, count)?;
        return Ok(Prepared::Rounds(Box::new(Scaling::new(setting, tree, Access::named(access), count)?)));
    }
    let access = if setting.arm == SINGLE { "open" } else { setting.arm };
    let tree = tree_of(setting, access, 1)?;
    Ok(Prepared::Operations(Box::new(Single::new(tree, Access::named(access))?)))
}

/// The files of an arm with this many workers.
fn tree_of(setting: &Setting<'_>, access: &str, workers: usize) -> Result<Tree, Stop> {
    let name = setting.parameters.text("tree");
    if access == TMPFS { Tree::tmpfs(Tree::find("cpu", workers)?) } else { Tree::find(name, workers) }
}
