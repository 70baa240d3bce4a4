// SPDX-License-Identifier: GPL-2.0-or-later
//! Builds images: the base once for each (tree, configuration), each patched
//! kernel on a copy-on-write view of it, so that only what changed is compiled.

use super::apply::{does_not_apply, git_apply};
use super::config::{Configuration, canonical_sha256, differences};
use super::error::BuildError;
use super::make_log::{StepCounter, first_error};
use super::tree::Tree;
use crate::cache::{self, Cache, Scratch};
use crate::interrupt::Interrupt;
use crate::sandbox::{Ending, Finished, Limits, Overlay, Sandbox, give_to_sandbox};
use kernmark_validation::builds::{BuildIdentity, BuildRecord};
use kernmark_validation::mail::Series;
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A clean build takes minutes; a machine that needs longer than this is lost.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const CONFIG_LIMIT: Duration = Duration::from_secs(300);
/// Goes into every key: a change in how kernels are built makes new entries.
const RECIPE: &str = "recipe 1";

/// The same on all sides, so that images differ only by their source.
const TIMESTAMP: &str = "2026-01-01";
const USER: &str = "kernmark";
const HOST: &str = "kernmark";

const SOURCE: &str = "/kernmark/source";
const OUTPUT: &str = "/kernmark/output";

/// What a successful build leaves, one file each.
const IMAGE: &str = "bzImage";
const SYSTEM_MAP: &str = "System.map";
const CONFIG: &str = "config";
const OBJECTS: &str = "objects";
const RELEASE: &str = "release";

/// One kernel image and what is known about it.
#[derive(Debug, Clone)]
pub struct Build {
    /// For `builds.json`.
    pub record: BuildRecord,
    /// The bootable image.
    pub image: PathBuf,
    /// Text of System.map; written by the build, so hostile for a patched one.
    pub system_map: String,
    /// Text of the final .config.
    pub config: String,
    /// Object files that were compiled, relative to the top.
    pub objects: BTreeSet<String>,
    /// Files that the build itself wrote into its source: not touched by the patches.
    pub tampered: Vec<String>,
}

/// What a build is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Compile steps done.
    pub done: u64,
    /// Steps expected; 0 when not known.
    pub total: u64,
}

/// Builds one series on one base.
#[derive(Debug)]
pub struct Builder<'a> {
    cache: &'a Cache,
    tree: &'a Tree,
    configuration: Configuration,
    interrupt: &'a Interrupt,
    logs: PathBuf,
}

/// The copy-on-write layers of one series; kept between its builds, so that
/// each patch only compiles what it changes.
#[derive(Debug)]
struct Layers {
    scratch: Scratch,
    /// Patches applied so far.
    applied: usize,
}

impl<'a> Builder<'a> {
    /// A builder of `tree` with `configuration`; logs of failed builds go to `logs`.
    ///
    /// # Errors
    /// A program that builds need is missing.
    pub fn new(
        cache: &'a Cache,
        tree: &'a Tree,
        configuration: Configuration,
        interrupt: &'a Interrupt,
        logs: &Path,
    ) -> Result<Self, BuildError> {
        for (program, package) in [
            ("gcc", "gcc"),
            ("ld", "binutils"),
            ("make", "make"),
            ("flex", "flex"),
            ("bison", "bison"),
            ("bc", "bc"),
            ("git", "git"),
        ] {
            if !is_installed(program) {
                return Err(BuildError::ToolMissing { program, package });
            }
        }
        Ok(Self { cache, tree, configuration, interrupt, logs: logs.to_owned() })
    }

