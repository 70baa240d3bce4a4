// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's description of its own types, `/sys/kernel/btf/vmlinux`: as much
//! of it as loading a scheduler takes.
//!
//! Format: `Documentation/bpf/btf.rst`, `include/uapi/linux/btf.h`. The text may
//! be cut or wrong; then the answer is an error, never a panic or a wrong number.

/// Why a type cannot be looked up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// It starts otherwise.
    #[error("these are no BTF types of version 1")]
    NotBtf,
    /// A length or place lies beyond the end.
    #[error("the BTF types are cut or damaged: {0}")]
    Damaged(&'static str),
    /// A kind that came after this program: how long it is, is not known.
    #[error("the BTF types have a kind {0}, which is not known here")]
    Kind(u32),
    /// There is no such type, member or enumerator.
    #[error("the kernel has no {0}")]
    NotThere(String),
}

const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
const HEADER: usize = 24;
/// Three words before what belongs to the kind.
const TYPE: usize = 12;

const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;

/// All types of a kernel.
#[derive(Debug)]
pub struct Btf<'a> {
    types: Vec<Type<'a>>,
    strings: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
struct Type<'a> {
    name: u32,
    kind: u32,
    /// The offset of a member holds a size of bits too.
    bitfields: bool,
    size: u32,
    /// Members, enumerators ... as they stand.
    rest: &'a [u8],
}

/// A struct type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Number of the type.
    pub id: u32,
    /// Bytes.
    pub size: u32,
    /// In the order of their declaration.
    pub members: Vec<Member>,
}

/// A member of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// 0-based place in the declaration.
    pub index: u32,
    /// Where it starts, bytes.
    pub offset: usize,
}

impl Structure {
    /// The member of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn member(&self, name: &str) -> Result<&Member, BtfError> {
        self.members
            .iter()
            .find(|member| member.name == name)
            .ok_or_else(|| BtfError::NotThere(format!("member {name} where one is needed")))
    }
}

impl<'a> Btf<'a> {
    /// Reads the types in `bytes`.
    ///
    /// # Errors
    /// They are cut, damaged or of a later format.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BtfError> {
        let magic = bytes.get(..3).ok_or(BtfError::NotBtf)?;
        if u16::from_le_bytes([magic[0], magic[1]]) != MAGIC || magic[2] != VERSION {
            return Err(BtfError::NotBtf);
        }
        if bytes.len() < HEADER {
            return Err(BtfError::Damaged("the header"));
        }
        let body = bytes.get(place(word(bytes, 4)?)..).ok_or(BtfError::Damaged("the header"))?;
        let types = section(body, word(bytes, 8)?, word(bytes, 12)?).ok_or(BtfError::Damaged("types"))?;
        let strings = section(body, word(bytes, 16)?, word(bytes, 20)?).ok_or(BtfError::Damaged("names"))?;
        Ok(Self { types: types_in(types)?, strings })
    }

    /// The first struct of this name, as the kernel itself looks it up.
    ///
    /// # Errors
    /// There is none, or its members are damaged.
    pub fn structure(&self, name: &str) -> Result<Structure, BtfError> {
        let found = self.types.iter().zip(1..).find(|(t, _)| t.kind == STRUCT && self.has_name(t.name, name));
        let (found, id) = found.ok_or_else(|| BtfError::NotThere(format!("struct {name}")))?;
        let members = found.rest.chunks_exact(12).zip(0..).map(|(entry, index)| {
            let bits = word(entry, 8)?;
            // With bit fields the upper byte is the size of this one; 0 for an ordinary member.
            let bits = if found.bitfields { bits & 0x00ff_ffff } else { bits };
            let name = self.name(word(entry, 0)?)?;
            Ok(Member { name: name.to_owned(), index, offset: place(bits) / 8 })
        });
        Ok(Structure { id, size: found.size, members: members.collect::<Result<_, BtfError>>()? })
    }

    /// The value of the first enumerator of this name, whatever enum it is in.
    ///
    /// # Errors
    /// There is none.
    pub fn enumerator(&self, name: &str) -> Result<u64, BtfError> {
        for found in &self.types {
            let (length, is_wide) = match found.kind {
                ENUM => (8, false),
                ENUM64 => (12, true),
                _ => continue,
            };
            for entry in found.rest.chunks_exact(length) {
                if self.has_name(word(entry, 0)?, name) {
                    let high = if is_wide { u64::from(word(entry, 8)?) } else { 0 };
                    return Ok(high << 32 | u64::from(word(entry, 4)?));
                }
            }
        }
        Err(BtfError::NotThere(format!("enumerator {name}")))
    }

    fn name(&self, offset: u32) -> Result<&'a str, BtfError> {
        let rest = self.strings.get(place(offset)..).ok_or(BtfError::Damaged("a name"))?;
        let end = rest.iter().position(|byte| *byte == 0).ok_or(BtfError::Damaged("a name"))?;
        std::str::from_utf8(&rest[..end]).map_err(|_| BtfError::Damaged("a name"))
    }

    fn has_name(&self, offset: u32, name: &str) -> bool {
        let rest = self.strings.get(place(offset)..).unwrap_or_default();
        rest.strip_prefix(name.as_bytes()).is_some_and(|after| after.first() == Some(&0))
    }
}

