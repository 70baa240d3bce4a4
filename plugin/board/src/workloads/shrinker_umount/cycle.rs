// SPDX-License-Identifier: GPL-2.0-or-later
//! Arm `lat`: one cycle of mount, fs operations and umount, each timed by itself.

use super::private_mounts::PrivateMounts;
use super::target::{SIZE, Target};
use crate::measure::{Clock, Timed, timed};
use crate::stop::Stop;
use crate::workloads::{Condition, Edge, Operations, Session};
use nix::errno::Errno;
use std::fs;
use std::path::Path;

/// The calls of a cycle, in its order.
const CALLS: [&str; 3] = ["mount", "fsops", "umount"];

/// A file system that comes and goes in a private namespace.
pub struct Cycle {
    target: Target,
    private: Option<PrivateMounts>,
    cycles: u64,
}

impl Cycle {
    /// Sets up a cycle of the file system `kind`.
    ///
    /// # Errors
    /// The kernel has no such file system, or this process may not mount it.
    pub fn new(kind: &str) -> Result<Self, Stop> {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !has_file_system(&known, kind) {
            return Err(Stop::Missing(format!(
                "this kernel has no {kind}; build it in, load its module, or choose another with --set fs=tmpfs"
            )));
        }
        let private = PrivateMounts::enter()?;
        let point = private.mount_point("m")?;
        let target = Target::new(kind, Path::new("kernmark"), Some(SIZE), &point);
        match target.mount().and_then(|()| target.umount(0)) {
            Ok(()) => Ok(Self { target, private: Some(private), cycles: 0 }),
            Err(refused) if [Errno::EPERM, Errno::EACCES].contains(&refused.error) => Err(Stop::Missing(
                format!("{} of {kind} is refused ({}); run as root", refused.call, refused.error),
            )),
            Err(refused) => Err(refused.into()),
        }
    }

    /// One cycle, not timed.
    ///
    /// # Errors
    /// A call failed.
    pub fn once(&mut self) -> Result<(), Stop> {
        self.target.mount()?;
        self.target.use_it()?;
        self.target.umount(0)?;
        self.cycles += 1;
        Ok(())
    }
}

impl Operations for Cycle {
    fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop> {
        let (mount, mounted) = timed(clock, || self.target.mount());
        mounted?;
        let (fsops, used) = timed(clock, || self.target.use_it());
        used?;
        let (umount, unmounted) = timed(clock, || self.target.umount(0));
        unmounted?;
        times[..3].copy_from_slice(&[mount, fsops, umount]);
        self.cycles += 1;
        Ok(())
    }
}

impl Session for Cycle {
    fn facts(&mut self) -> Result<Vec<(&'static str, u64)>, Stop> {
        let groups = fs::read_to_string("/proc/cgroups").unwrap_or_default();
        // Shrinkers of superblocks know memory groups: their ids are searched on every mount.
        Ok(memory_groups(&groups).map(|groups| ("memory_groups", groups)).into_iter().collect())
    }

    fn operations(&self) -> &'static [&'static str] {
        &CALLS
    }

    fn observe(&mut self, mark: &mut dyn FnMut(Edge) -> Result<(), Stop>) -> Result<(), Stop> {
        let calls: [&dyn Fn() -> Result<(), super::target::Refused>; 3] =
            [&|| self.target.mount(), &|| self.target.use_it(), &|| self.target.umount(0)];
        for (name, call) in CALLS.into_iter().zip(calls) {
            mark(Edge::Begin(name))?;
            let done = call();
            mark(Edge::End(name))?;
            done?;
        }
        self.cycles += 1;
        Ok(())
    }

    /// Making and destroying a superblock (workloads.md 5.3), in the words of several eras.
    fn functions(&self) -> &'static [&'static str] {
        &[
            "__synchronize_srcu",
            "alloc_super",
            "call_rcu",
            "cleanup_mnt",
            "deactivate_locked_super",
            "destroy_super_rcu",
            "destroy_super_work",
            "generic_shutdown_super",
            "kill_anon_super",
            "kill_litter_super",
            "list_lru_destroy",
            "queue_work_on",
            "shrinker_alloc",
            "shrinker_debugfs_remove",
            "shrinker_free",
            "shrinker_free_rcu_cb",
            "shrinker_register",
            "synchronize_rcu",
            "synchronize_rcu_expedited",
            "synchronize_srcu",
            "synchronize_srcu_expedited",
            "unregister_shrinker",
            "wait_for_completion",
        ]
    }

    /// A superblock is freed by a work item, which an RCU callback queues.
    fn last_work(&self) -> Option<&'static str> {
        Some("destroy_super_work")
    }

    fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
        let private = self.private.take().ok_or_else(|| Stop::Bug("the session has ended".into()))?;
        let mounted = private.still_mounted()?;
        let back = private.leave()?;
        Ok(conditions(self.cycles, mounted, back))
    }
}

