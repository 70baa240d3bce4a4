// SPDX-License-Identifier: GPL-2.0-or-later
//! What sends a series to real boards whatever its path length.
//!
//! The emulator counts instructions; contention and cache lines it cannot see.
//! A change of locking or of the layout of a structure is therefore measured on
//! hardware even when it is SAME here (statistics.md 3.10).

use super::series::ChangedCode;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a series should be measured on boards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoardReason {
    /// It changes the members of structures or unions.
    Layout {
        /// Where.
        file: String,
        /// Their tags; an anonymous one is empty.
        types: Vec<String>,
    },
    /// It changes lines that take or release locks.
    Locking {
        /// Where.
        file: String,
        /// The calls.
        calls: Vec<String>,
    },
}

impl fmt::Display for BoardReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout { file, types } => {
                let names: Vec<&str> =
                    types.iter().map(|t| if t.is_empty() { "(anonymous)" } else { t.as_str() }).collect();
                write!(f, "layout of struct {} in {file}", names.join(", "))
            }
            Self::Locking { file, calls } => write!(f, "locking in {file}: {}()", calls.join("(), ")),
        }
    }
}

/// Whether the series touches structure layout or lock calls, and where; empty
/// when it does not.
pub fn layout_or_locking(code: &ChangedCode) -> Vec<BoardReason> {
    let layout = code
        .types
        .iter()
        .map(|(file, types)| BoardReason::Layout { file: file.clone(), types: types.clone() });
    let locking = code
        .locks
        .iter()
        .map(|(file, calls)| BoardReason::Locking { file: file.clone(), calls: calls.clone() });
    layout.chain(locking).collect()
}

/// Whether a C word is the name of a call that takes, releases, makes or waits
/// for a lock: by the kernel's naming, a part `lock`, `unlock` and so on.
pub fn is_lock_call(word: &str) -> bool {
    const PARTS: &[&str] = &[
        "lock", "unlock", "trylock", "spinlock", "rwlock", "seqlock", "lockref", "rwsem", "mutex",
        "seqbegin", "seqretry", "seqcount",
    ];
    const WHOLE: &[&str] =
        &["call_rcu", "down", "down_interruptible", "down_killable", "guard", "up", "scoped_guard"];
    const STARTS: &[&str] = &[
        "down_read",
        "down_write",
        "up_read",
        "up_write",
        "percpu_down_",
        "percpu_up_",
        "synchronize_rcu",
        "synchronize_srcu",
        "synchronize_sched",
        "kfree_rcu",
    ];
    let lower = word.to_ascii_lowercase();
    // Assertions and annotations cost nothing; types and variables are no calls.
    if lower.starts_with("lockdep") || lower.ends_with("_t") || lower == "lock" || lower == "mutex" {
        return false;
    }
    let is_call = lower.contains('_');
    WHOLE.contains(&lower.as_str())
        || STARTS.iter().any(|start| lower.starts_with(start))
        || (is_call && lower.split('_').any(|part| PARTS.contains(&part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_calls_are_told_from_other_words() {
        for word in [
            "mutex_lock",
            "spin_unlock_irqrestore",
            "raw_spin_trylock",
            "rcu_read_lock",
            "down_write_nested",
            "up_read",
            "inode_lock",
            "synchronize_rcu",
            "call_rcu",
            "DEFINE_SPINLOCK",
            "lockref_get",
            "guard",
            "read_seqbegin",
            "percpu_down_read",
            "write_seqlock",
        ] {
            assert!(is_lock_call(word), "{word}");
        }
        for word in [
            "lockdep_assert_held",
            "clock_gettime",
            "block_read",
            "lock",
            "spinlock_t",
            "update",
            "mutex",
            "x",
        ] {
            assert!(!is_lock_call(word), "{word}");
        }
    }

    #[test]
    fn reasons_name_the_place() {
        let code = ChangedCode {
            types: vec![("include/linux/a.h".into(), vec!["a".into(), String::new()])],
            locks: vec![("fs/a.c".into(), vec!["spin_lock".into(), "spin_unlock".into()])],
            ..ChangedCode::default()
        };
        let texts: Vec<String> = layout_or_locking(&code).iter().map(BoardReason::to_string).collect();
        assert_eq!(
            texts,
            [
                "layout of struct a, (anonymous) in include/linux/a.h",
                "locking in fs/a.c: spin_lock(), spin_unlock()"
            ]
        );
        assert_eq!(layout_or_locking(&ChangedCode::default()), []);
    }
}
