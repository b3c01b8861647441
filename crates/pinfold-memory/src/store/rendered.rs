//! Renderings of packs, as texts that stay.

use pinfold_content::Uuid;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::packs::{LIFETIME, link, load, sweep};
use super::{Diary, millis, number, timestamp, uuid};
use crate::compress::tokens;
use crate::known_secrets::KnownSecrets;
use crate::pack::Pack;
use crate::render::{RenderedPack, Rendering, address, content_hash};
use crate::{MemoryError, StoreError};

const COLUMNS: &str = "id, cid, pack, pack_cid, method, content, content_hash, tokens, pinned,
    expires_at, created_at";

impl Diary {
    /// Renders a pack and keeps the text. One with the same content is returned as it is, and pinned if this one is to be.
    ///
    /// # Errors
    /// Returns an error if the pack is not in this diary, or for a text that does not fit the method.
    pub fn render_pack(
        &self,
        pack: Uuid,
        rendering: &Rendering,
        pinned: bool,
        secrets: &KnownSecrets,
    ) -> Result<RenderedPack, MemoryError> {
        rendering.check()?;
        secrets.check_text("/renderMethod", &rendering.method)?;
        let id = Uuid::generate().map_err(StoreError::from)?;
        self.write(|transaction, now| {
            sweep(transaction, now)?;
            let pack = load(transaction, pack, self.id, now)?
                .ok_or_else(|| MemoryError::NoPack(pack.to_string()))?;
            let content = rendering.text(&pack);
            // Also where this program wrote it: a secret may be newer than an entry.
            secrets.check_text("/renderedMarkdown", &content)?;
            let hash = content_hash(&content);
            let cid = address(&pack.cid, &rendering.method, &hash)
                .map_err(|error| MemoryError::invalid("/renderMethod", error))?;
            if let Some(found) = rendering_with_cid(transaction, cid.as_str())? {
                return Ok(pin(transaction, found.rendered(self.id)?, pinned)?);
            }
            let rendered = RenderedPack {
                id,
                diary: self.id,
                cid,
                pack: pack.id,
                pack_cid: pack.cid,
                method: rendering.method.clone(),
                tokens: tokens(&content),
                content,
                content_hash: hash,
                pinned,
                expires_at: (!pinned).then(|| now + LIFETIME),
                created_at: now,
            };
            insert(transaction, &rendered)?;
            Ok(rendered)
        })
    }

    /// Returns a pack with the text that a rendering of it has, and the tokens of the text. Keeps nothing.
    ///
    /// # Errors
    /// Returns the errors of [`Self::render_pack`].
    pub fn preview_rendering(
        &self,
        pack: Uuid,
        rendering: &Rendering,
    ) -> Result<(Pack, String, u64), MemoryError> {
        rendering.check()?;
        let pack = self.pack(pack)?;
        let text = rendering.text(&pack);
        let tokens = tokens(&text);
        Ok((pack, text, tokens))
    }

    /// Returns a rendering that has not ended.
    ///
    /// # Errors
    /// Returns an error if it is not in this diary.
    pub fn rendered(&self, id: Uuid) -> Result<RenderedPack, MemoryError> {
        self.read(|transaction, now| {
            let query = format!(
                "SELECT {COLUMNS} FROM rendered_pack
                 WHERE (expires_at IS NULL OR expires_at > ?1) AND id = ?2"
            );
            let values = params![millis(now), id.to_string()];
            let found = transaction.query_row(&query, values, StoredRendering::of).optional()?;
            let stored = found.ok_or_else(|| MemoryError::NoPack(id.to_string()))?;
            Ok(stored.rendered(self.id)?)
        })
    }