    /// The final .config, without building.
    ///
    /// # Errors
    /// A symbol of the fragment is not had.
    pub fn configure(&self) -> Result<String, BuildError> {
        let key = self.key(&["config"]);
        let place = self.cache.entry("configs", &key);
        if !place.is_dir() {
            let scratch = self.cache.scratch()?;
            let output = made(scratch.path(), "output")?;
            cache::write_whole(&scratch.path().join("fragment"), self.configuration.text().as_bytes())?;
            let script = format!(
                "set -e; cd {SOURCE}; make -s O={OUTPUT} tinyconfig; \
                 cat /kernmark/fragment >>{OUTPUT}/.config; make -s O={OUTPUT} olddefconfig; cp {OUTPUT}/.config {OUTPUT}/{CONFIG}"
            );
            let finished = Sandbox::command("sh")
                .args(["-c", &script])
                .read_only(&self.tree.path, SOURCE)
                .read_only(scratch.path().join("fragment"), "/kernmark/fragment")
                .writable(&output, OUTPUT)
                .limits(Limits::BUILD)
                .run(CONFIG_LIMIT, self.interrupt.flag())?;
            self.check(&finished, "the configuration")?;
            let finished_entry = scratch.path().join("entry");
            fs::create_dir(&finished_entry).map_err(|e| cache::at(&finished_entry, e))?;
            let text = read_result(&output.join(CONFIG), "the configuration", "config")?;
            cache::write_whole(&finished_entry.join(CONFIG), &text)?;
            self.cache.publish(&finished_entry, "configs", &key)?;
        }
        let config = text(&place.join(CONFIG))?;
        let not_had = self.configuration.not_had(&config);
        if not_had.is_empty() { Ok(config) } else { Err(BuildError::Config { symbols: not_had }) }
    }

