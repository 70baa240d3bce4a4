// SPDX-License-Identifier: GPL-2.0-or-later
//! What a running command uses: memory of its processes, growth of directories.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Content of directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Allocated on disk.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// Sums up everything below `roots`, without following links, and stops
/// beyond `enough` files. A directory too deep for a path hides what is below
/// and no build needs one: it counts as more than enough. What else cannot be
/// read has just gone, or was closed by the command to itself too.
pub(super) fn directories(roots: &[PathBuf], enough: u64) -> Usage {
    let mut usage = Usage::default();
    let mut open: Vec<PathBuf> = roots.to_vec();
    while let Some(directory) = open.pop() {
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.raw_os_error() == Some(nix::libc::ENAMETOOLONG) => {
                usage.files = enough.saturating_add(1);
                return usage;
            }
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            usage.files += 1;
            usage.bytes += metadata.blocks() * 512;
            if metadata.is_dir() {
                open.push(entry.path());
            }
            if usage.files > enough {
                return usage;
            }
        }
    }
    usage
}

/// What a command did on its own network, where nothing but the loopback is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkUse {
    /// Connections and packets to other machines, all refused.
    pub unroutable: u64,
    /// Packets to the sandbox itself.
    pub loopback: u64,
}

impl NetworkUse {
    /// It tried to use a network.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// Counters of the network namespace of `pid`; `None` when that process is gone.
pub(super) fn network(pid: u32) -> Option<NetworkUse> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).ok();
    let ipv6 = read("snmp6").unwrap_or_default();
    Some(parse_network(&read("snmp")?, &ipv6, &read("dev")?))
}

/// The kernel counts a connection it has no route for as OutNoRoutes (RFC 1213).
fn parse_network(snmp: &str, snmp6: &str, dev: &str) -> NetworkUse {
    let mut ip = snmp.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (names, values) = (ip.next().unwrap_or_default(), ip.next().unwrap_or_default());
    let ipv4 = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace())
        .find_map(|(name, value)| (name == "OutNoRoutes").then(|| value.parse::<u64>().ok()).flatten());
    let ipv6 = snmp6.lines().find_map(|line| {
        line.strip_prefix("Ip6OutNoRoutes").and_then(|value| value.trim().parse::<u64>().ok())
    });
    let loopback = dev.lines().find_map(|line| {
        line.trim_start().strip_prefix("lo:")?.split_ascii_whitespace().nth(1)?.parse().ok()
    });
    NetworkUse { unroutable: ipv4.unwrap_or(0) + ipv6.unwrap_or(0), loopback: loopback.unwrap_or(0) }
}

/// Processes under `root`, itself included, as /proc shows them at one moment.
#[derive(Debug, Default)]
pub(super) struct Processes {
    pids: Vec<u32>,
    pages: u64,
}

impl Processes {
    /// Looks at `root` and all its descendants.
    pub fn under(root: u32) -> Self {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut pages: HashMap<u32, u64> = HashMap::new();
        let Ok(entries) = std::fs::read_dir("/proc") else { return Self::default() };
        for entry in entries.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some(stat) = read_stat(pid) {
                children.entry(stat.parent).or_default().push(pid);
                pages.insert(pid, stat.resident_pages);
            }
        }
        let mut found = Self::default();
        let mut open = vec![root];
        while let Some(pid) = open.pop() {
            found.pids.push(pid);
            found.pages += pages.remove(&pid).unwrap_or(0);
            open.extend(children.remove(&pid).unwrap_or_default());
        }
        found
    }

    /// Resident memory, bytes. A page that several share counts for each.
    pub fn memory(&self) -> u64 {
        self.pages * page_size()
    }

    /// Bytes of open files that no directory shows: removed ones, and files in memory (memfd_create(2)).
    /// One that several have open counts once.
    pub fn nameless(&self) -> u64 {
        let mut seen = HashSet::new();
        let mut bytes = 0;
        for pid in &self.pids {
            for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
                let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
                if metadata.is_file()
                    && metadata.nlink() == 0
                    && seen.insert((metadata.dev(), metadata.ino()))
                {
                    bytes += metadata.blocks() * 512;
                }
            }
        }
        bytes
    }
}

/// Parent of a process; `None` when there is no such process.
pub(super) fn parent(pid: u32) -> Option<u32> {
    read_stat(pid).map(|stat| stat.parent)
}

fn page_size() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|size| u64::try_from(size).ok())
        .unwrap_or(4096)
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    resident_pages: u64,
}

fn read_stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?)
}

/// proc_pid_stat(5): fields 4 and 24. The name in field 2 is chosen by the
/// process and may hold blanks and parentheses, so the last one counts.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_ascii_whitespace().collect();
    Some(Stat { parent: fields.get(1)?.parse().ok()?, resident_pages: fields.get(21)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_process_name_does_not_confuse() {
        let text = "77 (a) R 1 ) (b) S 41 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1000000 321 18446744073709551615";
        assert_eq!(parse_stat(text), Some(Stat { parent: 41, resident_pages: 321 }));
        for wrong in ["", "77 (a", "77 (a) S", "77 (a) S x"] {
            assert_eq!(parse_stat(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn refused_connections_are_counted() {
        let snmp =
            "Ip: Forwarding OutDiscards OutNoRoutes ReasmTimeout\nIp: 1 0 3 0\nTcp: RtoAlgorithm\nTcp: 1\n";
        let snmp6 = "Ip6InReceives                   \t0\nIp6OutNoRoutes                  \t2\n";
        let dev = "Inter-|   Receive\n face |bytes    packets errs\n    lo:     840      10    0    0\n";
        assert_eq!(parse_network(snmp, snmp6, dev), NetworkUse { unroutable: 5, loopback: 10 });
        assert!(!parse_network("", "", "").any());
    }

    #[test]
    fn directories_are_summed_up_to_the_bound() {
        let directory = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(directory.path().join("d")).expect("made");
        for name in ["a", "d/b", "d/c"] {
            std::fs::write(directory.path().join(name), vec![1; 5000]).expect("written");
        }
        std::os::unix::fs::symlink("/", directory.path().join("link")).expect("linked");
        let roots = [directory.path().to_owned()];
        assert_eq!(directories(&roots, u64::MAX).files, 5);
        assert!(directories(&roots, 2).files == 3);
    }

    #[test]
    fn a_removed_file_counts_while_it_is_open_and_once() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("f");
        std::fs::write(&path, vec![1; 3 << 20]).expect("writable");
        let before = Processes::under(std::process::id()).nameless();
        let open = [std::fs::File::open(&path), std::fs::File::open(&path)];
        std::fs::remove_file(&path).expect("there");
        let with = Processes::under(std::process::id()).nameless();
        assert!((3 << 20..6 << 20).contains(&(with - before)), "{before} {with}");
        drop(open);
    }

    #[test]
    fn this_process_uses_memory_and_has_a_parent() {
        assert!(Processes::under(std::process::id()).memory() > 100_000);
        assert_eq!(parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }
}
