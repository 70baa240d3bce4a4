// SPDX-License-Identifier: GPL-2.0-or-later
//! Watches one sandboxed command: captures what it prints, ends it at its time,
//! at a limit or at an interrupt, and leaves nothing of it behind.

mod place;
mod usage;

pub use usage::NetworkUse;

use super::arguments::{Host, PATH, command_line};
use super::{Sandbox, SandboxError};
use place::Place;
use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself with this code; 128 + n after signal n.
    Exited(i32),
    /// It was ended after this many seconds.
    TimedOut(u64),
    /// It was ended because its processes held more resident memory than this, bytes.
    OverMemory(u64),
    /// It was ended because its directories grew by more than this, bytes.
    OverWritten(u64),
    /// It was ended because it made more files than this.
    OverFiles(u64),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::TimedOut(seconds) => write!(f, "stopped after its limit of {seconds} s"),
            Self::OverMemory(bytes) => write!(f, "stopped: more than its {} MiB of memory", bytes >> 20),
            Self::OverWritten(bytes) => write!(f, "stopped: wrote more than its {} MiB", bytes >> 20),
            Self::OverFiles(files) => write!(f, "stopped: made more than its {files} files"),
        }
    }
}

/// What a command printed: all of it, or its beginning and its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// At most `Limits::captured` bytes; hostile, escape before showing.
    pub bytes: Vec<u8>,
    /// Bytes left out between the beginning and the end.
    pub dropped: u64,
}

impl Captured {
    /// As text; what is no UTF-8 is replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// A command that ran and is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// What it did on its empty network, as far as the last look saw it.
    pub network: NetworkUse,
    /// Wall time.
    pub elapsed: Duration,
}

impl Finished {
    /// It ended by itself and says that all went well.
    pub fn success(&self) -> bool {
        self.ending == Ending::Exited(0)
    }
}

/// Between two looks at the interrupt flag and the clock.
const POLL: Duration = Duration::from_millis(20);
/// Between two looks at memory and network counters.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Between two looks at directories.
const DIRECTORIES_EVERY: Duration = Duration::from_secs(2);

