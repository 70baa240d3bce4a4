// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory that forked workers and their parent share.

use crate::stop::Stop;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// What several processes may hold at once.
///
/// # Safety
/// All bytes zero must be a valid value, every change must go through atomics, nothing may need
/// to be dropped, and the alignment must not exceed a page.
pub unsafe trait Shareable: Sync {}

// SAFETY: atomics are valid as zero and change atomically.
unsafe impl Shareable for AtomicU8 {}
// SAFETY: as above.
unsafe impl Shareable for AtomicU32 {}
// SAFETY: as above.
unsafe impl Shareable for AtomicU64 {}

/// A row of values, zero at first, that children made by fork(2) change in place.
#[derive(Debug)]
pub struct SharedRow<T: Shareable> {
    start: NonNull<T>,
    count: usize,
    bytes: NonZeroUsize,
}

// SAFETY: `Shareable` values are `Sync`; the row itself is only an address and a length.
unsafe impl<T: Shareable> Send for SharedRow<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for SharedRow<T> {}

impl<T: Shareable> SharedRow<T> {
    /// Takes fresh memory for `count` values, all pages present.
    ///
    /// # Errors
    /// There is none.
    pub fn new(count: usize) -> Result<Self, Stop> {
        let bytes = size_of::<T>()
            .checked_mul(count)
            .and_then(NonZeroUsize::new)
            .ok_or_else(|| Stop::Bug(format!("a shared row of {count} values")))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists.
        let start = unsafe { mmap_anonymous(None, bytes, protection, flags) }
            .map_err(|e| Stop::failed(format!("{bytes} bytes of shared memory"), e))?;
        Ok(Self { start: start.cast(), count, bytes })
    }
}

impl<T: Shareable> Deref for SharedRow<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping is page aligned, holds `count` values, each valid as zero, and
        // lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T: Shareable> Drop for SharedRow<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made, to which no reference is left.
        let unmapped = unsafe { munmap(self.start.cast::<libc::c_void>(), self.bytes.get()) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_row_starts_as_zeros_and_keeps_what_is_stored() {
        let row = SharedRow::<AtomicU64>::new(1000).expect("memory");
        assert_eq!(row.len(), 1000);
        assert!(row.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        row[999].store(7, Ordering::Relaxed);
        assert_eq!(row[999].load(Ordering::Relaxed), 7);
        assert!(matches!(SharedRow::<AtomicU64>::new(0), Err(Stop::Bug(_))));
    }
}
