// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds the static measuring program that becomes /init of every boot.

use kernmark_validation::plan::hex;
use kernmark_wire::catalogue::Workload;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How to make it; printed wherever it is missing.
const BUILD: &str = "cargo rustc --release -p kernmark-board --target x86_64-unknown-linux-gnu \
                     --bin kernmark-board -- -C target-feature=+crt-static";

/// Where cargo puts it, seen from the directory of `kernmark`.
const BUILT: &str = "../x86_64-unknown-linux-gnu/board/kernmark-board";

/// The static measuring program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardBinary {
    /// Where it was found.
    pub path: PathBuf,
    /// The program.
    pub bytes: Vec<u8>,
    /// SHA-256 of `bytes`, lower-case hex.
    pub sha256: String,
}

/// Why there is no measuring program.
#[derive(Debug, thiserror::Error)]
pub enum BoardBinaryError {
    /// It is nowhere.
    #[error("find the measuring program kernmark-board: it is not in {}. Build it: {BUILD}", list(looked))]
    Missing {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// There is one that cannot be /init.
    #[error("use {} as the measuring program: {reason}. Build it: {BUILD}", path.display())]
    Unsuitable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: Unsuitable,
    },
    /// It does not say what it measures.
    #[error("learn from {} what it measures: {reason}. It is of another version, or cannot run here. Build it: {BUILD}", path.display())]
    Catalogue {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// It cannot be read.
    #[error("read the measuring program {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Why a file cannot be /init of a guest that has no other file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// Not an ELF file, or a damaged one.
    #[error("it is no ELF program")]
    NoProgram,
    /// For another processor.
    #[error("it is not for x86-64")]
    OtherMachine,
    /// It needs a dynamic loader.
    #[error("it is linked dynamically, and an initramfs has no loader")]
    Dynamic,
}

/// The measuring program: `asked` where given, else beside the running
/// program `exe`, else where cargo builds it.
///
/// # Errors
/// There is none, or none that is static; the error names the build command.
pub fn board_binary(asked: Option<&Path>, exe: &Path) -> Result<BoardBinary, BoardBinaryError> {
    if let Some(path) = asked {
        return read(path)?.ok_or_else(|| BoardBinaryError::Missing { looked: vec![path.to_owned()] });
    }
    let directory = exe.parent().unwrap_or(Path::new("."));
    let looked = vec![directory.join("kernmark-board"), directory.join(BUILT)];
    let mut unsuitable = None;
    for path in &looked {
        match read(path) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            // `cargo build --workspace` leaves a dynamic one beside us; go on to the next place.
            Err(error) => unsuitable = unsuitable.or(Some(error)),
        }
    }
    Err(unsuitable.unwrap_or(BoardBinaryError::Missing { looked }))
}

/// What `board` can measure, by its own account. It is our own static program, so it runs here
/// as it does in a guest.
///
/// # Errors
/// It does not start, or speaks of it in another way.
pub fn catalogue(board: &BoardBinary) -> Result<Vec<Workload>, BoardBinaryError> {
    let failed = |reason: String| BoardBinaryError::Catalogue { path: board.path.clone(), reason };
    let listed = Command::new(&board.path)
        .args(["list", "--format", "json"])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !listed.status.success() {
        return Err(failed(format!("it ended with {}", listed.status)));
    }
    serde_json::from_slice(&listed.stdout).map_err(|e| failed(e.to_string()))
}

fn read(path: &Path) -> Result<Option<BoardBinary>, BoardBinaryError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(BoardBinaryError::Read { path: path.to_owned(), source }),
    };
    check_static(&bytes).map_err(|reason| BoardBinaryError::Unsuitable { path: path.to_owned(), reason })?;
    let sha256 = hex(&Sha256::digest(&bytes));
    Ok(Some(BoardBinary { path: path.to_owned(), bytes, sha256 }))
}

