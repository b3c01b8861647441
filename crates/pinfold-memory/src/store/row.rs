//! Rows of entries.

use pinfold_content::{Cid, Text, Value, read};
use rusqlite::Row;

use super::{number, timestamp, uuid};
use crate::StoreError;
use crate::entry::{Entry, NewEntry};
use crate::scan::{self, Threat};
use crate::sign::Signature;

/// The columns of an entry, in the order in which [`Stored`] reads them.
pub(super) const COLUMNS: &str = "entry.id, title, content, tags, importance, type, cid, threats, \
    access_count, last_accessed_at, created_at, updated_at, \
    EXISTS (SELECT 1 FROM supersedes WHERE older = entry.number), identity, public_key, signature, nonce";

/// Returns the same of a file of a format: nothing was signed in the first one, and the second one had no nonces.
pub(super) fn columns_of(format: i64) -> String {
    let signature = "identity, public_key, signature, nonce";
    match format {
        1 => COLUMNS.replace(signature, "NULL, NULL, NULL, NULL"),
        2 => COLUMNS.replace(signature, "identity, public_key, signature, NULL"),
        _ => COLUMNS.to_owned(),
    }
}

/// The row of an entry.
pub(super) struct Stored {
    id: String,
    title: Option<String>,
    content: String,
    tags: String,
    importance: i64,
    kind: String,
    cid: String,
    threats: String,
    access_count: i64,
    last_accessed_at: Option<i64>,
    created_at: i64,
    updated_at: i64,
    is_superseded: bool,
    identity: Option<String>,
    public_key: Option<String>,
    signature: Option<String>,
    nonce: Option<String>,
}

impl Stored {
    pub(super) fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            title: row.get(1)?,
            content: row.get(2)?,
            tags: row.get(3)?,
            importance: row.get(4)?,
            kind: row.get(5)?,
            cid: row.get(6)?,
            threats: row.get(7)?,
            access_count: row.get(8)?,
            last_accessed_at: row.get(9)?,
            created_at: row.get(10)?,
            updated_at: row.get(11)?,
            is_superseded: row.get(12)?,
            identity: row.get(13)?,
            public_key: row.get(14)?,
            signature: row.get(15)?,
            nonce: row.get(16)?,
        })
    }

    /// Returns the entry, if its address is that of its content and its signature one of that address: a file that was changed by hand or by a fault is no
    /// diary to rely on.
    pub(super) fn entry(self) -> Result<Entry, StoreError> {
        let invalid = |what, reason: &dyn ToString| StoreError::invalid(what, reason.to_string());
        let new = NewEntry {
            title: self.title,
            tags: tags(&self.tags)?,
            importance: number("importance", self.importance)?,
            entry_type: self.kind.parse().map_err(|error| invalid("type of an entry", &error))?,
            ..NewEntry::new(self.content)
        };
        let cid: Cid = self.cid.parse().map_err(|error| invalid("address of an entry", &error))?;
        if cid != new.address() {
            let reason = format!("{} is not what its address says", self.id);
            return Err(invalid("entry", &reason));
        }
        let nonce = self.nonce;
        let signature = match (self.identity, self.public_key, self.signature) {
            (None, None, None) if nonce.is_none() => None,
            (Some(identity), Some(public_key), Some(signature)) => {
                Some(Signature { identity, public_key, signature, nonce })
            }
            _ => return Err(invalid("signature", &"a part of it is missing")),
        };
        signature.iter().try_for_each(|signature| signature.check(&cid))?;
        Ok(Entry {
            id: uuid(&self.id)?,
            title: new.title,
            content: new.content,
            tags: new.tags,
            importance: new.importance,
            entry_type: new.entry_type,
            cid,
            threats: threats(&self.threats)?,
            access_count: number("count", self.access_count)?,
            last_accessed_at: self.last_accessed_at.map(timestamp).transpose()?,
            created_at: timestamp(self.created_at)?,
            updated_at: timestamp(self.updated_at)?,
            is_superseded: self.is_superseded,
            signature,
            claim: None,
        })
    }
}

fn tags(text: &str) -> Result<Vec<String>, StoreError> {
    let value = read(text).map_err(|error| StoreError::invalid("list of tags", error))?;
    let tags =
        value.as_array().ok_or_else(|| StoreError::invalid("list of tags", "no list"))?.iter().map(
            |tag| match tag {
                Value::Text(text) => Ok(Text::to_str(text).into_owned()),
                _ => Err(StoreError::invalid("list of tags", "a tag is not a text")),
            },
        );
    tags.collect()
}

fn threats(text: &str) -> Result<Vec<Threat>, StoreError> {
    let value = read(text).map_err(|error| StoreError::invalid("list of threats", error))?;
    // Without its marks an entry would look harmless.
    let listed =
        value.as_array().ok_or_else(|| StoreError::invalid("list of threats", "no list"))?;
    let threats = listed.iter().map(|threat| {
        let text = |key: &str| threat.text_of(key).unwrap_or_default().into_owned();
        let (kind, severity) = scan::known(&text("type"), &text("severity"))
            .ok_or_else(|| StoreError::invalid("list of threats", "a kind is not known"))?;
        Ok(Threat { kind, severity, found: text("match") })
    });
    threats.collect()
}
