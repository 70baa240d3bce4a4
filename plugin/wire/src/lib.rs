// SPDX-License-Identifier: GPL-2.0-or-later
//! What the board prints and the host reads: records and their line framing; and
//! the other way, images of file systems for a guest.
//!
//! Nothing here measures, computes or does I/O. A record is one JSON value on
//! one line with its own checksum, so that a cut, garbled or forged line is
//! seen and named (see [`frame`]).

pub mod catalogue;
mod chunk;
mod frame;
pub mod record;
pub mod sparse;

pub use chunk::{CHUNK_CHARACTERS, CHUNK_PREFIX, ChunkHeader, RESULT_NAME_DIGITS, chunk_header, chunk_line};
pub use frame::{LineProblem, PREFIX, frame, unframe};
pub use record::*;
