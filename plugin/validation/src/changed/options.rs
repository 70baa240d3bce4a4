// SPDX-License-Identifier: GPL-2.0-or-later
//! Which options make a touched file part of the kernel image.
//!
//! A file that the configuration leaves out is never executed, so its options
//! are switched on for all sides, or the result is NOT BUILT with file and option.

use super::config::Config;
use super::kconfig::Kconfig;
use super::makefile::{Alternatives, Makefile, Requirement};
use super::needs::{self, Refusal};
use super::paths::{self, FileKind};
use super::source::{Source, TokenKind};
use serde::{Deserialize, Serialize};
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// A touched file and what it takes to compile it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOptions {
    /// Relative to the top of the tree.
    pub file: String,
    /// Options that its Makefiles ask for, on the way chosen; sorted.
    pub needed: Vec<String>,
    /// Whether it is compiled.
    pub state: FileState,
}

/// Whether a file is compiled into the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// With this configuration.
    Compiled,
    /// With these options switched on as well, dependencies first.
    SwitchOn(Vec<String>),
    /// Not in a kernel for this machine.
    CannotBuild(CannotBuild),
    /// No list of a Makefile was found that names it (a few are made in ways
    /// that are not understood here): only the finished build can tell.
    Unlisted,
    /// A header that no directory stands for (`include/`): compiled with
    /// whatever includes it.
    Header,
    /// No object comes of it: documentation, tools, Makefile, Kconfig.
    NotCode,
}

/// Why a file cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CannotBuild {
    /// It belongs to another architecture.
    Architecture(String),
    /// The option, and what stands against switching it on.
    Option {
        /// Without `CONFIG_`.
        option: String,
        /// For a person.
        reason: String,
    },
    /// The option has to be off, and it is on.
    MustBeOff(String),
}

impl fmt::Display for CannotBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architecture(name) => {
                write!(f, "it is for {name}; kernmark builds x86 kernels: test it on a machine of that kind")
            }
            Self::Option { option, reason } => write!(f, "CONFIG_{option} cannot be switched on: {reason}"),
            Self::MustBeOff(option) => {
                write!(
                    f,
                    "it is only built without CONFIG_{option}, which these kernels need: test it on another machine"
                )
            }
        }
    }
}

/// More files of one directory than this are not searched for an `#include`.
const MAX_INCLUDERS: usize = 200;

/// For each file: is it compiled with `config`, and what would it take? `read`
/// returns the text of a file of the tree, with the series applied.
pub fn options_for(
    files: &[String],
    read: &dyn Fn(&str) -> Option<String>,
    config: &Config,
) -> Vec<FileOptions> {
    let tree = Tree {
        read,
        config,
        kconfig: OnceCell::new(),
        makefiles: RefCell::new(BTreeMap::new()),
        directories: RefCell::new(BTreeMap::new()),
    };
    files.iter().map(|file| tree.judge(file)).collect()
}

/// All options to switch on for these files, each once, dependencies first.
pub fn switch_on(files: &[FileOptions]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let options = files.iter().flat_map(|file| match &file.state {
        FileState::SwitchOn(options) => options.as_slice(),
        FileState::Compiled
        | FileState::CannotBuild(_)
        | FileState::Unlisted
        | FileState::Header
        | FileState::NotCode => &[],
    });
    options.filter(|option| seen.insert(option.as_str())).cloned().collect()
}

struct Tree<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    config: &'a Config,
    kconfig: OnceCell<Kconfig>,
    makefiles: RefCell<BTreeMap<String, Option<Rc<Makefile>>>>,
    directories: RefCell<BTreeMap<String, Alternatives>>,
}

