// SPDX-License-Identifier: GPL-2.0-or-later
//! Undoes `format=flowed` (RFC 3676), which damages patches: mailers put a blank
//! before lines that start with one, and wrap long lines.

/// The ways a flowed text can be read, likeliest first: only the added blanks
/// removed, wrapped lines joined too, and as it is (mailers that only say flowed).
pub fn readings(text: String, delete_blank: bool) -> Vec<String> {
    let unstuffed: String =
        text.split_inclusive('\n').map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let joined = join(&unstuffed, delete_blank);
    vec![unstuffed, joined, text]
}

/// A line that ends in a blank goes on in the next one; the signature mark does not.
fn join(text: &str, delete_blank: bool) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.lines() {
        if line.ends_with(' ') && line != "-- " {
            joined.push_str(if delete_blank { &line[..line.len() - 1] } else { line });
        } else {
            joined.push_str(line);
            joined.push('\n');
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reading_is_tried() {
        let [unstuffed, joined, raw] =
            readings("  context \nof it\n-- \nx\n".into(), false).try_into().expect("three");
        assert_eq!(unstuffed, " context \nof it\n-- \nx\n");
        assert_eq!(joined, " context of it\n-- \nx\n");
        assert_eq!(raw, "  context \nof it\n-- \nx\n");
        assert_eq!(readings("a \nb\n".into(), true)[1], "ab\n");
    }
}
