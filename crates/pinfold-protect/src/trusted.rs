//! Files and directories of certificate authorities that the caller's variables and settings name.
//!
//! Programs on the host believe what is in them, and so does pinfold where it ends TLS. No sandbox adds an authority, whatever
//! links, further names and mounts lead to such a file.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::authority::{Effect, Reason, Why};
use pinfold_policy::path::has_system_authorities;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::own::Own;
use crate::restrict::{Protect, linked_inode, resolve};

/// Variables that name a bundle in place of a program's own: OpenSSL and Go, curl, Python's
/// requests and pip, git, cargo, AWS, Deno, gRPC, programs from Nix, npm (whose `cafile` is all that
/// it trusts, Node's own left out). Java has no such variable that it does not announce on standard
/// error, so only the system's store is masked for it.
pub const BUNDLE_VARIABLES: [&str; 11] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
    NPM_VARIABLE,
];

/// Names certificates in addition to a program's own: Node.
pub const OWN_VARIABLE: &str = "NODE_EXTRA_CA_CERTS";

/// Names directories instead of a file.
pub const DIRECTORIES_VARIABLE: &str = "SSL_CERT_DIR";

const NPM_VARIABLE: &str = "npm_config_cafile";
const NPM_PREFIX: &str = "npm_config_";

/// Variables whose files only programs on the host read: git (for proxies), Codex, httplib2, gcloud, Bundler, Vault, Hex, Yarn.
const FILES_OF_HOST: [&str; 8] = [
    "GIT_PROXY_SSL_CAINFO",
    "CODEX_CA_CERTIFICATE",
    "HTTPLIB2_CA_CERTS",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "BUNDLE_SSL_CA_CERT",
    "VAULT_CACERT",
    "HEX_CACERTS_PATH",
    "YARN_HTTPS_CA_FILE_PATH",
];
/// The same for directories: git and Vault.
const DIRECTORIES_OF_HOST: [&str; 2] = ["GIT_SSL_CAPATH", "VAULT_CAPATH"];

/// Files in one directory that are looked at. Systems have some 300.
const MOST: usize = 10_000;

/// A file or directory by which the caller's programs trust authorities.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Trusted {
    /// Absolute; it may be missing, and lead through links.
    path: PathBuf,
    is_directory: bool,
}

impl Trusted {
    /// Returns a file of certificates, or of settings that name one.
    #[must_use]
    pub fn file(path: &Path) -> Option<Self> {
        Self::of(path, false)
    }

    /// Returns the directories of a list.
    pub fn directories(list: OsString) -> impl Iterator<Item = Self> {
        let paths: Vec<PathBuf> = std::env::split_paths(&list).collect();
        paths.into_iter().filter_map(|path| Self::of(&path, true))
    }

    fn of(path: &Path, is_directory: bool) -> Option<Self> {
        // An empty one is no path.
        Some(Self { path: std::path::absolute(path).ok()?, is_directory })
    }

    /// Returns whether it is a directory whose files are looked at. Those of the system's own are an administrator's: some 300
    /// links, which programs read also without a variable.
    fn is_looked_into(&self) -> bool {
        self.is_directory
            && !fs::canonicalize(&self.path).is_ok_and(|real| has_system_authorities(&real))
    }

    /// Returns the names by which it is found: itself, and what links in a directory lead to.
    fn names(&self) -> Vec<PathBuf> {
        let mut names = vec![self.path.clone()];
        if self.is_looked_into() {
            let entries = fs::read_dir(&self.path).into_iter().flatten().flatten().take(MOST);
            names.extend(entries.map(|entry| entry.path()).filter(|path| path.is_symlink()));
        }
        names
    }

    /// Returns the files that it has.
    fn files(&self) -> Vec<PathBuf> {
        if !self.is_directory {
            return vec![self.path.clone()];
        }
        if !self.is_looked_into() {
            return Vec::new();
        }
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten().take(MOST);
        entries.map(|entry| entry.path()).collect()
    }
}

/// Returns a variable of the caller's. npm takes the names of its own in any case.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let upper = || value(&name.to_ascii_uppercase()).filter(|_| name.starts_with(NPM_PREFIX));
    value(name).or_else(upper)
}

/// Returns what variables name.
pub fn of_variables(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Trusted> {
    let files = BUNDLE_VARIABLES.into_iter().chain([OWN_VARIABLE]).chain(FILES_OF_HOST);
    let files = files.filter_map(&variable).filter_map(|file| Trusted::file(Path::new(&file)));
    let directories = [DIRECTORIES_VARIABLE].into_iter().chain(DIRECTORIES_OF_HOST);
    files.chain(directories.filter_map(&variable).flat_map(Trusted::directories)).collect()
}

/// Returns why no sandbox changes it.
#[must_use]
pub fn reason() -> Reason {
    let text = "a variable or setting of yours has programs trust the authorities in it".into();
    Reason { why: Why::HostExecutes, text, opt_in: None }
}

/// Keeps these files as they are, and those missing that a later session would read. `stays_empty` says of a root that nothing
/// may be made in it.
pub fn keep(
    protect: &mut Protect,
    trusted: &[Trusted],
    own: &Own,
    stays_empty: impl Fn(&Path) -> bool,
) {
    for one in trusted {
        let content = (!one.is_directory).then_some(&b""[..]);
        for name in one.names() {
            let way = resolve(&name);
            for link in way.links {
                if protect.writable_root(&link).is_some() {
                    protect.restrict(link, Effect::ReadOnly, reason());
                }
            }
            // In such a directory nobody makes anything else that leads elsewhere.
            for left in &way.left {
                keep_one(protect, left, None, &stays_empty);
            }
            for end in way.end.iter().flat_map(|end| own.all_names(end)) {
                keep_one(protect, &end, content, &stays_empty);
            }
        }
    }
}

fn keep_one(
    protect: &mut Protect,
    end: &Path,
    content: Option<&'static [u8]>,
    stays_empty: impl Fn(&Path) -> bool,
) {
    let Some(root) = protect.writable_root(end).filter(|root| *root != end) else { return };
    if fs::symlink_metadata(end).is_ok() || !stays_empty(root) {
        protect.restrict_missing(end, content, reason());
    }
}

/// Returns device and inode of each such file that has more than one name, and that the caller may write or make writable: no
/// name helps a sandbox to write to another one. A system may store all equal files as one, as Nix does.
#[must_use]
pub fn with_several_names(trusted: &[Trusted]) -> HashSet<(u64, u64)> {
    let real = |file: &PathBuf| {
        let real = fs::canonicalize(file).ok()?;
        let is_own = fs::metadata(&real).is_ok_and(|it| it.uid() == geteuid().as_raw());
        let is_writable = || accessat(CWD, &real, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
        (is_own || is_writable()).then(|| linked_inode(&real)).flatten()
    };
    trusted.iter().flat_map(Trusted::files).filter_map(|file| real(&file)).collect()
}

/// Returns what leads to these files now, and where it ends: all of it has to be what was there at the start.
#[must_use]
pub fn at_the_end(trusted: &[Trusted], own: &Own) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in trusted.iter().flat_map(Trusted::names) {
        let way = resolve(&name);
        found.extend(way.links);
        found.extend(way.end.iter().flat_map(|end| own.all_names(end)));
    }
    found.retain(|path| fs::symlink_metadata(path).is_ok());
    found
}

#[cfg(test)]
mod tests;
