// SPDX-License-Identifier: GPL-2.0-or-later
//! Untimed passes: which functions run at all, calls per operation by caller,
//! NULL returns. With tracefs only. What cannot be seen is "not available".

mod deferred;
mod locks;
mod perf;
mod trace_text;
mod tracefs;

pub use deferred::{KernelThreads, deferred_work, idle_ns};
pub use locks::LockNames;
pub use perf::{Frames, Manner as SamplingManner, report as sampling_profile};

use crate::emit::Emitter;
use crate::stop::Stop;
use crate::workloads::{Edge, Session, Setting, Workload};
use kernmark_wire as wire;
use kernmark_wire::Record;
use std::collections::BTreeMap;
use trace_text::Window;
use tracefs::{Tracefs, Tracing};

/// Switches off whatever tracing a killed process of ours may have switched on.
pub fn reset() {
    tracefs::reset(&deferred::EVENTS);
}

/// Operations of each kind that are reported (workloads.md 2.3).
pub const SEQUENCES: u64 = 4;
/// Sequences that are traced, so that enough of them pass without an interrupt.
const TRACED: u64 = 12;
/// Entries of a list in one line of results.
const CHUNK: usize = 128;

/// What was seen, or why it could not be seen.
type Seen<T> = Result<T, String>;
/// Calls by (function, caller).
type CallCounts = BTreeMap<(String, String), u64>;
/// (NULL, other) by operation.
type ReturnCounts = BTreeMap<&'static str, (u64, u64)>;

/// Reports hits of every function while the workload is set up, runs and ends.
///
/// # Errors
/// An operation failed, or results cannot be written. An observation that
/// cannot be made is reported, not an error.
pub fn profile(workload: &Workload, setting: &Setting<'_>, out: &mut Emitter) -> Result<(), Stop> {
    let arm = setting.arm;
    let found = match Tracefs::find() {
        Ok(tracefs) => hits(&tracefs, workload, setting)?,
        Err(reason) => Err(reason),
    };
    match found {
        Ok(functions) => {
            for part in functions.chunks(CHUNK) {
                out.emit(Record::Profile(wire::Profile {
                    workload: workload.id.into(),
                    arm: arm.into(),
                    section: "workload".into(),
                    operations: 0,
                    functions: part.to_vec(),
                }))?;
            }
        }
        Err(reason) => not_available(workload, arm, "profile", reason, out)?,
    }
    Ok(())
}

/// Reports calls by caller and NULL returns in each operation of `session`: of the `functions`
/// named, else of all, else (where all are too many) of those that the workload names.
///
/// # Errors
/// As [`profile`].
pub fn operations(
    workload: &Workload,
    arm: &str,
    session: &mut dyn Session,
    functions: &[String],
    out: &mut Emitter,
) -> Result<(), Stop> {
    let tracefs = match Tracefs::find() {
        Ok(tracefs) => tracefs,
        Err(reason) => return not_available(workload, arm, "calls", reason, out),
    };
    // Not counted: caches and negative dentries are as in a measurement.
    session.observe(&mut |_| Ok(()))?;
    let mut found = if functions.is_empty() {
        calls(&tracefs, session, &[])?
    } else {
        Err("only some were asked for".into())
    };
    if let Err(reason) = &found {
        let named: Vec<String> = if functions.is_empty() {
            not_available(workload, arm, "calls of all functions", reason.clone(), out)?;
            session.functions().iter().map(|f| (*f).to_owned()).collect()
        } else {
            functions.to_vec()
        };
        found = match tracefs.symbols(&named) {
            Ok((symbols, unknown)) => {
                for function in unknown {
                    let what = format!("calls of {function}");
                    let reason =
                        "it cannot be traced: merged into its callers, or not in this kernel".to_owned();
                    not_available(workload, arm, &what, reason, out)?;
                }
                if symbols.is_empty() {
                    Err("no function is left to trace".into())
                } else {
                    calls(&tracefs, session, &symbols)?
                }
            }
            Err(reason) => Err(reason),
        };
    }
    match found {
        Ok(found) => report_calls(workload, arm, found, out)?,
        Err(reason) => not_available(workload, arm, "calls", reason, out)?,
    }
    for function in session.returns() {
        match returns(&tracefs, session, function)? {
            Ok(found) => {
                for (operation, (null, other)) in found {
                    out.emit(Record::Returns(wire::Returns {
                        workload: workload.id.into(),
                        arm: arm.into(),
                        operation: operation.into(),
                        operations: SEQUENCES,
                        function: (*function).into(),
                        null,
                        other,
                    }))?;
                }
            }
            Err(reason) => not_available(workload, arm, &format!("returns of {function}"), reason, out)?,
        }
    }
    let names = session.locks();
    for function in names.functions {
        match lock_calls(&tracefs, session, function, &names)? {
            Ok(found) => report_calls(workload, arm, found, out)?,
            Err(reason) => not_available(workload, arm, &format!("locks of {function}"), reason, out)?,
        }
    }
    Ok(())
}

fn report_calls(
    workload: &Workload,
    arm: &str,
    found: BTreeMap<&'static str, CallCounts>,
    out: &mut Emitter,
) -> Result<(), Stop> {
    for (operation, calls) in found {
        let calls: Vec<_> = calls.into_iter().map(|((f, c), n)| (f, c, n)).collect();
        for part in calls.chunks(CHUNK) {
            out.emit(Record::Calls(wire::Calls {
                workload: workload.id.into(),
                arm: arm.into(),
                operation: operation.into(),
                operations: SEQUENCES,
                calls: part.to_vec(),
            }))?;
        }
    }
    Ok(())
}

