// SPDX-License-Identifier: GPL-2.0-or-later
//! Images of file systems on their way from the host into a guest: only the
//! blocks that are not zero, so that a guest spends no time on the rest.
//!
//! [`MAGIC`], the size of the image in bytes, then for each block its place in
//! bytes and its content. Numbers are 64 bits, little-endian.

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// The first bytes of every packed image.
pub const MAGIC: &[u8; 8] = b"KMSPARSE";

const NUMBER: usize = 8;
const HEADER: usize = MAGIC.len() + NUMBER;
const RECORD: usize = NUMBER + BLOCK;

/// A packed image, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed<'a> {
    size: u64,
    records: &'a [u8],
}

/// Packs `image`; what is missing to its last whole block counts as zero.
pub fn pack(image: &[u8]) -> Vec<u8> {
    let mut packed = MAGIC.to_vec();
    packed.extend((image.len() as u64).to_le_bytes());
    for (number, block) in image.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            packed.extend(((number * BLOCK) as u64).to_le_bytes());
            packed.extend(block);
            packed.resize(packed.len() + BLOCK - block.len(), 0);
        }
    }
    packed
}

impl<'a> Packed<'a> {
    /// Reads a packed image; `None` where these bytes are none.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let size = u64::from_le_bytes(rest.get(..NUMBER)?.try_into().ok()?);
        let packed = Self { size, records: &bytes[HEADER..] };
        let inside = packed.blocks().all(|(place, _)| place < size && place.is_multiple_of(BLOCK as u64));
        (packed.records.len().is_multiple_of(RECORD) && inside).then_some(packed)
    }

    /// Size of the image, bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its blocks: place in bytes, and content.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        self.records.chunks_exact(RECORD).map(|record| {
            let (place, block) = record.split_at(NUMBER);
            (u64::from_le_bytes(place.try_into().expect("8 bytes")), block)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_with_content_are_kept() {
        let mut image = vec![0; 5 * BLOCK + 10];
        image[BLOCK + 3] = 7;
        image[5 * BLOCK + 9] = 8;
        let bytes = pack(&image);
        assert_eq!(bytes.len(), HEADER + 2 * RECORD);
        let packed = Packed::read(&bytes).expect("just packed");
        assert_eq!(packed.size(), image.len() as u64);
        let mut unpacked = vec![0; 6 * BLOCK];
        for (place, block) in packed.blocks() {
            let place = usize::try_from(place).expect("small");
            unpacked[place..place + BLOCK].copy_from_slice(block);
        }
        assert_eq!(unpacked[..image.len()], image);
    }

    #[test]
    fn what_is_no_packed_image_is_refused() {
        let mut image = vec![0; 2 * BLOCK];
        image[BLOCK] = 1;
        let good = pack(&image);
        let changed = |place: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[place] = byte;
            bytes
        };
        assert!(Packed::read(&good).is_some());
        assert!(Packed::read(&pack(&[])).is_some_and(|p| p.size() == 0));
        for (what, bytes) in [
            ("empty", Vec::new()),
            ("another magic", changed(0, b'X')),
            ("cut in the size", good[..12].to_vec()),
            ("cut in a block", good[..good.len() - 1].to_vec()),
            ("a block beyond the end", changed(HEADER + 2, 1)),
            ("a block at an odd place", changed(HEADER, 1)),
        ] {
            assert_eq!(Packed::read(&bytes), None, "{what}");
        }
    }
}
