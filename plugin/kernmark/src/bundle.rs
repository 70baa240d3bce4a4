// SPDX-License-Identifier: GPL-2.0-or-later
//! The bundle: one directory with everything of one experiment, one file for
//! each value of the flow.

use crate::cache::{CacheError, write_whole};
use crate::exit::Failure;
use kernmark_validation::findings::Findings;
use kernmark_validation::plan::Plan;
use kernmark_validation::report::{FORMATS, ReportError, Templates};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

const SERIES: &str = "series.json";
const PLAN: &str = "plan.json";
const BUILDS: &str = "builds.json";
const COMPARISON: &str = "comparison.json";
const VERDICT: &str = "verdict.json";
const FINDINGS: &str = "findings.json";

/// A bundle directory.
#[derive(Debug, Clone)]
pub struct Bundle {
    path: PathBuf,
}

/// Why a bundle cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The disk.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A report cannot be made.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// There is no finished experiment in it.
    #[error("{}: there is no finished experiment here ({source}); run the experiment to its end first", path.display())]
    Unfinished {
        /// The file that is missing.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {reason}; was it written by another version, or changed by hand?", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        reason: String,
    },
}

impl From<BundleError> for Failure {
    fn from(error: BundleError) -> Self {
        let message = error.to_string();
        match error {
            BundleError::Cache(_) => Self::host(message),
            // The embedded templates are ours.
            BundleError::Report(_) => Self::bug(message),
            BundleError::Unfinished { .. } | BundleError::Damaged { .. } => Self::usage(message),
        }
    }
}

impl Bundle {
    /// The bundle at `path`; makes the directory.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> Result<Self, BundleError> {
        std::fs::create_dir_all(path).map_err(|e| crate::cache::at(path, e))?;
        Ok(Self { path: path.to_owned() })
    }

    /// The bundle at `path`, which is there.
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where points go.
    pub fn points(&self) -> PathBuf {
        self.path.join("points")
    }

    /// Where untimed boots go.
    pub fn observations(&self) -> PathBuf {
        self.path.join("observations")
    }

    /// Where logs of failed builds go.
    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// The plan, where one was frozen here.
    pub fn plan(&self) -> Option<Plan> {
        read(&self.path.join(PLAN)).ok()
    }

    /// Whether an experiment was finished here.
    pub fn is_finished(&self) -> bool {
        self.path.join(FINDINGS).is_file()
    }

    /// Writes what is fixed before the first boot.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn freeze(&self, series: &impl Serialize, plan: &Plan) -> Result<(), BundleError> {
        self.write(SERIES, series)?;
        self.write(PLAN, plan)
    }

    /// Writes the record of all builds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_builds(&self, builds: &impl Serialize) -> Result<(), BundleError> {
        self.write(BUILDS, builds)
    }

    /// Writes comparison, verdict and every report, the findings last: their presence
    /// says that the experiment is finished.
    ///
    /// # Errors
    /// A file cannot be written, or a report cannot be made.
    pub fn finish(&self, findings: &Findings, templates: &Templates) -> Result<(), BundleError> {
        self.write(COMPARISON, &findings.comparison)?;
        self.write(VERDICT, &findings.verdict)?;
        for format in FORMATS {
            let text = (format.render)(findings, templates)?;
            write_whole(&self.path.join(format.file), text.as_bytes())?;
        }
        self.write(FINDINGS, findings)
    }

    /// Reads the findings back.
    ///
    /// # Errors
    /// The experiment is not finished, or the file is damaged.
    pub fn findings(&self) -> Result<Findings, BundleError> {
        read(&self.path.join(FINDINGS))
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), BundleError> {
        let path = self.path.join(name);
        let json = serde_json::to_string_pretty(value)
            .map_err(|e| BundleError::Damaged { path: path.clone(), reason: e.to_string() })?;
        write_whole(&path, format!("{json}\n").as_bytes())?;
        Ok(())
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, BundleError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| BundleError::Unfinished { path: path.to_owned(), source })?;
    serde_json::from_str(&text)
        .map_err(|e| BundleError::Damaged { path: path.to_owned(), reason: e.to_string() })
}

/// The templates, with those of `directory` in place of the embedded ones.
///
/// # Errors
/// A file of that directory cannot be read, or none has the name of a template.
pub fn templates(directory: Option<&Path>) -> Result<Templates, Failure> {
    let mut templates = Templates::default();
    let Some(directory) = directory else { return Ok(templates) };
    let mut found = false;
    for name in Templates::names() {
        let path = directory.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                found = true;
                templates.replace(name, text);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::usage(format!("{}: {error}", path.display()))),
        }
    }
    if found {
        return Ok(templates);
    }
    let names: Vec<&str> = Templates::names().collect();
    Err(Failure::usage(format!("{} holds none of the templates {}", directory.display(), names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_bundle_says_so() {
        let place = tempfile::tempdir().expect("temporary directory");
        let bundle = Bundle::create(&place.path().join("new")).expect("writable");
        assert!(!bundle.is_finished() && bundle.plan().is_none());
        let error = bundle.findings().expect_err("nothing there");
        assert!(error.to_string().contains("no finished experiment"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_named_with_its_place() {
        let place = tempfile::tempdir().expect("temporary directory");
        std::fs::write(place.path().join(FINDINGS), "{\n\"series\": 1}").expect("writable");
        let error = Bundle::open(place.path()).findings().expect_err("damaged").to_string();
        assert!(error.contains("findings.json") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_directory_without_templates_is_refused() {
        let place = tempfile::tempdir().expect("temporary directory");
        let error = templates(Some(place.path())).expect_err("empty").to_string();
        assert!(error.contains("mail/reply.txt.j2"), "{error}");
    }
}
