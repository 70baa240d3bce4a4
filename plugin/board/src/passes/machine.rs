// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine around a pass: settings, record of the environment before and
//! after, and the conditions that follow from both.

use super::place::require;
use crate::cli::RunArguments;
use crate::emit::Emitter;
use crate::machine::{
    Fields, Interval, Knobs, PutBack, Snapshot, asked_of_the_system, counts, environment, identity, units,
};
use crate::measure::{Clock, Cpu};
use crate::settle::pause;
use crate::stop::Stop;
use crate::workloads::Workload;
use kernmark_wire as wire;
use kernmark_wire::Record;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// The machine made ready to be measured. Dropping it puts its settings back.
pub struct Ready<'a> {
    asked: &'a RunArguments,
    cpu: Cpu,
    knobs: Knobs,
    before: Fields,
    since: Instant,
}

impl<'a> Ready<'a> {
    /// Applies settings, waits as long as asked, examines the clock, and records the environment.
    ///
    /// # Errors
    /// A condition without which nothing is worth measuring does not hold, a signal came in, or
    /// results cannot be written.
    pub fn make(asked: &'a RunArguments, cpu: Cpu, clock: Clock, out: &mut Emitter) -> Result<Self, Stop> {
        let sysfs = &asked.place.sysfs;
        asked.settle.after_boot()?;
        note("before", "harness.settle_s", &asked.settle.to_string(), out)?;
        snapshot("before", "snapshot.before", sysfs, out)?;
        let knobs = if asked.keep_settings { Knobs::keep() } else { Knobs::apply(sysfs) };
        for (name, outcome) in knobs.outcomes() {
            note("before", &format!("setting.{name}"), outcome, out)?;
        }
        snapshot("before", "snapshot.applied", sysfs, out)?;
        pause(asked.settle.settings)?;
        let (facts, fineness) = clock.examine();
        for (key, value) in facts {
            note("before", key, &value, out)?;
        }
        require(
            fineness,
            "see the clock source in the kernel's log; an emulated machine needs one CPU or tsc=reliable",
            out,
        )?;
        note("before", "harness.memory_locked", &lock_memory(), out)?;
        let before = record_environment("before", out)?;
        if let Some(check) = units(&before).filter(|_| !asked.output.protocol.is_empty()) {
            require(check, "a machine that measures for others has none", out)?;
        }
        Ok(Self { asked, cpu, knobs, before, since: Instant::now() })
    }

    /// Puts settings back and reports how steady the machine was; `void` takes the first
    /// condition that did not hold.
    ///
    /// # Errors
    /// Results cannot be written.
    pub fn end(self, void: &mut Option<String>, out: &mut Emitter) -> Result<(), Stop> {
        let elapsed = self.since.elapsed();
        put_back(self.knobs, &|name| format!("setting.{name}"), void, out)?;
        snapshot("after", "snapshot.after", &self.asked.place.sysfs, out)?;
        let after = record_environment("after", out)?;
        let interval = Interval {
            before: &self.before,
            after: &after,
            cpu: self.cpu.0,
            elapsed,
            emulated: self.asked.emulator || std::process::id() == 1,
        };
        note("after", "machine.steadiness", &interval.sentence(), out)?;
        if !interval.emulated {
            note("after", "harness.measured_s", &elapsed.as_secs().to_string(), out)?;
        }
        for check in interval.conditions() {
            if !check.pass {
                void.get_or_insert(format!("{}: {}", check.name, check.detail));
            }
            out.emit(Record::Check(check))?;
        }
        Ok(())
    }
}

/// Settings as they are, one field for each.
fn snapshot(when: &str, prefix: &str, sysfs: &Path, out: &mut Emitter) -> Result<(), Stop> {
    for (name, value) in Snapshot::take(sysfs).lines() {
        note(when, &format!("{prefix}.{name}"), &value, out)?;
    }
    Ok(())
}

/// Preemption as asked for, else as the workload's published numbers had it, where the kernel has a choice.
///
/// # Errors
/// What was asked for cannot be had, or results cannot be written.
pub fn preemption(asked: &RunArguments, workload: &Workload, out: &mut Emitter) -> Result<Knobs, Stop> {
    let Some(word) = asked.preempt.as_deref().or(workload.preemption.filter(|_| !asked.keep_settings)) else {
        return Ok(Knobs::default());
    };
    let knobs = Knobs::preemption(&asked.place.sysfs, word);
    for (_, outcome) in knobs.outcomes() {
        note("before", &format!("setting.preempt.{}", workload.id), outcome, out)?;
        if asked.preempt.is_some() && !outcome.starts_with(word) {
            return Err(Stop::Missing(format!(
                "preemption {word} is not reachable: {outcome}; choose another with --preempt, or boot a kernel \
                 that offers it"
            )));
        }
    }
    Ok(knobs)
}