impl Tree<'_> {
    fn judge(&self, file: &str) -> FileOptions {
        let (needed, state) = self.state(file);
        FileOptions { file: file.to_owned(), needed, state }
    }

    fn state(&self, file: &str) -> (Vec<String>, FileState) {
        let kind = paths::kind(file);
        if matches!(kind, FileKind::Other | FileKind::Build) {
            return (Vec::new(), FileState::NotCode);
        }
        if let Some(architecture) = paths::architecture(file)
            && architecture != "x86"
        {
            let reason = CannotBuild::Architecture(architecture.to_owned());
            return (Vec::new(), FileState::CannotBuild(reason));
        }
        match kind {
            FileKind::Header => {
                let alternatives = self.header(file);
                if alternatives.is_empty() {
                    return (Vec::new(), FileState::Header);
                }
                self.choose(&alternatives)
            }
            FileKind::Source | FileKind::Build | FileKind::Other => {
                let mut alternatives = self.object(&object(file));
                if alternatives.is_empty() {
                    alternatives = self.included(file);
                }
                self.choose(&alternatives)
            }
        }
    }

    /// A header beside code is compiled with its directory.
    fn header(&self, file: &str) -> Alternatives {
        let directory = paths::directory(file);
        if directory.split('/').any(|part| part == "include") {
            return Vec::new();
        }
        let with_makefile = ancestors(directory).find(|d| !d.is_empty() && self.makefile(d).is_some());
        with_makefile.map_or_else(Vec::new, |d| self.directory(d))
    }

    /// Ways to build an object, by every Makefile from its directory up.
    fn object(&self, object: &str) -> Alternatives {
        let mut found = Vec::new();
        for directory in ancestors(paths::directory(object)) {
            let Some(makefile) = self.makefile(directory) else { continue };
            let here = makefile.alternatives(relative(object, directory));
            if !here.is_empty() {
                found.extend(product(&here, &self.directory(directory)));
            }
        }
        found
    }

    /// Ways to reach a directory from the top.
    fn directory(&self, directory: &str) -> Alternatives {
        if directory.is_empty() {
            return vec![Vec::new()];
        }
        if let Some(known) = self.directories.borrow().get(directory) {
            return known.clone();
        }
        let mut found = Vec::new();
        for above in ancestors(paths::directory(directory)) {
            let Some(makefile) = self.makefile(above) else { continue };
            let here = makefile.alternatives(&format!("{}/", relative(directory, above)));
            if !here.is_empty() {
                found.extend(product(&here, &self.directory(above)));
            }
        }
        self.directories.borrow_mut().insert(directory.to_owned(), found.clone());
        found
    }

    /// Kbuild or Makefile of a directory with what it includes; at the top also
    /// the Makefile of the architecture, which names directories from the top.
    fn makefile(&self, directory: &str) -> Option<Rc<Makefile>> {
        if let Some(known) = self.makefiles.borrow().get(directory) {
            return known.clone();
        }
        let names: &[&str] = if directory.is_empty() {
            &["Kbuild", "Makefile", "arch/x86/Makefile"]
        } else {
            &["Kbuild", "Makefile"]
        };
        let texts = names.iter().filter_map(|name| (self.read)(&paths::join(directory, name)));
        // Kbuild goes before Makefile (scripts/Kbuild.include); only the top uses both.
        let texts: Vec<String> = if directory.is_empty() { texts.collect() } else { texts.take(1).collect() };
        let mut whole: Option<Makefile> = None;
        for text in texts {
            let mut makefile = Makefile::parse(&text, directory);
            for include in std::mem::take(&mut makefile.includes).iter().take(20) {
                if let Some(text) = (self.read)(include) {
                    makefile.absorb(Makefile::parse(&text, directory));
                }
            }
            whole.get_or_insert_default().absorb(makefile);
        }
        let whole = whole.map(Rc::new);
        self.makefiles.borrow_mut().insert(directory.to_owned(), whole.clone());
        whole
    }

    /// Ways to build a `.c` file that another one includes.
    fn included(&self, file: &str) -> Alternatives {
        let directory = paths::directory(file);
        let Some(holder) = ancestors(directory).find(|d| self.makefile(d).is_some()) else {
            return Vec::new();
        };
        let Some(makefile) = self.makefile(holder) else { return Vec::new() };
        let mut found = Vec::new();
        for item in makefile.objects().take(MAX_INCLUDERS) {
            let Some(stem) = item.strip_suffix(".o") else { continue };
            let includer = paths::join(holder, &format!("{stem}.c"));
            let Some(text) = (self.read)(&includer) else { continue };
            if let Some(requirements) = includes(&text, paths::directory(&includer), file) {
                found.extend(product(&self.object(&object(&includer)), &vec![requirements]));
            }
        }
        found
    }

    /// Takes the way that holds already, else the one with the fewest options.
    fn choose(&self, alternatives: &Alternatives) -> (Vec<String>, FileState) {
        let mut best: Option<(Vec<String>, Vec<String>)> = None;
        let mut refusal: Option<(Vec<String>, CannotBuild)> = None;
        for requirements in alternatives {
            let needed: Vec<String> =
                requirements.iter().filter(|r| r.on).map(|r| r.option.clone()).collect();
            match self.missing(requirements) {
                Ok(missing) if missing.is_empty() => return (needed, FileState::Compiled),
                Ok(missing) if best.as_ref().is_none_or(|(_, b)| missing.len() < b.len()) => {
                    best = Some((needed, missing));
                }
                Ok(_) => {}
                Err(reason) => {
                    refusal.get_or_insert((needed, reason));
                }
            }
        }
        match (best, refusal) {
            (Some((needed, missing)), _) => (needed, FileState::SwitchOn(missing)),
            (None, Some((needed, reason))) => (needed, FileState::CannotBuild(reason)),
            (None, None) => (Vec::new(), FileState::Unlisted),
        }
    }

    /// Options to switch on so that all requirements hold.
    fn missing(&self, requirements: &[Requirement]) -> Result<Vec<String>, CannotBuild> {
        let mut missing: Vec<String> = Vec::new();
        for requirement in requirements {
            let option = requirement.option.as_str();
            let is_on = self.config.is_on(option);
            if !requirement.on && is_on {
                return Err(CannotBuild::MustBeOff(option.to_owned()));
            }
            if requirement.on && !is_on {
                let kconfig = self.kconfig.get_or_init(|| Kconfig::read(self.read));
                let options = needs::switch_on(kconfig, self.config, option).map_err(|reason: Refusal| {
                    CannotBuild::Option { option: option.to_owned(), reason: reason.to_string() }
                })?;
                // An option that is on by default is named too: the caller checks that it stuck.
                let own = std::iter::once(option.to_owned());
                for option in options.into_iter().chain(own) {
                    if !missing.contains(&option) {
                        missing.push(option);
                    }
                }
            }
        }
        Ok(missing)
    }
}

