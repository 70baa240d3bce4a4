// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of kernel functions by address, from /proc/kallsyms.

/// Functions, in order of address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbols {
    /// (address, name).
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads the kernel's own list.
    ///
    /// # Errors
    /// It cannot be read, or hides the addresses.
    pub fn of_this_kernel() -> Result<Self, String> {
        let text = std::fs::read_to_string("/proc/kallsyms")
            .map_err(|e| format!("/proc/kallsyms: {e} (CONFIG_KALLSYMS)"))?;
        Self::parse(&text)
    }

    /// Lines are `ffffffff81000000 T _text [module]`. A compiler's clone (`may_open.isra.0`)
    /// counts as its function.
    fn parse(text: &str) -> Result<Self, String> {
        let mut functions: Vec<(u64, String)> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.split_whitespace();
                let address = u64::from_str_radix(fields.next()?, 16).ok()?;
                let is_code = matches!(fields.next()?, "t" | "T" | "w" | "W");
                let name = fields.next()?;
                // Labels of the compiler's prefix bytes are no functions.
                (is_code && !name.starts_with("__pfx_")).then(|| (address, c_name(name).to_owned()))
            })
            .collect();
        if functions.iter().all(|(address, _)| *address == 0) {
            return Err(
                "the addresses in /proc/kallsyms are hidden; run as root with kernel.kptr_restrict=0".into(),
            );
        }
        functions.sort_by_key(|(address, _)| *address);
        Ok(Self { functions })
    }

    /// From a text of this form.
    #[cfg(test)]
    pub fn parse_for_tests(text: &str) -> Self {
        Self::parse(text).expect("addresses")
    }

    /// The function that `address` lies in.
    pub fn name(&self, address: u64) -> &str {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        after.checked_sub(1).map_or("[unknown]", |at| self.functions[at].1.as_str())
    }
}

fn c_name(symbol: &str) -> &str {
    // Names of assembly that begin with a dot stay.
    symbol.split_once('.').map_or(symbol, |(name, _)| if name.is_empty() { symbol } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000200 T down_read
ffffffff81000300 t may_open.isra.0
ffffffff810001f0 t __pfx_down_read
ffffffff81000400 D some_data
ffffffffa0000000 t ext4_open\t[ext4]
";

    #[test]
    fn an_address_belongs_to_the_function_that_starts_before_it() {
        let symbols = Symbols::parse(TEXT).expect("addresses");
        for (address, name) in [
            (0xffff_ffff_8100_0200, "down_read"),
            (0xffff_ffff_8100_02ff, "down_read"),
            (0xffff_ffff_8100_0300, "may_open"),
            (0xffff_ffff_8100_0400, "may_open"),
            (0xffff_ffff_a000_0010, "ext4_open"),
            (0x1000, "[unknown]"),
        ] {
            assert_eq!(symbols.name(address), name, "{address:x}");
        }
    }

    #[test]
    fn hidden_addresses_are_a_reason() {
        for text in ["0000000000000000 T down_read\n0000000000000000 T up_read\n", ""] {
            let reason = Symbols::parse(text).expect_err("nothing to go by");
            assert!(reason.contains("kptr_restrict"), "{reason}");
        }
    }

    #[test]
    fn this_kernel_has_symbols_or_says_why_not() {
        match Symbols::of_this_kernel() {
            Ok(symbols) => assert!(!symbols.functions.is_empty()),
            Err(reason) => assert!(reason.contains("kallsyms"), "{reason}"),
        }
    }
}
