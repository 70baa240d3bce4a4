// SPDX-License-Identifier: GPL-2.0-or-later
//! The whole result in lines that travel in a log among others, see [`kernmark_wire::chunk_line`].
//! Without any program of ours, the text after the fifth field of all of them goes through
//! `base64 -d | gunzip`.

use crate::machine::sha256;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, GzBuilder};
use kernmark_wire::{CHUNK_CHARACTERS, RESULT_NAME_DIGITS, chunk_line};
use std::fmt::Write as _;
use std::io::Write as _;

/// `lines`, the checksummed JSON lines of a run, as chunks.
pub fn render(lines: &str) -> String {
    let mut packer = GzBuilder::new().write(Vec::new(), Compression::best());
    packer.write_all(lines.as_bytes()).expect("writing to memory");
    let payload = STANDARD.encode(packer.finish().expect("writing to memory"));
    let name = &sha256(lines.as_bytes())[..RESULT_NAME_DIGITS];
    let total = u32::try_from(payload.len().div_ceil(CHUNK_CHARACTERS)).expect("a run prints far less");
    let mut text = String::new();
    for index in 1..=total {
        let from = (index as usize - 1) * CHUNK_CHARACTERS;
        let part = &payload[from..payload.len().min(from + CHUNK_CHARACTERS)];
        writeln!(text, "{}", chunk_line(name, index, total, part)).expect("writing to a string");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernmark_wire::{CHUNK_PREFIX, chunk_header};
    use std::io::Read;

    #[test]
    fn the_chunks_of_a_long_result_give_it_back() {
        // Numbers that compress badly, so that there are several chunks.
        let lines: String =
            (1..600_u64).map(|n| format!("{}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let text = render(&lines);
        let mut payload = String::new();
        for (line, due) in text.lines().zip(1..) {
            let (header, part) =
                chunk_header(line.strip_prefix(CHUNK_PREFIX).expect("a chunk")).expect("whole");
            assert!(header.holds(part), "{line}");
            assert_eq!((header.index, header.total as usize), (due, text.lines().count()));
            payload.push_str(part);
        }
        assert!(text.lines().count() > 10);
        let mut found = String::new();
        let packed = STANDARD.decode(payload).expect("base64");
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut found).expect("gzip");
        assert_eq!(found, lines);
    }

    #[test]
    fn equal_results_are_equal_lines() {
        assert_eq!(render("a\n"), render("a\n"));
        assert_ne!(render("a\n"), render("b\n"));
    }
}
