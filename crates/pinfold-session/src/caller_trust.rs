//! Certificate authorities that the caller's variables name, such as a company's.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{Escaped, InsidePath, PathError};
use pinfold_terminal::notify;

use crate::doors::certificates::{BUNDLE_VARIABLES, BUNDLES, LARGEST, OWN_VARIABLE};

/// Where the files are, inside.
const INSIDE: &str = "/run/pinfold/caller-trust";
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
const END: &[u8] = b"-----END CERTIFICATE-----";

/// A file that variables of the caller's name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authorities {
    variables: Vec<&'static str>,
    /// Where the file really lies on the host.
    path: PathBuf,
    /// Certificates in PEM (RFC 7468), and nothing else; none for the host's own bundle, which sessions
    /// have at its own path.
    certificates: Option<Vec<u8>>,
}

/// What all of the caller's variables name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CallerTrust(Vec<Authorities>);

impl CallerTrust {
    /// Reads the files that the caller's variables name, each once. One that cannot be read does not count,
    /// and a note says so.
    #[must_use]
    pub(crate) fn find() -> Self {
        Self::of(|name| std::env::var_os(name))
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut found: Vec<Authorities> = Vec::new();
        for name in BUNDLE_VARIABLES.into_iter().chain([OWN_VARIABLE]) {
            let Some(named) = variable(name).filter(|path| !path.is_empty()) else { continue };
            let named = Path::new(&named);
            let path = fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
            if let Some(known) = found.iter_mut().find(|known| known.path == path) {
                known.variables.push(name);
                continue;
            }
            let is_of_host = path.to_str().is_some_and(|path| BUNDLES.contains(&path));
            let certificates =
                if is_of_host && path.is_file() { Ok(None) } else { certificates(&path).map(Some) };
            match certificates {
                Ok(certificates) => {
                    found.push(Authorities { variables: vec![name], path, certificates });
                }
                Err(error) => {
                    let path = Escaped(named);
                    notify!("pinfold: note: {name} does not count in the sandbox: {path}: {error}");
                }
            }
        }
        Self(found)
    }

    /// Returns every certificate that is not the host's own, for stores that have the session's own
    /// authority and the host's, too.
    pub(crate) fn certificates(&self) -> Vec<u8> {
        self.0.iter().flat_map(|one| one.certificates.iter().flatten().copied()).collect()
    }

    /// Returns the variables for a session without an authority of its own: each names a file with what
    /// the caller's names.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().flat_map(|one| {
            let place = match one.certificates {
                Some(_) => place(one.variables[0]),
                None => one.path.display().to_string(),
            };
            one.variables.iter().map(move |variable| (*variable, place.clone()))
        })
    }

    /// Returns the files that these variables name and that the session does not have.
    ///
    /// # Errors
    /// Returns no error: the paths are valid.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, PathError> {
        let entry = |one: &Authorities| {
            let content = one.certificates.clone()?;
            let place = Place::File { content, mode: 0o644, keep: false };
            Some(InsidePath::new(self::place(one.variables[0])).map(|path| Entry { path, place }))
        };
        self.0.iter().filter_map(entry).collect()
    }
}

fn place(variable: &str) -> String {
    format!("{INSIDE}/{variable}.pem")
}

/// Returns the certificates of a file, without what else is in it: it may hold a key as well.
///
/// # Errors
/// Returns the error of open(2) or read(2), or says why it is no such file.
fn certificates(path: &Path) -> io::Result<Vec<u8>> {
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
    fn a_file_that_several_variables_name_enters_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        std::fs::write(&path, CERTIFICATE).unwrap();
        let trust = CallerTrust::of(|_| Some(path.clone().into_os_string()));
        assert_eq!(trust.certificates(), CERTIFICATE.as_bytes());
        assert_eq!(trust.entries().unwrap().len(), 1);
        assert_eq!(trust.environment().count(), BUNDLE_VARIABLES.len() + 1);
        let mut places: Vec<String> = trust.environment().map(|(_, place)| place).collect();
        places.dedup();
        assert_eq!(places, [format!("{INSIDE}/{}.pem", BUNDLE_VARIABLES[0])]);
    }

    #[test]
    fn the_hosts_own_bundle_is_named_where_it_lies() {
        let Some(bundle) = BUNDLES.into_iter().find(|bundle| {
            std::fs::canonicalize(bundle).is_ok_and(|real| real == Path::new(bundle))
        }) else {
            return;
        };
        let trust = CallerTrust::of(|_| Some(bundle.into()));
        assert!(trust.certificates().is_empty() && trust.entries().unwrap().is_empty());
        assert!(trust.environment().all(|(_, place)| place == bundle));
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
