// SPDX-License-Identifier: GPL-2.0-or-later
//! Standard output and standard error, whoever reads them or not: a closed pipe ends nothing.

use crate::exit::Failure;
use std::io::{ErrorKind, Write};

/// Writes a result to standard output. A reader that has had enough (`| head`) is no error.
///
/// # Errors
/// The output cannot be written for another reason: a full disk.
pub fn print(text: &str) -> Result<(), Failure> {
    to(&mut std::io::stdout().lock(), text)
}

/// One line for a person on standard error, after the name of the program. Nothing is left to do when
/// even that cannot be written.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "kernmark: {text}");
}

/// A question on standard error.
pub fn ask(text: &str) {
    let _ = write!(std::io::stderr(), "{text} ");
}

fn to(output: &mut dyn Write, text: &str) -> Result<(), Failure> {
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::host(format!(
            "failed to write to standard output: {error}; the result is not lost where a bundle was made: see kernmark report"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_a_full_disk_is() {
        to(&mut Failing(ErrorKind::BrokenPipe), "text").expect("the reader has had enough");
        let failure = to(&mut Failing(ErrorKind::StorageFull), "text").expect_err("lost");
        assert_eq!(failure.exit, Exit::Host);
    }
}
