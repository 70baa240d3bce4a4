// SPDX-License-Identifier: GPL-2.0-or-later
//! Paths inside a kernel tree, as text: what is safe, what is code.

/// What a file of the tree is to the kernel image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// C, assembly or Rust source: an object comes of it.
    Source,
    /// A header: compiled with whatever includes it.
    Header,
    /// A Makefile, Kbuild or Kconfig file.
    Build,
    /// Nothing of it is in the kernel image.
    Other,
}

/// Whether `path` is relative, stays inside the tree and is printable.
pub fn is_inside_tree(path: &str) -> bool {
    !path.is_empty()
        && path.len() <= 4096
        && !path.chars().any(|c| c.is_control() || c == '\\')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && path.split('/').next() != Some(".git")
}

/// What kind of file this is, judged by its name and place.
pub fn kind(path: &str) -> FileKind {
    let top = path.split('/').next().unwrap_or_default();
    let name = file_name(path);
    if matches!(top, "Documentation" | "tools" | "scripts" | "LICENSES") {
        return FileKind::Other;
    }
    if matches!(name, "Makefile" | "Kbuild") || name.starts_with("Makefile.") || name.starts_with("Kconfig") {
        return FileKind::Build;
    }
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("c" | "S" | "rs") => FileKind::Source,
        Some("h") => FileKind::Header,
        _ => FileKind::Other,
    }
}

/// The architecture directory a path lies in: `arm64` for `arch/arm64/mm/fault.c`.
pub fn architecture(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("arch/")?.split_once('/')?;
    (!rest.is_empty()).then_some(name)
}

/// The part before the last slash; empty at the top.
pub fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// The part behind the last slash.
pub fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// `directory` and `name` with a slash between; resolves `.` and `..` components.
pub fn join(directory: &str, name: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').filter(|p| !p.is_empty()).collect();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_paths_are_told_apart() {
        for good in ["fs/namei.c", "Kconfig", "a b/c", "..x/y"] {
            assert!(is_inside_tree(good), "{good}");
        }
        for bad in ["", "/etc/passwd", "../x", "a/../../b", "a//b", "a/./b", "x\n", ".git/config", "a\\b"] {
            assert!(!is_inside_tree(bad), "{bad}");
        }
    }

    #[test]
    fn kinds_follow_name_and_place() {
        for (path, expected) in [
            ("fs/namei.c", FileKind::Source),
            ("arch/x86/entry/entry_64.S", FileKind::Source),
            ("include/linux/fs.h", FileKind::Header),
            ("fs/Kconfig", FileKind::Build),
            ("drivers/net/Kconfig.debug", FileKind::Build),
            ("fs/kernfs/Makefile", FileKind::Build),
            ("Documentation/x.c", FileKind::Other),
            ("tools/perf/perf.c", FileKind::Other),
            ("MAINTAINERS", FileKind::Other),
        ] {
            assert_eq!(kind(path), expected, "{path}");
        }
        assert_eq!(architecture("arch/arm64/mm/fault.c"), Some("arm64"));
        assert_eq!(architecture("arch/Kconfig"), None);
        assert_eq!(join("drivers/net", "../misc/a.c"), "drivers/misc/a.c");
    }
}
