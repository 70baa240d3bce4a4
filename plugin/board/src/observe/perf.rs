// SPDX-License-Identifier: GPL-2.0-or-later
//! The sampling profile (workloads.md 3.4): where the workers of a workload
//! spend their time, by function and by caller, from perf_event_open(2) with
//! call chains of the kernel. Untimed: it makes no claim on cost.

mod event;
mod ring;
mod shares;
mod symbols;

pub use shares::Frames;

use super::{CHUNK, not_available};
use crate::emit::Emitter;
use crate::measure::Clock;
use crate::stop::Stop;
use crate::workloads::{Prepared, Setting, Value, Workload};
use event::{Event, Source, instructions, sampling_sources};
use kernmark_wire as wire;
use kernmark_wire::Record;
use nix::unistd::{Pid, gettid};
use ring::Ring;
use shares::Shares;
use std::path::Path;
use std::time::{Duration, Instant};
use symbols::Symbols;

/// How long one worker samples itself before its buffer is read.
const STRETCH: Duration = Duration::from_millis(250);
/// Sequences between two looks at the time.
const SEQUENCES: usize = 64;
/// Where counters are described.
const SYSFS: &str = "/sys";

/// How it is sampled.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// How long.
    pub duration: Duration,
    /// Samples in a second of each worker.
    pub frequency: u64,
    /// The clock, for workloads that time themselves.
    pub clock: Clock,
}

/// A worker to sample.
#[derive(Debug)]
struct Sampled {
    event: Event,
    ring: Ring,
    instructions: Option<Event>,
}

/// Samples while the workload runs and reports what was seen. What cannot be sampled is "not
/// available", never a zero.
///
/// # Errors
/// An operation failed, or results cannot be written.
pub fn report(
    setting: &Setting<'_>,
    workload: &Workload,
    prepared: &mut Prepared,
    manner: Manner,
    out: &mut Emitter,
) -> Result<(), Stop> {
    let seen = match Symbols::of_this_kernel() {
        Ok(symbols) => sample(setting, prepared, manner, &symbols)?,
        Err(reason) => Err(reason),
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(reason) => return not_available(workload, setting.arm, "sampling profile", reason, out),
    };
    let Seen { shares, event, instead_of, workers, elapsed, operations, kernel_instructions } = seen;
    if let Err(reason) = &kernel_instructions {
        let what = "kernel instructions per operation";
        not_available(workload, setting.arm, what, reason.clone(), out)?;
    }
    out.emit(Record::Sampling(wire::Sampling {
        workload: workload.id.into(),
        arm: setting.arm.into(),
        event,
        instead_of,
        frequency: manner.frequency,
        workers,
        milliseconds: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        operations,
        samples: shares.samples,
        user: shares.user,
        lost: shares.lost,
        throttled: shares.throttled,
        kernel_instructions: kernel_instructions.ok(),
    }))?;
    let own: Vec<(String, u64)> = shares.own.into_iter().collect();
    for part in own.chunks(CHUNK) {
        out.emit(Record::SelfSamples(wire::SelfSamples {
            workload: workload.id.into(),
            arm: setting.arm.into(),
            functions: part.to_vec(),
        }))?;
    }
    let callers: Vec<_> = shares
        .by_caller
        .into_iter()
        .map(|((f, caller, way), n)| (f, caller.to_owned(), way.to_owned(), n))
        .collect();
    for part in callers.chunks(CHUNK) {
        out.emit(Record::CallerSamples(wire::CallerSamples {
            workload: workload.id.into(),
            arm: setting.arm.into(),
            callers: part.to_vec(),
        }))?;
    }
    Ok(())
}

/// What was sampled.
struct Seen {
    shares: Shares,
    event: String,
    instead_of: String,
    workers: u64,
    elapsed: Duration,
    operations: u64,
    kernel_instructions: Result<u64, String>,
}

fn sample(
    setting: &Setting<'_>,
    prepared: &mut Prepared,
    manner: Manner,
    symbols: &Symbols,
) -> Result<Result<Seen, String>, Stop> {
    let threads = match prepared {
        Prepared::Operations(_) => vec![(gettid(), Some(setting.cpu.0))],
        Prepared::Rounds(session) => session.workers(),
    };
    if threads.is_empty() {
        return Ok(Err("its workers do not live as long as a profile".into()));
    }
    let on_efficiency_core =
        |cpu: Option<usize>| cpu.is_some_and(|cpu| setting.topology.efficiency.0.contains(&cpu));
    let (sampled, event, instead_of) = match open(&threads, on_efficiency_core, manner.frequency) {
        Ok(opened) => opened,
        Err(reason) => return Ok(Err(reason)),
    };
    let (sampled, counted) = with_instructions(sampled, &threads, on_efficiency_core);
    let frames = prepared.session().frames();
    let mut shares = Shares::default();
    let (elapsed, operations) = run(prepared, &sampled, manner, &mut |sampled| {
        for worker in sampled {
            shares.add(&worker.ring.read(), symbols, &frames);
        }
    })?;
    let kernel_instructions = counted.and_then(|()| {
        sampled.iter().try_fold(0_u64, |sum, worker| {
            let event = worker.instructions.as_ref().ok_or("not counted for every worker")?;
            Ok(sum + event.count().map_err(|e| format!("the counter cannot be read: {e}"))?)
        })
    });
    let workers = threads.len() as u64;
    Ok(Ok(Seen { shares, event, instead_of, workers, elapsed, operations, kernel_instructions }))
}