fn not_available(
    workload: &Workload,
    arm: &str,
    what: &str,
    reason: String,
    out: &mut Emitter,
) -> Result<(), Stop> {
    out.emit(Record::NotAvailable(wire::NotAvailable {
        workload: workload.id.into(),
        arm: arm.into(),
        what: what.into(),
        reason,
    }))?;
    Ok(())
}

fn hits(
    tracefs: &Tracefs,
    workload: &Workload,
    setting: &Setting<'_>,
) -> Result<Seen<Vec<(String, u64)>>, Stop> {
    let profiler = match tracefs.profiler() {
        Ok(profiler) => profiler,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut prepared = (workload.prepare)(setting)?;
    let session = prepared.session();
    for _ in 0..SEQUENCES {
        session.observe(&mut |_| Ok(()))?;
    }
    session.finish()?;
    Ok(profiler.read())
}

/// Traces marked sequences and reads the windows of their operations, or says why not.
fn traced<T>(
    tracing: Seen<Tracing<'_>>,
    session: &mut dyn Session,
    sequences: u64,
    read: impl FnOnce(&[Window<'_>], &[&'static str]) -> Seen<T>,
) -> Result<Seen<T>, Stop> {
    let tracing = match tracing {
        Ok(tracing) => tracing,
        Err(reason) => return Ok(Err(reason)),
    };
    run_marked(session, &tracing, sequences)?;
    let operations = session.operations();
    Ok(tracing.read().and_then(|text| read(&trace_text::windows(&text, sequences, operations)?, operations)))
}

/// Calls in [`SEQUENCES`] operations of each kind, made by this task.
fn calls(
    tracefs: &Tracefs,
    session: &mut dyn Session,
    symbols: &[String],
) -> Result<Seen<BTreeMap<&'static str, CallCounts>>, Stop> {
    traced(tracefs.function_tracer(symbols), session, TRACED, |windows, operations| {
        Ok(operations.iter().map(|operation| (*operation, count(windows, operation))).collect())
    })
}

/// Calls of the locking `function` by lock and caller.
fn lock_calls(
    tracefs: &Tracefs,
    session: &mut dyn Session,
    function: &str,
    names: &LockNames,
) -> Result<Seen<BTreeMap<&'static str, CallCounts>>, Stop> {
    traced(tracefs.entry_probe(function), session, TRACED, |windows, operations| {
        let counted = operations.iter().map(|operation| {
            Ok((*operation, locks::count(function, names, windows, &undisturbed(windows, operation))?))
        });
        counted.collect()
    })
}

/// The first [`SEQUENCES`] windows of `operation` without an interrupt. An operation that cannot
/// do without is counted by its other lines.
fn undisturbed<'a, 'b>(windows: &'a [Window<'b>], operation: &str) -> Vec<&'a Window<'b>> {
    let of_operation = || windows.iter().filter(|w| w.operation == operation);
    let wanted = usize::try_from(SEQUENCES).expect("a few");
    let clean: Vec<_> = of_operation().filter(|w| !w.interrupted).take(wanted).collect();
    if clean.len() == wanted { clean } else { of_operation().take(wanted).collect() }
}

/// Calls in these windows of `operation`.
fn count(windows: &[Window<'_>], operation: &str) -> CallCounts {
    let taken = undisturbed(windows, operation);
    let mut counts = CallCounts::new();
    for (function, caller) in taken.iter().flat_map(|w| w.calls()) {
        *counts.entry((function.to_owned(), caller.to_owned())).or_default() += 1;
    }
    counts
}

/// NULL and other returns of `function` in each operation.
fn returns(tracefs: &Tracefs, session: &mut dyn Session, function: &str) -> Result<Seen<ReturnCounts>, Stop> {
    traced(tracefs.return_probe(function), session, SEQUENCES, |windows, operations| {
        let mut found: ReturnCounts = operations.iter().map(|o| (*o, (0, 0))).collect();
        for window in windows {
            let (null, other) = found.entry(window.operation).or_default();
            for value in window.returns()? {
                *(if value == 0 { &mut *null } else { &mut *other }) += 1;
            }
        }
        Ok(found)
    })
}

fn run_marked(session: &mut dyn Session, tracing: &Tracing<'_>, sequences: u64) -> Result<(), Stop> {
    tracing.start()?;
    for _ in 0..sequences {
        session.observe(&mut |edge| match edge {
            Edge::Begin(operation) => tracing.mark(&format!("BEGIN {operation}")),
            Edge::End(operation) => tracing.mark(&format!("END {operation}")),
        })?;
    }
    tracing.stop()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(interrupted: bool, lines: &[&'static str]) -> Window<'static> {
        Window { operation: "rmdir", interrupted, lines: lines.to_vec() }
    }

    #[test]
    fn windows_with_an_interrupt_are_left_out_while_there_are_enough_others() {
        let clean = || window(false, &["ilookup <-kernfs_remove"]);
        let disturbed = || window(true, &["ilookup <-kernfs_remove", "irq_enter_rcu <-sysvec_timer"]);
        let windows = [disturbed(), clean(), clean(), disturbed(), clean(), clean(), clean()];
        let counts: Vec<_> = count(&windows, "rmdir").into_iter().collect();
        assert_eq!(counts, [(("ilookup".to_owned(), "kernfs_remove".to_owned()), 4)]);
        assert_eq!(count(&[clean(), disturbed(), disturbed(), disturbed()], "rmdir").len(), 2);
        assert_eq!(count(&windows, "mkdir").len(), 0);
    }
}
