// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line that sets the sandbox up: a pure function of what was asked.

use super::{Binding, Limits, SANDBOX_UID, Sandbox, Source};
use std::ffi::OsString;
use std::path::Path;

/// Mounts every directory of the sandbox below a private tmpfs, then becomes
/// the command it is given. Everything variable is an argument, none is code.
/// Descriptor 3 receives bubblewrap's report.
const STAGE: &str = r#"
set -eu
stage=$1 report=$2
shift 2
mount -t tmpfs -o mode=755,size=1m kernmark "$stage"
number=0
while [ "$1" != -- ]; do
    case $1 in
    bind)
        if [ -d "$2" ]; then mkdir "$stage/$number"; else : >"$stage/$number"; fi
        mount --rbind "$2" "$stage/$number"
        ;;
    overlay)
        mkdir "$stage/$number"
        # The newer mount interface cuts options at 256 bytes.
        LIBMOUNT_FORCE_MOUNT2=always mount -t overlay -o "$2" kernmark "$stage/$number"
        ;;
    esac
    shift 2
    number=$((number + 1))
done
shift
exec "$@" 3>"$report"
"#;

/// Kept fixed: nothing of the caller's environment reaches a stranger's code.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What differs between hosts, looked up once by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// Started by root.
    pub root: bool,
    /// `/bin` and the like: each with its link target, or `None` for a directory.
    pub system: Vec<(String, Option<String>)>,
    /// Files and directories of `/etc` that exist and that compilers read.
    pub etc: Vec<String>,
}

impl Host {
    /// Looks at this machine.
    pub fn look() -> Self {
        let system = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
            .into_iter()
            .filter_map(|path| {
                let kind = Path::new(path).symlink_metadata().ok()?;
                let target = kind.is_symlink().then(|| std::fs::read_link(path).ok()).flatten();
                Some((path.to_owned(), target.map(|t| t.to_string_lossy().into_owned())))
            })
            .collect();
        let etc = ["/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"]
            .into_iter()
            .filter(|path| Path::new(path).exists())
            .map(str::to_owned)
            .collect();
        Self { root: nix::unistd::geteuid().is_root(), system, etc }
    }
}

/// The whole command line, program first. `stage` is an existing directory
/// that hides nothing needed, `report` a file for bubblewrap's status.
pub(super) fn command_line(sandbox: &Sandbox, host: &Host, stage: &Path, report: &Path) -> Vec<OsString> {
    let mut line = Line::default();
    line.add("unshare");
    if !host.root {
        line.all(&["--user", "--map-root-user"]);
    }
    line.all(&["--mount", "--propagation", "private", "--", "/bin/sh", "-c", STAGE, "kernmark-sandbox"]);
    line.add(stage);
    line.add(report);
    for binding in &sandbox.bindings {
        match &binding.source {
            Source::Path(path) => {
                line.add("bind");
                line.add(path);
            }
            Source::Overlay(overlay) => {
                line.add("overlay");
                line.add(overlay_options(overlay, host.root));
            }
        }
    }
    line.add("--");
    if host.root {
        line.add("setpriv");
        line.add(format!("--reuid={SANDBOX_UID}"));
        line.add(format!("--regid={SANDBOX_UID}"));
        line.all(&["--clear-groups", "--no-new-privs"]);
    }
    bubblewrap(&mut line, sandbox, host, stage);
    limits(&mut line, &sandbox.limits);
    line.add(&sandbox.program);
    line.0.extend(sandbox.arguments.iter().cloned());
    line.0
}