    /// Returns renderings that have not ended, the newest first, and how many there are: of one pack and by one method, if
    /// these are named.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn renderings(
        &self,
        pack: Option<Uuid>,
        method: Option<&str>,
        limit: u32,
        offset: u32,
    ) -> Result<(Vec<RenderedPack>, u64), MemoryError> {
        let condition = "(expires_at IS NULL OR expires_at > ?1) AND (?2 IS NULL OR pack = ?2)
             AND (?3 IS NULL OR method = ?3)";
        self.read(|transaction, now| {
            let pack = pack.map(|id| id.to_string());
            let count = format!("SELECT count(*) FROM rendered_pack WHERE {condition}");
            let total =
                transaction
                    .query_row(&count, params![millis(now), pack, method], |row| row.get(0))?;
            let query = format!(
                "SELECT {COLUMNS} FROM rendered_pack WHERE {condition}
                 ORDER BY created_at DESC, id LIMIT ?4 OFFSET ?5"
            );
            let mut statement = transaction.prepare_cached(&query)?;
            let values = params![millis(now), pack, method, limit, offset];
            let rows = statement.query_map(values, StoredRendering::of)?;
            let found: Result<_, MemoryError> =
                rows.map(|row| Ok(row?.rendered(self.id)?)).collect();
            Ok((found?, number("count", total)?))
        })
    }
}

const INSERT: &str = "INSERT INTO rendered_pack
    (id, cid, pack, pack_cid, method, content, content_hash, tokens, pinned, expires_at, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

fn insert(transaction: &Transaction<'_>, rendered: &RenderedPack) -> rusqlite::Result<()> {
    transaction
        .execute(
            INSERT,
            params![
                rendered.id.to_string(),
                rendered.cid.as_str(),
                rendered.pack.to_string(),
                rendered.pack_cid.as_str(),
                rendered.method,
                rendered.content,
                rendered.content_hash,
                i64::try_from(rendered.tokens).unwrap_or(i64::MAX),
                rendered.pinned,
                rendered.expires_at.map(millis),
                millis(rendered.created_at),
            ],
        )
        .map(drop)
}

fn rendering_with_cid(
    transaction: &Transaction<'_>,
    cid: &str,
) -> rusqlite::Result<Option<StoredRendering>> {
    let query = format!("SELECT {COLUMNS} FROM rendered_pack WHERE cid = ?1");
    transaction.query_row(&query, [cid], StoredRendering::of).optional()
}

/// Pins a rendering if it is to be, so that it does not end.
fn pin(
    transaction: &Transaction<'_>,
    found: RenderedPack,
    pinned: bool,
) -> rusqlite::Result<RenderedPack> {
    if !pinned || found.pinned {
        return Ok(found);
    }
    let query = "UPDATE rendered_pack SET pinned = 1, expires_at = NULL WHERE id = ?1";
    transaction.execute(query, [found.id.to_string()])?;
    Ok(RenderedPack { pinned: true, expires_at: None, ..found })
}

/// The row of a rendering.
struct StoredRendering {
    id: String,
    cid: String,
    pack: String,
    pack_cid: String,
    method: String,
    content: String,
    content_hash: String,
    tokens: i64,
    pinned: bool,
    expires_at: Option<i64>,
    created_at: i64,
}

impl StoredRendering {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            cid: row.get(1)?,
            pack: row.get(2)?,
            pack_cid: row.get(3)?,
            method: row.get(4)?,
            content: row.get(5)?,
            content_hash: row.get(6)?,
            tokens: row.get(7)?,
            pinned: row.get(8)?,
            expires_at: row.get(9)?,
            created_at: row.get(10)?,
        })
    }

    fn rendered(self, diary: Uuid) -> Result<RenderedPack, StoreError> {
        Ok(RenderedPack {
            id: uuid(&self.id)?,
            diary,
            cid: link(&self.cid)?,
            pack: uuid(&self.pack)?,
            pack_cid: link(&self.pack_cid)?,
            method: self.method,
            content: self.content,
            content_hash: self.content_hash,
            tokens: number("count", self.tokens)?,
            pinned: self.pinned,
            expires_at: self.expires_at.map(timestamp).transpose()?,
            created_at: timestamp(self.created_at)?,
        })
    }
}
