// SPDX-License-Identifier: GPL-2.0-or-later
//! The buffer that the kernel writes samples to.
//!
//! Its first page says how far the kernel has written and this program has
//! read; the pages after it are a ring of records, each a header (type, mode,
//! size) and a body of whole 8-byte words.

use super::event::Event;
use nix::errno::Errno;
use nix::libc;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;
/// Pages of records, a power of two; the smaller one is within what an ordinary user may lock.
const RING_PAGES: [usize; 2] = [512, 64];
/// Where `data_head` and `data_tail` stand in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

const RECORD_LOST: u32 = 2;
const RECORD_THROTTLE: u32 = 5;
const RECORD_SAMPLE: u32 = 9;
const MODE_MASK: u16 = 7;
const MODE_KERNEL: u16 = 1;
const HEADER: usize = 8;

/// Values of a call chain from here on mark where another kind of frame begins.
const CONTEXT_MARKS: u64 = u64::MAX - 4095;

/// One sample of a program counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Whether it was in the kernel.
    pub in_kernel: bool,
    /// Where, and who called: innermost first. Empty for user space.
    pub chain: Vec<u64>,
}

/// What was read from a ring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Read {
    /// In order.
    pub samples: Vec<Sample>,
    /// Records that the kernel could not write for want of room.
    pub lost: u64,
    /// Times that the kernel held the sampling back.
    pub throttled: u64,
}

/// The mapped buffer of one event.
#[derive(Debug)]
pub struct Ring {
    start: NonNull<u8>,
    pages: usize,
}

impl Ring {
    /// Maps the buffer of `event`.
    ///
    /// # Errors
    /// The kernel refuses, also a smaller one.
    pub fn new(event: &Event) -> Result<Self, Errno> {
        let mut refused = Errno::ENOMEM;
        for pages in RING_PAGES {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let fd = event.file().as_raw_fd();
            // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists.
            let start = unsafe {
                libc::mmap(std::ptr::null_mut(), (pages + 1) * PAGE, protection, libc::MAP_SHARED, fd, 0)
            };
            if start != libc::MAP_FAILED {
                let start = NonNull::new(start.cast::<u8>()).expect("a mapping is not at address 0");
                return Ok(Self { start, pages });
            }
            refused = Errno::last();
        }
        Err(refused)
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        // SAFETY: both places are aligned words of the first page, which lives as long as `self`
        // and is changed by the kernel and here only, as a whole word.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(place).cast()) }
    }

    /// Takes what has been written since the last time, and gives its room back.
    pub fn read(&self) -> Read {
        let size = self.pages * PAGE;
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(size);
        let first = usize::try_from(tail % size as u64).unwrap_or(0);
        let mut bytes = vec![0; length];
        let until_end = length.min(size - first);
        // SAFETY: the kernel does not touch what is between tail and head; both pieces are within
        // the ring, and `bytes` has room for them.
        unsafe {
            let ring = self.start.as_ptr().add(PAGE);
            std::ptr::copy_nonoverlapping(ring.add(first), bytes.as_mut_ptr(), until_end);
            std::ptr::copy_nonoverlapping(ring, bytes.as_mut_ptr().add(until_end), length - until_end);
        }
        self.word(TAIL).store(head, Ordering::Release);
        parse(&bytes)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made, to which no reference is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), (self.pages + 1) * PAGE) };
    }
}

/// Reads whole records. Those of other types are passed over.
fn parse(mut bytes: &[u8]) -> Read {
    let mut read = Read::default();
    while let Some((kind, mode, body, rest)) = next_record(bytes) {
        match kind {
            RECORD_SAMPLE => read.samples.push(sample(mode, body)),
            RECORD_LOST => read.lost += word(body, 1),
            RECORD_THROTTLE => read.throttled += 1,
            _ => {}
        }
        bytes = rest;
    }
    read
}

fn next_record(bytes: &[u8]) -> Option<(u32, u16, &[u8], &[u8])> {
    let header = bytes.get(..HEADER)?;
    let kind = u32::from_ne_bytes(header[..4].try_into().ok()?);
    let mode = u16::from_ne_bytes(header[4..6].try_into().ok()?);
    let size = usize::from(u16::from_ne_bytes(header[6..8].try_into().ok()?));
    // A size below that of the header would never get on.
    let body = bytes.get(HEADER..size)?;
    Some((kind, mode, body, &bytes[size..]))
}

/// The word at `index`; 0 behind the end.
fn word(body: &[u8], index: usize) -> u64 {
    body.get(8 * index..8 * index + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// Instruction pointer, process and thread ids, length of the chain, the chain.
fn sample(mode: u16, body: &[u8]) -> Sample {
    let in_kernel = mode & MODE_MASK == MODE_KERNEL;
    let pointer = word(body, 0);
    let length = usize::try_from(word(body, 2)).unwrap_or(usize::MAX).min(body.len() / 8);
    let mut chain: Vec<u64> = (3..3 + length).map(|i| word(body, i)).filter(|f| *f < CONTEXT_MARKS).collect();
    if !in_kernel {
        chain.clear();
    } else if chain.first() != Some(&pointer) {
        chain.insert(0, pointer);
    }
    Sample { in_kernel, chain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, mode: u16, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(HEADER + 8 * words.len()).expect("short");
        let mut bytes =
            [kind.to_ne_bytes().to_vec(), mode.to_ne_bytes().to_vec(), size.to_ne_bytes().to_vec()].concat();
        bytes.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        bytes
    }

    const KERNEL_MARK: u64 = u64::MAX - 127;

    #[test]
    fn samples_lost_records_and_throttles_are_told_apart() {
        let bytes = [
            record(RECORD_SAMPLE, MODE_KERNEL, &[0x10, 7, 3, KERNEL_MARK, 0x10, 0x20]),
            record(RECORD_LOST, 0, &[1, 5]),
            record(RECORD_SAMPLE, 2, &[0x400, 7, 0]),
            record(RECORD_THROTTLE, 0, &[1, 2, 3]),
            record(3, 0, &[9]),
            record(RECORD_LOST, 0, &[1, 2]),
        ]
        .concat();
        let read = parse(&bytes);
        assert_eq!(
            read.samples,
            [Sample { in_kernel: true, chain: vec![0x10, 0x20] }, Sample { in_kernel: false, chain: vec![] }]
        );
        assert_eq!((read.lost, read.throttled), (7, 1));
    }

    #[test]
    fn a_chain_always_begins_with_the_sampled_place() {
        let read = parse(&record(RECORD_SAMPLE, MODE_KERNEL, &[0x10, 7, 2, KERNEL_MARK, 0x20]));
        assert_eq!(read.samples[0].chain, [0x10, 0x20]);
    }

    #[test]
    fn cut_and_senseless_records_end_the_reading() {
        let whole = record(RECORD_SAMPLE, MODE_KERNEL, &[0x10, 7, 1, 0x10]);
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Read::default(), "{cut}");
        }
        let mut endless = record(3, 0, &[]);
        endless[6] = 0;
        assert_eq!(parse(&endless), Read::default());
        let long = record(RECORD_SAMPLE, MODE_KERNEL, &[0x10, 7, u64::MAX, 0x10]);
        assert_eq!(parse(&long).samples[0].chain.first(), Some(&0x10));
    }
}
