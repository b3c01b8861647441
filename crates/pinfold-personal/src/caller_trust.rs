//! Certificate authorities that the caller's variables and settings name, such as a company's.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, Place};
use pinfold_git::config::Setting;
use pinfold_host::directories::Places;
use pinfold_policy::path::{Escaped, InsidePath, PathError, has_system_authorities};
use pinfold_protect::trusted::{
    self, BUNDLE_VARIABLES, DIRECTORIES_VARIABLE, OWN_VARIABLE, Trusted,
};
use pinfold_terminal::notify;
use rustix::fs::OFlags;

mod others;
mod settings;

use settings::{Named, Source};

/// Bundles of trusted certificates: Debian and Arch, Fedora, Alpine, SUSE. The first that is
/// there is what a system goes by; all are masked.
pub const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// The largest bundle that is read, in bytes: an image's can be anything; this machine's have about
/// 200 KB.
pub const LARGEST: u64 = 16 << 20;

/// Where the files are, inside.
const INSIDE: &str = "/run/pinfold/caller-trust";
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
const END: &[u8] = b"-----END CERTIFICATE-----";

/// Certificates that variables or settings of the caller's name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authorities {
    /// Who names them.
    sources: Vec<Source>,
    /// Where the file really lies on the host; none for certificates that stand in a setting.
    path: Option<PathBuf>,
    /// Certificates in PEM (RFC 7468), and nothing else; none for the host's own bundle, which sessions
    /// have at its own path.
    certificates: Option<Vec<u8>>,
}

/// What all of the caller's variables and settings name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerTrust(Vec<Authorities>);

/// Returns the files and directories of certificates that the caller's settings name, whether or not they are there, and the
/// files of these settings. Those of variables are known to the guard of a workspace.
#[must_use]
pub fn named_by_settings(places: &Places) -> Vec<Trusted> {
    let settings = settings::find(places, trusted::variable);
    let files = settings.named.into_iter().filter_map(|(_, named)| match named {
        Named::File(path) => Some(path),
        Named::Text(_) => None,
    });
    let files = files.chain(settings.files).filter_map(|path| Trusted::file(&path));
    files
        .chain(settings.directories.into_iter().flat_map(|(_, list)| Trusted::directories(list)))
        .chain(others::find(places, trusted::variable))
        .collect()
}

impl CallerTrust {
    /// Reads the files that the caller's variables and settings name, each once. One that cannot be read does
    /// not count, and a note says so.
    #[must_use]
    pub fn find(places: &Places) -> Self {
        let variable = trusted::variable;
        let settings = settings::find(places, variable);
        let known = settings.directories.iter().map(|(source, value)| (source.to_string(), value));
        let own =
            variable(DIRECTORIES_VARIABLE).map(|value| (DIRECTORIES_VARIABLE.to_owned(), value));
        let own = own.iter().map(|(name, value)| (name.clone(), value));
        for (name, _) in own.chain(known).filter(|(_, value)| has_directories_of_its_own(value)) {
            notify!(
                "pinfold: note: {name} does not count in the sandbox; name a file of certificates by \
                 SSL_CERT_FILE"
            );
        }
        Self::of(variable, settings.named)
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>, settings: Vec<(Source, Named)>) -> Self {
        let variables = BUNDLE_VARIABLES.into_iter().chain([OWN_VARIABLE]).filter_map(|name| {
            let path = variable(name).filter(|path| !path.is_empty())?;
            Some((Source::Variable(name), Named::File(path.into())))
        });
        let mut trust = Self::default();
        // A variable wins over the setting that says the same.
        let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
        let settings = settings.into_iter().filter(|(it, _)| !it.variable().is_some_and(is_set));
        for (source, named) in variables.chain(settings) {
            if let Err(error) = trust.add(source.clone(), named) {
                notify!("pinfold: note: {source} does not count in the sandbox: {error}");
            }
        }
        trust
    }

