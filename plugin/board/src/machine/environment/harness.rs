// SPDX-License-Identifier: GPL-2.0-or-later
//! What this program is, and what it has caused so far.

use super::kernel::digest;
use super::{Fields, yes_or_no};
use nix::libc;
use std::ffi::CStr;
use std::path::Path;

/// (field, value) pairs of this program, which do not change while it runs.
pub fn identity() -> Fields {
    let mut fields = vec![
        ("harness.arguments", std::env::args().skip(1).collect::<Vec<_>>().join(" ")),
        ("harness.optimised", yes_or_no(!cfg!(debug_assertions))),
        ("harness.static", yes_or_no(cfg!(target_feature = "crt-static"))),
        ("harness.libc", c_library()),
    ];
    // `scripts/build` hands these over.
    for (field, value) in [
        ("harness.commit", option_env!("KERNMARK_COMMIT")),
        ("harness.compiler", option_env!("KERNMARK_COMPILER")),
        ("harness.flags", option_env!("KERNMARK_FLAGS")),
    ] {
        fields.extend(value.filter(|value| !value.is_empty()).map(|value| (field, value.to_owned())));
    }
    if let Some(digest) = digest(Path::new("/proc/self/exe")) {
        fields.push(("harness.sha256", digest));
    }
    fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
}

#[cfg(target_env = "gnu")]
fn c_library() -> String {
    // SAFETY: the function takes nothing and returns a string that lives for ever.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

#[cfg(not(target_env = "gnu"))]
fn c_library() -> String {
    "musl".to_owned()
}

/// (field, value) pairs of this process so far: what the measurement itself caused.
pub fn counts() -> Fields {
    use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
    let mut fields = Vec::new();
    for (who, prefix) in [(UsageWho::RUSAGE_SELF, "load"), (UsageWho::RUSAGE_CHILDREN, "load.children")] {
        if let Ok(usage) = getrusage(who) {
            fields.push((format!("{prefix}.minor_faults"), usage.minor_page_faults().to_string()));
            fields.push((format!("{prefix}.major_faults"), usage.major_page_faults().to_string()));
        }
    }
    if let Ok((soft, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        fields.push(("harness.open_files".into(), soft.to_string()));
    }
    fields
}
