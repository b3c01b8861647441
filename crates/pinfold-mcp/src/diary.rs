//! The diary that tools of a session may use.

use std::env::VarError;
use std::io;
use std::path::Path;
use std::sync::Arc;

use pinfold_content::{SystemClock, Uuid};
use pinfold_host::Host;
use pinfold_memory::{
    Diary, DiaryChoice, DiaryName, DiaryTools, InvalidName, KnownSecrets, Limits, MemoryError,
    MemoryTools, Rules, ServedDiary, ServedTools, SignWhen, Signer, StoreError, TaskDiary,
};
use pinfold_moltnet::{Credentials, CredentialsError, RemoteDiaries, Scope, WayOut};
use pinfold_policy::settings::{BaseUrl, DiarySettings, MemoryGrant, Settings};
use pinfold_secrets::{Secret, Store};
use thiserror::Error;
use zeroize::Zeroizing;

/// The variable that names a diary of a server.
const DIARY: &str = "MOLTNET_DIARY_ID";

/// Why a diary cannot be used by tools.
#[derive(Debug, Error)]
pub enum DiaryError {
    /// The identity's name cannot be the name of a diary.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The diary cannot be opened.
    #[error("the diary cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The diary has no room for what its limits ask for, or the server has no such diary.
    #[error("the diary cannot be used: {0}")]
    Memory(#[from] MemoryError),
    /// Nobody says which diary of the server is meant.
    #[error("no diary of {server} is named")]
    NoDiary { server: BaseUrl },
    /// A task names another diary of the server than its worker.
    #[error("the task names the diary {other} of {server}, and its worker another one")]
    OtherDiary { server: BaseUrl, other: Uuid },
    /// Nothing proves to the server who its client is.
    #[error("the diary of {server} cannot be used: {cause}")]
    Credentials { server: BaseUrl, cause: CredentialsError },
    /// The server cannot be asked.
    #[error("the diary of {server} cannot be used: {cause}")]
    Server { server: BaseUrl, cause: io::Error },
}

impl DiaryError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoDiary { .. } => Some(format!(
                "set {DIARY} to its id, in the environment or in the env of an identity"
            )),
            Self::OtherDiary { .. } => {
                Some(format!("set {DIARY} of this worker to the task's diary, if it may use that"))
            }
            Self::Credentials { cause, .. } => cause.hint(),
            Self::Memory(cause) => cause.hint(),
            Self::Name(_) | Self::Store(_) | Self::Server { .. } => None,
        }
    }
}

/// Whose tools they are, apart from the settings.
#[derive(Default)]
pub struct Agent {
    /// What the session has in the place of secrets.
    pub placeholders: Vec<Placeholder>,
    /// Who signs entries.
    pub signer: Option<Signer>,
    /// The diary that the identity names.
    pub diary: Option<String>,
    /// The identity's `moltnet.json`, by which it is known to a server.
    pub moltnet: Option<Zeroizing<Vec<u8>>>,
    /// What the task says that the agent works on.
    pub task: Option<TaskDiary>,
}

/// What a session has in the place of a secret. No entry may hold it.
#[derive(Debug, Clone)]
pub struct Placeholder {
    /// The variable that it is in.
    pub name: String,
    pub value: String,
}

/// Returns the limits that settings give a diary.
#[must_use]
pub fn limits(settings: &DiarySettings) -> Limits {
    Limits {
        size: settings.size.as_ref().map(|size| size.value.bytes()),
        keep: settings.keep.as_ref().map(|keep| keep.value.duration()),
    }
}

/// Returns the tools that settings give an agent; none without a grant. A diary on this machine is made if it is missing, and its
/// entries are signed if there is somebody who signs.
///
/// # Errors
/// Returns an error for a diary that cannot be used.
pub fn tools_of(
    settings: &Settings,
    host: Host<'_>,
    agent: Agent,
) -> Result<Option<Arc<dyn DiaryTools>>, DiaryError> {
    let Agent { placeholders, signer, diary, moltnet, task } = agent;
    let grant = settings.scalars.memory.value;
    let of_task = task.as_ref().and_then(|task| task.diary);
    let Some(rules) = rules(grant, host, placeholders) else { return Ok(None) };
    let rules = rules.for_task(task);
    if let Some(server) = &settings.diary.server {
        let (server, id) = (&server.value, served_id(of_task, diary, &server.value)?);
        let scopes = match grant {
            MemoryGrant::Write if signer.is_some() => Scope::OF_A_SIGNER,
            MemoryGrant::Write => Scope::OF_A_DIARY,
            MemoryGrant::Read | MemoryGrant::None => Scope::OF_A_READER,
        };
        let diary = ServedDiary::new(Box::new(remote(server, moltnet, scopes)?), id);
        let diary = diary.signed_by(signer, SignWhen::KeyIsKnown);
        return Ok(Some(Arc::new(ServedTools::new(diary, rules))));
    }
    let identity = settings.scalars.identity.as_ref().map(|identity| identity.value.as_str());
    let named = of_task.map(|id| id.to_string()).or(diary);
    let name = DiaryName::new(identity, named.as_deref())?;
    let diary = Diary::open(host.places, &name, Box::new(SystemClock))?.signed_by(signer);
    let diary = diary.limited(limits(&settings.diary))?;
    Ok(Some(Arc::new(MemoryTools::new(diary, rules))))
}

