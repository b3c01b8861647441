//! Which directories of the caller's `PATH` the sandbox's `PATH` has.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::system::Stack;
use crate::userland;
use pinfold_policy::settings::Settings;

use crate::extra::Extra;

/// The variable that names an active virtual environment (PEP 405 and the venv documentation).
pub const VIRTUAL_ENV: &str = "VIRTUAL_ENV";

/// Directories around the system's own, in the caller's order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SearchPath {
    /// Those that come before the system's.
    pub before: Vec<String>,
    /// Those that come after the system's.
    pub after: Vec<String>,
}

/// The directories that the sandbox shows where they are on the host.
#[derive(Debug, Default)]
pub struct Shown(Vec<PathBuf>);

impl Shown {
    /// Returns those of a session with these settings and grants, and with a workspace that has files of the
    /// user's, if it has one. A system of its own has its own
    /// programs, and the caller's may not run on it.
    #[must_use]
    pub fn of(
        settings: &Settings,
        workspace: Option<&Path>,
        extra: &[Extra],
        stack: Option<&Stack>,
    ) -> Self {
        if stack.is_some_and(|stack| !stack.over_host) {
            return Self::default();
        }
        let granted = settings
            .files
            .read
            .iter()
            .chain(&settings.files.write)
            .filter_map(|grant| fs::canonicalize(grant.value.as_path()).ok());
        let in_place = extra.iter().filter(|extra| extra.host.as_path() == extra.inside.as_path());
        let system = userland::PROGRAMS.map(PathBuf::from);
        let extra = in_place.map(|extra| extra.host.as_path().to_owned());
        Self(
            system
                .into_iter()
                .chain(workspace.map(Path::to_owned))
                .chain(extra)
                .chain(granted)
                .collect(),
        )
    }

    fn has(&self, path: &Path) -> bool {
        self.0.iter().any(|shown| path.starts_with(shown))
    }

    /// Returns the root of the virtual environment if the sandbox shows it.
    #[must_use]
    pub fn virtual_environment(&self, root: Option<&OsStr>) -> Option<PathBuf> {
        let root = fs::canonicalize(root?).ok()?;
        (is_virtual_environment(&root) && self.has(&root)).then_some(root)
    }
}

impl SearchPath {
    /// Returns the directories of the caller's `PATH` that are shown, and these others that are there
    /// anyway.
    #[must_use]
    pub fn find(path: Option<&OsStr>, shown: &Shown, others: Vec<String>) -> Self {
        let is_system = |name: &Path| userland::PATH.split(':').any(|own| name == Path::new(own));
        let mut found = Self::default();
        let mut is_after = false;
        for directory in path.into_iter().flat_map(std::env::split_paths) {
            if is_system(&directory) {
                is_after = true;
                continue;
            }
            // What is not absolute means another directory in each place.
            let real = directory.is_absolute().then(|| fs::canonicalize(&directory).ok()).flatten();
            let Some(real) = real.filter(|real| shown.has(real) && !is_system(real)) else {
                continue;
            };
            let Some(real) = real.to_str().filter(|real| !real.contains(':')) else { continue };
            if !found.has(real) {
                let side = if is_after { &mut found.after } else { &mut found.before };
                side.push(real.to_owned());
            }
        }
        for other in others {
            if !found.has(&other) {
                found.before.push(other);
            }
        }
        found
    }

    fn has(&self, directory: &str) -> bool {
        self.before.iter().chain(&self.after).any(|known| known == directory)
    }
}

/// Returns whether a directory is the root of a virtual environment (PEP 405).
pub fn is_virtual_environment(root: &Path) -> bool {
    root.join("pyvenv.cfg").is_file() && root.join("bin").is_dir()
}

/// Says what to do about a command that the sandbox does not have.
pub fn hint(command: &str) -> String {
    if command.contains('/') {
        return "grant its directory with --read".to_owned();
    }
    match command {
        "pinfold-host" => return "start the session with --host-exec".to_owned(),
        "pinfold-memory" => return "start the session with --memory-grant read".to_owned(),
        _ => {}
    }
    let path = std::env::var_os("PATH");
    let Some(found) = find_program(path.as_deref(), command) else {
        return "it is not on your PATH either; PATH in the sandbox has the system's directories, the \
                agent's, and those of your PATH that are granted; --env PATH=… sets another"
            .to_owned();
    };
    if userland::PROGRAMS.iter().any(|shown| found[0].starts_with(shown)) {
        return format!(
            "on the host it is in {}: a session on the host's own system finds it if PATH names that \
             directory; another system needs its own",
            found[0].display()
        );
    }
    let grants: Vec<String> = found.iter().map(|dir| format!("--read {}", dir.display())).collect();
    format!("on the host it is in {}; grant that with {}", found[0].display(), grants.join(" "))
}

/// Returns the directory that a program is found in, and the one it really lies in if that is another.
fn find_program(path: Option<&OsStr>, name: &str) -> Option<Vec<PathBuf>> {
    let is_program = |path: &Path| {
        fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let directories = path.into_iter().flat_map(std::env::split_paths);
    let found = directories.map(|dir| dir.join(name)).find(|path| is_program(path))?;
    let real = fs::canonicalize(&found).ok()?;
    let mut all: Vec<PathBuf> =
        [found, real].iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests;
