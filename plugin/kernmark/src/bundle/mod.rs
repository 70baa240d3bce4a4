// SPDX-License-Identifier: GPL-2.0-or-later
//! The bundle: one directory with everything of one experiment, one file for
//! each value of the flow. `findings.json` comes last and gathers the others; a
//! report is made from it after they were found to agree with it.

mod file;
mod manifest;
mod verify;

pub use manifest::Manifest;
pub use verify::{Verified, verify};

use crate::cache::{CacheError, user_mode, write_whole};
use crate::exit::Failure;
use kernmark_validation::builds::BuildsFile;
use kernmark_validation::experiment::{Experiment, patch_file};
use kernmark_validation::findings::Findings;
use kernmark_validation::mail::{Series, SeriesFile};
use kernmark_validation::plan::Plan;
use kernmark_validation::report::{FORMATS, ReportError, Templates};

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SERIES: &str = "series.json";
const PLAN: &str = "plan.json";
/// The experiment as a person would write it; `kernmark experiment resume` reads it.
pub const EXPERIMENT: &str = "experiment.yaml";
const BUILDS: &str = "builds.json";
const COMPARISON: &str = "comparison.json";
const VERDICT: &str = "verdict.json";
const EXECUTED: &str = "executed.json";
const FINDINGS: &str = "findings.json";

/// A bundle directory.
#[derive(Debug, Clone)]
pub struct Bundle {
    path: PathBuf,
    /// Held by the one process that writes here.
    _lock: Option<Arc<File>>,
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
    /// A file of a finished experiment is not there.
    #[error("{}: {source}; a file of the bundle is missing: take the whole bundle, or run the experiment again", path.display())]
    Lacking {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Another process writes there.
    #[error("{}: another kernmark is working there; wait for it, or choose another --out", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// A file of another version.
    #[error("{} has version {found}, this kernmark reads version {}; use the kernmark that wrote it", path.display(), file::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// A field that this program does not know.
    #[error("{}: unknown field {field}; use the kernmark that wrote it, or take the field out", path.display())]
    UnknownField {
        /// The file.
        path: PathBuf,
        /// Where in it: `inner[1].colour`.
        field: String,
    },
    /// A stage's own file says something else than the findings.
    #[error("{} and {FINDINGS} do not agree: one of them was changed after the experiment; run it again, or take the original back", path.display())]
    Disagree {
        /// The file.
        path: PathBuf,
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
            BundleError::Cache(_) | BundleError::Busy { .. } => Self::host(message),
            // The embedded templates are ours.
            BundleError::Report(_) => Self::bug(message),
            BundleError::Unfinished { .. }
            | BundleError::Lacking { .. }
            | BundleError::Version { .. }
            | BundleError::UnknownField { .. }
            | BundleError::Disagree { .. }
            | BundleError::Damaged { .. } => Self::usage(message),
        }
    }
}

impl Bundle {
    /// The bundle at `path`, for this process to write; makes the directory.
    ///
    /// # Errors
    /// It cannot be made, or another process writes there.
    pub fn create(path: &Path) -> Result<Self, BundleError> {
        let at = |error| crate::cache::at(path, error);
        DirBuilder::new().recursive(true).mode(user_mode(0o777)).create(path).map_err(at)?;
        let directory = File::open(path).map_err(at)?;
        match directory.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: Some(Arc::new(directory)) }),
            Err(TryLockError::WouldBlock) => Err(BundleError::Busy { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(at(error).into()),
        }
    }

    /// The bundle at `path`, which is there, for reading.
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned(), _lock: None }
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
    ///
    /// # Errors
    /// There is one, and it is damaged or of another version.
    pub fn plan(&self) -> Result<Option<Plan>, BundleError> {
        let path = self.path.join(PLAN);
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        file::read(&path).map(Some)
    }

    /// Whether an experiment was finished here.
    pub fn is_finished(&self) -> bool {
        [FINDINGS, manifest::MANIFEST].iter().any(|name| self.path.join(name).symlink_metadata().is_ok())
    }

    /// Writes what is fixed before the first boot: series, patches as they are applied, plan.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn freeze(&self, series: &Series, plan: &Plan) -> Result<(), BundleError> {
        self.write_patches(series)?;
        file::write(&self.path.join(SERIES), &series_file(series))?;
        file::write(&self.path.join(PLAN), plan)
    }

    /// Writes the experiment that makes the plan, and the patches of it that are not of the series.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_experiment(
        &self,
        experiment: &Experiment,
        other_patches: &[(String, String)],
    ) -> Result<(), BundleError> {
        for (path, diff) in other_patches {
            write_whole(&self.path.join(path), diff.as_bytes())?;
        }
        Ok(write_whole(&self.path.join(EXPERIMENT), experiment.text().as_bytes())?)
    }

    /// Writes the record of all builds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_builds(&self, builds: &BuildsFile) -> Result<(), BundleError> {
        file::write(&self.path.join(BUILDS), builds)
    }

    /// Writes comparison, verdict and every report, the findings last: their presence
    /// says that the experiment is finished. The manifest follows.
    ///
    /// # Errors
    /// A file cannot be written, or a report cannot be made.
    pub fn finish(&self, findings: &Findings, templates: &Templates) -> Result<(), BundleError> {
        file::write(&self.path.join(COMPARISON), &findings.comparison)?;
        file::write(&self.path.join(VERDICT), &findings.verdict)?;
        file::write(&self.path.join(EXECUTED), &findings.executed)?;
        for format in FORMATS {
            let text = (format.render)(findings, templates)?;
            write_whole(&self.path.join(format.file), text.as_bytes())?;
        }
        file::write(&self.path.join(FINDINGS), findings)?;
        Manifest::of(&self.path)?.write(&self.path)
    }

    /// Reads the findings back.
    ///
    /// # Errors
    /// The experiment is not finished, a file is damaged or of another version, or the files
    /// contradict each other.
    pub fn findings(&self) -> Result<Findings, BundleError> {
        let findings: Findings = file::read(&self.path.join(FINDINGS))?;
        let agree = [
            (SERIES, file::agrees(&self.path.join(SERIES), &series_file(&findings.series))?),
            (PLAN, file::agrees(&self.path.join(PLAN), &findings.plan)?),
            (BUILDS, file::agrees(&self.path.join(BUILDS), &builds_file(&findings))?),
            (COMPARISON, file::agrees(&self.path.join(COMPARISON), &findings.comparison)?),
            (VERDICT, file::agrees(&self.path.join(VERDICT), &findings.verdict)?),
            (EXECUTED, file::agrees(&self.path.join(EXECUTED), &findings.executed)?),
        ];
        if findings.plan.protocol_sha256() != findings.protocol_sha256 {
            return Err(BundleError::Disagree { path: self.path.join(PLAN) });
        }
        match agree.iter().find(|(_, agrees)| !agrees) {
            None => Ok(findings),
            Some((name, _)) => Err(BundleError::Disagree { path: self.path.join(name) }),
        }
    }

    /// One file for each patch, named by its number, as `git apply` takes it and as its digest is
    /// taken.
    fn write_patches(&self, series: &Series) -> Result<(), BundleError> {
        let directory = self.path.join("patches");
        std::fs::create_dir_all(&directory).map_err(|e| crate::cache::at(&directory, e))?;
        for patch in &series.patches {
            let path = self.path.join(patch_file(patch.index));
            write_whole(&path, patch.diff.as_bytes())?;
        }
        Ok(())
    }
}

