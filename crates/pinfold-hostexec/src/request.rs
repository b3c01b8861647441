//! What the sandbox asks for, looked at before anybody is asked.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use pinfold_policy::project::is_executable;
use pinfold_policy::settings::HostExecVerdict;
use pinfold_wire::HostCommand;

use crate::client::Client;
use crate::context::Context;
use crate::gh;
use crate::git::{self, Task};
use crate::path_map::Directory;
use crate::refusal::Refusal;
use crate::same::Same;
use crate::saved_rules::SavedRule;
use pinfold_ask::display::{command_line, line};
use pinfold_ask::{Pending, Subject};

/// The most bytes of a command that a user is asked about, as it is shown with its directory and
/// notes. Nobody reads more, and what is not read is not approved.
const MOST_SHOWN: usize = 8 * 1024;

/// A request that can be decided on.
#[derive(Debug)]
pub(crate) struct Request {
    /// The executable's name.
    pub(crate) name: String,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) directory: Directory,
    pub(crate) job: Job,
}

/// What is run for it.
#[derive(Debug)]
pub(crate) enum Job {
    /// This program, on the host.
    Program(PathBuf),
    /// Git, in a scratch sandbox of its own.
    Git(Box<Task>),
}

impl Request {
    /// Looks at what the sandbox asks for. Runs nothing but git, in a scratch sandbox without
    /// network.
    ///
    /// # Errors
    /// Returns why it can be asked of nobody.
    pub(crate) fn examine(
        command: &HostCommand,
        id: u64,
        context: &Context,
        client: &Client,
    ) -> Result<Self, Refusal> {
        let name = str::from_utf8(&command.executable)
            .ok()
            .filter(|name| is_executable(name))
            .ok_or_else(|| {
                Refusal::new(format!(
                    "{} is not the name of an executable",
                    line(&command.executable)
                ))
                .hint("give a name without a slash: the host looks for it along its own PATH")
            })?;
        if let HostExecVerdict::NotListed =
            context.settings.host_exec_verdict(&command.executable, &command.args, &[])
        {
            let listed: Vec<&str> = context.settings.host_executables().collect();
            let why = format!("{name} is not on the list of executables ({})", listed.join(", "));
            return Err(Refusal::new(why).hint(format!(
                "its user adds it: executables = [\"{name}\"] under [hostExec] in config.toml"
            )));
        }
        if let Some(arg) = command.args.iter().find(|arg| arg.contains(&0)) {
            let why = format!("the argument {} holds a NUL byte", line(arg));
            return Err(Refusal::new(why).hint("no program can be given one (execve(2))"));
        }
        let directory = context
            .path_map
            .directory(&command.cwd)
            .map_err(|error| Refusal::new(error).hint("start from a directory of the workspace"))?;
        let args = command.args.clone();
        let job = if name == "git" {
            Job::Git(Box::new(git::prepare(&args, &directory.path, id, context, client)?))
        } else {
            if name == "gh" {
                gh::check(&args)?;
            }
            // Why it is not found may name what the sandbox does not know.
            let program = context.launcher.path_of(name.as_ref()).map_err(|_| {
                Refusal::new(format!("{name} is not on the host")).hint(
                    "it is searched in PATH, except in directories that the sandbox can write to",
                )
            })?;
            Job::Program(program)
        };
        Ok(Self { name: name.to_owned(), args, directory, job })
    }

    /// Returns the command as a user sees it.
    pub(crate) fn command(&self) -> String {
        let words = std::iter::once(self.name.as_bytes());
        command_line(words.chain(self.args.iter().map(Vec::as_slice)))
    }

    /// Returns what a user is asked, of the number `id`; `rule` is what `always` would write.
    ///
    /// # Errors
    /// Returns an error if it is too long to be read.
    pub(crate) fn question(&self, id: u64, rule: Option<&SavedRule>) -> Result<Pending, Refusal> {
        let (command, cwd) = (self.command(), self.cwd());
        let shown = command.len() + cwd.len();
        let pending = Pending {
            id,
            subject: Subject::Command { executable: self.name.clone(), command, cwd },
            details: self.details(),
            rule: rule.map(ToString::to_string),
        };
        let details: usize = pending.details.iter().map(String::len).sum();
        // The rule says most of it once more.
        let rule = pending.rule.as_ref().map_or(0, String::len);
        let shown = shown + details;
        if shown <= MOST_SHOWN && rule <= 2 * MOST_SHOWN {
            return Ok(pending);
        }
        let why = format!("{} bytes are too many to ask a user about", shown.max(rule));
        Err(Refusal::new(why).hint("give long text on standard input, or have a rule allow it"))
    }

