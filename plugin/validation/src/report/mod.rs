// SPDX-License-Identifier: GPL-2.0-or-later
//! Findings to a report: one file for each format, one line in [`FORMATS`].

mod html;
mod json;
mod kcidb;
mod mail;
mod names;
mod number;
mod story;
mod templates;
mod text;
mod wrap;

pub use kcidb::{KcidbError, patchset_hash};
pub use mail::{Envelope, compose};
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
    /// An address cannot stand in a header.
    #[error("write the mail: {what} {value:?} is no address; give it as \"Name <user@example.org>\"")]
    Address {
        /// Which.
        what: &'static str,
        /// What was given.
        value: String,
    },
    /// Something has no place in KCIDB JSON.
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

    /// What formats share.
    const SHARED: [&str; 6] = ["mod", "names", "number", "story", "templates", "wrap"];

    #[test]
    fn every_file_is_registered() {
        assert!(FORMATS.is_sorted_by_key(|f| f.name));
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/report"))
            .expect("source directory")
            .map(|f| f.expect("entry").path().file_stem().expect("named").to_str().expect("utf-8").to_owned())
            .filter(|f| !SHARED.contains(&f.as_str()))
            .collect();
        files.sort();
        assert_eq!(
            files,
            FORMATS.iter().map(|f| f.name).collect::<Vec<_>>(),
            "each format has one file or directory in report/"
        );
    }
}
