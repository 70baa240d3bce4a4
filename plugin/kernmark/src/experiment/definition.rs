// SPDX-License-Identifier: GPL-2.0-or-later
//! An experiment with everything it names: the plan of a person, read from its files, or the one
//! that `check` makes of a series.

use super::Request;
use crate::cli::read_mail_files;
use crate::exit::Failure;
use kernmark_validation::experiment::{Draft, Experiment, draft, patch_file};
use kernmark_validation::mail::{Patch, Series, SeriesFile};
use std::path::{Path, PathBuf};

/// An experiment with its patches.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The plan as it was written.
    pub experiment: Experiment,
    /// The series it is about; of a plan that names none, all its patches.
    pub series: Series,
    /// The patches of each build, in the order in which they are applied.
    pub patches: Vec<Vec<Patch>>,
    /// What its paths are relative to.
    pub root: PathBuf,
}

impl Definition {
    /// The experiment on one series, as asked for.
    ///
    /// # Errors
    /// The tree's path cannot be made absolute.
    pub fn of_series(request: &Request, series: Series) -> Result<Self, Failure> {
        // The plan goes into the bundle, from where it must find its tree again.
        let tree = match &request.tree {
            Some(path) => Some(
                std::path::absolute(path)
                    .map_err(|e| Failure::usage(format!("--tree {}: {e}", path.display())))?,
            ),
            None => None,
        };
        let choice = Draft {
            tree: tree.map(|path| path.display().to_string()),
            base: request.base.clone(),
            kernel_config: request.kernel_config.name().to_owned(),
            each_patch: request.each_patch,
            repeats: request.boots / 2,
            workloads: request.workloads.clone(),
            threshold_percent: request.threshold_percent,
        };
        let experiment = draft(&choice, &series);
        let patches = experiment.builds.iter().map(|b| series.patches[..b.patches.len()].to_vec()).collect();
        Ok(Self { experiment, series, patches, root: PathBuf::from(".") })
    }

    /// The plan at `path` and all patches it names.
    ///
    /// # Errors
    /// It cannot be read, contradicts itself, or names files that are not there.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let at = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| at(&e))?;
        let experiment = Experiment::read(&text).map_err(|e| at(&e))?;
        let root = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        let patches: Vec<Vec<Patch>> = experiment
            .builds
            .iter()
            .map(|build| patches(&root, &build.patches))
            .collect::<Result<_, Failure>>()?;
        let series = match &experiment.series {
            Some(file) => series_at(&root.join(file))?,
            None => all_patches(&experiment, &patches),
        };
        Ok(Self { experiment, series, patches, root })
    }

    /// Where the bundle keeps each patch that is not of the series, with its text.
    pub fn other_patches(&self) -> Vec<(String, String)> {
        let all = self.patches.iter().flatten();
        let mut others: Vec<(String, String)> =
            all.filter(|p| self.index(p).is_none()).map(|p| (self.kept_at(p), p.diff.clone())).collect();
        others.sort();
        others.dedup();
        others
    }

    /// The plan with all paths as they are from inside of its bundle.
    pub fn in_bundle(&self) -> Result<Experiment, Failure> {
        let absolute = |path: &String| {
            std::path::absolute(self.root.join(path))
                .map(|p| p.display().to_string())
                .map_err(|e| Failure::usage(format!("{path}: {e}")))
        };
        let mut inside = self.experiment.clone();
        inside.series = Some("series.json".into());
        inside.tree = inside.tree.as_ref().map(absolute).transpose()?;
        for (build, patches) in inside.builds.iter_mut().zip(&self.patches) {
            build.patches = patches.iter().map(|p| self.kept_at(p)).collect();
            for path in [&mut build.image, &mut build.image_config, &mut build.system_map] {
                *path = path.as_ref().map(absolute).transpose()?;
            }
        }
        Ok(inside)
    }

    fn index(&self, patch: &Patch) -> Option<u32> {
        self.series.patches.iter().find(|p| p.diff_sha256 == patch.diff_sha256).map(|p| p.index)
    }

    fn kept_at(&self, patch: &Patch) -> String {
        match self.index(patch) {
            Some(index) => patch_file(index),
            None => format!("patches/{}.patch", patch.diff_sha256.get(..12).unwrap_or("other")),
        }
    }

    /// How many patches of the series a build has, where it has the first ones and nothing else.
    pub fn of_the_series(&self, build: usize) -> Option<usize> {
        let described = &self.experiment.builds[build];
        let own = described.commit.is_some() || described.image.is_some() || !described.config.is_empty();
        let first = self.patches[build]
            .iter()
            .zip(&self.series.patches)
            .filter(|(one, other)| one.diff_sha256 == other.diff_sha256)
            .count();
        (!own && described.may_differ.is_empty() && first == self.patches[build].len()).then_some(first)
    }
}

/// The patches in `files`, in the order of the files and of their series.
fn patches(root: &Path, files: &[String]) -> Result<Vec<Patch>, Failure> {
    let mut all = Vec::new();
    for file in files {
        let path = root.join(file);
        let found = newest(read_mail_files(std::slice::from_ref(&path))?, &path)?;
        all.extend(found.patches);
    }
    Ok(all)
}

