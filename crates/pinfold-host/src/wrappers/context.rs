//! What a wrapper is sent, and what it answers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use pinfold_wire::Program;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Wrong;

/// What is to be launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The boundary, and what the wrappers are shown as.
    pub handled_by: Vec<String>,
}

/// Returns a `NAME=VALUE` as environ(7) has it, in two.
pub fn split_variable(variable: &[u8]) -> Option<(OsString, OsString)> {
    let mut halves = variable.splitn(2, |byte| *byte == b'=');
    let half = |half: &[u8]| OsStr::from_bytes(half).to_owned();
    Some((half(halves.next()?), half(halves.next()?)))
}

impl Launch {
    /// Takes a program that nothing has handled.
    #[must_use]
    pub fn of_program(program: Program) -> Self {
        Self {
            argv: program.argv.into_iter().map(OsString::from_vec).collect(),
            env: program.env.iter().filter_map(|variable| split_variable(variable)).collect(),
            cwd: PathBuf::from(OsString::from_vec(program.cwd)),
            handled_by: Vec::new(),
        }
    }

    /// Returns the program for init.
    #[must_use]
    pub fn into_program(self) -> Program {
        let variable = |(name, value): (OsString, OsString)| {
            [name.as_bytes(), b"=", value.as_bytes()].concat()
        };
        Program {
            argv: self.argv.into_iter().map(OsString::into_vec).collect(),
            env: self.env.into_iter().map(variable).collect(),
            cwd: self.cwd.into_os_string().into_vec(),
            ignored: 0,
        }
    }
}

/// A launch as wrappers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Context {
    /// The program: a path, or a name that is looked for along `PATH`.
    pub command: String,
    /// Its arguments, without its name.
    pub args: Vec<String>,
    /// The working directory, absolute, where it is launched: inside, or on the host.
    pub cwd: String,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// A shell that reads `command` as a line, with `args` as its parameters. Nothing that pinfold
    /// launches needs one of itself; a wrapper may name one, by its path.
    pub shell: Option<String>,
    /// The wrappers that have handled it so far, as they are shown. The list is pinfold's.
    pub wrappers: Vec<String>,
}

/// On whose behalf something is launched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    pub name: String,
    /// The grants, as the audit log has them.
    pub grants: Value,
}

/// What a program answers. It may repeat what it cannot change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    command: String,
    args: Vec<String>,
    cwd: String,
    env: BTreeMap<String, String>,
    shell: Option<String>,
    wrappers: Vec<String>,
    #[serde(default)]
    pub(super) boundary: Option<String>,
    #[serde(default)]
    pub(super) subject: Option<Value>,
}

impl From<Answer> for Context {
    fn from(answer: Answer) -> Self {
        let Answer { command, args, cwd, env, shell, wrappers, .. } = answer;
        Self { command, args, cwd, env, shell, wrappers }
    }
}

impl Context {
    pub(super) fn of(launch: &Launch) -> Result<Self, Wrong> {
        let text =
            |what, text: &OsString| text.to_str().map(str::to_owned).ok_or(Wrong::NotText(what));
        let mut words = launch.argv.iter().map(|word| text("an argument", word));
        let env = launch
            .env
            .iter()
            .map(|(name, value)| Ok((text("a variable", name)?, text("a variable", value)?)));
        Ok(Self {
            command: words.next().unwrap_or_else(|| Ok(String::new()))?,
            args: words.collect::<Result<_, _>>()?,
            cwd: launch.cwd.to_str().ok_or(Wrong::NotText("a working directory"))?.to_owned(),
            env: env.collect::<Result<_, _>>()?,
            shell: None,
            wrappers: Vec::new(),
        })
    }

    /// Returns what was answered to a context, if it can be launched.
    pub(super) fn checked(self, given: &Self) -> Result<Self, Wrong> {
        let malformed = |what: &str| Err(Wrong::Malformed(what.to_owned()));
        let texts = [&self.command, &self.cwd].into_iter().chain(&self.args).chain(&self.shell);
        let variables = self.env.iter().flat_map(|(name, value)| [name, value]);
        if texts.chain(variables).any(|text| text.contains('\0')) {
            return malformed("a NUL in a text");
        }
        if self.command.is_empty() {
            return malformed("an empty command");
        }
        if !self.cwd.starts_with('/') || self.shell.as_ref().is_some_and(|sh| !sh.starts_with('/'))
        {
            return malformed("a directory or shell by a path that is not absolute");
        }
        if self.env.keys().any(|name| name.is_empty() || name.contains('=')) {
            return malformed("a variable with an invalid name");
        }
        if self.wrappers != given.wrappers {
            return malformed("another list of wrappers than it was given");
        }
        Ok(self)
    }

    pub(super) fn into_launch(self, handled_by: Vec<String>) -> Launch {
        let mut words = match self.shell {
            Some(shell) => vec![shell.clone(), "-c".to_owned(), self.command, shell],
            None => vec![self.command],
        };
        words.extend(self.args);
        Launch {
            argv: words.into_iter().map(OsString::from).collect(),
            env: self.env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: PathBuf::from(self.cwd),
            handled_by,
        }
    }
}
