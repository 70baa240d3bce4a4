// SPDX-License-Identifier: GPL-2.0-or-later
//! Which kernel this is and how it was built and started; the system above it.

use super::{Fields, yes_or_no};
use crate::machine::line;
use nix::libc;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Digests of configuration and type information, modules, address randomisation.
pub fn fields(root: &Path) -> Fields {
    let mut fields = Fields::new();
    let mut add = |field: &str, value: Option<String>| {
        fields.extend(value.map(|value| (field.to_owned(), value)));
    };
    add("kernel.btf_sha256", digest(&root.join("sys/kernel/btf/vmlinux")));
    add("kernel.config_gz_sha256", digest(&root.join("proc/config.gz")));
    let release = line(&root.join("proc/sys/kernel/osrelease"));
    if let Some(config) = release.and_then(|r| fs::read_to_string(root.join(format!("boot/config-{r}"))).ok())
    {
        add("kernel.config_sha256", Some(sha256(config.as_bytes())));
        add("kernel.config_canonical_sha256", Some(sha256(canonical_config(&config).as_bytes())));
    }
    if let Ok(modules) = fs::read_to_string(root.join("proc/modules")) {
        add("kernel.modules", Some(module_names(&modules)));
    }
    if let Some(words) = line(&root.join("proc/cmdline")) {
        add("kernel.nokaslr", Some(yes_or_no(words.split(' ').any(|word| word == "nokaslr"))));
    }
    fields
}

/// SHA-256 of a file, lower-case hexadecimal.
pub fn digest(path: &Path) -> Option<String> {
    Some(sha256(&fs::read(path).ok()?))
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// A kernel config without the line in which builds of one experiment may differ (protocol.md 8).
fn canonical_config(text: &str) -> String {
    text.lines().filter(|l| !l.starts_with("CONFIG_LOCALVERSION=")).map(|l| format!("{l}\n")).collect()
}

/// Names of the loaded modules, sorted.
fn module_names(text: &str) -> String {
    let mut names: Vec<&str> = text.lines().filter_map(|l| l.split_whitespace().next()).collect();
    names.sort_unstable();
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

/// State of systemd and how many of its units have failed; nothing where it does not run.
pub fn init_state() -> Fields {
    if !Path::new("/run/systemd/system").exists() {
        return Fields::new();
    }
    let asked = ["show", "--property=SystemState,NFailedUnits"];
    let Ok(output) = std::process::Command::new("systemctl").args(asked).output() else {
        return Fields::new();
    };
    init_fields(&String::from_utf8_lossy(&output.stdout))
}

fn init_fields(text: &str) -> Fields {
    let names = [("SystemState", "init.state"), ("NFailedUnits", "init.failed_units")];
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            let (_, field) = names.iter().find(|(name, _)| *name == key)?;
            Some(((*field).to_owned(), value.to_owned()))
        })
        .collect()
}

/// Whether system calls are audited: `enabled` of the kernel's answer to AUDIT_GET
/// (include/uapi/linux/audit.h). Only root is answered.
pub fn audit_enabled() -> Option<u32> {
    const NETLINK_AUDIT: i32 = 9;
    const AUDIT_GET: u16 = 1000;
    const HEADER: usize = 16;
    // SAFETY: plain numbers; the descriptor is new and belongs to nobody else.
    let socket = unsafe {
        let socket = libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            NETLINK_AUDIT,
        );
        (socket >= 0).then(|| OwnedFd::from_raw_fd(socket))?
    };
    // Length, type, flags (NLM_F_REQUEST), sequence, port.
    let mut request = [0_u8; HEADER];
    request[..4].copy_from_slice(&(HEADER as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&AUDIT_GET.to_ne_bytes());
    request[6..8].copy_from_slice(&1_u16.to_ne_bytes());
    let mut answer = [0_u8; 128];
    // SAFETY: both buffers live for the calls and are as long as said.
    let received = unsafe {
        libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0);
        // The kernel answers within the call that asks.
        libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0)
    };
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    // After the header: mask, enabled.
    let place = HEADER + 4;
    let whole = usize::try_from(received).is_ok_and(|length| length >= place + 4);
    (whole && kind == AUDIT_GET)
        .then(|| u32::from_ne_bytes([answer[place], answer[place + 1], answer[place + 2], answer[place + 3]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::synthetic::write;

    #[test]
    fn configs_that_differ_in_the_release_only_are_the_same() {
        let config =
            |local: &str| canonical_config(&format!("CONFIG_SMP=y\nCONFIG_LOCALVERSION=\"{local}\"\n"));
        assert_eq!(config("-base"), config("-next"));
        assert_eq!(config(""), "CONFIG_SMP=y\n");
    }

    #[test]
    fn modules_are_sorted_names() {
        assert_eq!(module_names("xfs 1 2 - Live\nloop 3 0 - Live\n"), "loop xfs");
        assert_eq!(module_names(""), "none");
    }

    #[test]
    fn the_config_of_the_running_release_is_digested() {
        let root = tempfile::tempdir().expect("temporary directory");
        write(root.path(), "proc/sys/kernel/osrelease", "6.12.1");
        write(root.path(), "boot/config-6.12.1", "CONFIG_SMP=y");
        write(root.path(), "proc/cmdline", "quiet nokaslr");
        let fields = fields(root.path());
        let digests: Vec<&str> =
            fields.iter().filter(|f| f.0.starts_with("kernel.config")).map(|f| f.1.as_str()).collect();
        assert_eq!(digests.len(), 2);
        assert_eq!(digests[0], digests[1], "there is no line to leave out");
        assert!(fields.contains(&("kernel.nokaslr".into(), "yes".into())));
    }

    #[test]
    fn the_state_of_the_init_system_is_read_from_its_answer() {
        assert_eq!(
            init_fields("NFailedUnits=2\nSystemState=degraded\nOther=x\n"),
            [("init.failed_units".into(), "2".into()), ("init.state".into(), "degraded".to_owned())]
        );
    }
}
