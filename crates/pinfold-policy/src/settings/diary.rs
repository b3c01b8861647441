//! Where an agent's diary is kept, how large it becomes, and how long entries stay.

use super::fields::{sub_table, word};
use super::keys;
use super::url::BaseUrl;
use crate::document::{FileError, Section};
use crate::limits::{ByteSize, WallTime};
use crate::origin::{Origin, Valued};

/// What the user's own settings say of diaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiarySettings {
    /// A server with MoltNet's API that keeps the diary, in the place of a file on this machine.
    pub server: Option<Valued<BaseUrl>>,
    /// Bytes of a file at most.
    pub size: Option<Valued<ByteSize>>,
    /// How old entries become.
    pub keep: Option<Valued<WallTime>>,
}

/// Reads `diary` of the user's file. A repository's has none.
pub(super) fn of_user(section: &Section<'_>) -> Result<DiarySettings, FileError> {
    let Some(table) = sub_table(section, keys::USER, "diary")? else {
        return Ok(DiarySettings::default());
    };
    Ok(DiarySettings {
        server: word(&table, "server", Origin::User)?,
        size: word(&table, "size", Origin::User)?,
        keep: word(&table, "keep", Origin::User)?,
    })
}
