//! What a session gives to what clients run in it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use pinfold_boundary::Feature;
use pinfold_host::launcher::Launcher;
use pinfold_wire::Program;

/// What clients' programs are given unless they say otherwise.
pub(crate) struct Base {
    /// The command's environment, and what was added to it since (`NAME=VALUE`).
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) variables: Vec<Vec<u8>>,
    /// The command's working directory.
    pub(crate) cwd: Vec<u8>,
    /// Where the session's tools may go: absolute paths inside.
    pub(crate) roots: Vec<Vec<u8>>,
    /// How the session's boundary is called.
    pub(crate) boundary: &'static str,
    /// What it cannot give.
    pub(crate) lacks: &'static [Feature],
    /// Whose wrappers handle what clients run.
    pub(crate) launcher: Launcher,
}

impl Base {
    /// Returns whether the sandbox's one user is called so.
    pub(super) fn is_user(&self, user: &str) -> bool {
        self.env.iter().any(|(name, own)| name == "USER" && own == user)
    }

    /// Completes a client's request with what it left to the session: a shell for no words.
    pub(super) fn complete(&self, asked: Program) -> Program {
        let name =
            |variable: &[u8]| variable.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
        let own = self.env.iter().map(|(name, value)| {
            let value = value.as_bytes();
            [name.as_bytes(), b"=", value].concat()
        });
        let mut env: Vec<Vec<u8>> = Vec::new();
        for variable in own.chain(self.variables.iter().cloned()).chain(asked.env) {
            env.retain(|other| name(other) != name(&variable));
            env.push(variable);
        }
        let shell = env.iter().find_map(|variable| variable.strip_prefix(b"SHELL="));
        let shell = vec![shell.unwrap_or(b"/bin/sh").to_vec()];
        let argv = if asked.argv.is_empty() { shell } else { asked.argv };
        let cwd = if asked.cwd.is_empty() { self.cwd.clone() } else { asked.cwd };
        Program { argv, env, cwd, ignored: asked.ignored }
    }
}

/// Returns why nothing runs as this user.
pub(super) fn only_user(user: &str) -> String {
    let root = match user {
        "root" | "0" => " (package managers run as root, by name, while a snapshot is built)",
        _ => "",
    };
    format!("a sandbox has one user, agent{root}")
}
