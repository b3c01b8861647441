//! `pinfold task artifact`: the content of a file that an attempt kept.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use pinfold_content::{Cid, Uuid, Value};
use pinfold_host::directories::Places;
use pinfold_moltnet::RemoteArtifacts;
use pinfold_policy::path::Escaped;
use pinfold_tasks::TaskId;

use super::find::{IdArgs, find};
use super::list::shown;
use crate::exit::Failure;
use crate::print::{plain_text, put};
use crate::task_queue::{self, TaskQueue};
use crate::work::login;

#[derive(Debug, Args)]
pub(crate) struct ArtifactArgs {
    #[command(flatten)]
    task: IdArgs,
    /// The artifact, by its title or the beginning of its address; not needed if the task has only one
    artifact: Option<String>,
    /// Write it to this file, which must not exist, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// The address of the server that the task is on: https, or http on this machine
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// A moltnet.json with credentials, if the environment has none
    #[arg(long, value_name = "FILE", requires = "source")]
    credentials: Option<PathBuf>,
    /// The id of the team, if the key does not say so
    #[arg(long, value_name = "UUID", requires = "source")]
    team: Option<Uuid>,
}

/// Where artifacts are.
enum Artifacts {
    Queue(TaskQueue),
    Server(Box<RemoteArtifacts>),
}

pub(super) fn artifact(args: &ArtifactArgs, places: &Places) -> Result<(), Failure> {
    let (artifacts, id) = match &args.source {
        None => {
            let queue = task_queue::open(places)?;
            let id = find(&queue, &args.task.id)?.id;
            (Artifacts::Queue(queue), id)
        }
        Some(address) => {
            let id = args.task.id.parse().map_err(|_| {
                Failure::new(format!("{:?} is not the id of a task", args.task.id))
                    .hint(Some("a task of a server is named by its whole id".to_owned()))
            })?;
            (Artifacts::Server(Box::new(server(args, address)?)), id)
        }
    };
    let listed = artifacts.list(id)?;
    let (attempt, cid) = choose(&listed, args.artifact.as_deref())?;
    let content = artifacts.content(id, attempt, &cid)?;
    let Some(path) = &args.output else { return print(&content) };
    let failed = |error: io::Error| {
        let hint = (error.kind() == io::ErrorKind::AlreadyExists)
            .then(|| "name another file, or replace it with --force".to_owned());
        Failure::new(format!("cannot write {}: {error}", Escaped(path))).hint(hint)
    };
    if !args.force {
        return write_new(path, &content).map_err(failed);
    }
    let mut name = path.clone().into_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    write_new(&new, &content).and_then(|()| replace(&new, path)).map_err(failed)
}

/// Returns the artifacts of a server, as the client that the options or the environment name.
fn server(args: &ArtifactArgs, address: &str) -> Result<RemoteArtifacts, Failure> {
    let (credentials, way) = login(args.credentials.as_deref())?;
    RemoteArtifacts::new(address, way, credentials, args.team)
        .map_err(|error| Failure::new(format!("cannot use {address}: {error}")))
}

impl Artifacts {
    fn list(&self, id: TaskId) -> Result<Vec<Value>, Failure> {
        match self {
            Self::Queue(queue) => Ok(queue.artifacts_of(id)?),
            Self::Server(server) => server.list(id).map_err(Failure::new),
        }
    }

    /// Returns the content of an artifact, which has its address.
    fn content(&self, id: TaskId, attempt: u32, cid: &Cid) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Queue(queue) => queue.artifact_content(id, attempt, cid).map_err(Failure::new),
            Self::Server(server) => server.content(id, attempt, cid).map_err(Failure::new),
        }
    }
}