/// Puts settings back and reports it; `void` takes the first that did not go back.
///
/// # Errors
/// Results cannot be written.
pub fn put_back(
    knobs: Knobs,
    key: &dyn Fn(&str) -> String,
    void: &mut Option<String>,
    out: &mut Emitter,
) -> Result<(), Stop> {
    // One line for each setting, not for each CPU; what failed is not hidden by what did not.
    let mut lines: BTreeMap<String, (bool, String)> = BTreeMap::new();
    for PutBack { name, done, outcome } in knobs.restore() {
        let line = lines.entry(name).or_insert((done, outcome.clone()));
        if line.0 && !done {
            *line = (done, outcome);
        }
    }
    for (name, (done, outcome)) in lines {
        if !done {
            void.get_or_insert(format!("a setting was not put back: {outcome}"));
        }
        note("after", &key(&name), &outcome, out)?;
    }
    Ok(())
}

/// One field of the environment record.
///
/// # Errors
/// It cannot be written.
pub fn note(when: &str, key: &str, value: &str, out: &mut Emitter) -> Result<(), Stop> {
    let value = value.to_owned();
    out.emit(Record::Environment(wire::Environment { when: when.into(), key: key.into(), value }))?;
    Ok(())
}

/// Emits the whole environment record, and returns what may change.
///
/// # Errors
/// It cannot be written.
pub fn record_environment(when: &str, out: &mut Emitter) -> Result<Fields, Stop> {
    let fields: Fields =
        environment(Path::new("/")).into_iter().chain(asked_of_the_system()).chain(counts()).collect();
    let own = if when == "before" { identity() } else { Vec::new() };
    for (key, value) in fields.iter().chain(&own) {
        note(when, key, value, out)?;
    }
    Ok(fields)
}

/// Keeps page faults out of timed windows, where that is allowed.
fn lock_memory() -> String {
    use nix::sys::mman::{MlockAllFlags, mlockall};
    match mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE) {
        Ok(()) => "yes".into(),
        Err(error) => format!("no: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::synthetic::{virtual_machine, write};
    use crate::passes::tests::asked;
    use crate::workloads::FSNOTIFY_WATCH;

    const PREEMPT: &str = "kernel/debug/sched/preempt";

    /// Preemption with these arguments on a kernel that offers `offered`; the notes that were made.
    fn preempted(offered: &str, arguments: &[&str]) -> (Result<Knobs, Stop>, Vec<String>) {
        let tree = virtual_machine().tree();
        write(tree.path(), PREEMPT, offered);
        let place = tree.path().to_str().expect("UTF-8");
        let mut out = Emitter::collecting();
        let done = preemption(&asked(&[&["--sysfs", place], arguments].concat()), &FSNOTIFY_WATCH, &mut out);
        let notes = out.into_records().into_iter().filter_map(|record| match record {
            Record::Environment(e) => Some(e.value),
            _ => None,
        });
        (done, notes.collect())
    }

    #[test]
    fn preemption_that_cannot_be_had_ends_the_run_only_where_it_was_asked_for() {
        let newer = "(full) lazy";
        let said = "full; none is not reachable, this kernel offers full lazy";
        let (done, notes) = preempted(newer, &[]);
        assert!(done.is_ok(), "the published preemption is a wish");
        assert_eq!(notes, [said]);
        let (done, notes) = preempted(newer, &["--preempt", "none"]);
        let Err(Stop::Missing(reason)) = done else { panic!("{done:?}") };
        assert!(
            reason.contains("preemption none is not reachable") && reason.contains("full lazy"),
            "{reason}"
        );
        assert_eq!(notes, [said]);
        let (done, _) = preempted(newer, &["--preempt", "lazy"]);
        assert!(done.is_ok());
        let (done, notes) = preempted(newer, &["--keep-settings"]);
        assert!(done.is_ok() && notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn a_setting_that_was_not_put_back_voids_the_run() {
        for stays in [false, true] {
            let tree = virtual_machine().tree();
            write(tree.path(), PREEMPT, "none voluntary (full)");
            let knobs = Knobs::preemption(tree.path(), "none");
            if stays {
                // Nothing can be written where a directory is.
                let file = tree.path().join(PREEMPT);
                std::fs::remove_file(&file).expect("our own file");
                std::fs::create_dir(&file).expect("our own directory");
            }
            let mut void = None;
            put_back(knobs, &|name| format!("setting.{name}"), &mut void, &mut Emitter::collecting())
                .expect("memory");
            assert_eq!(void.is_some_and(|reason| reason.contains("not put back")), stays);
        }
    }
}
