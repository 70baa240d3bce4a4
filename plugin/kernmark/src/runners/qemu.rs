// SPDX-License-Identifier: GPL-2.0-or-later
//! The deterministic runner: QEMU's software emulation with an instruction
//! clock, inside the sandbox. Two boots of one image, initramfs, command line
//! and seed write the same bytes, however busy the host is.
//!
//! KVM is never used: there is no instruction clock under it, and the device
//! is not even visible in the sandbox.

use super::{Boot, BootError, Handle, MachineEnd, Progress, Recording, Runner, RunnerError};
use crate::sandbox::{Ending, Finished, Limits, Sandbox, SandboxError, give_to_sandbox};
use kernmark_validation::samples::{escape, excerpt};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// The emulator.
const PROGRAM: &str = "qemu-system-x86_64";
/// Where the sandbox looks for programs.
const PLACES: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin"];

/// The kernel, as the emulator sees it.
const IMAGE: &str = "/kernmark/image";
/// The initramfs, as the emulator sees it.
const INITRAMFS: &str = "/kernmark/initramfs";
/// The directory the emulator may write to, as it sees it.
const OUTPUT: &str = "/kernmark/output";
const CONSOLE: &str = "console.log";
const RESULTS: &str = "samples.jsonl";

/// Parameters of every kernel. The APIC timer is off because its calibration
/// takes 13 s with an instruction clock; layouts and randomness are fixed. The hash tables of a
/// path walk are so large that hardly two entries meet in a bucket: which ones meet depends on the
/// addresses of directory entries and mounts, so on the layout of the kernel, and each step along a
/// bucket costs a few instructions.
const PARAMETERS: &str = "console=ttyS0 panic=-1 quiet reboot=t nolapic_timer nokaslr norandmaps \
                          random.trust_cpu=off dhash_entries=1048576 mhash_entries=262144";

/// Serial ports that wrote this much have gone wild; a run writes some 50 KiB.
const FLOOD_BYTES: u64 = 8 << 20;
/// Until the flood is seen, a port cannot get beyond this.
const MAX_PORT_BYTES: u64 = 3 * FLOOD_BYTES;

/// Each boot keeps one processor busy.
const MAX_PARALLEL: usize = 4;

/// Exit codes of the emulator for values 0x10 and 0x11 at its exit device.
const EXIT_GOOD: i32 = 33;
const EXIT_FAILED: i32 = 35;
/// 128 + SIGKILL, SIGXCPU and SIGXFSZ.
const KILLED: i32 = 137;
const CPU_EXCEEDED: i32 = 152;
const FILE_EXCEEDED: i32 = 153;

/// Runs boots in QEMU.
#[derive(Debug)]
pub struct QemuRunner {
    version: String,
    running: Mutex<HashMap<PathBuf, Running>>,
}

#[derive(Debug)]
struct Running {
    cancel: Arc<AtomicBool>,
    thread: JoinHandle<Result<MachineEnd, SandboxError>>,
}

impl QemuRunner {
    /// Looks for the emulator.
    ///
    /// # Errors
    /// It is missing or does not say which version it is.
    pub fn new() -> Result<Self, RunnerError> {
        Self::find(PLACES.iter().map(Path::new))
    }

    fn find<'a>(mut places: impl Iterator<Item = &'a Path>) -> Result<Self, RunnerError> {
        let found = places.find_map(|place| Some(place.join(PROGRAM)).filter(|path| path.exists()));
        let path = found.ok_or(RunnerError::QemuMissing)?;
        let said = std::process::Command::new(&path)
            .arg("--version")
            .output()
            .map_err(|source| RunnerError::Host { what: format!("start {}", path.display()), source })?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = text.lines().next().filter(|line| said.status.success() && !line.is_empty());
        let version = version.ok_or(RunnerError::QemuMissing)?.to_owned();
        Ok(Self { version, running: Mutex::default() })
    }

    fn running(&self) -> MutexGuard<'_, HashMap<PathBuf, Running>> {
        self.running.lock().expect("no holder of this lock panics")
    }
}

