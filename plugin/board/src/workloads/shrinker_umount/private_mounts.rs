// SPDX-License-Identifier: GPL-2.0-or-later
//! A mount namespace of our own with a place to mount at. Everything in it goes
//! when the last process in it goes, however that ends: nothing is left mounted
//! and no directory is left behind.

use crate::stop::Stop;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{chroot, fchdir};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Covered by a small file system that holds the mount points; the first of them that exists.
const PLACES: [&str; 4] = ["/tmp", "/mnt", "/run", "/var/tmp"];
/// The namespace of the calling thread.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/mnt";

/// This thread is in a private mount namespace; dropping it leads back.
#[derive(Debug)]
pub struct PrivateMounts {
    place: PathBuf,
    /// Name of the namespace that was left.
    name: PathBuf,
    namespace: OwnedFd,
    root: OwnedFd,
    directory: OwnedFd,
    /// Namespace into which mounts are copied; it lives as long as this.
    peer: Option<OwnedFd>,
}

impl PrivateMounts {
    /// Enters a new mount namespace, from which no mount is copied to others, and makes a place in it.
    ///
    /// # Errors
    /// This process may not, or the place cannot be made.
    pub fn enter() -> Result<Self, Stop> {
        let (namespace, root, directory) = (handle(OWN_NAMESPACE)?, handle("/")?, handle(".")?);
        let name = own_namespace()?;
        unshare(CloneFlags::CLONE_NEWNS).map_err(refused)?;
        // From here on dropping it leads back.
        let mut private = Self { place: PathBuf::new(), name, namespace, root, directory, peer: None };
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .map_err(|e| Stop::failed("making mounts private", e))?;
        let cover = PLACES.into_iter().find(|place| Path::new(place).is_dir()).ok_or_else(|| {
            Stop::Missing(format!("none of the directories {} is there to mount at", PLACES.join(", ")))
        })?;
        // ramfs is in every kernel.
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("kernmark"), cover, Some("ramfs"), flags, None::<&str>)
            .map_err(|e| Stop::failed(format!("a private ramfs on {cover}"), e))?;
        private.place = PathBuf::from(cover);
        Ok(private)
    }

    /// Has every mount at the place copied into a second namespace, as where a machine's mounts
    /// are shared: this thread then is in the second one, the first has nobody in it.
    ///
    /// # Errors
    /// The kernel refuses.
    #[cfg_attr(not(test), expect(dead_code, reason = "for workloads of several workers"))]
    pub fn share(&mut self) -> Result<(), Stop> {
        mount(None::<&str>, &self.place, None::<&str>, MsFlags::MS_SHARED, None::<&str>)
            .map_err(|e| Stop::failed("sharing mounts", e))?;
        let peer = handle(OWN_NAMESPACE)?;
        unshare(CloneFlags::CLONE_NEWNS).map_err(refused)?;
        self.peer = Some(peer);
        Ok(())
    }

    /// A new directory to mount at.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn mount_point(&self, name: &str) -> Result<PathBuf, Stop> {
        let path = self.place.join(name);
        fs::create_dir(&path).map_err(|e| Stop::failed(path.display(), e))?;
        Ok(path)
    }

    /// Mounts that are still there below the place; none is what should be.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn still_mounted(&self) -> Result<usize, Stop> {
        let file = "/proc/thread-self/mountinfo";
        let text = fs::read_to_string(file).map_err(|e| Stop::failed(file, e))?;
        Ok(mounts_below(&text, &self.place))
    }

    /// Leads back; whether this thread is where it was.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn leave(self) -> Result<bool, Stop> {
        let name = self.name.clone();
        drop(self);
        Ok(own_namespace()? == name)
    }
}

impl Drop for PrivateMounts {
    fn drop(&mut self) {
        // Entering a namespace also changes root and working directory. A failure shows in the
        // condition `restored`; as nobody else sees this namespace, it harms nothing.
        let _ = setns(&self.namespace, CloneFlags::CLONE_NEWNS);
        let _ = fchdir(&self.root);
        let _ = chroot(".");
        let _ = fchdir(&self.directory);
    }
}

fn handle(path: &str) -> Result<OwnedFd, Stop> {
    open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).map_err(|e| Stop::failed(path, e))
}

fn own_namespace() -> Result<PathBuf, Stop> {
    fs::read_link(OWN_NAMESPACE).map_err(|e| Stop::failed(OWN_NAMESPACE, e))
}

fn refused(error: Errno) -> Stop {
    match error {
        Errno::EPERM => Stop::Missing(
            "a private mount namespace is refused (EPERM); run as root, in a container with CAP_SYS_ADMIN"
                .into(),
        ),
        Errno::EINVAL => {
            Stop::Missing("this kernel has no mount namespaces for this thread (EINVAL); run as root".into())
        }
        other => Stop::failed("a private mount namespace", other),
    }
}

/// Mount points strictly below `place` in the text of a mountinfo file.
fn mounts_below(mountinfo: &str, place: &Path) -> usize {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
    points.filter(|point| *point != place && point.starts_with(place)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_place_are_counted() {
        let text = "\
24 31 0:22 / /tmp rw - tmpfs tmpfs rw
25 24 0:23 / /tmp/m rw - ramfs ramfs rw
26 24 0:24 / /tmp/m rw - tmpfs tmpfs rw
27 31 0:25 / /tmpfoo/m rw - tmpfs tmpfs rw
";
        assert_eq!(mounts_below(text, Path::new("/tmp")), 2);
        assert_eq!(mounts_below(text, Path::new("/mnt")), 0);
    }

    #[test]
    fn a_refusal_says_what_would_help() {
        let Stop::Missing(reason) = refused(Errno::EPERM) else { panic!("not a skip") };
        assert!(reason.contains("root"), "{reason}");
        assert!(matches!(refused(Errno::ENOSPC), Stop::Failed(_)));
    }

    /// In a thread of its own: namespace, root and working directory belong to a thread here.
    #[test]
    fn what_is_mounted_in_private_is_seen_by_nobody_and_leaves_nothing() {
        std::thread::spawn(|| {
            let all = || fs::read_to_string("/proc/self/mountinfo").expect("procfs");
            let (before, directory) = (all(), std::env::current_dir().expect("a directory"));
            let private = match PrivateMounts::enter() {
                Ok(private) => private,
                Err(stop) => return assert!(matches!(stop, Stop::Missing(_)), "{stop}"),
            };
            let point = private.mount_point("m").expect("a directory");
            mount(Some("none"), &point, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("tmpfs");
            assert_eq!(private.still_mounted().expect("readable"), 1);
            assert_eq!(all(), before, "seen outside");
            assert!(private.leave().expect("readable"));
            assert_eq!(std::env::current_dir().expect("a directory"), directory);
            assert!(!point.exists() && all() == before);
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn shared_mounts_are_copied_and_gone_with_the_namespaces() {
        std::thread::spawn(|| {
            let mut private = match PrivateMounts::enter() {
                Ok(private) => private,
                Err(stop) => return assert!(matches!(stop, Stop::Missing(_)), "{stop}"),
            };
            let point = private.mount_point("m").expect("a directory");
            private.share().expect("root");
            mount(Some("none"), &point, Some("ramfs"), MsFlags::empty(), None::<&str>).expect("ramfs");
            let here = private.still_mounted().expect("readable");
            let peer = private.peer.as_ref().expect("just shared");
            setns(peer, CloneFlags::CLONE_NEWNS).expect("ours");
            assert_eq!((here, private.still_mounted().expect("readable")), (1, 1));
            assert!(private.leave().expect("readable") && !point.exists());
        })
        .join()
        .expect("no panic");
    }
}