/// What a user does with a diary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    Write,
    /// Adds entries that are signed.
    Sign,
    Remove,
}

/// Returns a diary of a server for its user, as the client that an identity or the environment names.
///
/// # Errors
/// Returns an error if no diary is named, or without credentials for the server.
pub fn served(
    server: &BaseUrl,
    choice: DiaryChoice,
    agent: Agent,
    purpose: Purpose,
) -> Result<ServedDiary, DiaryError> {
    let Agent { signer, diary, moltnet, .. } = agent;
    let scopes = match purpose {
        Purpose::Read if signer.is_some() => Scope::OF_A_VERIFIER,
        Purpose::Read => Scope::OF_A_READER,
        Purpose::Write => Scope::OF_A_DIARY,
        Purpose::Sign => Scope::OF_A_SIGNER,
        Purpose::Remove => Scope::OF_A_KEEPER,
    };
    let diaries = Box::new(remote(server, moltnet, scopes)?);
    let diary = match choice {
        DiaryChoice::Usual => ServedDiary::new(diaries, served_id(None, diary, server)?),
        DiaryChoice::Id(id) => ServedDiary::new(diaries, id),
        DiaryChoice::Name(name) => ServedDiary::named(diaries, &name)?,
    };
    let is_signed = purpose == Purpose::Sign;
    let when = if is_signed { SignWhen::Always } else { SignWhen::Never };
    Ok(diary.signed_by(signer, when))
}

fn rules(grant: MemoryGrant, host: Host<'_>, placeholders: Vec<Placeholder>) -> Option<Rules> {
    let (places, launcher) = (host.places.clone(), host.launcher.clone());
    Rules::new(grant, move || {
        let store = Store::new(places.secrets());
        let known = KnownSecrets::of_store(&store, &launcher).map_err(|error| error.to_string())?;
        placeholders.iter().try_fold(known, |known, Placeholder { name, value }| {
            let value = Secret::from_bytes(value.clone().into_bytes());
            let value = value.map_err(|error| format!("the placeholder in {name}: {error}"))?;
            Ok(known.with(format!("placeholder in {name}"), value))
        })
    })
}

/// Returns the diary of a server that an identity or the caller's environment names.
fn served_id(
    of_task: Option<Uuid>,
    named: Option<String>,
    server: &BaseUrl,
) -> Result<Uuid, DiaryError> {
    let none = || DiaryError::NoDiary { server: server.clone() };
    let named = match named {
        Some(named) => named,
        None => match std::env::var(DIARY) {
            Ok(named) => named,
            Err(VarError::NotPresent | VarError::NotUnicode(_)) => return Err(none()),
        },
    };
    let own = named.to_ascii_lowercase().parse().map_err(|_| none())?;
    match of_task {
        // A user who adds tasks to a queue would choose among all diaries of the worker's.
        Some(other) if other != own => {
            Err(DiaryError::OtherDiary { server: server.clone(), other })
        }
        _ => Ok(own),
    }
}

/// Returns a server as the identity's client, or as the one that the caller's environment has credentials for.
fn remote(
    server: &BaseUrl,
    moltnet: Option<Zeroizing<Vec<u8>>>,
    scopes: &'static [Scope],
) -> Result<RemoteDiaries, DiaryError> {
    let credentials = match moltnet {
        Some(file) => Credentials::of_moltnet(&file, Path::new("moltnet.json")),
        None => Credentials::find(None),
    };
    let credentials =
        credentials.map_err(|cause| DiaryError::Credentials { server: server.clone(), cause })?;
    let failed = |cause| DiaryError::Server { server: server.clone(), cause };
    let way = WayOut::from_environment().map_err(|error| failed(io::Error::other(error)))?;
    RemoteDiaries::new(server.as_str(), way, credentials, scopes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::{DiaryError, served_id};

    #[test]
    fn task_chooses_no_other_diary_than_its_worker() {
        let server = "https://api.example".parse().unwrap();
        let (own, other) =
            ("11111111-2222-4333-8444-55555555555A", "66666666-6666-4666-8666-666666666666");
        let id = |of_task: Option<&str>| {
            let of_task = of_task.map(|id| id.to_ascii_lowercase().parse().unwrap());
            served_id(of_task, Some(own.to_owned()), &server)
        };
        assert_eq!(id(None).unwrap().to_string(), own.to_ascii_lowercase());
        assert_eq!(id(Some(own)).unwrap(), id(None).unwrap());
        let refused = id(Some(other)).unwrap_err();
        assert!(matches!(refused, DiaryError::OtherDiary { .. }), "{refused}");
        assert!(refused.hint().is_some() && refused.to_string().contains(other));
    }
}
