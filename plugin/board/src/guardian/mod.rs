// SPDX-License-Identifier: GPL-2.0-or-later
//! Nothing is left behind, whatever ends a measurement: the work is done in a
//! child, and this process, which does nothing else, puts everything back when
//! the child dies. When both are killed, the next start finds their journal and
//! puts everything back first (workloads.md 1.4).
//!
//! A scheduler, a private mount namespace and locked memory go with the child by
//! themselves. PID 1 of a guest needs no guardian: its machine ends with it.

mod journal;
mod remains;

pub use remains::own_name;

use crate::machine::Snapshot;
use crate::observe;
use crate::stop::Exit;
use journal::{Controllers, Journal};
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, Signal, kill, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Processes that the child has left behind must be gone within this time.
const ORPHAN_LIMIT: Duration = Duration::from_secs(5);

/// Passed on to the child, which then ends in order.
const PASSED_ON: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// What is guarded.
#[derive(Debug)]
pub struct Guarded {
    /// Where settings are.
    pub sysfs: PathBuf,
    /// Where journals are kept; by default a directory of this user's own.
    pub journals: Option<PathBuf>,
    /// Whether the tracing of the kernel is used.
    pub traces: bool,
}

/// Does `work` in a child and returns its exit; what the child has not put back is put back here.
pub fn run(guarded: &Guarded, work: impl FnOnce() -> Exit) -> Exit {
    let directory = match journal::directory(guarded.journals.as_deref()) {
        Ok(directory) => Some(directory),
        Err(error) => {
            say(&format!("no journal is kept, a killed run cannot be put back later: {error}"));
            None
        }
    };
    for path in directory.iter().flat_map(|place| journal::stale(place)) {
        say("an earlier run was killed; putting back what it has changed");
        path.put_back().iter().for_each(|line| say(line));
    }
    let settings = Snapshot::take(&guarded.sysfs);
    let controllers = journal::controllers();
    let journal =
        directory.and_then(|place| Journal::new(&place, &settings, &controllers, guarded.traces).ok());
    match start(journal.as_ref(), work) {
        Ok((child, exit)) => {
            let killed = exit.is_none();
            let mut lines = Vec::new();
            if killed {
                lines = put_back(&settings, &controllers, guarded.traces);
            }
            lines.extend(remains::sweep(child.as_raw()));
            if killed {
                say("the measuring process was killed; its numbers are void");
            }
            lines.iter().for_each(|line| say(line));
            if let Some(journal) = journal {
                journal.remove();
            }
            exit.unwrap_or(Exit::Machine)
        }
        Err(error) => {
            say(&format!("no process can be started: {error}"));
            Exit::Machine
        }
    }
}

fn say(line: &str) {
    eprintln!("kernmark-board: {line}");
}

/// Puts settings back; what became of each that differed.
fn put_back(settings: &Snapshot, controllers: &[Controllers], traces: bool) -> Vec<String> {
    if traces {
        observe::reset();
    }
    let mut lines: Vec<String> = settings.put_back().into_iter().map(|put| put.outcome).collect();
    lines.extend(controllers.iter().flat_map(Controllers::put_back));
    lines
}

/// Starts the child and waits for it; its process and exit, `None` where a signal killed it.
fn start(journal: Option<&Journal>, work: impl FnOnce() -> Exit) -> Result<(Pid, Option<Exit>), Errno> {
    let mut awaited = SigSet::from_iter(PASSED_ON);
    awaited.add(Signal::SIGCHLD);
    // Ignored, as a shell may have left it, it would not be delivered at all.
    // SAFETY: the default action is no handler of ours.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
    let before = SigSet::thread_get_mask()?;
    awaited.thread_block()?;
    // What the child leaves behind becomes ours, so that it can be found.
    // SAFETY: plain numbers, no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    let guardian = getpid();
    // SAFETY: this process has one thread, so that the child may do whatever it could.
    match unsafe { fork() }? {
        ForkResult::Child => {
            // A guardian that is killed must not leave a run that nobody guards.
            // SAFETY: plain numbers, no memory.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0) };
            let allowed = before.thread_set_mask().is_ok() && getppid() == guardian;
            let noted = journal.is_none_or(|journal| journal.note_process(getpid().as_raw()).is_ok());
            let exit = if allowed && noted { work() } else { Exit::Machine };
            std::process::exit(exit as i32)
        }
        ForkResult::Parent { child } => {
            let exit = wait(child, &awaited);
            end_orphans();
            Ok((child, exit))
        }
    }
}

/// Waits until the child has ended; `None` where a signal killed it.
fn wait(child: Pid, awaited: &SigSet) -> Option<Exit> {
    loop {
        match awaited.wait() {
            Ok(Signal::SIGCHLD) => loop {
                match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                    Ok(WaitStatus::Exited(pid, code)) if pid == child => return Some(Exit::of_code(code)),
                    Ok(WaitStatus::Signaled(pid, ..)) if pid == child => return None,
                    Ok(WaitStatus::StillAlive) | Err(_) => break,
                    Ok(_) => {}
                }
            },
            Ok(passed_on) => {
                // It may have ended by itself; then nobody is left to be told.
                let _ = kill(child, passed_on);
            }
            Err(_) => {}
        }
    }
}

/// Kills what the child has left running.
fn end_orphans() {
    let start = Instant::now();
    while start.elapsed() < ORPHAN_LIMIT {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return,
            Ok(WaitStatus::StillAlive) => {
                for orphan in remains::children_of(getpid().as_raw()) {
                    let _ = kill(Pid::from_raw(orphan), Signal::SIGKILL);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(_) | Err(_) => {}
        }
    }
    say("processes of the measurement do not end; look for them with ps");
}
