// SPDX-License-Identifier: GPL-2.0-or-later
//! A whole result as numbered lines of a log that carries other lines too.
//!
//! `@kernmark-chunk 0f3a5c7e9b1d2f40 3/17 512 9ae0daaf H4sIAAAA...`
//!
//! The fields: which result, number of the chunk (from 1) and how many there are, length of the
//! payload, CRC-32 (IEEE 802.3) over all fields but itself, payload. The payloads of a result
//! joined are base64 of gzip of the lines that [`crate::frame`] makes. A result is named by the
//! first half of the SHA-256 of those lines, so that the name proves that all of them are there.
//! All of this is against a lossy console, not against a hostile kernel.

/// Start of every chunk; other text may stand before it on its line.
pub const CHUNK_PREFIX: &str = "@kernmark-chunk ";

/// Payload of every chunk but the last, in characters. With its header a line stays below the 700
/// bytes that a record of `/dev/kmsg` was seen to take.
pub const CHUNK_CHARACTERS: usize = 512;

/// Digits of the name of a result.
pub const RESULT_NAME_DIGITS: usize = 32;

/// What stands before the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Name of the result.
    pub result: String,
    /// Number of this chunk, from 1.
    pub index: u32,
    /// Chunks of the result.
    pub total: u32,
    /// Characters of the payload.
    pub length: usize,
    /// CRC-32 over the other fields.
    pub checksum: u32,
}

impl ChunkHeader {
    /// Whether the checksum holds for this header with `payload`.
    pub fn holds(&self, payload: &str) -> bool {
        payload.len() == self.length
            && checksum(&self.result, self.index, self.total, payload) == self.checksum
    }
}

/// One chunk as a line, without the line end.
pub fn chunk_line(result: &str, index: u32, total: u32, payload: &str) -> String {
    let (length, checksum) = (payload.len(), checksum(result, index, total, payload));
    format!("{CHUNK_PREFIX}{result} {index}/{total} {length} {checksum:08x} {payload}")
}

/// The header at the start of `text`, which follows [`CHUNK_PREFIX`], and the text after it.
/// `None` where there is no well-formed one. Never panics; the text is hostile.
pub fn chunk_header(text: &str) -> Option<(ChunkHeader, &str)> {
    let mut fields = text.splitn(5, ' ');
    let result = fields.next().filter(|name| is_hexadecimal(name, RESULT_NAME_DIGITS))?;
    let (index, total) = fields.next()?.split_once('/')?;
    let (index, total) = (decimal(index)?, decimal(total)?);
    let length = decimal(fields.next()?)?;
    let checksum = fields.next().filter(|sum| is_hexadecimal(sum, 8))?;
    let header = ChunkHeader {
        result: result.to_owned(),
        index,
        total,
        length: usize::try_from(length).ok()?,
        checksum: u32::from_str_radix(checksum, 16).ok()?,
    };
    (1..=total).contains(&index).then_some((header, fields.next()?))
}

/// CRC-32 over everything but the prefix and itself.
fn checksum(result: &str, index: u32, total: u32, payload: &str) -> u32 {
    crc32fast::hash(format!("{result} {index}/{total} {} {payload}", payload.len()).as_bytes())
}

/// Lower case only, so that an altered letter is not the same number.
fn is_hexadecimal(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// As it is printed: digits only, no leading zero.
fn decimal(text: &str) -> Option<u32> {
    let printed = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    printed.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "0f3a5c7e9b1d2f400f3a5c7e9b1d2f40";

    fn after_prefix(line: &str) -> &str {
        line.strip_prefix(CHUNK_PREFIX).expect("a chunk")
    }

    #[test]
    fn a_chunk_round_trips_with_text_behind_it() {
        let line = chunk_line(NAME, 3, 17, "H4sIAAAA");
        let text = format!("{}[    1.0] usb 1-1: new device", after_prefix(&line));
        let (header, rest) = chunk_header(&text).expect("well-formed");
        assert_eq!((header.result.as_str(), header.index, header.total, header.length), (NAME, 3, 17, 8));
        assert!(header.holds(&rest[..8]) && !header.holds(rest) && !header.holds(&rest[..7]));
    }

    #[test]
    fn every_single_byte_change_is_seen() {
        let line = chunk_line(NAME, 3, 17, "H4sIAAAA");
        for (at, change) in
            (CHUNK_PREFIX.len()..line.len()).flat_map(|at| (1..=255_u8).map(move |change| (at, change)))
        {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= change;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            let holds = chunk_header(after_prefix(&text)).is_some_and(|(header, rest)| header.holds(rest));
            assert!(!holds, "change at byte {at} went unnoticed: {text}");
        }
    }

    #[test]
    fn what_no_board_prints_is_no_header() {
        for text in ["", "x", "0f3a 1/1 1 00000000 A", &format!("{NAME} 1 1 00000000 A")] {
            assert_eq!(chunk_header(text), None, "{text}");
        }
        for number in ["0/1", "2/1", "1/0", "01/1", "+1/1", "1/4294967296", "-1/1"] {
            assert_eq!(chunk_header(&format!("{NAME} {number} 1 00000000 A")), None, "{number}");
        }
    }

    #[test]
    fn the_longest_line_fits_into_a_record_of_the_kernel_log() {
        let line = chunk_line(NAME, u32::MAX, u32::MAX, &"A".repeat(CHUNK_CHARACTERS));
        assert!(line.len() <= 700, "{} bytes", line.len());
    }
}
