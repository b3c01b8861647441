//! What every sandbox sees of the host by default: its programs and libraries, read-only, and of
//! /etc what programs need to run. No home, no /var, no /srv, no /root, no machine id.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_policy::path::{HostPath, InsidePath, PathError};

use crate::chromium;

/// Directories of programs and libraries (Filesystem Hierarchy Standard 3.0; Nix).
pub const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"];

/// Of /etc: the loader's cache, certificates, alternatives, time zone, shells' and tools'
/// system-wide settings. Nothing that names users, hosts, networks or services of this machine.
pub(crate) const CONFIGURATION: [&str; 28] = [
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "chromium.d",
    "crypto-policies",
    "debian_version",
    "fonts",
    "inputrc",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "lsb-release",
    "magic",
    "maven",
    "mime.types",
    "os-release",
    "pki",
    "profile",
    "profile.d",
    "protocols",
    "services",
    "ssl",
    "terminfo",
];

/// Private, writable, empty: gone with the session.
pub const PRIVATE: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", HOME];

/// Home inside, for every agent.
pub const HOME: &str = "/home/agent";

/// The name of the host that a sandbox has (sethostname(2)).
pub const HOST_NAME: &str = "pinfold";

/// The first directories of `PATH` inside, before an agent's own.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns whether this process is in a sandbox of pinfold's: each has this directory and this host
/// name.
#[must_use]
pub fn is_inside() -> bool {
    let is_named = rustix::system::uname().nodename().to_bytes() == HOST_NAME.as_bytes();
    is_named && Path::new("/run/pinfold").is_dir()
}

/// Returns whether a path inside lies in a place that is private to the session.
pub fn is_private(path: &Path) -> bool {
    PRIVATE.iter().any(|private| path.starts_with(private))
}

/// One place of the userland as it lies on the host.
pub enum Piece {
    /// To be granted for reading.
    Granted(HostPath, InsidePath),
    /// A symbolic link, which is made again: what it leads to is granted or is not there.
    Link(InsidePath, OsString),
}

/// Looks at what of the userland this host has.
///
/// # Errors
/// Returns no error on a system whose own paths are valid.
pub fn pieces() -> Result<Vec<Piece>, PathError> {
    let programs = PROGRAMS.iter().map(PathBuf::from);
    let configuration = CONFIGURATION.iter().map(|name| Path::new("/etc").join(name));
    let whole = configuration.filter(|path| path != Path::new(chromium::DIRECTORY));
    let mut pieces = Vec::with_capacity(PROGRAMS.len() + CONFIGURATION.len());
    for path in programs.chain(whole).chain(chromium::files()) {
        // One call says which of the three it is (readlink(2)).
        match fs::read_link(&path) {
            Ok(target) => {
                pieces.push(Piece::Link(InsidePath::new(&path)?, target.into_os_string()));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                pieces.push(Piece::Granted(HostPath::new(real(&path))?, InsidePath::new(&path)?));
            }
            Err(_) => {}
        }
    }
    Ok(pieces)
}

/// Returns whether a directory of programs is one part of a directory the rest of which stays unseen:
/// sessions have it as it is.
pub fn is_nested(program: &Path) -> bool {
    program.parent() != Some(Path::new("/"))
}

/// Returns where a piece lies without links: one that is no directory's first may lie behind one
/// (`/nix`).
pub fn real(path: &Path) -> PathBuf {
    match path.components().count() {
        0..=2 => path.to_owned(),
        _ => fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
    }
}