/// Runs `sandbox`; see [`Sandbox::run_observed`].
pub(super) fn run(
    mut sandbox: Sandbox,
    timeout: Duration,
    interrupt: &AtomicBool,
    observe: &mut dyn FnMut(&[u8]),
) -> Result<Finished, SandboxError> {
    if interrupt.load(Ordering::SeqCst) {
        return Err(SandboxError::Interrupted);
    }
    let host = Host::look();
    require_tools(&host)?;
    let place = Place::new()?;
    let line = command_line(&sandbox, &host, &place.stage, &place.report);
    let written = sandbox.written_directories();
    let before = usage::directories(&written, u64::MAX);
    let started = Instant::now();
    let mut child = Command::new(&line[0])
        .args(&line[1..])
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(std::mem::replace(&mut sandbox.stdin, Stdio::null()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's Ctrl-C goes to kernmark alone, which then ends the command.
        .process_group(0)
        .spawn()
        .map_err(host_error("start unshare"))?;
    let (sender, receiver) = sync_channel(16);
    let readers = [
        spawn_reader(child.stdout.take().expect("piped above"), Stream::Output, sender.clone()),
        spawn_reader(child.stderr.take().expect("piped above"), Stream::Error, sender),
    ];
    let mut capture = [Capture::new(sandbox.limits.captured), Capture::new(sandbox.limits.captured)];
    let mut watched = Watched {
        sandbox: &sandbox,
        written: &written,
        before,
        report: &place.report,
        deadline: started + timeout,
        timeout,
        network: NetworkUse::default(),
    };
    let stopped = follow(&mut child, &mut watched, interrupt, &receiver, &mut capture, observe);
    if !matches!(stopped, Ok(None)) {
        end(&mut child, &place.report);
    }
    // The process that is waited for ends after all others of its namespace.
    let status = child.wait().map_err(host_error("wait for the command"))?;
    for chunk in receiver {
        take(chunk, &mut capture, observe);
    }
    for reader in readers {
        reader.join().expect("a reader does not panic");
    }
    let [stdout, stderr] = capture.map(Capture::finish);
    let (elapsed, network) = (started.elapsed(), watched.network);
    let ending = match stopped? {
        Some(ending) => ending,
        None => Ending::Exited(place.exit_code().ok_or_else(|| refused(status, &stderr))?),
    };
    Ok(Finished { ending, stdout, stderr, network, elapsed })
}

/// What bounds a running command.
struct Watched<'a> {
    sandbox: &'a Sandbox,
    written: &'a [PathBuf],
    before: usage::Usage,
    report: &'a Path,
    deadline: Instant,
    timeout: Duration,
    network: NetworkUse,
}

/// Follows the command until it is gone (`None`) or has to be stopped.
fn follow(
    child: &mut Child,
    watched: &mut Watched<'_>,
    interrupt: &AtomicBool,
    receiver: &Receiver<Chunk>,
    capture: &mut [Capture; 2],
    observe: &mut dyn FnMut(&[u8]),
) -> Result<Option<Ending>, SandboxError> {
    let limits = &watched.sandbox.limits;
    let (mut look_next, mut directories_next) = (Instant::now(), Instant::now() + DIRECTORIES_EVERY);
    let mut open = true;
    loop {
        if open {
            match receiver.recv_timeout(POLL) {
                Ok(chunk) => take(chunk, capture, observe),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => open = false,
            }
        } else {
            // Both outputs are closed: as a rule the command is just ending.
            std::thread::sleep(Duration::from_millis(3));
        }
        if interrupt.load(Ordering::SeqCst) {
            return Err(SandboxError::Interrupted);
        }
        let now = Instant::now();
        if now >= watched.deadline {
            return Ok(Some(Ending::TimedOut(watched.timeout.as_secs())));
        }
        if now >= look_next {
            look_next = now + LOOK_EVERY;
            if let Some(seen) = inner_process(child.id(), watched.report).and_then(usage::network) {
                watched.network = seen;
            }
            let memory = usage::Processes::under(child.id()).memory();
            if memory > limits.memory {
                return Ok(Some(Ending::OverMemory(limits.memory)));
            }
        }
        if now >= directories_next {
            let usage =
                usage::directories(watched.written, watched.before.files.saturating_add(limits.files));
            if usage.files > watched.before.files.saturating_add(limits.files) {
                return Ok(Some(Ending::OverFiles(limits.files)));
            }
            let nameless = usage::Processes::under(child.id()).nameless();
            if usage.bytes.saturating_add(nameless) > watched.before.bytes.saturating_add(limits.written) {
                return Ok(Some(Ending::OverWritten(limits.written)));
            }
            directories_next = Instant::now() + DIRECTORIES_EVERY;
        }
        if child.try_wait().map_err(host_error("wait for the command"))?.is_some() {
            return Ok(None);
        }
    }
}

/// Ends a running command. Killing the first process of its namespace lets the
/// kernel kill all the others and wait for them; only then does the process
/// outside end. Before that namespace exists the process group is the command.
fn end(child: &mut Child, report: &Path) {
    use nix::sys::signal::{Signal, kill, killpg};
    use nix::unistd::Pid;
    let outer = child.id();
    for attempt in 0..500 {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        match inner_process(outer, report) {
            Some(inner) => {
                // It may just have ended by itself.
                let _ = kill(Pid::from_raw(inner as i32), Signal::SIGKILL);
            }
            None => {
                // As above; `--die-with-parent` takes the inside along.
                let _ = killpg(Pid::from_raw(outer as i32), Signal::SIGKILL);
            }
        }
        if attempt == 100 {
            // A namespace that does not go away is not waited for any longer.
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The first process of the command's own namespace. Its parent is checked, so
/// that a number which another process has got since is never taken for it.
fn inner_process(outer: u32, report: &Path) -> Option<u32> {
    let inner = u32::try_from(reported_number(report, "child-pid")?).ok()?;
    (usage::parent(inner) == Some(outer)).then_some(inner)
}

/// First value of `key` in bubblewrap's report, one JSON object a line.
fn reported_number(report: &Path, key: &str) -> Option<i64> {
    let text = std::fs::read_to_string(report).ok()?;
    text.lines().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()?.get(key)?.as_i64())
}

fn require_tools(host: &Host) -> Result<(), SandboxError> {
    let mut tools = vec![
        ("bwrap", "bubblewrap"),
        ("unshare", "util-linux"),
        ("prlimit", "util-linux"),
        ("mount", "mount"),
    ];
    if host.root {
        tools.push(("setpriv", "util-linux"));
    }
    match tools.into_iter().find(|(tool, _)| !super::is_installed(tool)) {
        Some((tool, package)) => Err(SandboxError::ToolMissing { tool, package }),
        None => Ok(()),
    }
}

/// The command was never started: setting the sandbox up failed.
fn refused(status: std::process::ExitStatus, stderr: &Captured) -> SandboxError {
    let text = stderr.text();
    // mount(8) ends with advice to read dmesg, which is no part of the cause.
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains("dmesg"));
    let said = lines.collect::<Vec<_>>().join("; ");
    SandboxError::Refused { detail: format!("{} ({status})", said.escape_debug()) }
}

fn host_error(what: &'static str) -> impl Fn(std::io::Error) -> SandboxError {
    move |source| SandboxError::Host { what, source }
}

#[derive(Clone, Copy)]
enum Stream {
    Output,
    Error,
}

type Chunk = (Stream, Vec<u8>);

fn spawn_reader(
    mut from: impl Read + Send + 'static,
    stream: Stream,
    to: SyncSender<Chunk>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => {
                    if to.send((stream, buffer[..length].to_vec())).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })
}

fn take((stream, bytes): Chunk, capture: &mut [Capture; 2], observe: &mut dyn FnMut(&[u8])) {
    match stream {
        Stream::Output => {
            observe(&bytes);
            capture[0].add(&bytes);
        }
        Stream::Error => capture[1].add(&bytes),
    }
}

/// Keeps the first and the last half of what comes, within a bound.
struct Capture {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Capture {
    fn new(bound: usize) -> Self {
        Self { half: bound / 2, head: Vec::new(), tail: VecDeque::new(), dropped: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
    }

    fn finish(self) -> Captured {
        let mut bytes = self.head;
        bytes.extend(self.tail);
        Captured { bytes, dropped: self.dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_keeps_both_ends_and_counts_the_rest() {
        let mut capture = Capture::new(8);
        for bytes in [&b"abc"[..], b"defg", b"", b"hijklmn"] {
            capture.add(bytes);
        }
        assert_eq!(capture.finish(), Captured { bytes: b"abcdklmn".to_vec(), dropped: 6 });
        let mut short = Capture::new(8);
        short.add(b"abcdef");
        assert_eq!(short.finish(), Captured { bytes: b"abcdef".to_vec(), dropped: 0 });
    }

    #[test]
    fn the_first_report_of_a_number_counts() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let report = directory.path().join("report");
        assert_eq!(reported_number(&report, "exit-code"), None);
        std::fs::write(&report, "{ \"child-pid\": 12, \"mnt-namespace\": 4026532179 }\n").expect("written");
        assert_eq!(reported_number(&report, "child-pid"), Some(12));
        assert_eq!(reported_number(&report, "exit-code"), None);
        std::fs::write(&report, "{ \"child-pid\": 12 }\n{ \"exit-code\": 3 }\n{ \"child-pid\": 1 }\n")
            .expect("written");
        assert_eq!(
            (reported_number(&report, "child-pid"), reported_number(&report, "exit-code")),
            (Some(12), Some(3))
        );
    }
}
