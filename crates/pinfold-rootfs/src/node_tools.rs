//! Programs in front of Node's package managers that come with the host's system, which is read-only: what
//! they install for the whole system goes to the sandbox's home.

use std::path::Path;

use crate::system::Stack;
use crate::userland::HOME;
use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{InsidePath, PathError};

/// The directory of these programs in the sandbox.
const DIRECTORY: &str = "/run/pinfold/node-tools";
const PLACES: [&str; 2] = ["/usr/local/bin", "/usr/bin"];

/// npm and corepack of the host's system.
#[derive(Debug, Default)]
pub struct NodeTools {
    pub entries: Vec<Entry>,
    /// Directories for `PATH`, right before the system's: a version manager's programs come first.
    pub path: Vec<String>,
}

impl NodeTools {
    /// Finds those of the host's own system. One that was made for the session can be written.
    ///
    /// # Errors
    /// Returns no error: the paths are constants.
    pub fn find(stack: Option<&Stack>) -> Result<Self, PathError> {
        if stack.is_some() {
            return Ok(Self::default());
        }
        let mut found = Self { entries: Vec::new(), path: vec![format!("{HOME}/.local/bin")] };
        for tool in ["npm", "corepack"] {
            let programs = PLACES.map(|place| format!("{place}/{tool}"));
            let Some(program) = programs.into_iter().find(|program| Path::new(program).exists())
            else {
                continue;
            };
            let script = if tool == "npm" { npm(&program) } else { corepack(&program) };
            let content = script.into_bytes();
            let place = Place::File { content, mode: 0o755, keep: false };
            let path = InsidePath::new(format!("{DIRECTORY}/{tool}"))?;
            found.entries.push(Entry { path, place });
        }
        if !found.entries.is_empty() {
            found.path.push(DIRECTORY.to_owned());
        }
        Ok(found)
    }
}

/// Returns a prefix that the user or a project has set stays.
fn npm(program: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Global packages go to the sandbox's home: {program} is the host's, and read-only.\n\
         if [ -z \"$npm_config_prefix$NPM_CONFIG_PREFIX\" ] && ! grep -qs '^ *prefix *=' \"$HOME/.npmrc\"; then\n\
         \tfor word in \"$@\"; do\n\
         \t\tcase $word in\n\
         \t\t-g | --global | --global=true | --location=global) export npm_config_prefix=\"$HOME/.local\" ;;\n\
         \t\tesac\n\
         \tdone\n\
         fi\n\
         exec {program} \"$@\"\n"
    )
}

/// Returns a script for `corepack`, which would link the package managers next to itself.
fn corepack(program: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Package managers are enabled in the sandbox's home: {program} is the host's, and read-only.\n\
         case \"$1 $*\" in\n\
         *\" --install-directory\"*) ;;\n\
         \"enable \"* | \"disable \"*)\n\
         \tdo=$1\n\
         \tshift\n\
         \tmkdir -p \"$HOME/.local/bin\"\n\
         \texec {program} \"$do\" --install-directory \"$HOME/.local/bin\" \"$@\" ;;\n\
         esac\n\
         exec {program} \"$@\"\n"
    )
}
