// SPDX-License-Identifier: GPL-2.0-or-later
//! Builds images: the base once for each (tree, configuration), each patched
//! kernel on a copy-on-write view of it, so that only what changed is compiled.

use super::config::Configuration;
use super::error::BuildError;
use super::identity::agree;
use super::image::{self, Build};
use super::layers::{Kind, Layers, made, witness};
use super::make_log::{StepCounter, first_error};
use super::recipe::{
    CONFIG, HOME, OBJECTS, OUTPUT, RECIPE, RESULT, SOURCE, build_script, configure_script, read_result,
    require_programs, take_result,
};
use super::tree::Tree;
use crate::cache::{self, Cache};
use crate::interrupt::Interrupt;
use crate::sandbox::{Ending, Finished, Limits, Sandbox, is_installed};
use kernmark_validation::mail::Series;
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A clean build takes minutes; a machine that needs longer than this is lost.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const CONFIG_LIMIT: Duration = Duration::from_secs(300);

/// What a build is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Compile steps done.
    pub done: u64,
    /// Steps expected; 0 when not known.
    pub total: u64,
}

/// Files of an entry beside the image.
const WITNESS: &str = "witness";
const TAMPERED: &str = "tampered";

/// One patched kernel to build.
struct Side<'a> {
    series: &'a Series,
    count: usize,
    label: &'a str,
    key: &'a str,
}

