// SPDX-License-Identifier: GPL-2.0-or-later
//! Superblocks made and destroyed: mount, use and umount (workloads.md section 5).

mod alone;
mod cycle;
mod private_mounts;
mod target;

use super::{Arm, Metric, Parameter, Prepared, Workload};
use crate::measure::Amount;
use crate::stop::Stop;
use alone::Alone;
use cycle::Cycle;

/// One cycle at a time, each call timed.
const LAT: &str = "lat";
/// One cycle at a time, and what it leaves to others.
const ALONE: &str = "alone";

/// umount(2) of the last mount of a file system.
pub const SHRINKER_UMOUNT: Workload = Workload {
    id: "shrinker.umount",
    summary: "mount, use and umount of a small file system, which makes and destroys a superblock",
    arms: &[
        Arm {
            id: LAT,
            summary: "one file system at a time, every call timed",
            metrics: &[
                Metric { id: "mount", unit: "ns", better: "lower", primary: false },
                Metric { id: "fsops", unit: "ns", better: "lower", primary: false },
                Metric { id: "umount", unit: "ns", better: "lower", primary: true },
            ],
            amount: Amount { samples: 9, operations: 128, warmups: 16 },
            seconds: 1,
            on_boards: true,
            in_emulator: true,
            many_workers: false,
        },
        Arm {
            id: ALONE,
            summary: "the same, and the work it leaves to kernel threads and interrupts until that is done; one CPU only",
            metrics: alone::METRICS,
            amount: Amount { samples: 9, operations: 16, warmups: 2 },
            seconds: 20,
            on_boards: false,
            // Boots of one image and seed came out different with its many short sleeps; only when
            // asked for until the cause is known.
            in_emulator: false,
            many_workers: false,
        },
    ],
    emulator: Amount { samples: 4, operations: 128, warmups: 16 },
    parameters: &[Parameter {
        id: "fs",
        summary: "file system of arms lat and alone; ext4 and xfs need a RAM disk with an image",
        default: "tmpfs",
        values: &["tmpfs", "ramfs", "ext4", "xfs"],
    }],
    needs: &["root, for a private mount namespace", "the file system of parameter fs"],
    preemption: None,
    prepare: |setting| {
        let file_system = setting.parameters.text("fs");
        Ok(match setting.arm {
            LAT => Prepared::Operations(Box::new(Cycle::new(file_system)?)),
            ALONE => Prepared::Operations(Box::new(Alone::new(file_system)?)),
            other => return Err(Stop::Bug(format!("arm {other} is not known here"))),
        })
    },
};
