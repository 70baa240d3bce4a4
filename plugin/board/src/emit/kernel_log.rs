// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines through the kernel's log, where no kernel message can cut into them. LAVA asks for this
//! with `lava-signal: kmsg`, which sets `KMSG` in the environment of its test shell.

use std::io::{self, Write};
use std::path::PathBuf;

/// Each line becomes one record of `/dev/kmsg`, at the level that every console shows.
#[derive(Debug)]
pub struct KernelLog {
    device: PathBuf,
    line: Vec<u8>,
}

impl KernelLog {
    /// Writes to `device`, which is `/dev/kmsg` outside of tests.
    pub fn new(device: impl Into<PathBuf>) -> Self {
        Self { device: device.into(), line: Vec::new() }
    }
}

impl Write for KernelLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let record = [b"<0>", &self.line[..]].concat();
                // The kernel takes some ten records in a row from one open file and drops the rest.
                std::fs::OpenOptions::new().append(true).open(&self.device)?.write_all(&record)?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_one_record_of_the_highest_level() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let mut log = KernelLog::new(file.path());
        for piece in ["one\ntw", "o\n", "three"] {
            log.write_all(piece.as_bytes()).expect("a file");
        }
        assert_eq!(std::fs::read_to_string(file.path()).expect("text"), "<0>one\n<0>two\n");
        assert!(KernelLog::new("/no/such/device").write_all(b"x\n").is_err());
    }
}
