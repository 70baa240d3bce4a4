// SPDX-License-Identifier: GPL-2.0-or-later
//! Findings to a report: one file for each format, one line in [`FORMATS`].

mod html;
mod json;
mod kcidb;
mod mail;
mod names;
mod story;
mod templates;
mod text;
mod wrap;

pub use kcidb::{KcidbError, patchset_hash};
pub use mail::message_id;
pub use templates::Templates;

use crate::findings::Findings;

/// One way to report.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Name on the command line.
    pub name: &'static str,
    /// File of the bundle.
    pub file: &'static str,
    /// Makes the report.
    pub render: fn(&Findings, &Templates) -> Result<String, ReportError>,
}

/// Every format, by name.
pub const FORMATS: &[Format] = &[
    Format { name: "html", file: "report.html", render: html::render },
    Format { name: "json", file: "report.json", render: json::render },
    Format { name: "kcidb", file: "report.kcidb.json", render: kcidb::render },
    Format { name: "mail", file: "report.eml", render: mail::render },
    Format { name: "text", file: "report.txt", render: text::render },
];

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A template is wrong; the embedded ones are tested, so it is one of `--templates`.
    #[error("template {name}: {reason}")]
    Template {
        /// Which.
        name: String,
        /// What is wrong, with its line.
        reason: String,
    },
    /// A number has no place in KCIDB JSON.
    #[error(transparent)]
    Kcidb(#[from] KcidbError),
    /// A value cannot be written as JSON.
    #[error("write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The format with this name.
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|f| f.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_registered() {
        assert!(FORMATS.is_sorted_by_key(|f| f.name));
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/report"))
            .expect("source directory")
            .map(|f| f.expect("entry").file_name().into_string().expect("utf-8"))
            .filter(|f| !["mod.rs", "names.rs", "story.rs", "templates.rs", "wrap.rs"].contains(&f.as_str()))
            .count();
        assert_eq!(files, FORMATS.len(), "a file in report/ is not in the list");
    }
}
