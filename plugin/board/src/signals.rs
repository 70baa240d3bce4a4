// SPDX-License-Identifier: GPL-2.0-or-later
//! SIGINT, SIGTERM and SIGHUP (a lost connection) as a flag, so that guards can put everything back.

use crate::stop::Stop;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::sync::atomic::{AtomicBool, Ordering};

/// The one piece of global state: a signal handler has nowhere else to write.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: nix::libc::c_int) {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// Turns SIGINT, SIGTERM and SIGHUP into the flag that [`check`] looks at.
pub fn install() {
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
        let installed = unsafe { sigaction(signal, &action) };
        debug_assert!(installed.is_ok(), "sigaction on a valid signal");
    }
}

/// Fails once a signal came in.
///
/// # Errors
/// [`Stop::Interrupted`].
pub fn check() -> Result<(), Stop> {
    if INTERRUPTED.load(Ordering::SeqCst) { Err(Stop::Interrupted) } else { Ok(()) }
}
