// SPDX-License-Identifier: GPL-2.0-or-later
//! System.map of a build: which functions are in the image, under which symbols.

use std::collections::BTreeMap;

/// The code symbols of an image, by the C name they belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemMap {
    functions: BTreeMap<String, Vec<CodeSymbol>>,
}

/// One code symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSymbol {
    /// As in the map, with the compiler's suffixes.
    pub name: String,
    /// Bytes to the next symbol; 0 for the last one.
    pub size: u64,
}

impl CodeSymbol {
    /// Holds only a part of the function (`.cold`, `.part.N`): the rest is elsewhere.
    pub fn is_part(&self) -> bool {
        self.name.split('.').skip(1).any(|suffix| matches!(suffix, "cold" | "part"))
    }
}

/// The C name behind a symbol: without `.constprop.0`, `.isra.0`, `.part.0`,
/// `.cold`, which GCC appends to copies and parts of a function.
pub fn c_name(symbol: &str) -> &str {
    symbol.split('.').next().unwrap_or(symbol)
}

impl SystemMap {
    /// Reads `address type name` lines; others are skipped.
    pub fn parse(text: &str) -> Self {
        let mut symbols: Vec<(u64, bool, &str)> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.split_whitespace();
                let address = u64::from_str_radix(fields.next()?, 16).ok()?;
                let code = matches!(fields.next()?, "t" | "T" | "w" | "W");
                Some((address, code, fields.next()?))
            })
            .collect();
        symbols.sort_by_key(|&(address, ..)| address);
        let mut functions: BTreeMap<String, Vec<CodeSymbol>> = BTreeMap::new();
        let mut next_address = 0;
        let mut end = 0;
        for &(address, code, name) in symbols.iter().rev() {
            if address != next_address {
                end = next_address;
                next_address = address;
            }
            if code {
                let symbol = CodeSymbol { name: name.to_owned(), size: end.saturating_sub(address) };
                functions.entry(c_name(name).to_owned()).or_default().push(symbol);
            }
        }
        Self { functions }
    }

    /// All symbols of a function, parts and copies included.
    pub fn symbols(&self, function: &str) -> &[CodeSymbol] {
        self.functions.get(function).map_or(&[], Vec::as_slice)
    }

    /// Number of functions with at least one symbol.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether no code symbol was read: not a System.map.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_belong_to_the_function() {
        let map = SystemMap::parse(
            "ffffffff81000000 T _text\nffffffff81000000 T one\nffffffff81000040 t two.constprop.0\nffffffff81000050 t two.constprop.0.cold\n\
             ffffffff81000060 t three.part.0\nffffffff81000070 D data\nnoise\n                 U absent\n",
        );
        assert_eq!(map.symbols("one"), [CodeSymbol { name: "one".into(), size: 0x40 }]);
        let parts: Vec<bool> = map.symbols("two").iter().map(CodeSymbol::is_part).collect();
        assert_eq!(parts, [true, false]);
        assert!(map.symbols("three")[0].is_part() && map.symbols("three")[0].size == 0x10);
        assert_eq!(map.symbols("data"), []);
        assert_eq!(map.len(), 4);
        assert!(SystemMap::parse("<html>").is_empty());
    }
}
