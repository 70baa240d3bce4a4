// SPDX-License-Identifier: GPL-2.0-or-later
//! Ctrl-C and SIGTERM as a flag that long work looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once somebody asks the program to stop. Cloning shares the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that SIGINT and SIGTERM set. A second signal ends the process at
    /// once; what was published until then is whole, because every file
    /// appears by a rename.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn on_signals() -> std::io::Result<Self> {
        let interrupt = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, interrupt.0.clone())?;
            signal_hook::flag::register(signal, interrupt.0.clone())?;
        }
        Ok(interrupt)
    }

    /// Whether somebody asked to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Asks to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// The bare flag, for code that only polls.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_flag() {
        let interrupt = Interrupt::default();
        let seen = interrupt.clone();
        assert!(!seen.is_set());
        interrupt.set();
        assert!(seen.is_set() && seen.flag().load(Ordering::SeqCst));
    }
}
