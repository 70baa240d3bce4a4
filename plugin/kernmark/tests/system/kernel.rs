// SPDX-License-Identifier: GPL-2.0-or-later
//! Real kernel builds: reproducible, incremental, identified, and safe from the
//! series they build.

use kernmark::cache::Cache;
use kernmark::interrupt::Interrupt;
use kernmark::kernel::{Build, BuildError, Builder, Configuration, Fragment, Tree, TreeSource};
use kernmark::sandbox::SandboxError;
use kernmark_validation::mail::{Patch, Series, read_series};
use std::path::Path;
use std::sync::OnceLock;

/// The source and the base kernel, made once in the user's own cache: what an
/// earlier run left there is used.
struct Base {
    cache: Cache,
    tree: Tree,
}

fn shared() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let cache = Cache::open(None, |name| std::env::var_os(name).map(Into::into)).expect("a cache");
        let source = TreeSource::find(None, None, None).expect("Debian's source is installed");
        let interrupt = Interrupt::default();
        let tree = source.unpack(&cache, &interrupt).expect("unpacked");
        let logs = tempfile::tempdir().expect("temporary directory");
        let configuration = Configuration::new(Fragment::Minimal, &[]);
        let builder = Builder::new(&cache, &tree, configuration, &interrupt, logs.path()).expect("tools");
        builder.base(&mut |_| {}).expect("the base compiles");
        Base { cache, tree }
    })
}

/// A cache of one test, which shares the base but no patched image.
struct Place {
    directory: tempfile::TempDir,
    cache: Cache,
    interrupt: Interrupt,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let cache = Cache::open(Some(directory.path()), |_| None).expect("writable");
        for kind in ["sources", "bases", "configs"] {
            let shared = shared().cache.entry(kind, "");
            std::os::unix::fs::symlink(shared, directory.path().join(kind)).expect("writable");
        }
        Self { directory, cache, interrupt: Interrupt::default() }
    }

    fn builder(&self) -> Builder<'_> {
        let configuration = Configuration::new(Fragment::Minimal, &[]);
        Builder::new(&self.cache, &shared().tree, configuration, &self.interrupt, self.directory.path())
            .expect("tools")
    }

    /// The kernels with 1, 2 ... all patches of `series`, and how many steps each took.
    fn build(&self, series: &Series) -> Result<Vec<(Build, u64)>, BuildError> {
        let builder = self.builder();
        let base = builder.base(&mut |_| {})?;
        let counts: Vec<(usize, String)> =
            (1..=series.patches.len()).map(|n| (n, format!("{n}/{}", series.patches.len()))).collect();
        let steps = std::cell::Cell::new(0);
        let mut builds = Vec::new();
        builder.patched(&base, series, &counts, &mut |_, p| steps.set(p.done), &mut |build| {
            builds.push((build, steps.replace(0)));
        })?;
        Ok(builds)
    }
}

fn series(path: &str) -> Series {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(root.join(path)).expect("is there");
    read_series(&bytes).expect("is a series").series.pop().expect("has one")
}

fn sample(name: &str) -> Series {
    series(&format!("../../examples/series/{name}.mbox"))
}

fn case(name: &str) -> Series {
    series(&format!("tests/data/series/{name}.mbox"))
}

/// A series of one patch on one file.
fn single(diff: &str, file: &str) -> Series {
    let patch = Patch {
        index: 1,
        subject: "[PATCH] x".into(),
        files: vec![file.into()],
        diff_sha256: diff.len().to_string(),
        diff: diff.into(),
        ..Patch::default()
    };
    Series { total: 1, patches: vec![patch], complete: true, ..Series::default() }
}

/// The image of the series that adds one lock, from a cache that saw nothing else.
fn lock_image() -> &'static str {
    static IMAGE: OnceLock<String> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let builds = Place::new().build(&case("one-lock")).expect("compiles");
        builds.last().expect("one patch").0.record.image_sha256.clone()
    })
}