/// The smallest BTF that a map can be made with: one integer of four bytes.
pub fn own_btf() -> Vec<u8> {
    const NAMES: &[u8] = b"\0int\0";
    let type_words = [1, INT << 24, 4, 32];
    let lengths = [HEADER as u32, 0, 4 * type_words.len() as u32, 4 * type_words.len() as u32];
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend([VERSION, 0]);
    for number in lengths.into_iter().chain([NAMES.len() as u32]).chain(type_words) {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(NAMES);
    bytes
}

fn types_in(bytes: &[u8]) -> Result<Vec<Type<'_>>, BtfError> {
    let mut types = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let info = word(rest, 4)?;
        let kind = info >> 24 & 0x1f;
        let count = place(info & 0xffff);
        let length = match kind {
            INT | VAR | DECL_TAG => 4,
            ARRAY => 12,
            STRUCT | UNION | DATASEC | ENUM64 => 12 * count,
            ENUM | FUNC_PROTO => 8 * count,
            2 | 7..=12 | 16 | 18 => 0,
            other => return Err(BtfError::Kind(other)),
        };
        let of_kind = rest.get(TYPE..TYPE + length).ok_or(BtfError::Damaged("a type"))?;
        types.push(Type {
            name: word(rest, 0)?,
            kind,
            bitfields: info >> 31 == 1,
            size: word(rest, 8)?,
            rest: of_kind,
        });
        rest = &rest[TYPE + length..];
    }
    Ok(types)
}

fn section(body: &[u8], start: u32, length: u32) -> Option<&[u8]> {
    body.get(place(start)..)?.get(..place(length))
}

/// The number at this place; BTF of a running kernel is in its byte order, little-endian.
fn word(bytes: &[u8], at: usize) -> Result<u32, BtfError> {
    let found = bytes.get(at..at + 4).ok_or(BtfError::Damaged("a type"))?;
    Ok(u32::from_le_bytes(found.try_into().expect("4 bytes")))
}