fn conditions(cycles: u64, mounted: usize, back: bool) -> Vec<Condition> {
    let place = if back { "its own" } else { "another" };
    vec![
        // Any other outcome has ended the run already.
        Condition::new("operations", true, format!("{cycles} times mount, use and umount")),
        Condition::new("unmounted", mounted == 0, format!("{mounted} mounts are left")),
        Condition::new("restored", back, format!("this thread is in {place} mount namespace")),
    ]
}

/// Whether `known`, the text of /proc/filesystems, lists `kind`.
fn has_file_system(known: &str, kind: &str) -> bool {
    known.lines().filter_map(|line| line.split_whitespace().last()).any(|name| name == kind)
}

/// Number of memory groups where the controller is on, from the text of /proc/cgroups.
pub fn memory_groups(cgroups: &str) -> Option<u64> {
    let fields: Vec<&str> =
        cgroups.lines().find(|line| line.split('\t').next() == Some("memory"))?.split('\t').collect();
    (fields.get(3) == Some(&"1")).then(|| fields.get(2)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_known_by_their_last_word() {
        let known = "nodev\ttmpfs\n\text4\nnodev\tsysfs\n";
        for (kind, there) in
            [("tmpfs", true), ("ext4", true), ("ext", false), ("nodev", false), ("xfs", false)]
        {
            assert_eq!(has_file_system(known, kind), there, "{kind}");
        }
    }

    #[test]
    fn memory_groups_count_only_where_the_controller_is_on() {
        let text = |enabled| {
            format!("#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t3\t1\nmemory\t0\t42\t{enabled}\n")
        };
        assert_eq!(memory_groups(&text(1)), Some(42));
        assert_eq!(memory_groups(&text(0)), None);
        assert_eq!(memory_groups(""), None);
    }

    #[test]
    fn each_condition_can_fail() {
        for (mounted, back, failed) in
            [(0, true, &[][..]), (1, true, &["unmounted"]), (0, false, &["restored"])]
        {
            let found = conditions(9, mounted, back);
            let names: Vec<&str> = found.iter().filter(|c| !c.pass).map(|c| c.name).collect();
            assert_eq!(names, failed);
        }
    }

    #[test]
    fn a_mount_that_is_left_is_counted() {
        std::thread::spawn(|| {
            let mut cycle = match Cycle::new("ramfs") {
                Ok(cycle) => cycle,
                Err(stop) => return assert!(matches!(stop, Stop::Missing(_)), "{stop}"),
            };
            cycle.target.mount().expect("as before");
            let found = cycle.finish().expect("it ends");
            let failed: Vec<&str> = found.iter().filter(|c| !c.pass).map(|c| c.name).collect();
            assert_eq!(failed, ["unmounted"]);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_kernel_without_the_file_system_is_a_skip() {
        let Err(Stop::Missing(reason)) = Cycle::new("kernmarkfs") else { panic!("it is there") };
        assert!(reason.contains("kernmarkfs") && reason.contains("--set fs="), "{reason}");
    }
}