/// `patch` backwards.
fn undone(patch: &Patch) -> Patch {
    let mut diff = String::new();
    for line in patch.diff.lines() {
        let turned = if let Some(rest) = line.strip_prefix("@@ -") {
            let (old, rest) = rest.split_once(" +").expect("a hunk header");
            let (new, rest) = rest.split_once(" @@").expect("a hunk header");
            format!("@@ -{new} +{old} @@{rest}")
        } else if line.starts_with("--- ") || line.starts_with("+++ ") || line.starts_with("index ") {
            line.to_owned()
        } else if let Some(rest) = line.strip_prefix('+') {
            format!("-{rest}")
        } else if let Some(rest) = line.strip_prefix('-') {
            format!("+{rest}")
        } else {
            line.to_owned()
        };
        diff += &turned;
        diff.push('\n');
    }
    Patch {
        index: patch.index + 1,
        diff_sha256: format!("undone {}", patch.diff_sha256),
        diff,
        ..patch.clone()
    }
}

#[test]
fn the_base_is_what_the_workloads_need() {
    let place = Place::new();
    let base = place.builder().base(&mut |_| {}).expect("compiles");
    for object in ["fs/kernfs/dir.o", "fs/notify/mark.o", "mm/shrinker.o", "kernel/trace/ftrace.o"] {
        assert!(base.objects.contains(object), "{object}");
    }
    assert!(!base.objects.contains("fs/xfs/xfs_super.o"));
    assert!(
        base.config.contains("\nCONFIG_PSI=y\n") && base.config.contains("\nCONFIG_UCLAMP_TASK_GROUP=y\n")
    );
    assert!(base.system_map.contains(" kernfs_remove_by_name_ns\n"));
    let record = &base.record;
    assert!(record.source.starts_with("linux-source-6.12 6.12."), "{}", record.source);
    assert_eq!(record.identity.release_length as usize, record.identity.release.len());
    assert!(record.identity.compiler.starts_with("gcc "), "{}", record.identity.compiler);
    place.builder().check_base(&base).expect("unchanged");
}

#[test]
fn each_patch_is_built_on_the_one_before_and_compiles_only_what_it_changes() {
    let base = Place::new().builder().base(&mut |_| {}).expect("compiles");
    let builds = Place::new().build(&sample("kernfs-removal")).expect("compiles");
    let images: Vec<&str> = builds.iter().map(|(b, _)| b.record.image_sha256.as_str()).collect();
    assert_eq!(images.len(), 2);
    assert!(images[0] != images[1] && !images.contains(&base.record.image_sha256.as_str()));
    for (build, steps) in &builds {
        assert!(base.record.identity.differences(&build.record.identity).is_empty());
        assert!(build.tampered.is_empty(), "{:?}", build.tampered);
        assert!(build.record.same_image_as.is_none());
        assert!((1..20).contains(steps), "{} took {steps} steps", build.record.label);
    }
    // A header that a tenth of the files include.
    let header = Place::new().build(&sample("fsnotify-connector-list")).expect("compiles");
    let steps: u64 = header.iter().map(|(_, steps)| steps).sum();
    assert!((20..200).contains(&steps), "{steps} steps");
}

#[test]
fn a_change_and_its_undoing_give_the_base_bit_for_bit() {
    let mut both = case("one-lock");
    both.patches.push(undone(&both.patches[0]));
    both.total = 2;
    let builds = Place::new().build(&both).expect("compiles");
    assert_eq!(builds[0].0.record.image_sha256, lock_image());
    assert_eq!(builds[0].0.record.same_image_as, None);
    assert_eq!(builds[1].0.record.same_image_as.as_deref(), Some("base"));
}

#[test]
fn whole_copies_give_the_same_image_as_overlays() {
    let place = Place::new();
    let builder = place.builder().with_whole_copies();
    let base = builder.base(&mut |_| {}).expect("compiles");
    let mut builds = Vec::new();
    let counts = [(1, "patched".to_owned())];
    builder
        .patched(&base, &case("one-lock"), &counts, &mut |_, _| {}, &mut |build| builds.push(build))
        .expect("compiles");
    assert_eq!(builds[0].record.image_sha256, lock_image());
    assert!(builds[0].tampered.is_empty(), "{:?}", builds[0].tampered);
}