fn bubblewrap(line: &mut Line, sandbox: &Sandbox, host: &Host, stage: &Path) {
    line.add("bwrap");
    // `--unshare-all` only tries a user namespace; `--unshare-user` insists.
    line.all(&["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]);
    line.all(&["--json-status-fd", "3", "--hostname", "kernmark"]);
    let uid = SANDBOX_UID.to_string();
    line.all(&["--uid", &uid, "--gid", &uid]);
    line.all(&["--ro-bind", "/usr", "/usr"]);
    for (path, target) in &host.system {
        match target {
            Some(target) => line.all(&["--symlink", target, path]),
            None => line.all(&["--ro-bind", path, path]),
        }
    }
    for path in &host.etc {
        line.all(&["--ro-bind", path, path]);
    }
    line.all(&["--proc", "/proc", "--dev", "/dev"]);
    line.all(&["--size", &sandbox.limits.tmp.to_string(), "--tmpfs", "/tmp"]);
    for (number, Binding { inside, writable, .. }) in sandbox.bindings.iter().enumerate() {
        line.add(if *writable { "--bind" } else { "--ro-bind" });
        line.add(stage.join(number.to_string()));
        line.add(inside);
    }
    // The root and /dev are tmpfs without a size limit: nothing may grow there.
    line.all(&["--remount-ro", "/dev", "--remount-ro", "/"]);
    line.all(&["--clearenv", "--setenv", "PATH", PATH, "--setenv", "HOME", "/tmp"]);
    line.all(&["--setenv", "LC_ALL", "C", "--setenv", "TMPDIR", "/tmp"]);
    for (name, value) in &sandbox.environment {
        line.add("--setenv");
        line.add(name);
        line.add(value);
    }
    line.add("--chdir");
    line.add(&sandbox.directory);
    line.add("--");
}

/// Set inside the user namespace, where the process count starts at zero:
/// other processes of the caller do not count against it.
fn limits(line: &mut Line, limits: &Limits) {
    line.add("prlimit");
    line.add(format!("--nproc={}", limits.processes));
    line.add(format!("--as={}", limits.address_space));
    line.add(format!("--fsize={}", limits.file));
    line.add(format!("--cpu={}", limits.cpu_s));
    line.all(&["--core=0", "--nofile=4096", "--"]);
}

fn overlay_options(overlay: &super::Overlay, root: bool) -> OsString {
    let mut options = OsString::from("lowerdir=");
    for (number, lower) in overlay.lower.iter().enumerate() {
        if number > 0 {
            options.push(":");
        }
        options.push(escaped(lower));
    }
    options.push(",upperdir=");
    options.push(escaped(&overlay.upper));
    options.push(",workdir=");
    options.push(escaped(&overlay.work));
    if !root {
        // Trusted attributes need privilege on the host (Linux 5.11, overlayfs.rst).
        options.push(",userxattr");
    }
    options
}

/// Escapes what separates overlay options and layers.
fn escaped(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'\\' | b',' | b':') {
            bytes.push(b'\\');
        }
        bytes.push(byte);
    }
    OsString::from_vec(bytes)
}

#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn add(&mut self, argument: impl AsRef<std::ffi::OsStr>) {
        self.0.push(argument.as_ref().to_owned());
    }

    fn all(&mut self, arguments: &[&str]) {
        self.0.extend(arguments.iter().map(OsString::from));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Overlay;
    use super::*;
    use std::path::PathBuf;

    fn host(root: bool) -> Host {
        Host {
            root,
            system: vec![("/bin".into(), Some("usr/bin".into())), ("/lib32".into(), None)],
            etc: vec!["/etc/alternatives".into()],
        }
    }

    fn line(root: bool) -> Vec<String> {
        let overlay = Overlay {
            lower: vec!["/c/a,b".into(), "/c/base".into()],
            upper: "/w/up".into(),
            work: "/w/wk".into(),
        };
        let sandbox = Sandbox::command("make")
            .arg("-j2")
            .env("A", "B")
            .read_only("/c/source", "/kernmark/source")
            .overlay(overlay, "/kernmark/output", true)
            .directory("/kernmark/source");
        command_line(&sandbox, &host(root), &PathBuf::from("/tmp/s"), &PathBuf::from("/tmp/r"))
            .into_iter()
            .map(|a| a.into_string().expect("ASCII"))
            .collect()
    }

    fn has(line: &[String], wanted: &[&str]) -> bool {
        line.windows(wanted.len()).any(|window| window == wanted)
    }

    #[test]
    fn root_becomes_another_user_before_the_sandbox_starts() {
        let line = line(true);
        let place = |word: &str| line.iter().position(|a| a == word).expect("is there");
        assert!(place("--reuid=65534") < place("bwrap"));
        assert!(!line.contains(&"--map-root-user".to_owned()));
        assert!(has(&line, &["overlay", r"lowerdir=/c/a\,b:/c/base,upperdir=/w/up,workdir=/w/wk", "--"]));
    }

    #[test]
    fn others_map_themselves_and_need_no_privilege() {
        let line = line(false);
        assert!(has(&line, &["unshare", "--user", "--map-root-user", "--mount"]));
        assert!(!line.contains(&"setpriv".to_owned()));
        assert!(line.iter().any(|a| a.ends_with(",userxattr")));
    }

    #[test]
    fn only_what_was_given_is_there_and_only_that_is_writable() {
        let line = line(true);
        assert!(has(&line, &["--ro-bind", "/tmp/s/0", "/kernmark/source"]));
        assert!(has(&line, &["--bind", "/tmp/s/1", "/kernmark/output"]));
        assert_eq!(line.iter().filter(|a| *a == "--bind").count(), 1);
        assert!(
            has(&line, &["--symlink", "usr/bin", "/bin"]) && has(&line, &["--ro-bind", "/lib32", "/lib32"])
        );
        assert!(has(&line, &["--remount-ro", "/"]) && has(&line, &["--unshare-all"]));
        assert!(!line.contains(&"--share-net".to_owned()));
    }

    #[test]
    fn limits_hold_inside_and_the_command_comes_last() {
        let line = line(false);
        let inside = line.iter().rposition(|a| a == "prlimit").expect("is there");
        assert!(line.iter().position(|a| a == "bwrap").expect("is there") < inside);
        assert_eq!(line[line.len() - 3..], ["--", "make", "-j2"]);
    }
}
