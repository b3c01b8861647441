//! Root by name: what package managers need to find in a session whose user is called root.

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{InsidePath, PathError};

/// What its programs find in the environment. apt drops its rights for downloads, which it cannot where there is
/// only one user.
pub(crate) const VARIABLES: [(&str, &str); 3] =
    [("USER", "root"), ("LOGNAME", "root"), ("APT_CONFIG", APT_CONFIG)];

/// A file of apt's for the session alone.
const APT_CONFIG: &str = "/run/pinfold/apt.conf";

/// For apt on this machine's own system, of whose /etc a session has parts: a file of configuration that
/// is not there gets the new package's content, unasked (dpkg(1)).
const ON_HOST: &str = "DPkg::Options { \"--force-confdef\"; \"--force-confold\"; \
                       \"--force-confmiss\"; };\n";

/// What apt calls before it replaces a package of this machine's own system.
const OWN_INSTALLED: &str = "/run/pinfold/own-installed";

/// Where scripts of packages take locks, and directories that packages have, and are not installed where these cannot be made.
pub(crate) const DIRECTORIES: [&str; 3] = ["/run/lock", "/media", "/mnt"];

/// Returns the files for apt.
pub(crate) fn files(over_host: bool) -> Result<Vec<Entry>, PathError> {
    let mut config = String::from("APT::Sandbox::User \"root\";\n");
    let mut files = Vec::new();
    if over_host {
        config += ON_HOST;
        config += &format!("DPkg::Pre-Install-Pkgs {{ \"{OWN_INSTALLED}\"; }};\n");
        let script = include_str!("../../data/own-installed.sh");
        files.push((OWN_INSTALLED, script.to_owned(), 0o755));
    }
    files.push((APT_CONFIG, config, 0o644));
    let entry = |(path, content, mode): (&str, String, u32)| {
        let place = Place::File { content: content.into_bytes(), mode, keep: false };
        Ok(Entry { path: InsidePath::new(path)?, place })
    };
    files.into_iter().map(entry).collect()
}

/// Returns what a build has apart from its trees.
pub(super) fn entries(over_host: bool) -> Result<Vec<Entry>, PathError> {
    let private = |path: &str| Ok(Entry { path: InsidePath::new(path)?, place: Place::Private });
    files(over_host)?.into_iter().map(Ok).chain(DIRECTORIES.map(private)).collect()
}

/// Returns a directory for `/sys`, which a build has nothing else of.
pub(super) fn devices() -> Result<Entry, PathError> {
    Ok(Entry { path: InsidePath::new("/sys")?, place: Place::Private })
}
