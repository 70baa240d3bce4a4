// SPDX-License-Identifier: GPL-2.0-or-later
//! One inotify watch comes and goes on an inode that nobody else watches
//! (workloads.md section 4): each add makes a connector, each remove destroys
//! it. What a connector costs stands out here as nowhere else.

use super::{Arm, Condition, Edge, Metric, Operations, Prepared, Session, Workload};
use crate::inotify::{Drained, Fixture, Instance, Limits, Wanted, c_path, create};
use crate::measure::{Amount, Clock, Timed, timed};
use crate::stop::Stop;
use nix::errno::Errno;
use nix::libc;
use std::ffi::CString;
use std::path::Path;

/// inotify_add_watch(2) and inotify_rm_watch(2), timed one by one.
pub const FSNOTIFY_CHURN: Workload = Workload {
    id: "fsnotify.churn",
    summary: "add and remove one inotify watch on an inode that nobody watches",
    arms: &[Arm {
        id: "plain",
        summary: "one instance, one file on tmpfs",
        metrics: &[
            Metric { id: "add", unit: "ns", better: "lower", primary: true },
            Metric { id: "remove", unit: "ns", better: "lower", primary: true },
        ],
        amount: Amount { samples: 9, operations: 1024, warmups: 64 },
        seconds: 1,
        on_boards: true,
        in_emulator: true,
        many_workers: false,
    }],
    emulator: Amount { samples: 4, operations: 128, warmups: 16 },
    parameters: &[],
    needs: &["inotify", "a tmpfs on /dev/shm or /tmp"],
    preemption: Some("none"),
    prepare: |_| Ok(Prepared::Operations(Box::new(Churn::new(Fixture::on_tmpfs()?)?))),
};

/// One instance and one file.
struct Churn {
    instance: Instance,
    path: CString,
    fixture: Option<Fixture>,
    pairs: u64,
    seen: Drained,
}

impl Churn {
    fn new(fixture: Fixture) -> Result<Self, Stop> {
        let wanted = Wanted { instances: 1, watches: 1, events: 1 };
        Limits::read(Path::new("/proc"), nix::unistd::getuid().as_raw())?.check(wanted)?;
        let file = fixture.path().join("f-00000000");
        create(&file)?;
        let instance = Instance::new()?;
        Ok(Self { instance, path: c_path(&file), fixture: Some(fixture), pairs: 0, seen: Drained::default() })
    }

    /// The removal left its one event; taking it keeps the queue as it was.
    fn ended(&mut self) -> Result<(), Stop> {
        let found = self.instance.drain()?;
        self.pairs += 1;
        self.seen = self.seen.and(found);
        if found == (Drained { ignored: 1, ..Drained::default() }) {
            Ok(())
        } else {
            Err(Stop::Failed(format!("a removed watch left {found:?}, not one IN_IGNORED")))
        }
    }
}

fn added(watch: i32) -> Result<i32, Stop> {
    if watch > 0 { Ok(watch) } else { Err(Stop::failed("inotify_add_watch", Errno::last())) }
}

fn removed(result: i32) -> Result<(), Stop> {
    if result == 0 { Ok(()) } else { Err(Stop::failed("inotify_rm_watch", Errno::last())) }
}

impl Operations for Churn {
    fn sequence(&mut self, clock: Clock, times: &mut [Timed]) -> Result<(), Stop> {
        let (time, watch) = timed(clock, || self.instance.add(&self.path, libc::IN_ATTRIB));
        times[0] = time;
        let watch = added(watch)?;
        let (time, result) = timed(clock, || self.instance.remove(watch));
        times[1] = time;
        removed(result)?;
        self.ended()
    }
}