    /// The base kernel.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn base(&self, progress: &mut dyn FnMut(Progress)) -> Result<Build, BuildError> {
        let config = self.configure()?;
        let key = self.key(&["base", &config]);
        let place = self.cache.entry("bases", &key);
        if !place.is_dir() {
            let _lock = self.cache.lock("bases", &key)?;
            if !place.is_dir() {
                let scratch = self.cache.scratch()?;
                let made_base = scratch.path().join("base");
                fs::create_dir(&made_base).map_err(|e| cache::at(&made_base, e))?;
                let output = made(&made_base, "output")?;
                let result = made(scratch.path(), "result")?;
                cache::write_whole(&scratch.path().join("config"), config.as_bytes())?;
                let sandbox = Sandbox::command("sh")
                    .args(["-c", &build_script(Some("/kernmark/config"))])
                    .read_only(&self.tree.path, SOURCE)
                    .read_only(scratch.path().join("config"), "/kernmark/config")
                    .writable(&output, OUTPUT)
                    .writable(&result, "/kernmark/result");
                self.make(sandbox, "base", self.expected_steps(), progress)?;
                take_result(&result, &made_base.join("image"), "base")?;
                self.cache.publish(&made_base, "bases", &key)?;
            }
        }
        self.load(&place.join("image"), "base", 0, Vec::new())
    }

    /// The kernels with the first `counts[i]` patches of `series`, each compared for identity with `base`.
    /// `label` names them; `done` is called with each as soon as it is there.
    ///
    /// # Errors
    /// See [`BuildError`]; what was built before the error has been given to `done`.
    pub fn patched(
        &self,
        base: &Build,
        series: &Series,
        counts: &[(usize, String)],
        progress: &mut dyn FnMut(&str, Progress),
        done: &mut dyn FnMut(Build),
    ) -> Result<(), BuildError> {
        let mut layers = None;
        for (count, label) in counts {
            let diffs: Vec<&str> = series.patches[..*count].iter().map(|p| p.diff_sha256.as_str()).collect();
            let key = self.key(&["patched", &base.config, &diffs.join("\n")]);
            let place = self.cache.entry("images", &key);
            if !place.is_dir() {
                self.build_patched(base, series, *count, label, &mut layers, &key, progress)?;
            }
            let tampered = text(&place.join("tampered"))?.lines().map(str::to_owned).collect();
            let build = self.load(&place.join("image"), label, *count, tampered)?;
            self.compare_identity(base, &build)?;
            done(build);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one step of a loop, split off for length")]
    fn build_patched(
        &self,
        base: &Build,
        series: &Series,
        count: usize,
        label: &str,
        layers: &mut Option<Layers>,
        key: &str,
        progress: &mut dyn FnMut(&str, Progress),
    ) -> Result<(), BuildError> {
        let layers = match layers {
            Some(layers) => layers,
            None => layers.insert(Layers::new(self.cache)?),
        };
        let base_key = self.key(&["base", &base.config]);
        let base_output = self.cache.entry("bases", &base_key).join("output");
        let source = layers.overlay(&self.tree.path, "source");
        while layers.applied < count {
            let patch = &series.patches[layers.applied];
            let diff = layers.scratch.path().join("diff");
            cache::write_whole(&diff, patch.diff.as_bytes())?;
            let finished = git_apply("/kernmark/diff")
                .read_only(&diff, "/kernmark/diff")
                .overlay(source.clone(), SOURCE, true)
                .directory(SOURCE)
                .run(CONFIG_LIMIT, self.interrupt.flag())?;
            if !finished.success() {
                return Err(does_not_apply(patch, series.total, &finished.stderr.text()));
            }
            layers.applied += 1;
        }
        let result = layers.fresh("result")?;
        let sandbox = Sandbox::command("sh")
            .args(["-c", &build_script(None)])
            .overlay(source, SOURCE, true)
            .overlay(layers.overlay(&base_output, "output"), OUTPUT, true)
            .writable(&result, "/kernmark/result");
        let touched: BTreeSet<&str> =
            series.patches[..count].iter().flat_map(|p| &p.files).map(String::as_str).collect();
        let built = self.make(sandbox, label, 0, &mut |p| progress(label, p));
        let tampered = written_beside(&layers.scratch.path().join("source/upper"), &touched);
        built?;
        let entry = layers.scratch.path().join("entry");
        fs::create_dir(&entry).map_err(|e| cache::at(&entry, e))?;
        take_result(&result, &entry.join("image"), label)?;
        cache::write_whole(&entry.join("tampered"), tampered.join("\n").as_bytes())?;
        self.cache.publish(&entry, "images", key)?;
        Ok(())
    }

    /// Runs make and keeps the log of a build that failed.
    fn make(
        &self,
        sandbox: Sandbox,
        side: &str,
        total: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), BuildError> {
        let mut counter = StepCounter::default();
        let finished =
            sandbox.limits(Limits::BUILD).run_observed(BUILD_LIMIT, self.interrupt.flag(), &mut |piece| {
                progress(Progress { done: counter.add(piece), total });
            })?;
        self.check(&finished, side)
    }

    fn check(&self, finished: &Finished, side: &str) -> Result<(), BuildError> {
        if finished.success() {
            return Ok(());
        }
        if !matches!(finished.ending, Ending::Exited(_)) {
            return Err(BuildError::Limit { side: side.to_owned(), ending: finished.ending.clone() });
        }
        let said = format!("{}{}", finished.stderr.text(), finished.stdout.text());
        if said.contains("No space left on device") {
            let place = self.cache.entry("scratch", "");
            let free_bytes = cache::free_bytes(&place).unwrap_or(0);
            return Err(cache::CacheError::DiskFull { place, free_bytes }.into());
        }
        fs::create_dir_all(&self.logs).map_err(|e| cache::at(&self.logs, e))?;
        let log = self.logs.join(format!("build-{}.log", side.replace([' ', '/'], "-")));
        cache::write_whole(&log, said.as_bytes())?;
        Err(BuildError::DoesNotCompile { side: side.to_owned(), first_error: first_error(&said), log })
    }

    fn load(
        &self,
        place: &Path,
        label: &str,
        patches: usize,
        tampered: Vec<String>,
    ) -> Result<Build, BuildError> {
        let config = text(&place.join(CONFIG))?;
        let release = text(&place.join(RELEASE))?.trim().to_owned();
        let image = place.join(IMAGE);
        let system_map = text(&place.join(SYSTEM_MAP))?;
        let digest_of = |bytes: &[u8]| hex(&Sha256::digest(bytes));
        let image_bytes = fs::read(&image).map_err(|e| cache::at(&image, e))?;
        let record = BuildRecord {
            label: label.to_owned(),
            patches: u32::try_from(patches).expect("a series is short"),
            source: self.tree.title.clone(),
            identity: BuildIdentity {
                compiler: compiler_of(&config),
                config_sha256: canonical_sha256(&config),
                timestamp: TIMESTAMP.into(),
                user: USER.into(),
                host: HOST.into(),
                release_length: u32::try_from(release.len()).unwrap_or(u32::MAX),
                release,
            },
            image_sha256: digest_of(&image_bytes),
            system_map_sha256: digest_of(system_map.as_bytes()),
            same_image_as: None,
        };
        let objects = text(&place.join(OBJECTS))?.lines().map(str::to_owned).collect();
        Ok(Build { record, image, system_map, config, objects, tampered })
    }

    fn compare_identity(&self, base: &Build, build: &Build) -> Result<(), BuildError> {
        let mut fields: Vec<String> = base
            .record
            .identity
            .differences(&build.record.identity)
            .iter()
            .map(|f| (*f).to_owned())
            .collect();
        if fields.is_empty() {
            return Ok(());
        }
        fields.extend(differences(&base.config, &build.config).into_iter().take(8));
        Err(BuildError::Identity { side: build.record.label.clone(), fields })
    }

    /// Steps of the last base build, whatever it was of; a first build has a known order of size.
    fn expected_steps(&self) -> u64 {
        let bases = self.cache.entry("bases", "");
        let last = fs::read_dir(bases).ok().and_then(|mut d| d.next()).and_then(Result::ok);
        let objects = last.and_then(|e| fs::read_to_string(e.path().join("image").join(OBJECTS)).ok());
        objects.map_or(1000, |text| text.lines().count() as u64)
    }

    fn key(&self, parts: &[&str]) -> String {
        let mut hash = Sha256::new();
        for part in [RECIPE, &self.tree.key, self.configuration.text()].iter().chain(parts) {
            hash.update(part.as_bytes());
            hash.update(b"\0");
        }
        hex(&hash.finalize()[..12])
    }
}

impl Layers {
    fn new(cache: &Cache) -> Result<Self, BuildError> {
        let scratch = cache.scratch()?;
        for name in ["source", "output"] {
            let place = scratch.path().join(name);
            made(&place, "upper")?;
            made(&place, "work")?;
        }
        Ok(Self { scratch, applied: 0 })
    }

    fn overlay(&self, lower: &Path, name: &str) -> Overlay {
        let place = self.scratch.path().join(name);
        Overlay { lower: vec![lower.to_owned()], upper: place.join("upper"), work: place.join("work") }
    }

    /// An empty directory `name`, whatever was there.
    fn fresh(&self, name: &str) -> Result<PathBuf, BuildError> {
        let place = self.scratch.path().join(name);
        if place.exists() {
            fs::remove_dir_all(&place).map_err(|e| cache::at(&place, e))?;
        }
        made(self.scratch.path(), name)
    }
}

/// Makes `name` below `parent` and gives it to the sandbox user.
fn made(parent: &Path, name: &str) -> Result<PathBuf, BuildError> {
    let place = parent.join(name);
    fs::create_dir_all(&place).map_err(|e| cache::at(&place, e))?;
    give_to_sandbox(&place).map_err(|e| cache::at(&place, e))?;
    Ok(place)
}

/// Builds in place and copies what is wanted to /kernmark/result.
fn build_script(config: Option<&str>) -> String {
    let take = config
        .map_or_else(String::new, |c| format!("cp {c} {OUTPUT}/.config; make -s O={OUTPUT} olddefconfig;"));
    format!(
        "set -e; cd {SOURCE}; {take} \
         make -j\"$(nproc)\" O={OUTPUT} LOCALVERSION= KBUILD_BUILD_VERSION=1 KBUILD_BUILD_TIMESTAMP={TIMESTAMP} \
         KBUILD_BUILD_USER={USER} KBUILD_BUILD_HOST={HOST} bzImage; \
         cd {OUTPUT}; cp arch/x86/boot/bzImage /kernmark/result/{IMAGE}; cp System.map /kernmark/result/{SYSTEM_MAP}; \
         cp .config /kernmark/result/{CONFIG}; cp include/config/kernel.release /kernmark/result/{RELEASE}; \
         find . -name '*.o' -printf '%P\\n' | sort >/kernmark/result/{OBJECTS}"
    )
}

/// Copies the result files out of the sandbox's directory; they must be plain files.
fn take_result(from: &Path, to: &Path, side: &str) -> Result<(), BuildError> {
    fs::create_dir(to).map_err(|e| cache::at(to, e))?;
    for name in [IMAGE, SYSTEM_MAP, CONFIG, OBJECTS, RELEASE] {
        let bytes = read_result(&from.join(name), side, name)?;
        cache::write_whole(&to.join(name), &bytes)?;
    }
    Ok(())
}

/// A plain file of at most 256 MiB that the build left.
fn read_result(path: &Path, side: &str, what: &'static str) -> Result<Vec<u8>, BuildError> {
    let plain = fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.len() > 0 && m.len() < 256 << 20);
    if !plain {
        return Err(BuildError::NoResult { side: side.to_owned(), what });
    }
    fs::read(path).map_err(|e| cache::at(path, e).into())
}