impl Runner for QemuRunner {
    fn name(&self) -> &'static str {
        "qemu"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn parallel(&self) -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_PARALLEL)
    }

    fn prepare(&self, boot: &Boot) -> Result<Vec<String>, BootError> {
        command_line(boot)
    }

    fn start(&self, boot: &Boot, directory: &Path) -> Result<Handle, RunnerError> {
        let line = command_line(boot)?;
        let output = directory.join("output");
        let host = |source| RunnerError::Host { what: format!("make {}", output.display()), source };
        std::fs::create_dir(&output).map_err(host)?;
        give_to_sandbox(&output).map_err(host)?;
        let watchdog = boot.watchdog;
        let sandbox = Sandbox::command(PROGRAM)
            .args(&line[1..])
            .read_only(&boot.image.path, IMAGE)
            .read_only(&boot.initramfs.path, INITRAMFS)
            .writable(&output, OUTPUT)
            .limits(limits(watchdog.cpu_s));
        let cancel = Arc::new(AtomicBool::new(false));
        let stop = cancel.clone();
        let thread = std::thread::spawn(move || {
            let finished = sandbox.run(Duration::from_secs(watchdog.wall_s), &stop)?;
            Ok(machine_end(&finished, watchdog.cpu_s))
        });
        self.running().insert(directory.to_owned(), Running { cancel, thread });
        Ok(Handle { runner: self.name().to_owned(), directory: directory.to_owned() })
    }

    fn poll(&self, handle: &Handle) -> Result<Progress, RunnerError> {
        let mut running = self.running();
        match running.get(&handle.directory) {
            None => return Err(RunnerError::Unknown { directory: handle.directory.clone() }),
            Some(boot) if !boot.thread.is_finished() => return Ok(Progress::Running),
            Some(_) => {}
        }
        let boot = running.remove(&handle.directory).expect("found above");
        drop(running);
        let end = boot.thread.join().expect("a boot does not panic")?;
        let output = handle.directory.join("output");
        Ok(Progress::Ended(Recording {
            end,
            results: read_output(&output.join(RESULTS))?,
            console: read_output(&output.join(CONSOLE))?,
        }))
    }

    fn cancel(&self, handle: &Handle) {
        let boot = self.running().remove(&handle.directory);
        if let Some(boot) = boot {
            boot.cancel.store(true, Ordering::SeqCst);
            // Whatever it was going to say is not wanted any more.
            let _ = boot.thread.join();
        }
    }
}

impl Drop for QemuRunner {
    fn drop(&mut self) {
        let left: Vec<Running> = self.running().drain().map(|(_, boot)| boot).collect();
        for boot in &left {
            boot.cancel.store(true, Ordering::SeqCst);
        }
        for boot in left {
            // As in `cancel`.
            let _ = boot.thread.join();
        }
    }
}

/// The emulator's command line, program first: a pure function of the boot.
/// Paths are those inside the sandbox.
fn command_line(boot: &Boot) -> Result<Vec<String>, BootError> {
    let kernel_command_line = boot.kernel_command_line(PARAMETERS)?;
    let seed = boot.seed.to_string();
    let console = format!("file:{OUTPUT}/{CONSOLE}");
    let results = format!("file:{OUTPUT}/{RESULTS}");
    #[rustfmt::skip]
    let line = [
        PROGRAM,
        // A plain PC without anything that is not named here.
        "-M", "pc", "-accel", "tcg", "-smp", "1", "-cpu", "max", "-m", "256",
        "-nodefaults", "-no-user-config", "-display", "none",
        // One instruction is one nanosecond; idle time is jumped over.
        "-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", &seed,
        "-serial", &console, "-serial", &results,
        "-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-no-reboot",
        "-kernel", IMAGE, "-initrd", INITRAMFS, "-append", &kernel_command_line,
    ];
    Ok(line.map(str::to_owned).into())
}

/// The emulator stays far below each of these: some 130 MiB and 8 threads.
fn limits(cpu_s: u64) -> Limits {
    Limits {
        processes: 32,
        memory: 1 << 30,
        address_space: 8 << 30,
        file: MAX_PORT_BYTES,
        written: FLOOD_BYTES,
        files: 16,
        cpu_s,
        tmp: 1 << 20,
        captured: 64 << 10,
    }
}

fn machine_end(finished: &Finished, cpu_s: u64) -> MachineEnd {
    let said = || {
        let text = excerpt(&finished.stderr.bytes);
        text.lines().rfind(|line| !line.is_empty()).map_or_else(|| finished.ending.to_string(), str::to_owned)
    };
    match &finished.ending {
        Ending::Exited(EXIT_GOOD) => MachineEnd::Good,
        Ending::Exited(EXIT_FAILED) => MachineEnd::Failed,
        Ending::Exited(0) => MachineEnd::Reset,
        Ending::Exited(FILE_EXCEEDED) | Ending::OverWritten(_) => MachineEnd::Flooded { bytes: FLOOD_BYTES },
        // The system kills at its CPU limit; nothing else does so that late.
        Ending::Exited(KILLED | CPU_EXCEEDED) if finished.elapsed.as_secs() * 5 >= cpu_s * 4 => {
            MachineEnd::TimedOut { limit: format!("{cpu_s} s of CPU time") }
        }
        // Any odd code can come from the guest; the emulator's own failures come with words.
        Ending::Exited(code) if code % 2 == 1 && *code < 128 && finished.stderr.bytes.is_empty() => {
            MachineEnd::Failed
        }
        Ending::TimedOut(seconds) => MachineEnd::TimedOut { limit: format!("{seconds} s") },
        Ending::Exited(_) | Ending::OverMemory(_) | Ending::OverFiles(_) => {
            MachineEnd::Emulator { detail: said() }
        }
    }
}

