// SPDX-License-Identifier: GPL-2.0-or-later
//! Which lock each call of a locking function takes. Two locks of one kind have
//! the same function and may have the same callers, so the calls are told apart
//! by the address of the lock, and the lock is named after who takes it.

use super::trace_text::Window;
use std::collections::BTreeMap;

/// What to tell apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockNames {
    /// Functions whose first argument is a lock.
    pub functions: &'static [&'static str],
    /// (caller, name): a lock that the caller takes has this name; the first entry that fits
    /// counts. A lock that none of them takes is named after its own first caller.
    pub owners: &'static [(&'static str, &'static str)],
}

/// Calls of one locking function.
pub type LockCalls = BTreeMap<(String, String), u64>;

/// Calls of `function` by (`function@lock`, caller) in the windows of one operation; `all` are
/// those of every operation, from which the locks get their names.
///
/// # Errors
/// A line cannot be read.
pub fn count(
    function: &str,
    names: &LockNames,
    all: &[Window<'_>],
    taken: &[&Window<'_>],
) -> Result<LockCalls, String> {
    let mut callers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for window in all {
        for (lock, caller) in entries(window)? {
            let known = callers.entry(lock).or_default();
            if !known.contains(&caller) {
                known.push(caller);
            }
        }
    }
    let mut calls = LockCalls::new();
    for window in taken {
        for (lock, caller) in entries(window)? {
            let of_lock = callers.get(lock).map_or(&[][..], Vec::as_slice);
            let named = names.owners.iter().find(|(owner, _)| of_lock.contains(owner)).map(|(_, name)| *name);
            let name = named.map_or_else(
                || format!("{function}@lock_of_{}", of_lock.first().unwrap_or(&caller)),
                |name| format!("{function}@{name}"),
            );
            *calls.entry((name, caller.to_owned())).or_default() += 1;
        }
    }
    Ok(calls)
}

/// (lock, caller) of each event of a window: `... lock=0xffff888003a4f0a8
/// caller=kernfs_iop_permission+0x33/0x70`.
fn entries<'a>(window: &Window<'a>) -> Result<Vec<(&'a str, &'a str)>, String> {
    let of_line = |line: &&'a str| {
        let (_, rest) = line.split_once("lock=")?;
        let (lock, rest) = rest.split_once(' ')?;
        let (_, caller) = rest.split_once("caller=")?;
        let caller = caller.trim_matches(['"', ' ']);
        let end = caller.find(['+', '.', ' ']).unwrap_or(caller.len());
        (end > 0).then_some((lock, &caller[..end]))
    };
    window
        .lines
        .iter()
        .filter(|line| line.contains("lock="))
        .map(|line| of_line(line).ok_or_else(|| format!("a lock event without lock or caller: {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: LockNames = LockNames {
        functions: &["down_read"],
        owners: &[("kernfs_dop_revalidate", "tree_lock"), ("kernfs_iop_permission", "attribute_lock")],
    };

    fn window(lines: &[&'static str]) -> Window<'static> {
        Window { operation: "open", interrupted: false, lines: lines.to_vec() }
    }

    fn counted(lines: &[&'static str]) -> Vec<(String, String, u64)> {
        let windows = [window(lines)];
        let calls = count("down_read", &NAMES, &windows, &[&windows[0]]).expect("readable");
        calls.into_iter().map(|((function, caller), n)| (function, caller, n)).collect()
    }

    fn row(function: &str, caller: &str, count: u64) -> (String, String, u64) {
        (function.into(), caller.into(), count)
    }

    #[test]
    fn locks_are_told_apart_by_address_and_named_by_who_takes_them() {
        assert_eq!(
            counted(&[
                "lock: (down_read+0x0/0x40) lock=0xa8 caller=kernfs_iop_permission+0x33/0x70",
                "lock: (down_read+0x0/0x40) lock=0xd0 caller=kernfs_dop_revalidate+0x41/0x110",
                "lock: (down_read+0x0/0x40) lock=0xa8 caller=kernfs_iop_permission+0x33/0x70",
                "lock: (down_read+0x0/0x40) lock=0x10 caller=\"path_openat.part.0+0x1/0x2\"",
            ]),
            [
                row("down_read@attribute_lock", "kernfs_iop_permission", 2),
                row("down_read@lock_of_path_openat", "path_openat", 1),
                row("down_read@tree_lock", "kernfs_dop_revalidate", 1),
            ]
        );
    }

    #[test]
    fn one_lock_for_both_is_the_tree_lock() {
        assert_eq!(
            counted(&[
                "lock: (down_read+0x0/0x40) lock=0xd0 caller=kernfs_iop_permission+0x33/0x70",
                "lock: (down_read+0x0/0x40) lock=0xd0 caller=kernfs_dop_revalidate+0x41/0x110",
            ]),
            [
                row("down_read@tree_lock", "kernfs_dop_revalidate", 1),
                row("down_read@tree_lock", "kernfs_iop_permission", 1),
            ]
        );
    }

    #[test]
    fn an_event_that_cannot_be_read_is_no_zero() {
        for line in ["lock=0xd0", "lock=0xd0 caller=", "lock=0xd0 called=x"] {
            let windows = [window(&[line])];
            assert!(count("down_read", &NAMES, &windows, &[&windows[0]]).is_err(), "{line}");
        }
    }
}
