//! Public certificates that have the name of a key: `/etc/ssl/certs` has about 140 files `*.pem`.
//!
//! Their place, their owner, their mode and their content all have to say that they are public. One alone
//! does not: keys lie in world-readable files by mistake, and a file of certificates in a project may get
//! its key later.

use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::restrict::follow;

/// Where systems keep the certificates of authorities: Debian and Gentoo, Arch, Fedora, SUSE.
const PLACES: [&str; 8] = [
    "/etc/ssl/certs",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/etc/ca-certificates",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/usr/share/pki",
    "/var/lib/ca-certificates",
];
/// The largest file that is read, in bytes. A bundle of all public authorities has about 220 KB.
const LARGEST: u64 = 2 << 20;
const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";
/// What openssl calls a certificate (`PEM_STRING_X509` and others in its pem.h).
const LABELS: [&[u8]; 3] = [b"CERTIFICATE", b"TRUSTED CERTIFICATE", b"X509 CERTIFICATE"];

/// Returns whether the path, which leads through no link except those of such a place, names certificates
/// of the system that every user of the host may read, and nothing else.
#[must_use]
pub fn is_public(path: &Path) -> bool {
    // The cheapest question first: most paths lie elsewhere.
    if !is_in_place(path) {
        return false;
    }
    let followed = follow(path);
    let links = followed.as_ref().map_or(&[][..], |followed| &followed.links);
    let end = followed.as_ref().map_or(path, |followed| followed.end.as_path());
    let ways = links.iter().map(Path::new).chain([end]);
    ways.into_iter().all(|way| is_in_place(way) && is_roots_way(way)) && holds_certificates(end)
}

fn is_in_place(path: &Path) -> bool {
    PLACES.iter().any(|place| path.starts_with(place))
}

/// Returns whether root alone decides what lies at a path, and everybody may look for it.
fn is_roots_way(path: &Path) -> bool {
    let is_roots = |above: &Path| {
        fs::symlink_metadata(above).is_ok_and(|found| is_roots(&found) && found.mode() & 0o001 != 0)
    };
    path.ancestors().skip(1).all(is_roots)
}

fn is_roots(found: &Metadata) -> bool {
    found.uid() == 0 && found.mode() & 0o022 == 0
}

fn holds_certificates(path: &Path) -> bool {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let Ok(file) = File::options().read(true).custom_flags(flags).open(path) else { return false };
    let is_public = |found: &Metadata| {
        found.is_file() && is_roots(found) && found.mode() & 0o004 != 0 && found.len() <= LARGEST
    };
    let mut bytes = Vec::new();
    file.metadata().is_ok_and(|found| is_public(&found))
        && file.take(LARGEST).read_to_end(&mut bytes).is_ok()
        && are_certificates(&bytes)
}

/// Returns whether this is certificates in PEM (RFC 7468), with comments between them, and nothing else.
fn are_certificates(bytes: &[u8]) -> bool {
    let mut open: Option<&[u8]> = None;
    let mut is_any = false;
    for line in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        let begins = label(line, BEGIN);
        let ends = label(line, END);
        open = match (open, begins, ends) {
            (None, Some(label), None) if LABELS.contains(&label) => Some(label),
            (Some(label), None, Some(end)) if label == end => {
                is_any = true;
                None
            }
            (Some(label), None, None) if line.iter().all(is_base64) => Some(label),
            (None, None, None) if line.is_empty() || line.starts_with(b"#") => None,
            _ => return false,
        };
    }
    is_any && open.is_none()
}

fn label<'l>(line: &'l [u8], start: &[u8]) -> Option<&'l [u8]> {
    line.strip_prefix(start)?.strip_suffix(DASHES)
}

fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB+/==\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";

    #[test]
    fn only_certificates_and_comments_are_certificates() {
        let trusted = CERTIFICATE.replace("CERTIFICATE", "TRUSTED CERTIFICATE");
        for public in [
            CERTIFICATE.to_owned(),
            CERTIFICATE.replace('\n', "\r\n"),
            format!("# GlobalSign\n{CERTIFICATE}\n\n{trusted}"),
            CERTIFICATE.trim_end().to_owned(),
        ] {
            assert!(are_certificates(public.as_bytes()), "{public}");
        }
        for other in [
            String::new(),
            "# GlobalSign\n".to_owned(),
            KEY.to_owned(),
            format!("{CERTIFICATE}{KEY}"),
            format!("{KEY}{CERTIFICATE}"),
            KEY.replace("PRIVATE KEY", "RSA PRIVATE KEY"),
            format!("{CERTIFICATE}c2VjcmV0"),
            format!("{CERTIFICATE}-----BEGIN CERTIFICATE-----\nMIIB"),
            CERTIFICATE.replace("MIIB", "Proc-Type: 4,ENCRYPTED"),
            CERTIFICATE.replace("END CERTIFICATE", "END PRIVATE KEY"),
            CERTIFICATE.replace("MIIB", KEY),
        ] {
            assert!(!are_certificates(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn certificates_of_others_are_not_public() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.pem");
        fs::write(&path, CERTIFICATE).unwrap();
        assert!(!is_public(&path));
        assert!(!is_public(Path::new("/etc/ssl/certs")));
        assert!(!is_public(Path::new("/etc/ssl/certs/none.pem")));
    }
}