fn series_at(path: &Path) -> Result<Series, Failure> {
    if path.extension().is_none_or(|e| e != "json") {
        return newest(read_mail_files(&[path.to_owned()])?, path);
    }
    let at = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| at(&e))?;
    let file: SeriesFile = serde_json::from_str(&text).map_err(|e| at(&e))?;
    newest(file, path)
}

fn newest(file: SeriesFile, path: &Path) -> Result<Series, Failure> {
    super::series::choose(file, &path.display().to_string())
}

/// A series of all patches of all builds, each once, in the order of their first use.
fn all_patches(experiment: &Experiment, patches: &[Vec<Patch>]) -> Series {
    let mut all: Vec<Patch> = Vec::new();
    for patch in patches.iter().flatten() {
        if all.iter().all(|known| known.diff_sha256 != patch.diff_sha256) {
            all.push(patch.clone());
        }
    }
    for (index, patch) in (1..).zip(&mut all) {
        patch.index = index;
    }
    Series {
        title: experiment.experiment.clone(),
        version: 1,
        total: u32::try_from(all.len()).unwrap_or(u32::MAX),
        patches: all,
        complete: true,
        ..Series::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(file: &str) -> String {
        format!("--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-a\n+b\n")
    }

    const PLAN: &str = "
version: 1
experiment: two ways
builds:
  - {label: base}
  - {label: one, patches: [one.patch]}
  - {label: both, patches: [one.patch, two.patch]}
  - {label: other, patches: [two.patch]}
  - {label: fast, patches: [one.patch], config: [CONFIG_HZ=100]}
order: palindrome
";

    #[test]
    fn a_plan_is_read_with_its_patches() {
        let place = tempfile::tempdir().expect("temporary directory");
        let plan = place.path().join("PLAN.yaml");
        std::fs::write(&plan, PLAN).expect("writable");
        for name in ["one", "two"] {
            std::fs::write(place.path().join(format!("{name}.patch")), diff(&format!("{name}.c")))
                .expect("writable");
        }
        let found = Definition::read(&plan).expect("a good plan");
        let counts: Vec<usize> = found.patches.iter().map(Vec::len).collect();
        assert_eq!(counts, [0, 1, 2, 1, 1]);
        assert_eq!((found.series.total, found.series.title.as_str()), (2, "two ways"));
        assert_eq!(found.series.patches[1].subject, "change of two.c");
        let of_series: Vec<Option<usize>> = (0..5).map(|at| found.of_the_series(at)).collect();
        assert_eq!(of_series, [Some(0), Some(1), Some(2), None, None]);
    }

    #[test]
    fn a_bundle_holds_all_it_takes_to_go_on() {
        let place = tempfile::tempdir().expect("temporary directory");
        let plan = place.path().join("PLAN.yaml");
        let text = PLAN.replace("order:", "tree: linux\nseries: one.patch\norder:");
        std::fs::write(&plan, text).expect("writable");
        for name in ["one", "two"] {
            std::fs::write(place.path().join(format!("{name}.patch")), diff(&format!("{name}.c")))
                .expect("writable");
        }
        let written = Definition::read(&plan).expect("a good plan");
        let bundle = place.path().join("bundle");
        std::fs::create_dir_all(bundle.join("patches")).expect("writable");
        let inside = written.in_bundle().expect("a path");
        assert_eq!(inside.tree.as_deref(), place.path().join("linux").to_str());
        assert_eq!(inside.builds[1].patches, ["patches/0001.patch"]);
        let others = written.other_patches();
        assert_eq!((others.len(), &inside.builds[3].patches[0]), (1, &others[0].0));
        // As Bundle::freeze leaves it.
        let file = SeriesFile { version: 1, series: vec![written.series.clone()], problems: vec![] };
        std::fs::write(bundle.join("series.json"), serde_json::to_string(&file).expect("plain"))
            .expect("writable");
        std::fs::write(bundle.join("patches/0001.patch"), &written.series.patches[0].diff).expect("writable");
        std::fs::write(bundle.join(&others[0].0), &others[0].1).expect("writable");
        std::fs::write(bundle.join("experiment.yaml"), inside.text()).expect("writable");
        let again = Definition::read(&bundle.join("experiment.yaml")).expect("whole");
        assert_eq!(again.experiment, inside);
        assert_eq!(again.series, written.series);
        let digests = |d: &Definition| -> Vec<Vec<String>> {
            d.patches.iter().map(|p| p.iter().map(|p| p.diff_sha256.clone()).collect()).collect()
        };
        assert_eq!(digests(&again), digests(&written));
        assert_eq!(again.in_bundle().expect("a path"), inside);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let place = tempfile::tempdir().expect("temporary directory");
        let plan = place.path().join("PLAN.yaml");
        let error = Definition::read(&plan).expect_err("no plan").to_string();
        assert!(error.contains("PLAN.yaml: No such file"), "{error}");
        std::fs::write(&plan, PLAN).expect("writable");
        let error = Definition::read(&plan).expect_err("no patch").to_string();
        assert!(error.contains("one.patch: No such file"), "{error}");
        std::fs::write(&plan, "version: 1\nexperiment: x\nbuilds: 7\n").expect("writable");
        let error = Definition::read(&plan).expect_err("no plan").to_string();
        assert!(error.contains("PLAN.yaml: ") && error.contains("line 3"), "{error}");
    }
}