/// A directory and those above it, the top (empty) last.
fn ancestors(directory: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(directory), |d| (!d.is_empty()).then(|| paths::directory(d)))
}

/// `path` as seen from `directory`.
fn relative<'a>(path: &'a str, directory: &str) -> &'a str {
    path.strip_prefix(directory).unwrap_or(path).trim_start_matches('/')
}

fn object(file: &str) -> String {
    format!("{}.o", file.rsplit_once('.').map_or(file, |(stem, _)| stem))
}

/// Each way of the one with each way of the other.
fn product(left: &Alternatives, right: &Alternatives) -> Alternatives {
    let mut all = Vec::new();
    for one in left {
        for other in right.iter().take(16) {
            let mut both = one.clone();
            both.extend(other.iter().cloned());
            both.sort();
            both.dedup();
            all.push(both);
        }
    }
    all
}

/// Whether `text`, a file in `directory`, includes `file`, and under which
/// options.
fn includes(text: &str, directory: &str, file: &str) -> Option<Vec<Requirement>> {
    if !text.contains(paths::file_name(file)) {
        return None;
    }
    let source = Source::new(text);
    let mut open: Vec<Option<Requirement>> = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        if token.kind != TokenKind::Hash {
            continue;
        }
        let range = source.directive(index);
        let rest = source.joined(range.start + 1..range.end);
        match source.word(range.start) {
            Some("ifdef") => open.push(requirement(&rest, true)),
            Some("ifndef") => open.push(requirement(&rest, false)),
            Some("if") => {
                let inner = rest.strip_prefix("defined(").or_else(|| rest.strip_prefix("IS_ENABLED("));
                open.push(inner.and_then(|r| r.strip_suffix(')')).and_then(|name| requirement(name, true)));
            }
            Some("else") => {
                if let Some(Some(last)) = open.last_mut() {
                    last.on = !last.on;
                }
            }
            Some("endif") => {
                open.pop();
            }
            Some("include") if paths::join(directory, rest.trim_matches('"')) == file => {
                return Some(open.into_iter().flatten().collect());
            }
            _ => {}
        }
    }
    None
}

fn requirement(name: &str, on: bool) -> Option<Requirement> {
    let option = name.trim().strip_prefix("CONFIG_")?;
    let plain = option.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain.then(|| Requirement { option: option.to_owned(), on })
}

#[cfg(test)]
mod tests;