    /// Returns further notes for the user.
    pub(crate) fn details(&self) -> Vec<String> {
        match &self.job {
            Job::Program(_) => Vec::new(),
            Job::Git(task) => task.details.clone(),
        }
    }

    fn remote(&self) -> Option<String> {
        match &self.job {
            Job::Program(_) => None,
            Job::Git(task) => task.remote.as_ref().map(|remote| git::shown_url(&remote.url)),
        }
    }

    /// Options that would say what it comes to.
    pub(crate) fn amounts_to(&self) -> Vec<&str> {
        match &self.job {
            Job::Program(_) => Vec::new(),
            Job::Git(task) => task.amounts_to.iter().map(String::as_str).collect(),
        }
    }

    fn references(&self) -> Vec<String> {
        match &self.job {
            Job::Program(_) => Vec::new(),
            Job::Git(task) => task.references.clone(),
        }
    }

    /// Returns what an approval for the session is for.
    pub(crate) fn same(&self) -> Same {
        let (name, args) = (self.name.clone(), self.args.clone());
        let (cwd, remote, references) =
            (self.directory.path.clone(), self.remote(), self.references());
        Same { name, args, cwd, remote, references }
    }

    /// Returns the rule that would allow this and nothing more; none where its bytes are no text.
    pub(crate) fn rule(&self, repository: &std::path::Path) -> Option<SavedRule> {
        let text = |arg: &Vec<u8>| String::from_utf8(arg.clone()).ok();
        let (cwd, repository) = (self.directory.path.clone(), repository.to_owned());
        let is_text = cwd.to_str().is_some() && repository.to_str().is_some();
        let args = self.args.iter().map(text).collect::<Option<_>>().filter(|_| is_text)?;
        let (remote, references) = (self.remote(), self.references());
        let executable = self.name.clone();
        Some(SavedRule { repository, executable, args, cwd, remote, references })
    }

    /// Returns the rule of the settings that would allow it and nothing more, as a user writes it; none
    /// where its bytes are no text.
    pub(crate) fn setting(&self) -> Option<String> {
        let quoted = |arg: &Vec<u8>| Some(toml_text(str::from_utf8(arg).ok()?));
        let args: Vec<String> = self.args.iter().map(quoted).collect::<Option<_>>()?;
        let args = args.join(", ");
        Some(format!("autoApprove = [{{ executable = \"{}\", args = [{args}] }}]", self.name))
    }

    /// Returns the arguments for a program.
    pub(crate) fn words(&self) -> impl Iterator<Item = OsString> + '_ {
        self.args.iter().map(|arg| OsString::from_vec(arg.clone()))
    }

    /// Returns the working directory, escaped.
    pub(crate) fn cwd(&self) -> String {
        line(self.directory.path.as_os_str().as_bytes())
    }
}

/// Returns a basic string of TOML's.
fn toml_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            plain if pinfold_policy::path::is_plain(plain) => quoted.push(plain),
            other => quoted.push_str(&format!("\\U{:08X}", other as u32)),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::toml_text;

    #[test]
    fn argument_is_quoted_so_that_toml_reads_the_same() {
        let plain =
            ["", "main", "a \"b\" \\ c", "x\n\t\u{1b}[0m", "\u{202e}", "\u{10ffff}", "]] #"];
        for text in plain {
            let quoted = toml_text(text);
            assert!(quoted.chars().all(pinfold_policy::path::is_plain), "{quoted}");
            let document = format!("key = {quoted}").parse::<toml::Table>().unwrap();
            assert_eq!(document["key"].as_str(), Some(text), "{quoted}");
        }
    }
}
