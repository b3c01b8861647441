//! Programs that people install in their home: compilers, runtimes, version managers. They are
//! shown read-only where they are on the host, since they name themselves by absolute paths.
//! Only directories that hold programs are listed; what lies beside them (credentials,
//! histories, configuration) is not.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pinfold_policy::access::Access;
use pinfold_policy::authority::RootKind;
use pinfold_policy::origin::Origin;
use pinfold_policy::path::{HostPath, InsidePath, PathError};

use crate::Extra;
use crate::userland::HOME;

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

/// Directories whose tools look for them in the home and write beside them: they appear in the
/// home inside. Among them are downloaded sources, which a build could not fetch again.
const AT_HOME: [&str; 4] =
    [".rustup/toolchains", ".rustup/settings.toml", ".cargo/registry", "go/pkg/mod"];

/// What was found in a home.
#[derive(Debug, Default)]
pub struct Toolchains {
    /// Grants, all for reading.
    pub extra: Vec<Extra>,
    /// Directories for `PATH`, after the agent's and before the system's.
    pub path: Vec<String>,
}

impl Toolchains {
    /// Looks at a home. A home that lies in the workspace is not looked at twice.
    ///
    /// # Errors
    /// Never on a system whose own paths are valid.
    pub fn find(home: &Path, workspace: &Path) -> Result<Self, PathError> {
        let mut found = Self::default();
        let Ok(home) = fs::canonicalize(home) else { return Ok(found) };
        for (relative, in_path) in PROGRAMS {
            let host = home.join(relative);
            let Some(host) = usable(&host, workspace) else { continue };
            found.extra.push(extra(&host, InsidePath::new(host.as_path())?));
            if let Some(part) = in_path {
                found.path.push(host.as_path().join(part).display().to_string());
            }
        }
        for relative in AT_HOME {
            let Some(host) = usable(&home.join(relative), workspace) else { continue };
            found.extra.push(extra(&host, InsidePath::new(Path::new(HOME).join(relative))?));
        }
        Ok(found)
    }
}

/// A directory or file that is really there: a link could lead to anything.
fn usable(path: &Path, workspace: &Path) -> Option<HostPath> {
    // Most are not there, which one look says.
    fs::symlink_metadata(path).ok()?;
    let real = fs::canonicalize(path).ok()?;
    let apart = !real.starts_with(workspace) && !workspace.starts_with(&real);
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
    }
}