impl Session for Churn {
    fn operations(&self) -> &'static [&'static str] {
        &["add", "remove"]
    }

    fn observe(&mut self, mark: &mut dyn FnMut(Edge) -> Result<(), Stop>) -> Result<(), Stop> {
        mark(Edge::Begin("add"))?;
        let watch = self.instance.add(&self.path, libc::IN_ATTRIB);
        mark(Edge::End("add"))?;
        let watch = added(watch)?;
        mark(Edge::Begin("remove"))?;
        let result = self.instance.remove(watch);
        mark(Edge::End("remove"))?;
        removed(result)?;
        self.ended()
    }

    fn functions(&self) -> &'static [&'static str] {
        &[
            "fsnotify_add_mark_list",
            "fsnotify_add_mark_locked",
            "fsnotify_attach_connector_to_object",
            "fsnotify_destroy_mark",
            "fsnotify_detach_connector_from_object",
            "fsnotify_find_mark",
            "fsnotify_put_mark",
            "fsnotify_recalc_mask",
            "kmem_cache_alloc_noprof",
            "kmem_cache_free",
            "_raw_spin_lock",
        ]
    }

    fn finish(&mut self) -> Result<Vec<Condition>, Stop> {
        let left = self.instance.watches()?;
        let Drained { ignored, overflow, other, unmounted } = self.seen;
        let restored = self.fixture.take().map_or(Ok(()), Fixture::remove);
        Ok(vec![
            // Any other outcome has ended the run already.
            Condition::new("operations", true, format!("{} watches added and removed", self.pairs)),
            Condition::new("watches", left == 0, format!("{left} watches are left")),
            Condition::new(
                "events",
                ignored == self.pairs && overflow + other + unmounted == 0,
                format!("{ignored} IN_IGNORED, {overflow} overflows, {} others", other + unmounted),
            ),
            Condition::new(
                "restored",
                restored.is_ok(),
                restored.err().map_or_else(|| "no file is left".into(), |e| e.to_string()),
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ClockName;

    fn churn() -> Churn {
        Churn::new(Fixture::anywhere()).expect("inotify and a writable directory")
    }

    fn failed(conditions: &[Condition]) -> Vec<&'static str> {
        conditions.iter().filter(|c| !c.pass).map(|c| c.name).collect()
    }

    #[test]
    fn a_watch_comes_and_goes_and_nothing_is_left() {
        let mut churn = churn();
        let place = churn.fixture.as_ref().expect("there").path().to_owned();
        let clock = Clock::new(ClockName::MonotonicRaw, false);
        let mut times = [Timed::default(); 2];
        for _ in 0..3 {
            churn.sequence(clock, &mut times).expect("works");
        }
        assert!(times.iter().all(|t| t.duration > 0), "{times:?}");
        let conditions = churn.finish().expect("finishes");
        assert_eq!(failed(&conditions), [""; 0]);
        assert!(conditions[0].detail.starts_with("3 watches"), "{conditions:?}");
        assert!(!place.exists());
    }

    #[test]
    fn a_watch_that_is_left_voids_the_run() {
        let mut churn = churn();
        assert!(churn.instance.add(&churn.path, libc::IN_ATTRIB) > 0);
        assert_eq!(failed(&churn.finish().expect("finishes")), ["watches"]);
    }

    #[test]
    fn an_event_that_does_not_belong_voids_the_run() {
        let mut churn = churn();
        let watch = churn.instance.add(&churn.path, libc::IN_ATTRIB);
        let file = churn.fixture.as_ref().expect("there").path().join("f-00000000");
        // Somebody else touches the file.
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).expect("ours");
        assert_eq!(churn.instance.remove(watch), 0);
        let error = churn.ended().expect_err("two events");
        assert!(error.to_string().contains("other: 1"), "{error}");
        assert_eq!(failed(&churn.finish().expect("finishes")), ["events"]);
    }

    #[test]
    fn an_event_that_is_missing_and_a_directory_that_is_gone_void_the_run() {
        let mut churn = churn();
        // A pair whose event never came.
        churn.pairs += 1;
        std::fs::remove_dir_all(churn.fixture.as_ref().expect("there").path()).expect("ours");
        assert_eq!(failed(&churn.finish().expect("finishes")), ["events", "restored"]);
    }

    #[test]
    fn a_file_that_is_gone_ends_the_run() {
        let mut churn = churn();
        let file = churn.fixture.as_ref().expect("there").path().join("f-00000000");
        std::fs::remove_file(file).expect("ours");
        let clock = Clock::new(ClockName::MonotonicRaw, false);
        let error = churn.sequence(clock, &mut [Timed::default(); 2]).expect_err("no file");
        assert!(error.to_string().contains("ENOENT"), "{error}");
    }
}