/// Files in the changes to the source that no patch touches.
fn written_beside(upper: &Path, touched: &BTreeSet<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![upper.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                open.push(path);
                continue;
            }
            let name =
                path.strip_prefix(upper).unwrap_or(&path).to_string_lossy().escape_default().to_string();
            if !touched.contains(name.as_str()) {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

/// Whether `program` is where the sandbox would find it.
fn is_installed(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .any(|directory| Path::new(directory).join(program).is_file())
}

/// CONFIG_CC_VERSION_TEXT without its quotes.
fn compiler_of(config: &str) -> String {
    config
        .lines()
        .find_map(|l| l.strip_prefix("CONFIG_CC_VERSION_TEXT="))
        .map_or_else(|| "unknown".to_owned(), |v| v.trim_matches('"').to_owned())
}

fn text(path: &Path) -> Result<String, BuildError> {
    let bytes = fs::read(path).map_err(|e| cache::at(path, e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_wrote_into_its_source_is_found() {
        let upper = tempfile::tempdir().expect("temporary directory");
        for path in ["fs/kernfs/dir.c", "fs/Makefile", "kernmark-was-here"] {
            let path = upper.path().join(path);
            fs::create_dir_all(path.parent().expect("below")).expect("writable");
            fs::write(path, "x").expect("writable");
        }
        let touched = BTreeSet::from(["fs/kernfs/dir.c"]);
        assert_eq!(written_beside(upper.path(), &touched), ["fs/Makefile", "kernmark-was-here"]);
    }

    #[test]
    fn a_result_that_is_a_link_is_refused() {
        let place = tempfile::tempdir().expect("temporary directory");
        std::os::unix::fs::symlink("/etc/passwd", place.path().join(IMAGE)).expect("writable");
        let error = take_result(place.path(), &place.path().join("to"), "1/2").expect_err("a link");
        assert_eq!(error.to_string(), "building 1/2 left no usable bzImage");
    }

    #[test]
    fn the_compiler_is_read_from_the_configuration() {
        assert_eq!(
            compiler_of("CONFIG_CC_VERSION_TEXT=\"gcc (Debian 12.2.0-14) 12.2.0\"\n"),
            "gcc (Debian 12.2.0-14) 12.2.0"
        );
    }
}
