//! The diary that tools of a session may use.

use pinfold_content::SystemClock;
use pinfold_host::Host;
use pinfold_memory::{
    Diary, DiaryName, InvalidName, KnownSecrets, MemoryTools, Signer, StoreError, TaskDiary,
};
use pinfold_policy::settings::{MemoryGrant, Settings};
use pinfold_secrets::{Secret, Store};
use thiserror::Error;

/// Why a diary cannot be used by tools.
#[derive(Debug, Error)]
pub enum DiaryError {
    /// The identity's name cannot be the name of a diary.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The diary cannot be opened.
    #[error("the diary cannot be used: {0}")]
    Store(#[from] StoreError),
}

/// Whose tools they are, apart from the settings.
#[derive(Debug, Default)]
pub struct Agent {
    /// What the session has in the place of secrets.
    pub placeholders: Vec<Placeholder>,
    /// Who signs entries.
    pub signer: Option<Signer>,
    /// The diary that the identity names.
    pub diary: Option<String>,
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

/// Returns the tools that settings give an agent; none without a grant. The diary is made if it is missing. Entries are
/// signed if there is somebody who signs.
///
/// # Errors
/// Returns an error for a diary that cannot be used.
pub fn tools_of(
    settings: &Settings,
    host: Host<'_>,
    agent: Agent,
) -> Result<Option<MemoryTools>, DiaryError> {
    let grant = settings.memory.value;
    if grant == MemoryGrant::None {
        return Ok(None);
    }
    let identity = settings.identity.as_ref().map(|identity| identity.value.as_str());
    let Agent { placeholders, signer, diary, task } = agent;
    let of_task = task.as_ref().and_then(|task| task.diary).map(|id| id.to_string());
    let name = DiaryName::new(identity, of_task.or(diary).as_deref())?;
    let diary = Diary::open(host.places, &name, Box::new(SystemClock))?.signed_by(signer);
    let (places, launcher) = (host.places.clone(), host.launcher.clone());
    let secrets = move || {
        let store = Store::new(places.secrets());
        let known = KnownSecrets::of_store(&store, &launcher).map_err(|error| error.to_string())?;
        placeholders.iter().try_fold(known, |known, Placeholder { name, value }| {
            let value = Secret::from_bytes(value.clone().into_bytes());
            let value = value.map_err(|error| format!("the placeholder in {name}: {error}"))?;
            Ok(known.with(format!("placeholder in {name}"), value))
        })
    };
    Ok(MemoryTools::new(diary, grant, secrets).map(|tools| tools.for_task(task)))
}
