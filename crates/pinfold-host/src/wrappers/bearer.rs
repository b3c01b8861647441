//! On whose behalf launches are made, and what it could change.

use std::path::{Path, PathBuf};

use pinfold_policy::authority::Authority;
use serde_json::json;

use super::Subject;
use crate::audit::GrantRecord;
use crate::within::is_within;

#[derive(Debug)]
pub(super) struct Bearer {
    pub(super) subject: Subject,
    /// What the sandbox may write to.
    pub(super) writable: Vec<PathBuf>,
}

impl Bearer {
    pub(super) fn of(authority: &Authority) -> Self {
        let grants: Vec<GrantRecord<'_>> = authority.grants().map(Into::into).collect();
        Self {
            subject: Subject { name: authority.subject().to_string(), grants: json!(grants) },
            writable: authority.writable().map(|host| host.as_path().to_owned()).collect(),
        }
    }

    /// Returns whether the sandbox may write to this path, or to what it lies in.
    pub(super) fn may_change(&self, path: &Path) -> bool {
        is_within(path, &self.writable)
    }
}
