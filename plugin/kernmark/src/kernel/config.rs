// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel configuration: what is asked for, and whether it was had.

use super::fragment::Fragment;
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// What a kernel is configured with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    fragment: Fragment,
    /// What is merged onto tinyconfig.
    text: String,
}

impl Configuration {
    /// `fragment` and, after it, each of `options` (names without `CONFIG_`) switched on.
    pub fn new(fragment: Fragment, options: &[String]) -> Self {
        let mut text = fragment.text();
        for option in options {
            text.push_str(&format!("CONFIG_{option}=y\n"));
        }
        Self { fragment, text }
    }

    /// The same with lines of .config of its own after everything else.
    #[must_use]
    pub fn with_lines(mut self, lines: &[String]) -> Self {
        for line in lines {
            self.text.push_str(line);
            self.text.push('\n');
        }
        self
    }

    /// The fragment it was made from.
    pub fn fragment(&self) -> Fragment {
        self.fragment
    }

    /// The text that is merged.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Symbols that `config`, the final .config, does not have as asked.
    pub fn not_had(&self, config: &str) -> Vec<String> {
        let had = symbols(config);
        symbols(&self.text)
            .into_iter()
            .filter_map(|(name, asked)| {
                let got = had.get(name).copied().unwrap_or("n");
                (got != asked).then(|| format!("CONFIG_{name}: asked {asked}, got {got}"))
            })
            .collect()
    }
}

/// Name (without `CONFIG_`) and value of each symbol; `n` for one that is not set. The last one wins.
fn symbols(config: &str) -> BTreeMap<&str, &str> {
    config
        .lines()
        .filter_map(|line| {
            if let Some(rest) = line.strip_prefix("# CONFIG_") {
                return Some((rest.strip_suffix(" is not set")?, "n"));
            }
            line.strip_prefix("CONFIG_")?.split_once('=')
        })
        .collect()
}

/// SHA-256 over the symbols of a .config in the order of their names, without LOCALVERSION
/// (protocol.md section 8). With `base`, symbols that its .config has never heard of are left out too: a
/// series may add options, and their value is part of what the series does.
pub fn canonical_sha256(config: &str, base: Option<&str>) -> String {
    let known = base.map(symbols);
    let mut hash = Sha256::new();
    for (name, value) in symbols(config) {
        if name != "LOCALVERSION" && known.as_ref().is_none_or(|known| known.contains_key(name)) {
            hash.update(format!("CONFIG_{name}={value}\n"));
        }
    }
    hex(&hash.finalize())
}

/// Names of symbols that differ between two .config texts, with both values.
pub(super) fn differences(left: &str, right: &str) -> Vec<String> {
    let (left, right) = (symbols(left), symbols(right));
    let names: std::collections::BTreeSet<&&str> = left.keys().chain(right.keys()).collect();
    names
        .into_iter()
        .filter(|name| **name != "LOCALVERSION")
        .filter_map(|name| {
            let (l, r) = (left.get(name).copied().unwrap_or("n"), right.get(name).copied().unwrap_or("n"));
            (l != r).then(|| format!("CONFIG_{name} ({l} in base, {r} here)"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_had_is_named() {
        let text = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_N=8\nCONFIG_N=16\nCONFIG_C=y\n".to_owned();
        let asked = Configuration { fragment: Fragment::Minimal, text };
        assert!(asked.not_had("CONFIG_A=y\nCONFIG_N=16\nCONFIG_C=y\n").is_empty());
        assert_eq!(
            asked.not_had("CONFIG_B=y\nCONFIG_N=8\nCONFIG_A=y\n"),
            ["CONFIG_B: asked n, got y", "CONFIG_C: asked y, got n", "CONFIG_N: asked 16, got 8"]
        );
    }

    #[test]
    fn options_come_last() {
        let asked = Configuration::new(Fragment::SchedExt, &["BLOCK".into(), "UTS_NS".into()]);
        let text = format!("{}CONFIG_BLOCK=y\nCONFIG_UTS_NS=y\n", Fragment::SchedExt.text());
        assert_eq!((asked.text(), asked.fragment()), (text.as_str(), Fragment::SchedExt));
        let own = asked.with_lines(&["# CONFIG_BLOCK is not set".into(), "CONFIG_HZ=100".into()]);
        assert!(own.text().ends_with("CONFIG_UTS_NS=y\n# CONFIG_BLOCK is not set\nCONFIG_HZ=100\n"));
        assert!(own.not_had("CONFIG_BLOCK=y\n").iter().any(|s| s == "CONFIG_BLOCK: asked n, got y"));
    }

    #[test]
    fn only_the_local_version_is_left_out_of_the_hash() {
        let base = canonical_sha256("CONFIG_LOCALVERSION=\"-a\"\nCONFIG_A=y\n", None);
        assert_eq!(base, canonical_sha256("# menu\nCONFIG_A=y\nCONFIG_LOCALVERSION=\"-b\"\n", None));
        assert_ne!(base, canonical_sha256("CONFIG_LOCALVERSION=\"-a\"\nCONFIG_A=m\n", None));
    }

    #[test]
    fn a_series_may_add_options_but_not_change_others() {
        let base = "CONFIG_A=y\n# CONFIG_B is not set\n";
        let hash = canonical_sha256(base, None);
        let of = |config: &str| canonical_sha256(config, Some(base));
        assert_eq!(of("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_NEW=y\n"), hash);
        assert_ne!(of("CONFIG_A=y\nCONFIG_B=y\n"), hash);
        assert_ne!(of("# CONFIG_B is not set\n"), hash);
    }

    #[test]
    fn differing_symbols_are_named_with_both_values() {
        assert_eq!(
            differences("CONFIG_A=y\n", "CONFIG_A=y\nCONFIG_NEW=y\n"),
            ["CONFIG_NEW (n in base, y here)"]
        );
    }
}
