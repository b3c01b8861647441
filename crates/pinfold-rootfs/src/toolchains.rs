//! Programs that people install in their home: compilers, runtimes, version managers. They are
//! shown read-only where they are on the host, since they name themselves by absolute paths. Only
//! directories that hold programs are listed; what lies next to them (credentials, histories,
//! configuration) is not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::system::Stack;
use crate::userland::HOME;
use pinfold_policy::access::Access;
use pinfold_policy::authority::RootKind;
use pinfold_policy::origin::Origin;
use pinfold_policy::path::{HostPath, InsidePath, PathError};

use crate::extra::Extra;
use crate::search_path::is_virtual_environment;

/// Directories of programs, relative to the home, and the part of each that goes into `PATH`.
const PROGRAMS: [(&str, Option<&str>); 13] = [
    (".cargo/bin", Some("")),
    (".local/bin", Some("")),
    (".local/share/uv/tools", None),
    (".local/share/uv/python", None),
    (".local/share/pipx/venvs", None),
    (".local/share/mise/installs", None),
    (".nvm/versions", None),
    (".volta/tools", None),
    (".pyenv", Some("shims")),
    (".asdf/installs", None),
    (".bun/bin", Some("")),
    (".deno/bin", Some("")),
    ("go/bin", Some("")),
];

/// Directories whose tools look for them in the home and write next to them: they appear in the
/// home inside. Among them are downloaded sources, which a build could not fetch again.
const AT_HOME: [&str; 4] =
    [".rustup/toolchains", ".rustup/settings.toml", ".cargo/registry", "go/pkg/mod"];

/// Where rustup keeps its compilers, relative to the home, and the variable that says so otherwise
/// (the rustup book, "Environment variables").
const RUSTUP: &str = ".rustup";
const RUSTUP_HOME: &str = "RUSTUP_HOME";

/// What was found in a home.
#[derive(Debug, Default)]
pub struct Toolchains {
    /// Grants, all for reading.
    pub extra: Vec<Extra>,
    /// Directories for `PATH`, after the agent's and before the system's.
    pub path: Vec<String>,
    /// Variables by which tools find what is not in the home inside.
    pub variables: Vec<(&'static str, String)>,
}

impl Toolchains {
    /// Returns those for a session: of the user's home on this machine's own system, and of the home
    /// that comes with another, which counts more. A home that lies in the workspace is not looked at
    /// twice.
    ///
    /// `active` is the virtual environment that is active where the caller is, if there is one.
    ///
    /// # Errors
    /// Returns no error on a system whose own paths are valid.
    pub fn find(
        home: &Path,
        workspace: &Path,
        stack: Option<&Stack>,
        active: Option<&Path>,
    ) -> Result<Self, PathError> {
        let mut found = Self::default();
        let has = |place: &Path| stack.is_some_and(|stack| stack.has(place));
        found.path.extend(at_home_inside().filter(|place| has(Path::new(place))));
        // What this machine's programs need may not be there in another system.
        if stack.is_some_and(|stack| !stack.over_host) {
            return Ok(found);
        }
        let Ok(home) = fs::canonicalize(home) else { return Ok(found) };
        found.programs(&home, workspace)?;
        if let Some(active) = active {
            found.virtual_environment(active, &home, workspace)?;
        }
        for relative in AT_HOME {
            let inside = Path::new(HOME).join(relative);
            let Some(host) = usable(&home.join(relative), workspace) else { continue };
            if !has(&inside) {
                found.extra.push(extra(&host, InsidePath::new(inside)?));
            }
        }
        Ok(found)
    }

    /// Returns those for set-up commands, on this machine's own system or another. The home inside is
    /// theirs to fill, so nothing of the user's lies in it: compilers are named by a variable, and
    /// sources come from the registry.
    ///
    /// # Errors
    /// Returns no error on a system whose own paths are valid.
    pub fn for_build(home: &Path, over_host: bool) -> Result<Self, PathError> {
        let mut found = Self { path: at_home_inside().collect(), ..Self::default() };
        let Ok(home) = fs::canonicalize(home) else { return Ok(found) };
        if !over_host {
            return Ok(found);
        }
        // A build has no workspace of the user's.
        let nowhere = Path::new("");
        found.programs(&home, nowhere)?;
        let rustup = home.join(RUSTUP);
        for name in ["toolchains", "settings.toml"] {
            let Some(host) = usable(&rustup.join(name), nowhere) else { continue };
            found.extra.push(extra(&host, InsidePath::new(host.as_path())?));
        }
        if found.extra.iter().any(|extra| extra.host.as_path().starts_with(&rustup)) {
            found.variables.push((RUSTUP_HOME, rustup.display().to_string()));
        }
        Ok(found)
    }

    /// Adds the active virtual environment, unless it is shown anyway. A directory that contains the home does not count as one.
    fn virtual_environment(
        &mut self,
        root: &Path,
        home: &Path,
        workspace: &Path,
    ) -> Result<(), PathError> {
        let is_shown = |root: &Path| {
            root.starts_with(workspace)
                || self.extra.iter().any(|extra| root.starts_with(extra.host.as_path()))
        };
        if home.starts_with(root) || is_shown(root) || !is_virtual_environment(root) {
            return Ok(());
        }
        if let Some(host) = usable(root, workspace) {
            self.extra.push(extra(&host, InsidePath::new(host.as_path())?));
        }
        Ok(())
    }

    /// Directories of programs of the user's home, where they are.
    fn programs(&mut self, home: &Path, workspace: &Path) -> Result<(), PathError> {
        for (relative, in_path) in PROGRAMS {
            let host = home.join(relative);
            let Some(host) = usable(&host, workspace) else { continue };
            self.extra.push(extra(&host, InsidePath::new(host.as_path())?));
            if let Some(part) = in_path {
                let directory = host.as_path().join(part);
                // An empty part leaves a slash at the end.
                let directory: PathBuf = directory.components().collect();
                self.path.push(directory.display().to_string());
            }
        }
        Ok(())
    }
}

/// Directories of the home inside where tools install programs.
fn at_home_inside() -> impl Iterator<Item = String> {
    let named = |(relative, in_path): (&str, Option<&str>)| {
        // Those with an empty part are where programs themselves lie.
        in_path.filter(|part| part.is_empty()).map(|_| format!("{HOME}/{relative}"))
    };
    PROGRAMS.into_iter().filter_map(named)
}

/// Returns a directory or file that is really there: a link could lead to anything.
fn usable(path: &Path, workspace: &Path) -> Option<HostPath> {
    // Most are not there, which one look says.
    fs::symlink_metadata(path).ok()?;
    let real = fs::canonicalize(path).ok()?;
    let is_none = workspace.as_os_str().is_empty();
    let apart = is_none || !real.starts_with(workspace) && !workspace.starts_with(&real);
    if real == path && apart { HostPath::new(real).ok() } else { None }
}

fn extra(host: &HostPath, inside: InsidePath) -> Extra {
    Extra {
        id: Arc::from(format!("toolchain {host}")),
        kind: RootKind::System,
        host: host.clone(),
        inside,
        access: Access::READ_ONLY,
        origin: Origin::Default,
        held: None,
    }
}