    /// Adds what one source names.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    fn add(&mut self, source: Source, named: Named) -> Result<(), String> {
        let path = match named {
            Named::Text(text) => {
                let certificates = some_certificates(&text).map_err(|error| error.to_string())?;
                let certificates = Some(certificates);
                self.0.push(Authorities { sources: vec![source], path: None, certificates });
                return Ok(());
            }
            Named::File(path) => path,
        };
        let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if let Some(known) = self.0.iter_mut().find(|known| known.path.as_ref() == Some(&real)) {
            known.sources.push(source);
            return Ok(());
        }
        let is_of_host =
            real.to_str().is_some_and(|real| BUNDLES.contains(&real)) && real.is_file();
        let certificates = if is_of_host { Ok(None) } else { certificates(&real).map(Some) };
        let certificates =
            certificates.map_err(|error| format!("{}: {error}", Escaped(path.as_path())))?;
        self.0.push(Authorities { sources: vec![source], path: Some(real), certificates });
        Ok(())
    }

    /// Returns every certificate that is not the host's own, for stores that have the session's own
    /// authority and the host's, too.
    #[must_use]
    pub fn certificates(&self) -> Vec<u8> {
        self.0.iter().flat_map(|one| one.certificates.iter().flatten().copied()).collect()
    }

    /// Returns each source, with the file inside that has what it names.
    fn placed(&self) -> impl Iterator<Item = (&Source, String)> {
        self.0.iter().enumerate().flat_map(|(number, one)| {
            let place = match (&one.certificates, &one.path) {
                (None, Some(path)) => path.display().to_string(),
                _ => place(number),
            };
            one.sources.iter().map(move |source| (source, place.clone()))
        })
    }

    /// Returns the variables for a session without an authority of its own: each names a file with what
    /// the caller's names.
    pub fn environment(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.placed().filter_map(|(source, place)| Some((source.variable()?, place)))
    }

    /// Returns the settings of git's for such a session. They may be for one URL, which no variable is.
    pub fn git_settings(&self) -> impl Iterator<Item = Setting> {
        self.placed().filter_map(|(source, place)| match source {
            Source::Git(key) => Some(Setting { key: key.clone(), value: Some(place.into_bytes()) }),
            Source::Variable(_) | Source::Npm | Source::Pip(_) => None,
        })
    }

    /// Returns the files that such a session has for them.
    ///
    /// # Errors
    /// Returns no error: the paths are valid.
    pub fn entries(&self) -> Result<Vec<Entry>, PathError> {
        let entry = |(number, one): (usize, &Authorities)| {
            let content = one.certificates.clone()?;
            let place = Place::File { content, mode: 0o644, keep: false };
            Some(InsidePath::new(self::place(number)).map(|path| Entry { path, place }))
        };
        self.0.iter().enumerate().filter_map(entry).collect()
    }
}

fn place(number: usize) -> String {
    format!("{INSIDE}/{number}.pem")
}

/// Returns whether a list names other directories of authorities than the system's.
fn has_directories_of_its_own(named: &OsStr) -> bool {
    let mut directories = std::env::split_paths(named).filter(|path| path.has_root());
    directories.any(|path| !has_system_authorities(&path))
}

/// Returns the certificates of a file, without what else is in it: it may hold a key as well.
///
/// # Errors
/// Returns the error of open(2) or read(2), or says why it is no such file.
fn certificates(path: &Path) -> io::Result<Vec<u8>> {
    some_certificates(&read(path)?)
}

/// Reads a regular file that is not too large.
///
/// # Errors
/// Returns the error of open(2) or read(2), or says why it is no such file.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::with_capacity(found.len().min(LARGEST) as usize + 1);
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

fn some_certificates(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let found = only_certificates(bytes);
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
        } else if line != BEGIN && !line.iter().all(|byte| is_base64(*byte)) {
            // A key, or what else somebody has put there.
            block = None;
        }
    }
    found
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

#[cfg(test)]
mod tests;
