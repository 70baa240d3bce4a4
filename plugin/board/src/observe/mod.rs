// SPDX-License-Identifier: GPL-2.0-or-later
//! Untimed passes: which functions run at all, calls per operation by caller,
//! NULL returns. With tracefs only. What cannot be seen is "not available".

mod trace_text;
mod tracefs;

use crate::emit::Emitter;
use crate::measure::Cpu;
use crate::stop::Stop;
use crate::workloads::{Edge, Session, Workload};
use kernmark_wire as wire;
use kernmark_wire::Record;
use std::collections::BTreeMap;
use tracefs::Tracefs;

/// Sequences observed in each pass (workloads.md 2.3).
pub const SEQUENCES: u64 = 4;
/// Entries of a list in one line of results.
const CHUNK: usize = 128;

/// Observes one arm and reports what was seen.
///
/// # Errors
/// An operation failed, or results cannot be written. An observation that
/// cannot be made is reported, not an error.
pub fn observe(
    workload: &Workload,
    arm: &str,
    cpu: Cpu,
    functions: &[String],
    out: &mut Emitter,
) -> Result<(), Stop> {
    let not_available = |what: String, reason: String| {
        Record::NotAvailable(wire::NotAvailable {
            workload: workload.id.into(),
            arm: arm.into(),
            what,
            reason,
        })
    };
    let tracefs = match Tracefs::find() {
        Ok(tracefs) => tracefs,
        Err(reason) => {
            // The arm must still be one that can run here.
            (workload.prepare)(arm, cpu)?.finish()?;
            for what in ["profile", "calls"] {
                out.emit(not_available(what.into(), reason.clone()))?;
            }
            return Ok(());
        }
    };
    match profile(&tracefs, workload, arm, cpu)? {
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
        Err(reason) => out.emit(not_available("profile".into(), reason))?,
    }
    let mut session = (workload.prepare)(arm, cpu)?;
    // Not counted: caches and negative dentries are as in a measurement.
    session.observe(&mut |_| Ok(()))?;
    match calls(&tracefs, session.as_mut(), functions)? {
        Ok(found) => {
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
        }
        Err(reason) => out.emit(not_available("calls".into(), reason))?,
    }
    for function in session.returns() {
        match returns(&tracefs, session.as_mut(), function)? {
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
            Err(reason) => out.emit(not_available(format!("returns of {function}"), reason))?,
        }
    }
    for check in session.finish()? {
        out.emit(Record::Check(check))?;
    }
    Ok(())
}

/// What was seen, or why it could not be seen.
type Seen<T> = Result<T, String>;

/// Hits of every function while the workload is set up, runs and ends.
fn profile(
    tracefs: &Tracefs,
    workload: &Workload,
    arm: &str,
    cpu: Cpu,
) -> Result<Seen<Vec<(String, u64)>>, Stop> {
    let profiler = match tracefs.profiler() {
        Ok(profiler) => profiler,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut session = (workload.prepare)(arm, cpu)?;
    for _ in 0..SEQUENCES {
        session.observe(&mut |_| Ok(()))?;
    }
    session.finish()?;
    Ok(profiler.read())
}

/// (NULL, other) by operation.
type ReturnCounts = BTreeMap<&'static str, (u64, u64)>;
/// Calls by (function, caller).
type CallCounts = BTreeMap<(String, String), u64>;

/// Calls by function and caller in each operation, made by this task.
fn calls(
    tracefs: &Tracefs,
    session: &mut dyn Session,
    functions: &[String],
) -> Result<Seen<BTreeMap<&'static str, CallCounts>>, Stop> {
    let tracing = match tracefs.function_tracer(functions) {
        Ok(tracing) => tracing,
        Err(reason) => return Ok(Err(reason)),
    };
    run_marked(session, &tracing)?;
    Ok(tracing.read().and_then(|text| {
        let mut found: BTreeMap<&'static str, CallCounts> =
            session.operations().iter().map(|o| (*o, CallCounts::new())).collect();
        trace_text::for_each_call(&text, SEQUENCES, session.operations(), |operation, function, caller| {
            *found.entry(operation).or_default().entry((function.into(), caller.into())).or_default() += 1;
        })?;
        Ok(found)
    }))
}

/// NULL and other returns of `function` in each operation.
fn returns(tracefs: &Tracefs, session: &mut dyn Session, function: &str) -> Result<Seen<ReturnCounts>, Stop> {
    let tracing = match tracefs.return_probe(function) {
        Ok(tracing) => tracing,
        Err(reason) => return Ok(Err(reason)),
    };
    run_marked(session, &tracing)?;
    Ok(tracing.read().and_then(|text| {
        let mut found: ReturnCounts = session.operations().iter().map(|o| (*o, (0, 0))).collect();
        trace_text::for_each_return(&text, SEQUENCES, session.operations(), |operation, value| {
            let (null, other) = found.entry(operation).or_default();
            *(if value == 0 { null } else { other }) += 1;
        })?;
        Ok(found)
    }))
}

fn run_marked(session: &mut dyn Session, tracing: &tracefs::Tracing<'_>) -> Result<(), Stop> {
    tracing.start()?;
    for _ in 0..SEQUENCES {
        session.observe(&mut |edge| match edge {
            Edge::Begin(operation) => tracing.mark(&format!("BEGIN {operation}")),
            Edge::End(operation) => tracing.mark(&format!("END {operation}")),
        })?;
    }
    tracing.stop()
}
