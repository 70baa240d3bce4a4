// SPDX-License-Identifier: GPL-2.0-or-later
//! Whatever ends a run, nothing is left of it: no group, mount, file or changed
//! setting. Settings are those of a tree like sysfs, because a virtual machine
//! has none; groups and mounts are real where the test runs as root.

use super::{board, is_ordinary};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A process that was told to end must have ended within this time.
const LIMIT: Duration = Duration::from_secs(30);
/// More than anybody waits for.
const ENDLESS: &[&str] = &["--warmups", "18446744073709551615"];

/// A machine with settings, and a place for journals.
struct Machine {
    sysfs: TempDir,
    journals: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            sysfs: tempfile::tempdir().expect("temporary directory"),
            journals: tempfile::tempdir().expect("temporary directory"),
        };
        for cpu in 0..2 {
            let place = format!("devices/system/cpu/cpu{cpu}/cpufreq");
            machine.write(&format!("{place}/scaling_governor"), "powersave");
            machine.write(&format!("{place}/energy_performance_preference"), "balance_performance");
        }
        machine.write("devices/system/cpu/intel_pstate/no_turbo", "0");
        machine.write("kernel/debug/sched/preempt", "full");
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.sysfs.path().join(path);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("writable");
        fs::write(path, text).expect("writable");
    }

    /// Every setting.
    fn settings(&self) -> BTreeMap<PathBuf, String> {
        fn walk(place: &Path, found: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(place).expect("readable").flatten() {
                if entry.path().is_dir() {
                    walk(&entry.path(), found);
                } else {
                    found.insert(entry.path(), fs::read_to_string(entry.path()).expect("readable"));
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(self.sysfs.path(), &mut found);
        found
    }

    /// A run on this machine: of real groups where that is allowed.
    fn run(&self, more: &[&str]) -> Command {
        let workload: &[&str] =
            if groups_allowed() { &["kernfs.rmdir", "--arm", "bare"] } else { &["control.getppid"] };
        self.run_of(&[workload, &["--samples", "1"], more].concat())
    }

    /// A run on this machine with these arguments.
    fn run_of(&self, arguments: &[&str]) -> Command {
        let mut command = board(&["run"]);
        command.args(arguments);
        command.arg("--sysfs").arg(self.sysfs.path()).arg("--journals").arg(self.journals.path());
        // Its own group, as a terminal would make it.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn journals(&self) -> usize {
        fs::read_dir(self.journals.path()).map_or(0, Iterator::count)
    }
}

/// Whether cgroup2 is mounted and groups can be made.
fn groups_allowed() -> bool {
    nix::unistd::geteuid().is_root() && !group_roots().is_empty()
}

fn group_roots() -> Vec<PathBuf> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").expect("procfs");
    let of_cgroup2 = mountinfo.lines().filter(|line| line.contains(" - cgroup2 "));
    of_cgroup2.filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect()
}

/// Whatever carries the number of this process: groups, files, mounts.
fn remains_of(process: i32) -> Vec<String> {
    let name = format!("kernmark-{process}");
    let mut found = Vec::new();
    let temporary = ["/tmp", "/dev/shm", "/run", "/var/tmp", "/mnt"].map(PathBuf::from);
    for place in group_roots().into_iter().chain(temporary).chain([std::env::temp_dir()]) {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&name) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").expect("procfs");
    found.extend(mountinfo.lines().filter(|line| line.contains(&name)).map(str::to_owned));
    found
}

/// A run that measures without end, and the process that measures.
struct Running {
    guardian: Child,
    measuring: i32,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    /// Starts it and waits until it measures.
    fn start(machine: &Machine, more: &[&str]) -> Self {
        let started = Self::of(machine, &mut machine.run(more)).expect("it measures");
        if groups_allowed() {
            // The progress of a sample is said when its group is still to be made.
            await_that("a group", || !remains_of(started.measuring).is_empty());
        }
        started
    }

    /// The same of any run; what it said, when nothing of it can be measured here.
    fn of(machine: &Machine, run: &mut Command) -> Result<Self, String> {
        let before = machine.settings();
        let mut guardian = run.spawn().expect("the program starts");
        let mut stderr = BufReader::new(guardian.stderr.take().expect("piped"));
        let (mut said, mut begun) = (String::new(), 0);
        while !said[begun..].contains("sample 1/") {
            begun = said.len();
            if stderr.read_line(&mut said).expect("readable") == 0 {
                guardian.wait().expect("our own child");
                return Err(said);
            }
        }
        let journal = fs::read_dir(machine.journals.path()).expect("readable").flatten().next();
        let text = fs::read_to_string(journal.expect("a journal").path()).expect("readable");
        let number = text.lines().find_map(|l| l.strip_prefix("process\t")).expect("it is noted");
        let measuring = number.parse().expect("a number");
        assert_ne!(machine.settings(), before, "settings are applied");
        Ok(Self { guardian, measuring, stderr })
    }

    fn guardian(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.guardian.id()).expect("a pid"))
    }

    fn measuring(&self) -> Pid {
        Pid::from_raw(self.measuring)
    }

    /// Exit code and what was said.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).expect("readable");
        (self.guardian.wait().expect("our own child").code(), said)
    }
}