#[test]
fn a_hostile_build_is_named_and_changes_nothing_outside() {
    let place = Place::new();
    let before = place.builder().base(&mut |_| {}).expect("compiles");
    let builds = place.build(&case("hostile-makefile")).expect("compiles");
    let tampered = &builds[0].0.tampered;
    for expected in [
        "changed fs/Makefile in the source",
        "changed kernmark-was-here in the source",
        "wrote kernmark-was-here into its home directory",
        "tried to reach other machines",
        "opened connections to its own machine",
    ] {
        assert!(tampered.iter().any(|t| t == expected), "{expected}: {tampered:?}");
    }
    place.builder().check_base(&before).expect("unchanged");
    let next = place.build(&case("one-lock")).expect("compiles");
    assert_eq!(next[0].0.record.image_sha256, lock_image());
    assert!(next[0].0.tampered.is_empty());
}

#[test]
fn a_patch_that_does_not_apply_is_named_with_its_hunk() {
    let error = Place::new().build(&case("does-not-apply")).expect_err("does not apply").to_string();
    assert!(error.starts_with("patch 1/1 \"kernfs: change a line that is not there\" does not apply: fs/kernfs/dir.c hunk #2 (line 1471)"), "{error}");
}

#[test]
fn the_first_compiler_error_is_shown_and_the_log_kept() {
    let place = Place::new();
    let error = place.build(&case("does-not-compile")).expect_err("does not compile");
    let BuildError::DoesNotCompile { side, first_error, log } = &error else { panic!("{error}") };
    assert_eq!(side, "2/2");
    assert!(
        first_error.starts_with("fs/kernfs/dir.c:") && first_error.contains("kernfs_removals"),
        "{first_error}"
    );
    assert!(std::fs::read_to_string(log).expect("kept").contains("kernfs_removals"));
}

#[test]
fn a_patch_cannot_leave_the_tree() {
    for path in ["../outside", "/tmp/outside", ".git/hooks/pre-commit"] {
        let diff = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n");
        let error = Place::new().build(&single(&diff, path)).expect_err("leaves the tree");
        assert!(matches!(error, BuildError::DoesNotApply { .. }), "{error}");
    }
}

#[test]
fn an_interrupt_leaves_nothing_half_done() {
    let place = Place::new();
    let builder = place.builder();
    let base = builder.base(&mut |_| {}).expect("compiles");
    let counts = [(1, "patched".to_owned())];
    let mut stop = |_: &str, _| place.interrupt.set();
    let result = builder.patched(&base, &case("one-lock"), &counts, &mut stop, &mut |_| panic!("no build"));
    assert!(matches!(result, Err(BuildError::Sandbox(SandboxError::Interrupted))), "{result:?}");
    let left = std::fs::read_dir(place.directory.path().join("scratch")).expect("is there").count();
    assert_eq!(left, 0);
    assert!(!place.directory.path().join("images").exists());
}

#[test]
fn an_option_that_kconfig_does_not_have_is_named() {
    let place = Place::new();
    let configuration = Configuration::new(Fragment::Minimal, &["KERNMARK_NONSENSE".into()]);
    let builder =
        Builder::new(&place.cache, &shared().tree, configuration, &place.interrupt, place.directory.path())
            .expect("tools");
    let error = builder.configure().expect_err("there is no such option").to_string();
    assert!(error.contains("CONFIG_KERNMARK_NONSENSE: asked y, got n"), "{error}");
}

#[test]
fn two_that_start_at_once_do_not_disturb_each_other() {
    let place = tempfile::tempdir().expect("temporary directory");
    let options = ["UTS_NS".to_owned()];
    let configure = || {
        let cache = Cache::open(Some(place.path()), |_| None).expect("writable");
        let interrupt = Interrupt::default();
        // The tree of the shared cache; everything else is new here.
        let tree = shared().tree.clone();
        let configuration = Configuration::new(Fragment::Minimal, &options);
        let builder = Builder::new(&cache, &tree, configuration, &interrupt, place.path()).expect("tools");
        builder.configure().expect("configures")
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(configure);
        (configure(), other.join().expect("no panic"))
    });
    assert_eq!(first, second);
}

#[test]
fn a_damaged_image_is_built_again() {
    let place = Place::new();
    let first = place.build(&case("one-lock")).expect("builds").remove(0).0;
    let whole = std::fs::read(&first.image).expect("readable");
    std::fs::write(&first.image, &whole[..whole.len() / 2]).expect("writable");
    let again = place.build(&case("one-lock")).expect("builds").remove(0).0;
    assert_eq!(std::fs::read(&again.image).expect("readable"), whole);
}