/// Builds one series on one base.
#[derive(Debug)]
pub struct Builder<'a> {
    cache: &'a Cache,
    tree: &'a Tree,
    configuration: Configuration,
    interrupt: &'a Interrupt,
    logs: PathBuf,
    /// First lines of the versions of compiler, linker and what else shapes configuration or image.
    toolchain: String,
    whole_copies: bool,
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
        let fragment = configuration.fragment();
        require_programs(fragment, is_installed)?;
        let toolchain = toolchain(version_line);
        Ok(Self {
            cache,
            tree,
            configuration,
            interrupt,
            logs: logs.to_owned(),
            toolchain,
            whole_copies: false,
        })
    }

    /// Gives each series whole copies of source and output instead of overlays. Chosen by itself
    /// where overlays are refused; slower by the time that copying 2 GB takes.
    #[must_use]
    pub fn with_whole_copies(mut self) -> Self {
        self.whole_copies = true;
        self
    }

    /// The final .config, without building.
    ///
    /// # Errors
    /// A symbol of the fragment is not had.
    pub fn configure(&self) -> Result<String, BuildError> {
        let key = self.key(&["config"]);
        let place = self
            .cache
            .ensure(("configs", &key), self.interrupt, cache::is_sealed, || self.make_config(&key))?;
        let config = image::text(&place.join(CONFIG))?;
        let not_had = self.configuration.not_had(&config);
        if not_had.is_empty() { Ok(config) } else { Err(BuildError::Config { symbols: not_had }) }
    }

    fn make_config(&self, key: &str) -> Result<(), BuildError> {
        let scratch = self.cache.scratch()?;
        let output = made(scratch.path(), "output")?;
        let fragment = scratch.path().join("fragment");
        cache::write_whole(&fragment, self.configuration.text().as_bytes())?;
        let result = made(scratch.path(), "result")?;
        let finished = Sandbox::command("sh")
            .args(["-c", &configure_script()])
            .read_only(&self.tree.path, SOURCE)
            .read_only(&fragment, "/kernmark/fragment")
            .writable(&output, OUTPUT)
            .writable(&result, RESULT)
            .limits(Limits::BUILD)
            .run(CONFIG_LIMIT, self.interrupt.flag())?;
        self.check(&finished, "the configuration")?;
        let entry = scratch.path().join("entry");
        fs::create_dir(&entry).map_err(|e| cache::at(&entry, e))?;
        cache::write_whole(
            &entry.join(CONFIG),
            &read_result(&result.join(CONFIG), "the configuration", "config")?,
        )?;
        cache::seal(&entry)?;
        self.cache.publish(&entry, "configs", key)?;
        Ok(())
    }

    /// The base kernel. An interrupted build is continued: make knows what is whole.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn base(&self, progress: &mut dyn FnMut(Progress)) -> Result<Build, BuildError> {
        let config = self.configure()?;
        let key = self.base_key(&config);
        let intact = |place: &Path| {
            // The tree was looked at when it was opened.
            let witness = fs::read_to_string(place.join(WITNESS)).unwrap_or_default();
            cache::is_sealed(&place.join("image")) && witness == self.witness(&self.tree.witness, place)
        };
        let place = self
            .cache
            .ensure(("bases", &key), self.interrupt, intact, || self.build_base(&config, &key, progress))?;
        image::load(&place.join("image"), &self.tree.title, None, ("base", 0))
    }

    fn build_base(
        &self,
        config: &str,
        key: &str,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), BuildError> {
        let unfinished = self.cache.unfinished("bases", key)?;
        let output = made(&unfinished, "output")?;
        let scratch = self.cache.scratch()?;
        let (result, home) = (made(scratch.path(), "result")?, made(scratch.path(), "home")?);
        let asked = scratch.path().join("config");
        cache::write_whole(&asked, config.as_bytes())?;
        let sandbox = Sandbox::command("sh")
            .args(["-c", &build_script()])
            .read_only(&self.tree.path, SOURCE)
            .read_only(&asked, "/kernmark/config")
            .writable(&output, OUTPUT)
            .writable(&home, HOME)
            .writable(&result, RESULT);
        let finished = self.make(sandbox, self.expected_steps(), progress)?;
        if let Err(error) = self.check(&finished, "base") {
            // What failed once is not continued.
            cache::remove_whole(&unfinished).map_err(|e| cache::at(&unfinished, e))?;
            return Err(error);
        }
        let image = unfinished.join("image");
        if image.exists() {
            cache::remove_whole(&image).map_err(|e| cache::at(&image, e))?;
        }
        take_result(&result, &image, "base")?;
        let witness = self.witness(&self.tree.witness, &unfinished);
        cache::write_whole(&unfinished.join(WITNESS), witness.as_bytes())?;
        self.cache.publish(&unfinished, "bases", key)?;
        Ok(())
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
        let outcome = self.patched_each(base, series, counts, &mut layers, progress, done);
        if layers.is_some() {
            self.check_base(base)?;
        }
        outcome
    }

    fn patched_each(
        &self,
        base: &Build,
        series: &Series,
        counts: &[(usize, String)],
        layers: &mut Option<Layers>,
        progress: &mut dyn FnMut(&str, Progress),
        done: &mut dyn FnMut(Build),
    ) -> Result<(), BuildError> {
        let mut images = vec![(base.record.image_sha256.clone(), base.record.label.clone())];
        for (count, label) in counts {
            let diffs: Vec<&str> = series.patches[..*count].iter().map(|p| p.diff_sha256.as_str()).collect();
            let key = self.key(&["patched", &base.config, &diffs.join("\n")]);
            let intact = |place: &Path| cache::is_sealed(place) && cache::is_sealed(&place.join("image"));
            let place = self.cache.ensure(("images", &key), self.interrupt, intact, || {
                let side = Side { series, count: *count, label, key: &key };
                self.build_patched(base, &side, layers, &mut |p| progress(label, p))
            })?;
            let mut build =
                image::load(&place.join("image"), &self.tree.title, Some(&base.config), (label, *count))?;
            build.tampered = image::text(&place.join(TAMPERED))?.lines().map(str::to_owned).collect();
            agree(base, &mut build, &[])?;
            let same = images.iter().find(|(image, _)| *image == build.record.image_sha256);
            build.record.same_image_as = same.map(|(_, label)| label.clone());
            images.push((build.record.image_sha256.clone(), label.clone()));
            done(build);
        }
        Ok(())
    }

    fn build_patched(
        &self,
        base: &Build,
        side: &Side<'_>,
        kept: &mut Option<Layers>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), BuildError> {
        let layers = match kept {
            Some(layers) => layers,
            None => {
                let base = self.cache.entry("bases", &self.base_key(&base.config));
                let (source, output) = (&self.tree.path, base.join("output"));
                let stop = self.interrupt.flag();
                kept.insert(match self.whole_copies {
                    true => Layers::of_kind(self.cache, source, &output, Kind::Copy, stop)?,
                    false => Layers::new(self.cache, source, &output, stop)?,
                })
            }
        };
        if layers.applied() > side.count {
            *layers = layers.afresh(self.cache, self.interrupt.flag())?;
        }
        layers.apply(&side.series.patches[..side.count], side.series.total, self.interrupt.flag())?;
        let (sandbox, result) = layers.show(Sandbox::command("sh").args(["-c", &build_script()]))?;
        let finished = self.make(sandbox, 0, progress)?;
        let tampered = layers.tampering(&finished);
        self.check(&finished, side.label)?;
        let entry = layers.private("entry");
        fs::create_dir(&entry).map_err(|e| cache::at(&entry, e))?;
        take_result(&result, &entry.join("image"), side.label)?;
        cache::write_whole(&entry.join(TAMPERED), tampered.join("\n").as_bytes())?;
        cache::seal(&entry)?;
        self.cache.publish(&entry, "images", side.key)?;
        if !tampered.is_empty() {
            // The next patch starts afresh: what this build left behind could change it.
            *layers = layers.afresh(self.cache, self.interrupt.flag())?;
        }
        Ok(())
    }

    /// Makes sure that source, output and image of the base are what they were when it was built.
    ///
    /// # Errors
    /// They are not.
    pub fn check_base(&self, base: &Build) -> Result<(), BuildError> {
        let place = self.cache.entry("bases", &self.base_key(&base.config));
        let expected = image::text(&place.join(WITNESS))?;
        let now = self.witness(&witness(&self.tree.path), &place);
        let same = now == expected && cache::is_sealed(&place.join("image"));
        if same { Ok(()) } else { Err(BuildError::BaseChanged { place }) }
    }

    /// What the system says of source and output.
    fn witness(&self, tree: &str, base: &Path) -> String {
        format!("{tree}\n{}", witness(&base.join("output")))
    }

    /// Runs make to its end, good or bad.
    fn make(
        &self,
        sandbox: Sandbox,
        total: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, BuildError> {
        let mut counter = StepCounter::default();
        Ok(sandbox.env("HOME", HOME).env("PYTHONDONTWRITEBYTECODE", "1").limits(Limits::BUILD).run_observed(
            BUILD_LIMIT,
            self.interrupt.flag(),
            &mut |piece| {
                progress(Progress { done: counter.add(piece), total });
            },
        )?)
    }

    /// An error unless the build went well; keeps the log of one that did not.
    fn check(&self, finished: &Finished, side: &str) -> Result<(), BuildError> {
        if finished.success() {
            return Ok(());
        }
        if !matches!(finished.ending, Ending::Exited(_)) {
            return Err(BuildError::Limit { side: side.to_owned(), ending: finished.ending.clone() });
        }
        let said = format!("{}{}", finished.stderr.text(), finished.stdout.text());
        if said.contains("No space left on device")
            && let Some(full) = cache::really_full(&self.cache.entry("scratch", ""))
        {
            return Err(full.into());
        }
        fs::create_dir_all(&self.logs).map_err(|e| cache::at(&self.logs, e))?;
        let log = self.logs.join(format!("build-{}.log", side.replace([' ', '/'], "-")));
        cache::write_whole(&log, said.as_bytes())?;
        Err(BuildError::DoesNotCompile { side: side.to_owned(), first_error: first_error(&said), log })
    }

    /// Steps of the last base build, whatever it was of; a first build has a known order of size.
    fn expected_steps(&self) -> u64 {
        let bases = self.cache.entry("bases", "");
        let last = fs::read_dir(bases).ok().and_then(|mut d| d.next()).and_then(Result::ok);
        let objects = last.and_then(|e| fs::read_to_string(e.path().join("image").join(OBJECTS)).ok());
        objects.map_or(1000, |text| text.lines().count() as u64)
    }

    fn base_key(&self, config: &str) -> String {
        self.key(&["base", config])
    }

    fn key(&self, parts: &[&str]) -> String {
        let mut hash = Sha256::new();
        let always = [RECIPE, &self.toolchain, &self.tree.key, self.configuration.text()];
        for part in always.iter().chain(parts) {
            hash.update(part.as_bytes());
            hash.update(b"\0");
        }
        hex(&hash.finalize()[..12])
    }
}

/// Programs whose version, or presence, ends up in a configuration or an image: Kconfig asks all
/// of them (init/Kconfig), whether they are needed or not.
const PROBED: [&str; 6] = ["as", "bindgen", "gcc", "ld", "pahole", "rustc"];

/// The versions of all [`PROBED`]; a program that comes or goes makes new entries.
fn toolchain(version: impl Fn(&str) -> Option<String>) -> String {
    let line = |program: &&str| match version(program) {
        Some(version) => format!("{program}: {version}\n"),
        None => format!("{program}: none\n"),
    };
    PROBED.iter().map(line).collect()
}

/// First line of what `program --version` prints, from the places that a build looks at.
fn version_line(program: &str) -> Option<String> {
    let output = Command::new(program)
        .arg("--version")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_kconfig_asks_for_changes_the_key_by_coming_going_and_growing_older() {
        let with = |pahole: Option<&'static str>| {
            toolchain(
                |program| if program == "pahole" { pahole.map(str::to_owned) } else { Some("1".into()) },
            )
        };
        let all = [with(None), with(Some("v1.24")), with(Some("v1.25"))];
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
        assert!(all[0].contains("pahole: none"), "{}", all[0]);
    }
}
