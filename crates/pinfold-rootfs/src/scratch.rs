//! A throwaway boundary without network in which git reads what an agent may have written.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use pinfold_boundary::namespace::inside_ids;
use pinfold_boundary::{Entry, Identity, Landlock, LaunchPlan, Place, Program, ResourceLimits};
use pinfold_host::Refusal;
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_wire::Ended;

use crate::etc_files;
use crate::unpack::{Error, errors_only, read_errors, run_quietly};
use crate::userland::{self, Piece};

/// What git may use of the machine on what an agent wrote: bytes, and processes and threads.
const MEMORY: u64 = 2 << 30;
const TASKS: u64 = 256;
/// Seconds of processor time of each process: some ten gigabytes of objects are checked in it.
const TIME: u64 = 600;

/// How a directory of the host is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its files can be read.
    Read,
    /// They can be changed, too.
    Write,
}

/// A directory of the host.
#[derive(Debug)]
enum Shown {
    /// Where its path leads.
    End(PathBuf),
    /// What lies at its path, which leads through no link.
    Itself(PathBuf),
}

/// A shell script with what it works on.
#[derive(Debug)]
pub struct Scratch {
    script: String,
    arguments: Vec<OsString>,
    places: Vec<(String, Shown, Access)>,
    env: Vec<(OsString, OsString)>,
}

impl Scratch {
    /// Returns a script with its one argument. It sees the host's programs, an empty `/tmp` and nothing
    /// else.
    pub fn new(script: impl Into<String>, argument: impl Into<String>) -> Self {
        let env = [
            ("PATH", userland::PATH),
            ("HOME", "/tmp"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("LC_ALL", "C"),
        ];
        Self {
            script: script.into(),
            arguments: vec![argument.into().into()],
            places: Vec::new(),
            env: env.map(|(name, value)| (name.into(), value.into())).into(),
        }
    }

    /// Gives the script more arguments, whatever bytes they are.
    pub fn arguments(mut self, more: impl Iterator<Item = OsString>) -> Self {
        self.arguments.extend(more);
        self
    }

    /// Shows a directory of the host, which its path may reach through links.
    pub fn place(mut self, inside: &str, host: &Path, access: Access) -> Self {
        self.places.push((inside.to_owned(), Shown::End(host.to_owned()), access));
        self
    }

    /// Returns the same for one that somebody hostile may replace by a link at any time: through a link
    /// the boundary mounts nothing.
    pub fn place_itself(mut self, inside: &str, host: &Path, access: Access) -> Self {
        self.places.push((inside.to_owned(), Shown::Itself(host.to_owned()), access));
        self
    }

    /// Has git run no hook and no monitor, whatever an agent wrote: even `git write-tree` runs a hook. No advice is among its
    /// errors.
    pub fn without_programs(self) -> Self {
        self.env("GIT_CONFIG_COUNT", "3")
            .env("GIT_CONFIG_KEY_0", "core.hooksPath")
            .env("GIT_CONFIG_VALUE_0", "/dev/null")
            .env("GIT_CONFIG_KEY_1", "core.fsmonitor")
            .env("GIT_CONFIG_VALUE_1", "false")
            .env("GIT_CONFIG_KEY_2", "advice.graftFileDeprecated")
            .env("GIT_CONFIG_VALUE_2", "false")
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs it to its end. The process that does must have one thread.
    ///
    /// # Errors
    /// Returns why it does not start, or what it wrote when it failed.
    pub fn run(self) -> Result<(), Refusal> {
        let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let (errors, writer) = pipe?;
        let stdio = errors_only(writer)?;
        let (plan, program) = self.plan().map_err(Refusal::of)?;
        match run_quietly(plan, &program, stdio).map_err(Refusal::of)? {
            Ended::Code(0) => Ok(()),
            ended => {
                let said = in_one_line(&read_errors(errors));
                Err(Refusal::new(format!("{said} ({ended:?})")))
            }
        }
    }

    fn plan(self) -> Result<(LaunchPlan, Program), Error> {
        let (uid, gid) = inside_ids();
        let mut tree = vec![Entry { path: InsidePath::from_static("/tmp"), place: Place::Private }];
        for piece in userland::pieces()? {
            tree.push(match piece {
                Piece::Granted(host, path) => Entry { path, place: Place::ReadOnly(host) },
                Piece::Link(path, to) => Entry { path, place: Place::Symlink(to) },
            });
        }
        for (inside, host, access) in self.places {
            let host = HostPath::new(match host {
                Shown::End(host) => fs::canonicalize(host)?,
                Shown::Itself(host) => host,
            })?;
            let place = match access {
                Access::Read => Place::ReadOnly(host),
                Access::Write => Place::Writable(host),
            };
            tree.push(Entry { path: InsidePath::new(inside)?, place });
        }
        tree.extend(etc_files::generated(uid, gid, None)?);
        let script = format!("ulimit -t {TIME}\n{}", self.script);
        let mut argv: Vec<OsString> = ["/bin/sh", "-c", &script, "sh"].map(Into::into).into();
        argv.extend(self.arguments);
        let cwd = InsidePath::from_static("/tmp");
        let program = Program { argv, env: self.env, cwd, ignored: 0 };
        let plan = LaunchPlan {
            tree,
            identity: Identity { uid, gid, home: InsidePath::from_static("/tmp") },
            hostname: "pinfold".to_owned(),
            doors: Vec::new(),
            limits: ResourceLimits {
                memory: Some(MEMORY),
                pids: Some(TASKS),
                ..Default::default()
            },
            landlock: Landlock::BestEffort,
            nested: false,
            leaves_nothing: false,
        };
        Ok((plan, program))
    }
}

/// Returns what a program said, its lines one after the other.
fn in_one_line(said: &str) -> String {
    let lines: Vec<String> =
        said.trim().lines().map(|line| line.escape_debug().to_string()).collect();
    lines.join("; ")
}
