// SPDX-License-Identifier: GPL-2.0-or-later
//! An image that is there already: it is booted as it is, and what it says of itself is its
//! identity.

use super::config::canonical_sha256;
use super::error::BuildError;
use super::image::{Build, text};
use super::recipe::compiler_of;
use kernmark_validation::builds::{BuildIdentity, BuildRecord};
use kernmark_validation::plan::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Larger files are no kernel.
const LARGEST_IMAGE: u64 = 512 << 20;

/// An image and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyImage {
    /// The bootable image.
    pub image: PathBuf,
    /// Its .config.
    pub config: Option<PathBuf>,
    /// Its System.map.
    pub system_map: Option<PathBuf>,
}

impl ReadyImage {
    /// SHA-256 of the image.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn sha256(&self) -> Result<String, BuildError> {
        Ok(hex(&Sha256::digest(self.bytes()?)))
    }

    /// The build named `label`.
    ///
    /// # Errors
    /// A file cannot be read, or the image is no kernel for x86.
    pub fn load(&self, label: &str) -> Result<Build, BuildError> {
        let bytes = self.bytes()?;
        let banner = banner(&bytes).ok_or_else(|| {
            BuildError::NoTree(format!("{}: this is no bzImage of an x86 kernel", self.image.display()))
        })?;
        let config = self.config.as_deref().map_or(Ok(String::new()), text)?;
        let system_map = self.system_map.as_deref().map_or(Ok(String::new()), text)?;
        let unknown = || BuildIdentity::UNKNOWN.to_owned();
        let identity = BuildIdentity {
            compiler: if config.is_empty() { unknown() } else { compiler_of(&config) },
            config_sha256: if config.is_empty() { unknown() } else { canonical_sha256(&config, None) },
            timestamp: banner.timestamp,
            user: banner.user,
            host: banner.host,
            release_length: u32::try_from(banner.release.len()).unwrap_or(u32::MAX),
            release: banner.release,
        };
        let record = BuildRecord {
            label: label.to_owned(),
            patches: 0,
            source: format!("image {}", self.image.display()),
            identity,
            image_sha256: hex(&Sha256::digest(&bytes)),
            system_map_sha256: hex(&Sha256::digest(system_map.as_bytes())),
            same_image_as: None,
            allowed_differences: Vec::new(),
        };
        Ok(Build {
            record,
            image: self.image.clone(),
            system_map,
            config,
            objects: BTreeSet::new(),
            tampered: Vec::new(),
        })
    }

    fn bytes(&self) -> Result<Vec<u8>, BuildError> {
        read(&self.image).map_err(|e| BuildError::NoTree(format!("image {}: {e}", self.image.display())))
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.len() > LARGEST_IMAGE {
        return Err(std::io::Error::other("larger than any kernel"));
    }
    std::fs::read(path)
}

/// What an image says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Banner {
    release: String,
    user: String,
    host: String,
    timestamp: String,
}

/// `6.12.1 (user@host) #1 SMP date`, from the header of a bzImage (Documentation/arch/x86/boot.rst).
fn banner(bytes: &[u8]) -> Option<Banner> {
    if bytes.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let at = 0x200 + usize::from(u16::from_le_bytes([*bytes.get(0x20e)?, *bytes.get(0x20f)?]));
    let rest = bytes.get(at..)?;
    let end = rest.iter().take(512).position(|b| *b == 0)?;
    let text = String::from_utf8_lossy(&rest[..end]).into_owned();
    let (release, rest) = text.split_once(" (")?;
    let (who, rest) = rest.split_once(") ")?;
    let (user, host) = who.split_once('@')?;
    // What stands between the number of the build and its date says how it is configured.
    let date: Vec<&str> = rest
        .split_whitespace()
        .skip_while(|word| word.starts_with('#') || word.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .collect();
    Some(Banner {
        release: release.to_owned(),
        user: user.to_owned(),
        host: host.to_owned(),
        timestamp: date.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header that names `banner`.
    fn image(banner: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        bytes[0x300..0x300 + banner.len()].copy_from_slice(banner.as_bytes());
        bytes
    }

    #[test]
    fn an_image_says_what_it_is() {
        let place = tempfile::tempdir().expect("temporary directory");
        let path = place.path().join("bzImage");
        let text = "6.12.117-a (kernmark@kernmark) #1 SMP PREEMPT_DYNAMIC 2026-01-01";
        std::fs::write(&path, image(text)).expect("writable");
        let ready = ReadyImage { image: path.clone(), config: None, system_map: None };
        let build = ready.load("old").expect("a kernel");
        let identity = &build.record.identity;
        assert_eq!((identity.release.as_str(), identity.release_length), ("6.12.117-a", 10));
        assert_eq!((identity.user.as_str(), identity.host.as_str()), ("kernmark", "kernmark"));
        assert_eq!((identity.timestamp.as_str(), identity.compiler.as_str()), ("2026-01-01", "unknown"));
        assert_eq!(ready.sha256().expect("readable"), build.record.image_sha256);
        let config = place.path().join("config");
        std::fs::write(&config, "CONFIG_CC_VERSION_TEXT=\"gcc 12\"\n").expect("writable");
        let known = ReadyImage { config: Some(config), ..ready }.load("old").expect("a kernel");
        assert_eq!(known.record.identity.compiler, "gcc 12");
        assert_ne!(known.record.identity.config_sha256, "unknown");
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        for bytes in [&b"words"[..], &image("")[..0x210], &[0; 0x400], &image("no parentheses")] {
            assert_eq!(banner(bytes), None);
        }
    }
}