/// Whether `bytes` is a static x86-64 program: an ELF file without a
/// PT_INTERP program header (elf(5)).
///
/// # Errors
/// It is not; the error says why.
pub fn check_static(bytes: &[u8]) -> Result<(), Unsuitable> {
    const MACHINE_X86_64: u64 = 62;
    const INTERPRETER: u64 = 3;
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err(Unsuitable::NoProgram);
    }
    let number = |at: u64, length: usize| -> Result<u64, Unsuitable> {
        let start = usize::try_from(at).map_err(|_| Unsuitable::NoProgram)?;
        let end = start.checked_add(length).ok_or(Unsuitable::NoProgram)?;
        let field = bytes.get(start..end).ok_or(Unsuitable::NoProgram)?;
        Ok(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    if number(18, 2)? != MACHINE_X86_64 {
        return Err(Unsuitable::OtherMachine);
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    if count == 0 {
        return Err(Unsuitable::NoProgram);
    }
    for header in 0..count {
        let at = table.checked_add(header * size).ok_or(Unsuitable::NoProgram)?;
        if number(at, 4)? == INTERPRETER {
            return Err(Unsuitable::Dynamic);
        }
    }
    Ok(())
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64-bit little-endian ELF header with program headers of these types.
    fn elf(machine: u8, types: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56 * types.len()];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = machine;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = types.len() as u8;
        for (n, kind) in types.iter().enumerate() {
            bytes[64 + 56 * n] = *kind;
        }
        bytes
    }

    #[test]
    fn only_static_programs_pass() {
        for (bytes, expected) in [
            (elf(62, &[6, 1, 2]), Ok(())),
            (elf(62, &[1, 3]), Err(Unsuitable::Dynamic)),
            (elf(183, &[1]), Err(Unsuitable::OtherMachine)),
            (elf(62, &[]), Err(Unsuitable::NoProgram)),
            (b"#!/bin/sh\n".to_vec(), Err(Unsuitable::NoProgram)),
            (Vec::new(), Err(Unsuitable::NoProgram)),
        ] {
            assert_eq!(check_static(&bytes), expected);
        }
        let whole = elf(62, &[1, 1]);
        for end in 0..whole.len() - 56 {
            assert!(check_static(&whole[..end]).is_err(), "cut after {end} bytes");
        }
        let mut far = elf(62, &[1]);
        far[32..40].fill(0xff);
        assert_eq!(check_static(&far), Err(Unsuitable::NoProgram));
    }

    #[test]
    fn a_dynamic_neighbour_is_passed_over() {
        let place = tempfile::tempdir().expect("temporary directory");
        let exe = place.path().join("release/kernmark");
        let built = place.path().join("x86_64-unknown-linux-gnu/board");
        std::fs::create_dir_all(exe.parent().expect("joined above")).expect("writable");
        std::fs::create_dir_all(&built).expect("writable");
        let missing = board_binary(None, &exe).expect_err("there is none").to_string();
        assert!(missing.contains("release/kernmark-board or") && missing.contains(BUILD), "{missing}");
        std::fs::write(exe.with_file_name("kernmark-board"), elf(62, &[3])).expect("writable");
        let dynamic = board_binary(None, &exe).expect_err("it is dynamic").to_string();
        assert!(dynamic.contains("linked dynamically") && dynamic.contains(BUILD), "{dynamic}");
        std::fs::write(built.join("kernmark-board"), elf(62, &[1])).expect("writable");
        assert_eq!(board_binary(None, &exe).expect("static").bytes, elf(62, &[1]));
        std::fs::write(exe.with_file_name("kernmark-board"), elf(62, &[1, 1])).expect("writable");
        assert_eq!(
            board_binary(None, &exe).expect("static").bytes,
            elf(62, &[1, 1]),
            "the neighbour comes first"
        );
        let asked = place.path().join("asked");
        assert!(matches!(board_binary(Some(&asked), &exe), Err(BoardBinaryError::Missing { .. })));
    }
}
