//! The files that attempts kept, for a user of a server.

use std::io;

use pinfold_content::{Cid, Uuid, Value};
use pinfold_egress::WayOut;
use pinfold_host::Refusal;
use pinfold_tasks::TaskId;

use super::PATIENCE;
use super::api::ApiClient;
use super::call::{Call, Calls};
use super::credentials::Credentials;
use super::inquiries::{artifact, artifacts_path};
use crate::scope::Scope;

/// Artifacts of a page, and the most pages: more than a task may have.
const PAGE: u32 = 100;
const MOST_PAGES: usize = 100;

/// The artifacts of the tasks of a server.
pub struct RemoteArtifacts(Calls);

impl RemoteArtifacts {
    /// Returns the artifacts of a server. Nothing is asked for yet.
    ///
    /// # Errors
    /// Returns an error for an address that credentials must not go to.
    pub fn new(
        address: &str,
        way: WayOut,
        credentials: Credentials,
        team: Option<Uuid>,
    ) -> io::Result<Self> {
        let api = ApiClient::new(address, way)?;
        credentials.check_address(&api.origin())?;
        Ok(Self(Calls::new(api, credentials, team, Scope::OF_A_WATCHER, PATIENCE)))
    }

    /// Returns descriptions of the artifacts of a task, in the order of its attempts.
    ///
    /// # Errors
    /// Returns what the server or the network says.
    pub fn list(&self, task: TaskId) -> Result<Vec<Value>, Refusal> {
        let (mut all, mut cursor) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let path = artifacts_path(task, PAGE, cursor.as_deref());
            let page = self.0.send(&Call::get(&path)).map_err(Refusal::of)?;
            let artifacts = page.get("artifacts").and_then(Value::as_array).unwrap_or_default();
            all.extend(artifacts.iter().cloned());
            cursor = page.text_of("nextCursor").map(|cursor| cursor.into_owned());
            if cursor.is_none() {
                break;
            }
        }
        Ok(all)
    }

    /// Returns the content of an artifact.
    ///
    /// # Errors
    /// Returns what the server or the network says, also for a content that does not have this address.
    pub fn content(&self, task: TaskId, attempt: u32, cid: &Cid) -> Result<Vec<u8>, Refusal> {
        artifact(&self.0, task, Some(attempt), cid).map_err(Refusal::of)
    }
}