/// Waits for something another process does.
fn await_that(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "no {what} within {LIMIT:?}");
        std::thread::yield_now();
    }
}

/// `Z` or no process at all.
fn has_ended(process: i32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat"))
        .map_or(true, |stat| stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z')))
}

fn assert_nothing_left(machine: &Machine, before: &BTreeMap<PathBuf, String>, process: i32) {
    assert_eq!(&machine.settings(), before);
    assert_eq!(remains_of(process), Vec::<String>::new());
    assert_eq!(machine.journals(), 0);
}

#[test]
fn after_success_and_after_an_error_nothing_is_left() {
    if !is_ordinary() {
        return;
    }
    let machine = Machine::new();
    let before = machine.settings();
    for (more, code) in [
        (&["--operations", "8"][..], 0),
        // Nothing can be written to this device.
        (&["--operations", "8", "--output", "/dev/full"], 4),
        (&["--operations", "8", "--format", "jsonl", "--output", "/dev/full"], 4),
        (&["--operations", "8", "--expect-cpus", "5000"], 4),
    ] {
        let ended = machine.run(more).output().expect("the program starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{more:?}: {said}");
        assert!(!said.contains("removed") && !said.contains("again"), "the guardian had to help: {said}");
        assert_eq!(machine.settings(), before);
        assert_eq!(machine.journals(), 0);
    }
}

#[test]
fn after_an_error_in_the_midst_nothing_is_left() {
    if !is_ordinary() {
        return;
    }
    let machine = Machine::new();
    let before = machine.settings();
    let mut run = Running::start(&machine, &["--operations", "200000", "--format", "jsonl"]);
    // Stopped, so that it cannot end before nobody reads its results any more.
    kill(run.measuring(), Signal::SIGSTOP).expect("our own grandchild");
    drop(run.guardian.stdout.take());
    kill(run.measuring(), Signal::SIGCONT).expect("our own grandchild");
    let (code, said) = run.end();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("cannot write results"), "{said}");
    assert_nothing_left(&machine, &before, run.measuring);
}

#[test]
fn after_ctrl_c_nothing_is_left() {
    if !is_ordinary() {
        return;
    }
    let machine = Machine::new();
    let before = machine.settings();
    let mut run = Running::start(&machine, ENDLESS);
    // The terminal tells the whole group.
    killpg(run.guardian(), Signal::SIGINT).expect("our own child");
    let (code, said) = run.end();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert_nothing_left(&machine, &before, run.measuring);
}