/// Reads what the emulator wrote. The emulator ran a stranger's code and may
/// itself have been taken over, so links and special files are not followed.
fn read_output(path: &Path) -> Result<Vec<u8>, RunnerError> {
    let host = |source| RunnerError::Host {
        what: format!("read {}", escape(path.as_os_str().as_encoded_bytes())),
        source,
    };
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        // Nothing was written, because the emulator did not get that far.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(host(error)),
    };
    if !file.metadata().map_err(host)?.is_file() {
        return Err(host(std::io::Error::from(std::io::ErrorKind::InvalidData)));
    }
    let mut bytes = Vec::new();
    file.take(MAX_PORT_BYTES).read_to_end(&mut bytes).map_err(host)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::boot::tests::boot;
    use super::*;
    use crate::sandbox::{Captured, NetworkUse};

    #[test]
    fn the_command_line_is_the_golden_one() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/qemu-command-line.txt");
        let text: String =
            command_line(&boot(7)).expect("fits").iter().map(|word| format!("{word}\n")).collect();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &text).expect("writable");
        }
        assert_eq!(text, std::fs::read_to_string(&golden).expect("golden is there"));
    }

    #[test]
    fn the_place_in_the_order_is_not_in_the_command_line() {
        assert_eq!(command_line(&boot(1)), command_line(&boot(2)));
        assert_ne!(command_line(&boot(1)), command_line(&Boot { seed: 2, ..boot(1) }));
    }

    #[test]
    fn a_missing_emulator_is_named_with_its_package() {
        let place = tempfile::tempdir().expect("temporary directory");
        let error = QemuRunner::find([place.path()].into_iter()).expect_err("the directory is empty");
        let failure = crate::exit::Failure::from(error);
        assert_eq!(failure.exit, crate::exit::Exit::Host);
        assert!(failure.message.ends_with("install it with: apt-get install qemu-system-x86"), "{failure}");
    }

    #[test]
    fn every_way_to_end_is_told_apart() {
        let finished = |ending, stderr: &str, seconds| Finished {
            ending,
            stdout: Captured::default(),
            stderr: Captured { bytes: stderr.as_bytes().to_vec(), dropped: 0 },
            network: NetworkUse::default(),
            elapsed: Duration::from_secs(seconds),
        };
        let emulator = |detail: &str| MachineEnd::Emulator { detail: detail.into() };
        let hung = |limit: &str| MachineEnd::TimedOut { limit: limit.into() };
        for (ending, stderr, seconds, expected) in [
            (Ending::Exited(33), "", 2, MachineEnd::Good),
            (Ending::Exited(35), "", 2, MachineEnd::Failed),
            (Ending::Exited(0), "", 2, MachineEnd::Reset),
            (Ending::Exited(3), "", 2, MachineEnd::Failed),
            (
                Ending::Exited(1),
                "qemu: \u{1b}[2J\nqemu: could not load kernel\n",
                0,
                emulator("qemu: could not load kernel"),
            ),
            (Ending::Exited(139), "", 2, emulator("exit code 139")),
            (Ending::Exited(137), "", 45, hung("45 s of CPU time")),
            (Ending::Exited(152), "", 60, hung("45 s of CPU time")),
            (Ending::Exited(152), "", 3, emulator("exit code 152")),
            (Ending::Exited(153), "", 3, MachineEnd::Flooded { bytes: FLOOD_BYTES }),
            (Ending::OverWritten(9), "", 3, MachineEnd::Flooded { bytes: FLOOD_BYTES }),
            (Ending::TimedOut(180), "", 180, hung("180 s")),
            (Ending::OverMemory(1 << 30), "", 3, emulator("stopped: more than its 1024 MiB of memory")),
        ] {
            assert_eq!(machine_end(&finished(ending.clone(), stderr, seconds), 45), expected, "{ending}");
        }
    }

    #[test]
    fn outputs_are_read_only_from_plain_files() {
        let place = tempfile::tempdir().expect("temporary directory");
        let path = |name: &str| place.path().join(name);
        assert_eq!(read_output(&path("absent")).expect("nothing is not wrong"), b"");
        std::fs::write(path("plain"), "text").expect("writable");
        assert_eq!(read_output(&path("plain")).expect("plain file"), b"text");
        std::os::unix::fs::symlink(path("plain"), path("link")).expect("writable");
        assert!(read_output(&path("link")).is_err());
        assert!(read_output(place.path()).is_err());
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("writable");
        assert!(read_output(&path("pipe")).is_err());
    }
}
