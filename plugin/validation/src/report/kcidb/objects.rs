// SPDX-License-Identifier: GPL-2.0-or-later
//! The objects of KCIDB's schema v5.3, as far as kernmark fills them
//! (formats.md 1.1): no nulls, no `\0`, numbers finite, ids and paths of the
//! characters the schema takes.

use super::KcidbError;
use crate::plan::hex;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Longest `log_excerpt` the schema takes, in characters; ours are ASCII.
pub const EXCERPT: usize = 16_384;

/// A whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// 5.3.
    pub version: Version,
    /// Base first.
    pub checkouts: Vec<Checkout>,
    /// In plan order.
    pub builds: Vec<Build>,
    /// By build.
    pub tests: Vec<Test>,
}

/// Version of the schema.
#[derive(Debug, Serialize)]
pub struct Version {
    /// 5.
    pub major: u32,
    /// 3.
    pub minor: u32,
}

/// A source tree with or without patches.
#[derive(Debug, Serialize)]
pub struct Checkout {
    pub id: Id,
    pub origin: String,
    pub tree_name: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit_hash: Option<String>,
    pub git_repository_branch: Text,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patchset_files: Vec<Resource>,
    pub patchset_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Text>,
    pub comment: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    pub valid: bool,
    pub misc: BTreeMap<&'static str, Text>,
}

/// One kernel.
#[derive(Debug, Serialize)]
pub struct Build {
    pub id: Id,
    pub origin: String,
    pub checkout_id: Id,
    pub comment: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiler: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_name: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_excerpt: Option<Text>,
    pub status: Status,
    pub misc: BTreeMap<&'static str, Text>,
}

/// One metric of one kernel, or what kept it from being measured.
#[derive(Debug, Serialize)]
pub struct Test {
    pub id: Id,
    pub origin: String,
    pub build_id: Id,
    pub environment: Environment,
    pub path: TestPath,
    pub comment: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_excerpt: Option<Text>,
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_files: Vec<Resource>,
    pub misc: BTreeMap<&'static str, Text>,
}

/// The machine.
#[derive(Debug, Clone, Serialize)]
pub struct Environment {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compatible: Vec<&'static str>,
    pub comment: Text,
    pub misc: BTreeMap<&'static str, Text>,
}

/// A file somewhere.
#[derive(Debug, Clone, Serialize)]
pub struct Resource {
    pub name: String,
    pub url: Url,
}

/// What came out. FAIL is for SLOWER alone, a plain measurement is DONE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    Fail,
    Error,
    Miss,
    Pass,
    Done,
    Skip,
}

/// A measured value.
#[derive(Debug, Serialize)]
pub struct Number {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'static str>,
}

impl Number {
    /// The value in the unit that KCIDB shows best: nanoseconds become seconds with a prefix.
    ///
    /// # Errors
    /// The value is not finite: JSON has no such number, and the whole file would be refused.
    pub fn new(what: &str, value: f64, unit: &str) -> Result<Self, KcidbError> {
        let value = finite(what, value)?;
        Ok(match unit {
            "ns" => Self { value: value * 1e-9, unit: Some(Text::new("s")), prefix: Some("metric") },
            "" | "ratio" => Self { value, unit: None, prefix: None },
            _ => Self { value, unit: Some(Text::new(unit)), prefix: None },
        })
    }
}

/// `value`, if it is a number.
///
/// # Errors
/// It is not finite.
pub fn finite(what: &str, value: f64) -> Result<f64, KcidbError> {
    if value.is_finite() { Ok(value) } else { Err(KcidbError::NotFinite { what: what.to_owned(), value }) }
}

/// Text without `\0`, which the schema refuses, and without other control characters but line ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Text(String);

impl Text {
    /// Takes any text.
    pub fn new(text: &str) -> Self {
        Self(text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect())
    }

    /// The same, at most [`EXCERPT`] characters of it.
    pub fn excerpt(text: &str) -> Self {
        Self(Self::new(text).0.chars().take(EXCERPT).collect())
    }
}

/// A file below the bundle's address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Url(String);

impl Url {
    /// `base/path`; characters that no URI holds (RFC 3986) are escaped.
    ///
    /// # Errors
    /// `base` is no http or https address.
    pub fn new(base: &str, path: &str) -> Result<Self, KcidbError> {
        let host = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"));
        if !host.is_some_and(|host| host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')) {
            return Err(KcidbError::Url { url: base.to_owned() });
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&b);
        let whole = format!("{}/{path}", base.trim_end_matches('/'));
        let escape = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
        Ok(Self(whole.bytes().map(escape).collect()))
    }
}

/// `origin:kind-sha256`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Id(String);

impl Id {
    /// Digits over `parts`: the same parts give the same id.
    pub fn new(origin: &str, kind: &str, parts: &[&str]) -> Self {
        Self(format!("{origin}:{kind}-{}", hex(&Sha256::digest(parts.join("|")))))
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `kernmark.kernfs.rmdir.scx-off.remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestPath(String);

impl TestPath {
    /// Dots separate; what the schema does not take in a part becomes `_`, and empty parts go.
    pub fn new(parts: &[&str]) -> Self {
        let kept: Vec<String> = parts
            .iter()
            .flat_map(|part| part.split('.'))
            .map(|part| {
                part.chars()
                    .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' })
                    .collect::<String>()
            })
            .filter(|part| !part.is_empty())
            .collect();
        Self(kept.join("."))
    }

    /// The whole path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_hold_only_what_the_schema_takes() {
        for (parts, path) in [
            (&["kernmark", "kernfs.rmdir", "scx-off", "remove"][..], "kernmark.kernfs.rmdir.scx-off.remove"),
            (&["kernmark", "a b..c", "", "x/y\0"][..], "kernmark.a_b.c.x_y_"),
        ] {
            assert_eq!(TestPath::new(parts).as_str(), path);
        }
    }

    #[test]
    fn numbers_are_finite_or_refused_by_name() {
        let json = |n: Number| serde_json::to_string(&n).expect("finite");
        assert_eq!(
            json(Number::new("x", 9553.0, "ns").expect("finite")),
            r#"{"value":9.553e-6,"unit":"s","prefix":"metric"}"#
        );
        assert_eq!(json(Number::new("x", 0.25, "ratio").expect("finite")), r#"{"value":0.25}"#);
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = Number::new("kernmark.x of base", value, "ns").expect_err("not finite").to_string();
            assert!(error.contains("kernmark.x of base"), "{error}");
        }
    }

    #[test]
    fn addresses_are_escaped_or_refused() {
        for (base, url) in [
            ("https://k.example.org/r/", "https://k.example.org/r/a.json"),
            ("http://127.0.0.1:8/x \"y\"", "http://127.0.0.1:8/x%20%22y%22/a.json"),
        ] {
            assert_eq!(Url::new(base, "a.json").expect(base).0, url);
        }
        for base in ["", "k.example.org", "file:///tmp", "https://", "javascript:x"] {
            assert!(Url::new(base, "a.json").is_err(), "{base}");
        }
    }

    #[test]
    fn texts_hold_no_control_characters() {
        assert_eq!(Text::new("a\0b\x1b[2Jc\nd").0, "a b [2Jc\nd");
        assert_eq!(Text::excerpt(&"x".repeat(20_000)).0.len(), EXCERPT);
    }
}