#[test]
fn after_the_measuring_process_is_killed_nothing_is_left() {
    if !is_ordinary() {
        return;
    }
    let machine = Machine::new();
    let before = machine.settings();
    let mut run = Running::start(&machine, ENDLESS);
    kill(run.measuring(), Signal::SIGKILL).expect("our own grandchild");
    let (code, said) = run.end();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("was killed") && said.contains("no_turbo is 0 again"), "{said}");
    assert_nothing_left(&machine, &before, run.measuring);
}

/// Files, mounts and processes of each workload.
#[test]
fn after_a_kill_of_any_workload_nothing_is_left() {
    if !is_ordinary() {
        return;
    }
    let machine = Machine::new();
    let before = machine.settings();
    let mut measured = 0;
    for arguments in [
        &["fsnotify.churn", "--samples", "1", "--warmups", "18446744073709551615"][..],
        &["fsnotify.watch", "--arm", "p1", "--operations", "1", "--samples", "4000000"],
        &["fsnotify.watch", "--arm", "controls", "--operations", "1", "--samples", "4000000"],
        &["kernfs.open", "--arm", "w1", "--operations", "1", "--samples", "4000000", "--warmups", "0"],
        &["kernfs.open", "--arm", "tmpfs", "--samples", "1", "--warmups", "18446744073709551615"],
        &["shrinker.umount", "--arm", "lat", "--samples", "1", "--warmups", "18446744073709551615"],
    ] {
        let mut run = match Running::of(&machine, &mut machine.run_of(arguments)) {
            Ok(run) => run,
            // What cannot run here leaves nothing either.
            Err(said) => {
                assert!(machine.settings() == before && machine.journals() == 0, "{arguments:?}: {said}");
                continue;
            }
        };
        measured += 1;
        kill(run.measuring(), Signal::SIGKILL).expect("our own grandchild");
        let (code, said) = run.end();
        assert_eq!(code, Some(4), "{arguments:?}: {said}");
        assert_nothing_left(&machine, &before, run.measuring);
        // All of them were in this group.
        assert_eq!(killpg(run.guardian(), None), Err(Errno::ESRCH), "{arguments:?}: a process is left");
    }
    assert!(measured > 0, "nothing could be measured");
}

#[test]
fn after_the_guardian_is_killed_the_measuring_process_ends_in_order() {
    if !is_ordinary() {
        return;
    }
    let machine = Machine::new();
    let before = machine.settings();
    let mut run = Running::start(&machine, ENDLESS);
    kill(run.guardian(), Signal::SIGKILL).expect("our own child");
    run.end();
    await_that("end of the measuring process", || has_ended(run.measuring));
    assert_eq!(machine.settings(), before);
    assert_eq!(remains_of(run.measuring), Vec::<String>::new());
}

#[test]
fn after_both_are_killed_the_next_start_puts_everything_back() {
    if !is_ordinary() {
        return;
    }
    let machine = Machine::new();
    let before = machine.settings();
    let mut run = Running::start(&machine, ENDLESS);
    // Stopped, so that it cannot notice that its guardian is gone.
    kill(run.measuring(), Signal::SIGSTOP).expect("our own grandchild");
    kill(run.guardian(), Signal::SIGKILL).expect("our own child");
    run.guardian.wait().expect("our own child");
    kill(run.measuring(), Signal::SIGKILL).expect("still there");
    await_that("end of the measuring process", || has_ended(run.measuring));
    assert_ne!(machine.settings(), before, "nobody was there to put it back");
    assert_eq!(machine.journals(), 1);
    let next = machine.run(&["--operations", "8", "--keep-settings"]).output().expect("the program starts");
    let said = String::from_utf8_lossy(&next.stderr);
    assert_eq!(next.status.code(), Some(0), "{said}");
    assert!(said.contains("an earlier run was killed") && said.contains("no_turbo is 0 again"), "{said}");
    assert_nothing_left(&machine, &before, run.measuring);
}