/// Returns the attempt and the address of the one artifact that is called so. A title counts before the beginning of an
/// address. Of the same content the latest attempt's counts.
fn choose(listed: &[Value], named: Option<&str>) -> Result<(u32, Cid), Failure> {
    let text =
        |artifact: &Value, name: &str| artifact.text_of(name).unwrap_or_default().into_owned();
    let has_title = |artifact: &&Value| named.is_some_and(|it| text(artifact, "title") == it);
    let by_title = listed.iter().any(|artifact| has_title(&artifact));
    let is_named = |artifact: &&Value| match named {
        None => true,
        Some(_) if by_title => has_title(artifact),
        Some(named) => text(artifact, "cid").starts_with(named),
    };
    let mut found: Vec<(u32, Cid)> = Vec::new();
    for artifact in listed.iter().filter(is_named) {
        let number = artifact.get("attemptN").and_then(Value::as_count);
        let number = number.and_then(|number| u32::try_from(number).ok());
        let Some((number, cid)) = number.zip(text(artifact, "cid").parse().ok()) else { continue };
        found.retain(|(_, known)| *known != cid);
        found.push((number, cid));
    }
    if let [one] = &*found {
        return Ok(one.clone());
    }
    let line = |artifact: &Value| {
        format!("{} ({})", shown(&text(artifact, "title")), shown(&text(artifact, "cid")))
    };
    let (what, hint) = match (listed, named) {
        ([], _) => ("the task has no artifacts".to_owned(), None),
        (_, Some(named)) if found.is_empty() => {
            (format!("the task has no artifact {named:?}"), Some(listed))
        }
        (_, Some(named)) => (format!("more than one artifact is called {named:?}"), Some(listed)),
        (_, None) => ("the task has more than one artifact".to_owned(), Some(listed)),
    };
    let hint = hint.map(|all| all.iter().map(line).collect::<Vec<_>>().join(", "));
    Err(Failure::new(what).hint(hint.map(|all| format!("name one of these: {all}"))))
}

/// Prints a content as it is, and to a terminal with escapes for all that drives one: a sandbox wrote it.
fn print(content: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        drop(out);
        put(format_args!("{}", plain_text(&String::from_utf8_lossy(content))));
        return Ok(());
    }
    out.write_all(content).and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            pinfold_host::sys::die_of_broken_pipe();
        }
        Failure::new(format!("cannot write to standard output: {error}"))
    })
}

/// Writes a file that does not exist yet, as a whole or not at all.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content).inspect_err(|_| drop(fs::remove_file(path)))
}

fn replace(new: &Path, path: &Path) -> io::Result<()> {
    fs::rename(new, path).inspect_err(|_| drop(fs::remove_file(new)))
}

#[cfg(test)]
mod tests {
    use pinfold_content::{Cid, Value};

    use super::choose;

    fn listed(title: &str, attempt: u32, content: &[u8]) -> Value {
        let cid = Cid::of_bytes(content);
        Value::object([
            ("title", title.into()),
            ("attemptN", attempt.into()),
            ("cid", cid.as_str().into()),
        ])
    }

    #[test]
    fn artifact_is_chosen_by_title_or_address_and_never_guessed() {
        let (a, b) = (Cid::of_bytes(b"a"), Cid::of_bytes(b"b"));
        let all = [listed("log", 1, b"a"), listed("log", 2, b"a"), listed("log", 2, b"b")];
        assert_eq!(choose(&all, Some(a.as_str())).unwrap(), (2, a.clone()));
        assert_eq!(choose(&all[1..2], None).unwrap(), (2, a.clone()));
        assert_eq!(choose(&all[..2], Some("log")).unwrap(), (2, a));
        let several = choose(&all, Some("log")).unwrap_err().to_string();
        assert!(several.contains("more than one artifact is called"), "{several}");
        assert!(choose(&all, None).is_err() && choose(&all, Some("bafk")).is_err());
        let prefix = [listed("b", 1, b"a"), listed("x", 1, b"b")];
        assert_eq!(choose(&prefix, Some("b")).unwrap().1, Cid::of_bytes(b"a"));
        assert!(choose(&[], Some(b.as_str())).is_err());
    }
}
