//! Which authorities vouch for a server.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::path::has_system_authorities;
use rustix::fs::OFlags;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::Failure;

/// The most that is read of a file of certificates, in bytes; this machine's bundle has some 200 KB.
const LARGEST: usize = 16 << 20;

/// Which authorities vouch for a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TrustRoots {
    /// Those of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR` where set. They are read
    /// when the first TLS connection is made.
    #[default]
    System,
    /// The same and these, in PEM (RFC 7468).
    SystemAnd(Vec<u8>),
    /// What [`Self::read_named`] has read.
    Named {
        /// Certificates in PEM.
        pem: Vec<u8>,
        /// What could not be read, in words.
        problem: String,
    },
    /// These and no others, each a certificate in DER form.
    Only(Vec<Vec<u8>>),
}

impl TrustRoots {
    /// Returns the system's, and those that `NODE_EXTRA_CA_CERTS` adds, as agents on the host have them. What
    /// variables name is read now: a sandbox may be able to write it later.
    pub(super) fn of_environment() -> Self {
        let roots = match std::env::var_os("NODE_EXTRA_CA_CERTS") {
            // Node goes on without one that it cannot read.
            Some(path) => Self::SystemAnd(of_file(Path::new(&path)).unwrap_or_default()),
            None => Self::System,
        };
        roots.read_named()
    }

    /// Returns the same authorities, with those that `SSL_CERT_FILE` and `SSL_CERT_DIR` name read now. They
    /// may lie where a sandbox can write. No sandbox can write to the system's own, which are read later, also if a
    /// variable names them: a hundred files cost each start some 10 ms.
    #[must_use]
    pub fn read_named(self) -> Self {
        self.read_variables(|name| std::env::var_os(name))
    }

    fn read_variables(self, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let (file, directories) = (variable("SSL_CERT_FILE"), variable("SSL_CERT_DIR"));
        let added = match self {
            Self::System => Vec::new(),
            Self::SystemAnd(pem) => pem,
            read @ (Self::Named { .. } | Self::Only(_)) => return read,
        };
        let directories = directories.unwrap_or_default();
        let directories: Vec<PathBuf> = std::env::split_paths(&directories)
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        let file: Option<PathBuf> = file.map(PathBuf::from);
        if file.iter().chain(&directories).all(|path| is_of_system(path)) {
            return if added.is_empty() { Self::System } else { Self::SystemAnd(added) };
        }
        let (mut pem, mut problem) = (Vec::new(), String::new());
        for path in file.into_iter().chain(directories.into_iter().flat_map(files_of)) {
            match of_file(&path) {
                Ok(read) if pem.len() + read.len() <= LARGEST => {
                    pem.extend([&read[..], b"\n"].concat())
                }
                Ok(_) => problem = format!(" ({}: too large)", path.display()),
                Err(error) => problem = format!(" ({}: {error})", path.display()),
            }
        }
        pem.extend(added);
        Self::Named { pem, problem }
    }

    /// Returns the authorities, read.
    ///
    /// # Errors
    /// Returns an error if no certificate is found.
    pub fn store(&self) -> std::io::Result<RootCertStore> {
        self.load().map_err(std::io::Error::other)
    }

    pub(super) fn load(&self) -> Result<RootCertStore, Failure> {
        let (certificates, problem) = match self {
            Self::System => of_system(),
            Self::SystemAnd(pem) => {
                let (mut certificates, problem) = of_system();
                certificates.extend(CertificateDer::pem_slice_iter(pem).flatten());
                (certificates, problem)
            }
            Self::Named { pem, problem } => {
                (CertificateDer::pem_slice_iter(pem).flatten().collect(), problem.clone())
            }
            Self::Only(der) => {
                (der.iter().cloned().map(CertificateDer::from).collect(), String::new())
            }
        };
        let mut store = RootCertStore::empty();
        // A system's bundle may hold certificates that rustls does not read; they vouch for
        // nobody then.
        let (added, _ignored) = store.add_parsable_certificates(certificates);
        if added == 0 { Err(Failure::NoRoots(problem)) } else { Ok(store) }
    }
}

/// Returns the certificates of the system, and what went wrong with them.
fn of_system() -> (Vec<CertificateDer<'static>>, String) {
    let loaded = rustls_native_certs::load_native_certs();
    let problem = loaded.errors.first().map(|error| format!(" ({error})"));
    (loaded.certs, problem.unwrap_or_default())
}

/// Returns whether a file or directory is one of the system's own, wherever links lead.
fn is_of_system(path: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|real| has_system_authorities(&real))
}

/// Returns the files of a directory, in the order of their names.
fn files_of(directory: PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

/// Returns the start of a file of certificates.
///
/// # Errors
/// Returns the error of open(2) or read(2), or says that it is no regular file.
fn of_file(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let length = usize::try_from(found.len()).unwrap_or(LARGEST).min(LARGEST);
    let mut pem = Vec::with_capacity(length + 1);
    file.take(LARGEST as u64).read_to_end(&mut pem)?;
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_endless_or_not_there_costs_little() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        for path in ["/no/such/file", "/dev/zero", "/proc", "", fifo.to_str().unwrap()] {
            assert!(of_file(Path::new(path)).is_err(), "{path}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        assert_eq!(of_file(file.path()).unwrap().len(), LARGEST);
    }

    #[test]
    fn files_that_variables_name_are_read_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let (file, below) = (directory.path().join("file"), directory.path().join("below"));
        std::fs::create_dir(&below).unwrap();
        std::fs::write(&file, "one").unwrap();
        std::fs::write(below.join("1.0"), "two").unwrap();
        std::os::unix::fs::symlink("/dev/zero", below.join("2.0")).unwrap();
        let both = |name: &str| Some(if name == "SSL_CERT_FILE" { &file } else { &below }.into());
        let named = |text: &str| {
            let (pem, problem) = (text.as_bytes().to_vec(), String::new());
            TrustRoots::Named { pem, problem }
        };
        assert_eq!(TrustRoots::System.read_variables(both), named("one\ntwo\n"));
        let added = TrustRoots::SystemAnd(b"three".to_vec());
        assert_eq!(added.clone().read_variables(both), named("one\ntwo\nthree"));
        assert_eq!(added.clone().read_variables(|_| None), added);
        // No sandbox can write to these: what is not read now is read when it is needed.
        let of_system = |_: &str| Some("/etc/ssl".into());
        assert_eq!(added.clone().read_variables(of_system), added);
        assert_eq!(TrustRoots::System.read_variables(of_system), TrustRoots::System);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/etc/ssl", &link).unwrap();
        let other = |name: &str| Some(if name == "SSL_CERT_DIR" { &link } else { &file }.into());
        assert!(matches!(added.read_variables(other), TrustRoots::Named { .. }));
        let missing = |name: &str| (name == "SSL_CERT_FILE").then(|| "/no/such/file".into());
        let failure = TrustRoots::System.read_variables(missing).load().unwrap_err().to_string();
        assert!(failure.contains("set SSL_CERT_FILE (/no/such/file: No such file"), "{failure}");
    }
}
