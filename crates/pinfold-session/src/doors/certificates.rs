//! The session's certificate authority as programs inside trust it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, Mask, MaskKind, Place};
use pinfold_egress::{SessionAuthority, TrustRoots, TrustStores};
use pinfold_host::io::AtPath as _;
use pinfold_personal::caller_trust::{BUNDLES, CallerTrust, LARGEST};
use pinfold_policy::path::{HostPath, InsidePath, PathError};
use pinfold_policy::settings::Settings;
use pinfold_protect::trusted::{BUNDLE_VARIABLES, OWN_VARIABLE};
use pinfold_rootfs::system::Stack;
use pinfold_workspace::git::bytes;

use crate::RunError;

/// Where the stores are, inside.
const INSIDE: &str = "/run/pinfold/trust";

/// Bundles for Java: Debian, Fedora.
const JAVA: [&str; 2] = ["/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"];

/// Returns whether some host's TLS is ended outside, so that the sandbox needs another authority.
#[must_use]
pub(crate) fn is_needed(settings: &Settings) -> bool {
    // The answer to a question is said in the words of what the client speaks.
    let asks = settings.ask.connections.value;
    asks || !settings.secrets.is_empty() || settings.network.intercepts_any()
}

/// Returns whether variables point programs at stores that pinfold makes. Elsewhere the caller's own
/// count.
#[must_use]
pub(crate) fn names_stores(settings: &Settings, stack: Option<&Stack>) -> bool {
    is_needed(settings) || stack.is_some()
}

/// Returns the variables that point programs at the stores.
pub(crate) fn environment() -> impl Iterator<Item = (&'static str, String)> {
    let bundle = BUNDLE_VARIABLES.iter().map(|name| (*name, format!("{INSIDE}/bundle.pem")));
    bundle.chain([(OWN_VARIABLE, format!("{INSIDE}/own.pem"))])
}

/// Returns the host's own authorities, and the caller's, where the variables point to: for a system that
/// need not know them, behind a gateway whose authority only the host knows, or without a store at all.
///
/// # Errors
/// Returns no error: the paths are valid.
pub(crate) fn of_host(caller: &CallerTrust) -> Result<Vec<Entry>, PathError> {
    let bundle = BUNDLES.iter().find_map(|path| fs::canonicalize(path).ok());
    let certificates = caller.certificates();
    let place = match bundle {
        None if certificates.is_empty() => return Ok(Vec::new()),
        Some(bundle) if certificates.is_empty() => Place::ReadOnly(HostPath::new(bundle)?),
        bundle => {
            // Without the system's, programs trust the caller's alone.
            let system = bundle.and_then(|bundle| fs::read(bundle).ok()).unwrap_or_default();
            let content = [system.as_slice(), b"\n", &certificates].concat();
            Place::File { content, mode: 0o644, keep: false }
        }
    };
    let entry = |name: &str| {
        let path = InsidePath::new(Path::new(INSIDE).join(name))?;
        Ok(Entry { path, place: place.clone() })
    };
    ["bundle.pem", "own.pem"].into_iter().map(entry).collect()
}

/// The directory that the sandbox sees; it is filled when the authority is made, which must not be
/// before init is cloned.
#[derive(Debug)]
pub(crate) struct Trust {
    directory: PathBuf,
    /// The session's system; `None` for this machine's own.
    stack: Option<Stack>,
    /// What the caller trusts besides.
    caller: CallerTrust,
}

impl Trust {
    /// Makes certificates in a session's private directory.
    pub(crate) fn new(private: &Path, stack: Option<Stack>, caller: CallerTrust) -> Self {
        Self { directory: private.join("trust"), stack, caller }
    }

    /// Returns the authorities that vouch for servers whose TLS is ended outside: those that vouch for the
    /// others inside. What variables name is read now.
    pub(crate) fn roots(&self) -> TrustRoots {
        TrustRoots::SystemAnd(self.caller.certificates()).read_named()
    }

    /// Makes the directory. It has to be there when the boundary is launched.
    ///
    /// # Errors
    /// Returns the error of `mkdir(2)`.
    pub(crate) fn make(&self) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o755).create(&self.directory)
    }

    /// Returns the directory's place inside.
    ///
    /// # Errors
    /// Returns no error: the paths are valid.
    pub(crate) fn entry(&self) -> Result<Entry, RunError> {
        let host = HostPath::new(&self.directory).map_err(RunError::path)?;
        let path = InsidePath::from_static(INSIDE);
        Ok(Entry { path, place: Place::ReadOnly(host) })
    }

    /// Writes the stores, and says what they cover.
    ///
    /// # Errors
    /// Returns the error of writing the files.
    pub(crate) fn fill(&self, authority: &SessionAuthority) -> io::Result<Vec<Mask>> {
        let known = self.known()?;
        let stores = TrustStores::new(authority, &known);
        // Node knows the usual authorities itself.
        let own = [stores.own.as_bytes(), self.caller.certificates().as_slice()].concat();
        fs::write(self.directory.join("own.pem"), own)?;
        fs::write(self.directory.join("bundle.pem"), stores.bundle)?;
        fs::write(self.directory.join("java.jks"), stores.java)?;
        let bundles = BUNDLES.iter().filter_map(|path| self.mask(path, "bundle.pem"));
        let java = JAVA.iter().filter_map(|path| self.mask(path, "java.jks"));
        let mut masks: Vec<Mask> = bundles.chain(java).collect();
        masks.sort_by(|one, other| one.path.cmp(&other.path));
        masks.dedup_by(|one, other| one.path == other.path);
        Ok(masks)
    }

    /// Returns the authorities that this machine trusts, and those of the session's system. A bundle
    /// that is there and cannot be read is an error: the sandbox would trust nobody but pinfold, and
    /// could not say why.
    fn known(&self) -> io::Result<Vec<u8>> {
        const MOST: u64 = LARGEST + 1;
        let host = BUNDLES.iter().map(Path::new).find(|path| path.exists()).map(|path| {
            let mut bytes = Vec::new();
            let read = File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
            (path, read.map(|_| bytes))
        });
        let own = self.stack.as_ref().and_then(|stack| {
            let mut paths = BUNDLES.iter().map(Path::new);
            paths.find_map(|path| Some((path, stack.read(path, MOST).transpose()?)))
        });
        let mut known = Vec::new();
        for (path, bytes) in host.into_iter().chain(own) {
            let bytes = bytes.and_then(|bytes| match bytes.len() as u64 {
                MOST.. => Err(io::ErrorKind::FileTooLarge.into()),
                _ => Ok(bytes),
            });
            known.extend(bytes.at("read", path)?);
            known.push(b'\n');
        }
        known.extend(self.caller.certificates());
        Ok(known)
    }

    /// Returns a mask over a file of the session's system, or over what a link there leads to.
    fn mask(&self, path: &str, by: &str) -> Option<Mask> {
        let file = match &self.stack {
            Some(stack) => stack.locate(Path::new(path))?.0,
            None => fs::canonicalize(path).ok()?,
        };
        let by = bytes(&Path::new(INSIDE).join(by));
        Some(Mask { path: bytes(&file), kind: MaskKind::Replace(by) })
    }
}
