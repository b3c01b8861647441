//! Files of certificate authorities that the caller's variables name.
//!
//! Programs on the host believe what is in them, and so does pinfold where it ends TLS. No sandbox adds an authority.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use pinfold_policy::authority::{Reason, Why};
use pinfold_protect::restrict::follow;

use super::findings::holds_nothing;
use super::state::Guard;

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
    "npm_config_cafile",
];

/// Names certificates in addition to a program's own: Node.
pub const OWN_VARIABLE: &str = "NODE_EXTRA_CA_CERTS";

/// Names directories instead of a file.
pub const DIRECTORIES_VARIABLE: &str = "SSL_CERT_DIR";

impl Guard {
    /// Keeps files of certificates that settings of the caller's name, as those that variables name are kept.
    pub fn keep_trusted(&mut self, files: Vec<PathBuf>) {
        self.trusted = files;
    }

    /// Keeps the files that variables and settings of the caller's name as they are, and those missing that a later session would read.
    pub(super) fn named_authorities(&mut self, variable: impl Fn(&str) -> Option<OsString>) {
        let files = BUNDLE_VARIABLES.into_iter().chain([OWN_VARIABLE]);
        let files = files.filter_map(&variable).map(|file| (PathBuf::from(file), Some(&b""[..])));
        let directories = variable(DIRECTORIES_VARIABLE).unwrap_or_default();
        let directories = std::env::split_paths(&directories).map(|directory| (directory, None));
        let settings = std::mem::take(&mut self.trusted);
        let settings = settings.into_iter().map(|file| (file, Some(&b""[..])));
        for (named, content) in files.chain(settings).chain(directories) {
            // An empty one is no path.
            if let Ok(path) = std::path::absolute(&named) {
                self.keep_authorities(&path, content);
            }
        }
    }

    fn keep_authorities(&mut self, path: &Path, content: Option<&'static [u8]>) {
        let end = follow(path).map_or_else(|| path.to_owned(), |followed| followed.end);
        let Some(root) = self.protect.writable_root(&end).filter(|root| *root != end) else {
            return;
        };
        // A project that holds nothing yet stays empty.
        let is_there = fs::symlink_metadata(&end).is_ok();
        if is_there || !holds_nothing(root) {
            let text =
                "a variable or setting of yours has programs trust the authorities in it".into();
            let reason = Reason { why: Why::HostExecutes, text, opt_in: None };
            self.protect.restrict_missing(path, content, reason);
        }
    }
}