fn place(number: u32) -> usize {
    usize::try_from(number).expect("64-bit")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Collects names and types of a BTF made by hand.
    #[derive(Default)]
    struct Blob {
        names: Vec<u8>,
        types: Vec<u8>,
    }

    impl Blob {
        fn name(&mut self, name: &str) -> u32 {
            if self.names.is_empty() {
                self.names.push(0);
            }
            let at = self.names.len() as u32;
            self.names.extend(name.as_bytes());
            self.names.push(0);
            at
        }

        fn entry(&mut self, words: &[u32]) {
            self.types.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        }

        /// `entries`: for a struct (name, type, bits), for an enum (name, low, high).
        fn named(&mut self, kind: u32, flag: u32, name: &str, size: u32, entries: &[(&str, u32, u32)]) {
            let name = self.name(name);
            self.entry(&[name, flag << 31 | kind << 24 | entries.len() as u32, size]);
            for (name, second, third) in entries {
                let name = self.name(name);
                let words = [name, *second, *third];
                self.entry(if kind == ENUM { &words[..2] } else { &words });
            }
        }

        fn bytes(&self) -> Vec<u8> {
            let (types, names) = (self.types.len() as u32, self.names.len() as u32);
            let mut bytes = vec![0x9f, 0xeb, 1, 0];
            for number in [24, 0, types, types, names] {
                bytes.extend(u32::to_le_bytes(number));
            }
            [bytes, self.types.clone(), self.names.clone()].concat()
        }
    }

    /// Name, size, members with their places in bytes.
    pub type Struct<'a> = (&'a str, u32, &'a [(&'a str, u32)]);

    /// These structs, then an enum of these values.
    pub fn types(structs: &[Struct<'_>], enumerators: &[(&str, u32)]) -> Vec<u8> {
        let mut blob = Blob::default();
        for (name, size, members) in structs {
            let members: Vec<_> = members.iter().map(|(name, at)| (*name, 1, 8 * at)).collect();
            blob.named(STRUCT, 0, name, *size, &members);
        }
        let values: Vec<_> = enumerators.iter().map(|(name, value)| (*name, *value, 0)).collect();
        blob.named(ENUM, 0, "flags", 4, &values);
        blob.bytes()
    }

    fn kernel() -> Blob {
        let mut blob = Blob::default();
        blob.named(INT, 0, "int", 4, &[]);
        blob.entry(&[32]);
        // PTR, FWD, TYPEDEF and an ARRAY, a FUNC_PROTO with two parameters, a VAR.
        blob.entry(&[0, 2 << 24, 1, 0, 7 << 24, 0, 0, 8 << 24, 1, 0, ARRAY << 24, 0, 1, 1, 16]);
        blob.entry(&[0, FUNC_PROTO << 24 | 2, 1, 0, 1, 0, 1, 0, VAR << 24, 1, 0]);
        blob.named(STRUCT, 0, "ops", 256, &[("select_cpu", 2, 0), ("name", 5, 64)]);
        blob.named(STRUCT, 1, "with_bits", 16, &[("bit", 1, 1 << 24 | 3), ("later", 1, 64)]);
        blob.named(ENUM, 0, "flags", 4, &[("FIRST", 1, 0), ("SECOND", 8, 0)]);
        blob.named(ENUM64, 0, "wide_flags", 8, &[("WIDE", 5, 1)]);
        blob
    }

    #[test]
    fn structs_and_enumerators_are_found_by_name() {
        let bytes = kernel().bytes();
        let btf = Btf::read(&bytes).expect("whole");
        let ops = btf.structure("ops").expect("there");
        assert_eq!((ops.id, ops.size, ops.members.len()), (8, 256, 2));
        assert_eq!(ops.member("name"), Ok(&Member { name: "name".into(), index: 1, offset: 8 }));
        let bits = btf.structure("with_bits").expect("there");
        assert_eq!((bits.members[0].offset, bits.members[1].offset), (0, 8));
        assert_eq!(btf.enumerator("SECOND"), Ok(8));
        assert_eq!(btf.enumerator("WIDE"), Ok(1 << 32 | 5));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let bytes = kernel().bytes();
        let btf = Btf::read(&bytes).expect("whole");
        // "op" is the start of a name, "flags" an enum.
        for name in ["op", "flags", "opsx", ""] {
            assert_eq!(btf.structure(name), Err(BtfError::NotThere(format!("struct {name}"))));
        }
        assert!(btf.enumerator("flags").is_err());
        let error = btf.structure("ops").expect("there").member("cgroup_init").expect_err("not there");
        assert!(error.to_string().contains("cgroup_init"), "{error}");
    }

    #[test]
    fn every_cut_is_an_error() {
        let bytes = kernel().bytes();
        for length in 0..bytes.len() {
            let found = Btf::read(&bytes[..length]);
            assert!(found.is_err(), "{length} of {} bytes", bytes.len());
        }
    }

    #[test]
    fn every_changed_byte_is_an_error_or_another_answer() {
        let bytes = kernel().bytes();
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let Ok(btf) = Btf::read(&changed) else { continue };
                for name in ["ops", "with_bits"] {
                    let _ = btf.structure(name).map(|s| s.member("name").map(|m| m.offset));
                }
                let _ = btf.enumerator("WIDE");
            }
        }
    }

    #[test]
    fn hostile_lengths_and_kinds_are_refused() {
        let bytes = kernel().bytes();
        let with = |at: usize, word: u32| {
            let mut changed = bytes.clone();
            changed[at..at + 4].copy_from_slice(&word.to_le_bytes());
            Btf::read(&changed).err()
        };
        assert_eq!(with(0, 0x0002_eb9f), Some(BtfError::NotBtf));
        assert_eq!(with(4, u32::MAX), Some(BtfError::Damaged("the header")));
        for at in [8, 12] {
            assert_eq!(with(at, u32::MAX), Some(BtfError::Damaged("types")));
        }
        for at in [16, 20] {
            assert_eq!(with(at, u32::MAX), Some(BtfError::Damaged("names")));
        }
        assert_eq!(with(28, 31 << 24), Some(BtfError::Kind(31)));
        assert_eq!(with(28, STRUCT << 24 | 0xffff), Some(BtfError::Damaged("a type")));
    }

    #[test]
    fn names_outside_the_names_are_damage() {
        let mut blob = Blob::default();
        blob.named(STRUCT, 0, "ops", 8, &[]);
        blob.types[4..8].copy_from_slice(&(STRUCT << 24 | 1).to_le_bytes());
        blob.entry(&[u32::MAX, 1, 0]);
        let bytes = blob.bytes();
        assert_eq!(Btf::read(&bytes).expect("whole").structure("ops"), Err(BtfError::Damaged("a name")));
        // The last name has no end.
        let mut open = Blob::default();
        open.named(STRUCT, 0, "ops", 8, &[("x", 1, 0)]);
        open.names.pop();
        let bytes = open.bytes();
        assert_eq!(Btf::read(&bytes).expect("whole").structure("ops"), Err(BtfError::Damaged("a name")));
    }

    #[test]
    fn our_own_types_read_back() {
        let bytes = own_btf();
        let btf = Btf::read(&bytes).expect("whole");
        assert_eq!((btf.types.len(), btf.types[0].kind, btf.types[0].size), (1, INT, 4));
        assert_eq!(btf.name(btf.types[0].name), Ok("int"));
    }
}