/// The best source that serves for every thread, its name, and why not a better one.
fn open(
    threads: &[(Pid, Option<usize>)],
    on_efficiency_core: impl Fn(Option<usize>) -> bool,
    frequency: u64,
) -> Result<(Vec<Sampled>, String, String), String> {
    let root = Path::new(SYSFS);
    let sources: Vec<Vec<Source>> =
        threads.iter().map(|(_, cpu)| sampling_sources(root, on_efficiency_core(*cpu))).collect();
    let choices = sources.iter().map(Vec::len).min().unwrap_or(0);
    let mut refused = Vec::new();
    if choices == sampling_sources(Path::new("/nowhere"), false).len() {
        refused.push("this machine shows no hardware counters".to_owned());
    }
    for choice in 0..choices {
        let each = threads.iter().zip(&sources).map(|((thread, _), sources)| {
            let source = &sources[choice];
            let event = Event::sampling(source, *thread, frequency).map_err(|e| (source, e))?;
            let ring = Ring::new(&event).map_err(|e| (source, e))?;
            Ok(Sampled { event, ring, instructions: None })
        });
        match each.collect::<Result<Vec<Sampled>, (&Source, nix::errno::Errno)>>() {
            Ok(sampled) => {
                let mut names: Vec<&str> =
                    sources.iter().map(|sources| sources[choice].name.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                return Ok((sampled, names.join(" and "), refused.join("; ")));
            }
            Err((source, error)) => refused.push(format!("{}: {error}", source.name)),
        }
    }
    Err(format!(
        "no counter can be had: {}; run as root, or with kernel.perf_event_paranoid=1 and \
         kernel.kptr_restrict=0",
        refused.join("; ")
    ))
}

/// Adds a counter of kernel instructions to each, or says why there is none.
fn with_instructions(
    mut sampled: Vec<Sampled>,
    threads: &[(Pid, Option<usize>)],
    on_efficiency_core: impl Fn(Option<usize>) -> bool,
) -> (Vec<Sampled>, Result<(), String>) {
    for (worker, (thread, cpu)) in sampled.iter_mut().zip(threads) {
        let Some(source) = instructions(Path::new(SYSFS), on_efficiency_core(*cpu)) else {
            return (sampled, Err("this machine shows no hardware counters (no PMU)".into()));
        };
        match Event::counting_kernel(&source, *thread) {
            Ok(event) => worker.instructions = Some(event),
            Err(error) => return (sampled, Err(format!("{}: {error}", source.name))),
        }
    }
    (sampled, Ok(()))
}

/// Runs the workload with the counters on; for how long and how many operations.
fn run(
    prepared: &mut Prepared,
    sampled: &[Sampled],
    manner: Manner,
    read: &mut dyn FnMut(&[Sampled]),
) -> Result<(Duration, u64), Stop> {
    match prepared {
        Prepared::Rounds(session) => {
            let mut values = [Value::default(); 8];
            let values = &mut values[..];
            // Warm-up, which also releases the workers.
            session.round(manner.clock, 1, values)?;
            let (start, before) = (Instant::now(), session.done());
            switch(sampled, true)?;
            let mut round = 0;
            while start.elapsed() < manner.duration {
                crate::signals::check()?;
                round += 1;
                session.round(manner.clock, round, values)?;
                read(sampled);
            }
            switch(sampled, false)?;
            let (elapsed, done) = (start.elapsed(), session.done() - before);
            read(sampled);
            Ok((elapsed, done))
        }
        Prepared::Operations(session) => {
            let mut times = [crate::measure::Timed::default(); 8];
            for _ in 0..SEQUENCES {
                session.sequence(manner.clock, &mut times)?;
            }
            let (start, mut elapsed, mut operations) = (Instant::now(), Duration::ZERO, 0);
            while start.elapsed() < manner.duration {
                crate::signals::check()?;
                let stretch = Instant::now();
                switch(sampled, true)?;
                while stretch.elapsed() < STRETCH {
                    for _ in 0..SEQUENCES {
                        session.sequence(manner.clock, &mut times)?;
                    }
                    operations += SEQUENCES as u64;
                }
                // Reading the buffer is not the workload's work.
                switch(sampled, false)?;
                elapsed += stretch.elapsed();
                read(sampled);
            }
            Ok((elapsed, operations))
        }
    }
}

fn switch(sampled: &[Sampled], on: bool) -> Result<(), Stop> {
    for worker in sampled {
        let events = std::iter::once(&worker.event).chain(&worker.instructions);
        for event in events {
            event.enable(on).map_err(|e| Stop::failed("switching a counter", e))?;
        }
    }
    Ok(())
}