fn series_file(series: &Series) -> SeriesFile {
    SeriesFile { version: 1, series: vec![series.clone()], problems: Vec::new() }
}

fn builds_file(findings: &Findings) -> BuildsFile {
    BuildsFile { version: 1, builds: findings.builds.clone() }
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
    use kernmark_validation::experiment::{Draft, draft};

    #[test]
    fn an_unfinished_bundle_says_so() {
        let place = tempfile::tempdir().expect("temporary directory");
        let bundle = Bundle::create(&place.path().join("new")).expect("writable");
        assert!(!bundle.is_finished() && matches!(bundle.plan(), Ok(None)));
        let error = bundle.findings().expect_err("nothing there");
        assert!(error.to_string().contains("no finished experiment"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_named_with_its_place() {
        let place = tempfile::tempdir().expect("temporary directory");
        std::fs::write(place.path().join(FINDINGS), "{\"version\": 1,\n\"series\": 1}").expect("writable");
        let error = Bundle::open(place.path()).findings().expect_err("damaged").to_string();
        assert!(error.contains("findings.json") && error.contains("line 2"), "{error}");
    }

    /// Findings of a whole experiment.
    const FINISHED: &str = include_str!("../../../validation/tests/report/findings/path-longer.json");

    fn finished(place: &Path) -> (Bundle, Findings) {
        let findings: Findings = serde_json::from_str(FINISHED).expect("a fixture");
        let bundle = Bundle::create(place).expect("writable");
        bundle.freeze(&findings.series, &findings.plan).expect("writable");
        let drafted = draft(&Draft { repeats: 3, ..Draft::default() }, &findings.series);
        bundle.write_experiment(&drafted, &[]).expect("writable");
        bundle.write_builds(&builds_file(&findings)).expect("writable");
        bundle.finish(&findings, &Templates::default()).expect("writable");
        (bundle, findings)
    }

    #[test]
    fn a_finished_bundle_reads_back_whole() {
        let place = tempfile::tempdir().expect("temporary directory");
        let (bundle, findings) = finished(place.path());
        assert!(bundle.is_finished());
        assert_eq!(bundle.findings().expect("just written"), findings);
        assert_eq!(bundle.plan().expect("whole").as_ref(), Some(&findings.plan));
        for format in FORMATS {
            assert!(place.path().join(format.file).is_file(), "{}", format.file);
        }
        let mut left: Vec<_> = std::fs::read_dir(place.path()).expect("readable").flatten().collect();
        left.retain(|e| e.file_name().to_string_lossy().starts_with('.'));
        assert!(left.is_empty(), "temporary files are left: {left:?}");
        assert!(place.path().join("patches/0002.patch").is_file());
    }

    #[test]
    fn a_file_changed_afterwards_is_named() {
        for (name, from, to) in [
            (COMPARISON, "\"SAME\"", "\"LONGER\""),
            (VERDICT, "\"exit_code\": 1", "\"exit_code\": 0"),
            (PLAN, "\"threshold_percent\": 5.0", "\"threshold_percent\": 50.0"),
            (BUILDS, "gcc", "clang"),
            (EXECUTED, "__kernfs_remove", "kernfs_get"),
            (SERIES, "kernfs", "sysfs"),
        ] {
            let place = tempfile::tempdir().expect("temporary directory");
            let (bundle, _) = finished(place.path());
            let path = place.path().join(name);
            let text = std::fs::read_to_string(&path).expect("readable");
            assert!(text.contains(from), "{name} has no {from}");
            std::fs::write(&path, text.replacen(from, to, 1)).expect("writable");
            let error = bundle.findings().expect_err(name).to_string();
            assert!(error.contains(name) && error.contains("do not agree"), "{error}");
        }
    }

    #[test]
    fn a_directory_without_templates_is_refused() {
        let place = tempfile::tempdir().expect("temporary directory");
        let error = templates(Some(place.path())).expect_err("empty").to_string();
        assert!(error.contains("mail/reply.txt.j2"), "{error}");
    }
}
