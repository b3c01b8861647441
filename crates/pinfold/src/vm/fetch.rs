//! Packages of a kernel, by the programs of Debian and Ubuntu: apt downloads and verifies them, and dpkg-deb reads them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_host::launcher::{Bounds, Launcher};
use pinfold_policy::path::Escaped;
use pinfold_vm::{Architecture, Fetched, PackageError};
use tempfile::TempDir;
use thiserror::Error;

/// Packages that depend on the newest small kernel: Debian's and Ubuntu's.
const NEWEST: [&str; 2] = Architecture::HOST.kernels;
/// What belongs to a kernel of the packages that those depend on.
const PARTS: [&str; 2] = ["linux-image-", "linux-modules-"];

/// What a download may take, and what a program may say.
const BOUNDS: Bounds = Bounds { patience: Duration::from_secs(30 * 60), most: 1 << 20 };
/// What lets apt find its settings, and a proxy.
const KEPT: [&str; 6] =
    ["APT_CONFIG", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy"];
/// Downloads packages to a directory.
const DOWNLOAD: &str = r#"cd "$1" && shift && exec apt-get download --quiet=2 -- "$@""#;
/// Writes what is in a package to a file, of 3 GiB at most (in blocks of 512 bytes, as POSIX has them).
const UNPACK: &str = r#"ulimit -f 6291456 && exec dpkg-deb --fsys-tarfile -- "$1" >"$2""#;

/// Why there is no package to take a kernel out of.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    /// The system has no such program, or it cannot be started.
    #[error("cannot run {program}, which Debian and Ubuntu have: {source}")]
    Program { program: &'static str, source: io::Error },
    /// It failed, and has said why.
    #[error("{program} failed: {said}")]
    Failed { program: &'static str, said: String },
    /// apt knows of no small kernel.
    #[error("apt knows neither {} nor {}: update its lists (apt-get update), or give a package with --from", NEWEST[0], NEWEST[1])]
    Unknown,
    /// Nothing can be downloaded to a directory of its own.
    #[error("cannot download to a directory of its own: {0}")]
    Directory(#[source] io::Error),
    /// There is no such package.
    #[error("cannot read {path}: {source}")]
    Unreadable { path: String, source: io::Error },
    /// The package has something else.
    #[error("{path}: {source}")]
    Package { path: String, source: PackageError },
}

/// Packages that were downloaded. They are removed on drop.
pub(super) struct Downloaded {
    pub(super) packages: Vec<PathBuf>,
    _directory: TempDir,
}

/// Downloads the newest small kernel.
///
/// # Errors
/// Returns an error if this system has no apt, or apt cannot download or verify it.
pub(super) fn download(launcher: &Launcher) -> Result<Downloaded, FetchError> {
    let names = names(launcher)?;
    let directory = tempfile::tempdir().map_err(FetchError::Directory)?;
    let mut argv = script(DOWNLOAD, [directory.path().into()]);
    argv.extend(names.into_iter().map(OsString::from));
    run(launcher, "apt-get", argv)?;
    let entries = directory.path().read_dir().map_err(FetchError::Directory)?;
    let packages = entries.flatten().map(|entry| entry.path()).collect();
    Ok(Downloaded { packages, _directory: directory })
}

/// Returns the packages that a small kernel consists of.
fn names(launcher: &Launcher) -> Result<BTreeSet<String>, FetchError> {
    for newest in NEWEST {
        let mut names = BTreeSet::new();
        let mut asked = vec![newest.to_owned()];
        while let Some(name) = asked.pop() {
            let argv = ["apt-cache", "depends", "--important", "--", &name].map(OsString::from);
            let said = match run(launcher, "apt-cache", argv.into()) {
                // It knows of no such package.
                Err(FetchError::Failed { .. }) => break,
                said => said?,
            };
            for part in parts(&said) {
                if names.insert(part.to_owned()) {
                    asked.push(part.to_owned());
                }
            }
        }
        if !names.is_empty() {
            return Ok(names);
        }
    }
    Err(FetchError::Unknown)
}

/// Returns the parts of a kernel among what apt says that a package depends on.
fn parts(said: &str) -> impl Iterator<Item = &str> {
    let depends = said.lines().filter_map(|line| line.trim_start().strip_prefix("Depends: "));
    depends.filter(|name| PARTS.iter().any(|part| name.starts_with(part)))
}

/// Takes a kernel's files out of a package.
///
/// # Errors
/// Returns an error if it is no package, or has more than a kernel.
pub(super) fn unpack(
    launcher: &Launcher,
    package: &Path,
    fetched: &mut Fetched,
) -> Result<(), FetchError> {
    let unreadable = |source| FetchError::Unreadable { path: Escaped(package).to_string(), source };
    let absolute = package.canonicalize().map_err(unreadable)?;
    let directory = tempfile::tempdir().map_err(FetchError::Directory)?;
    let archive = directory.path().join("archive");
    run(launcher, "dpkg-deb", script(UNPACK, [absolute.into(), archive.clone().into()]))?;
    let archive = File::open(archive).map_err(FetchError::Directory)?;
    let taken = fetched.add(io::BufReader::new(archive));
    taken.map_err(|source| FetchError::Package { path: Escaped(package).to_string(), source })
}

fn script<const COUNT: usize>(script: &str, given: [OsString; COUNT]) -> Vec<OsString> {
    ["/bin/sh", "-c", script, "sh"].map(OsString::from).into_iter().chain(given).collect()
}

fn run(
    launcher: &Launcher,
    program: &'static str,
    argv: Vec<OsString>,
) -> Result<String, FetchError> {
    let output = launcher.run_bounded(argv, &[("LC_ALL", "C")], &KEPT, None, BOUNDS);
    let output = output.map_err(|source| FetchError::Program { program, source })?;
    if output.code == Some(0) {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(FetchError::Failed { program, said })
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn parts_of_a_kernel_are_found_among_what_it_depends_on() {
        let said = "linux-image-6.8.0-41-generic\n  Depends: kmod\n  Depends: linux-base\n |Depends: x\n  \
                    Depends: linux-modules-6.8.0-41-generic\n  Conflicts: linux-image-unsigned\n";
        assert!(parts(said).eq(["linux-modules-6.8.0-41-generic"]));
    }
}
