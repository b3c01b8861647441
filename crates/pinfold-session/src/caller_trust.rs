//! Certificate authorities that the caller's variables name, such as a company's.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{Escaped, InsidePath, PathError};
use pinfold_terminal::notify;

use crate::trust::{BUNDLE_VARIABLES, LARGEST, OWN_VARIABLE};

/// Where the files are, inside.
const INSIDE: &str = "/run/pinfold/caller-trust";
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
const END: &[u8] = b"-----END CERTIFICATE-----";

/// What one variable of the caller's names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authorities {
    variable: &'static str,
    /// Certificates in PEM (RFC 7468), and nothing else.
    certificates: Vec<u8>,
}

/// What all of the caller's variables name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerTrust(Vec<Authorities>);

impl CallerTrust {
    /// Reads the files that the caller's variables name. One that cannot be read does not count, and a note
    /// says so.
    #[must_use]
    pub fn find() -> Self {
        Self::of(|name| std::env::var_os(name))
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let names = BUNDLE_VARIABLES.into_iter().chain([OWN_VARIABLE]);
        let found = names.filter_map(|name| {
            let path = variable(name).filter(|path| !path.is_empty())?;
            match certificates(&path) {
                Ok(certificates) => Some(Authorities { variable: name, certificates }),
                Err(error) => {
                    let path = Escaped(Path::new(&path));
                    notify!("pinfold: note: {name} does not count in the sandbox: {path}: {error}");
                    None
                }
            }
        });
        Self(found.collect())
    }

    /// Every certificate, for stores that have the session's own authority, too.
    pub(crate) fn certificates(&self) -> Vec<u8> {
        self.0.iter().flat_map(|one| one.certificates.iter().copied()).collect()
    }

    /// The variables for a session without an authority of its own: each names a file with what the
    /// caller's names.
    pub fn environment(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().map(|one| (one.variable, place(one.variable)))
    }

    /// The files that these variables name.
    ///
    /// # Errors
    /// Never: the paths are valid.
    pub fn entries(&self) -> Result<Vec<Entry>, PathError> {
        let entry = |one: &Authorities| {
            let content = one.certificates.clone();
            let place = Place::File { content, mode: 0o644, keep: false };
            Ok(Entry { path: InsidePath::new(self::place(one.variable))?, place })
        };
        self.0.iter().map(entry).collect()
    }
}

fn place(variable: &str) -> String {
    format!("{INSIDE}/{variable}.pem")
}

/// The certificates of a file, without what else is in it: a key may stand beside them.
///
/// # Errors
/// Returns the error of open(2) or read(2), or says why it is no such file.
fn certificates(path: &OsStr) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let found = only_certificates(&bytes);
    if found.is_empty() { Err(io::Error::other("it has no certificate")) } else { Ok(found) }
}

fn only_certificates(bytes: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    let mut block: Option<Vec<u8>> = None;
    for line in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line == BEGIN {
            block = Some(Vec::new());
        }
        let Some(open) = &mut block else { continue };
        open.extend_from_slice(line);
        open.push(b'\n');
        if line == END {
            found.append(open);
            block = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";

    fn found(content: &str) -> CallerTrust {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        std::fs::write(&path, content).unwrap();
        let value = |name: &str| (name == OWN_VARIABLE).then(|| path.clone().into_os_string());
        CallerTrust::of(value)
    }

    #[test]
    fn certificates_enter_and_keys_do_not() {
        let trust = found(&format!("# mine\r\n{CERTIFICATE}{KEY}{CERTIFICATE}"));
        assert_eq!(trust.certificates(), format!("{CERTIFICATE}{CERTIFICATE}").as_bytes());
        let place = format!("{INSIDE}/{OWN_VARIABLE}.pem");
        assert_eq!(trust.environment().collect::<Vec<_>>(), [(OWN_VARIABLE, place)]);
        assert_eq!(trust.entries().unwrap().len(), 1);
    }

    #[test]
    fn a_file_without_a_whole_certificate_does_not_count() {
        for content in ["", KEY, "-----BEGIN CERTIFICATE-----\nMIIB\n"] {
            assert_eq!(found(content), CallerTrust::default(), "{content}");
        }
        let missing = |_: &str| Some(OsString::from("/no/such/file"));
        assert_eq!(CallerTrust::of(missing), CallerTrust::default());
        assert_eq!(CallerTrust::of(|_| None), CallerTrust::default());
    }
}
