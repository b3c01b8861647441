//! Packs and renderings of a server's diary.

use pinfold_content::{Cid, Object, Timestamp, Uuid, Value, times};

use super::{ServedDiary, is_of, lie, list};
use crate::error::MemoryError;
use crate::json::{compiled_from_json, pack_from_json};
use crate::pack::{CUSTOM, Compiled, NewPack, Pack, PackEntry};
use crate::render::{RenderedPack, Rendering, address, content_hash};

/// Which pack is meant.
pub(crate) enum PackNamed {
    Id(Uuid),
    Cid(String),
}

impl ServedDiary {
    /// Asks for a pack of this diary. With its entries, its address is that of what it says.
    pub(crate) fn pack_value(&self, id: Uuid, expand: bool) -> Result<Value, MemoryError> {
        let query = expand.then(|| ("expand", "entries".to_owned()));
        let pack = self.server.get(&format!("/packs/{id}"), query.as_slice())?;
        if !is_of(&pack, "id", id) {
            self.check_is_own(&pack, "Context pack")?;
            return Err(lie("it gave another pack than the one that was asked for"));
        }
        if !expand {
            self.check_is_own(&pack, "Context pack")?;
            return Ok(pack.as_object().map(|pack| pack.without("entries")).into());
        }
        self.checked_pack(&pack)?;
        Ok(pack)
    }

    /// Returns a pack of this diary with its entries.
    pub(crate) fn pack_with_entries(&self, id: Uuid) -> Result<Pack, MemoryError> {
        pack_from_json(&self.pack_value(id, true)?).map_err(lie)
    }

    /// Returns the pack that an answer holds with its entries, which all are of this diary.
    pub(crate) fn checked_pack(&self, value: &Value) -> Result<Pack, MemoryError> {
        self.check_is_own(value, "Context pack")?;
        let pack = pack_from_json(value).map_err(lie)?;
        let is_other = |place: &PackEntry| {
            place.entry.as_ref().is_some_and(|entry| entry.id != place.packed.entry)
        };
        if pack.entries.iter().any(is_other) {
            return Err(lie("it gave another entry than the one in the pack"));
        }
        list(value, "entries")?
            .iter()
            .filter_map(|place| place.given("entry"))
            .try_for_each(|entry| self.check_is_own(entry, "Diary entry"))?;
        let expires_at = value.text_of("expiresAt").and_then(|time| times::read(&time));
        let supersedes = value.text_of("supersedesPackId").and_then(|id| id.parse().ok());
        Ok(Pack { expires_at, supersedes, ..pack })
    }

    /// Returns a page of packs as the server gives them, the newest first.
    pub(crate) fn pack_page(
        &self,
        limit: u32,
        offset: u32,
        expand: bool,
    ) -> Result<Vec<Value>, MemoryError> {
        let mut query = vec![("limit", limit.to_string()), ("offset", offset.to_string())];
        query.extend(expand.then(|| ("expand", "entries".to_owned())));
        let answer = self.get_in_diary("packs", &query)?;
        let packs = list(&answer, "items")?;
        packs.iter().try_for_each(|pack| self.check_is_own(pack, "Context pack"))?;
        Ok(packs.to_vec())
    }

    /// Makes a pack, or returns what would be one, as the server says it and as it is.
    pub(crate) fn make_pack(
        &self,
        new: &NewPack,
        make: Make,
    ) -> Result<(Value, Compiled), MemoryError> {
        new.check()?;
        let ranked = |(entry, rank): &(Uuid, u32)| {
            Object::default().with("entryId", entry.to_string()).with("rank", *rank)
        };
        let mut body = Object::default()
            .with("packType", CUSTOM)
            .with("params", new.params.clone())
            .with("entries", new.entries.iter().map(ranked).collect::<Value>());
        if let Some(budget) = new.token_budget {
            body = body.with("tokenBudget", budget);
        }
        body = body.with("pinned", new.pinned);
        if new.force {
            body = body.with("force", true);
        }
        if let Some(older) = new.supersedes {
            body = body.with("supersedesPackId", older.to_string());
        }
        let path = match make {
            Make::Pack => "packs",
            Make::Preview => "packs/preview",
        };
        let made = self.server.post(&self.in_diary(path), &body.into())?;
        let compiled = compiled_from_json(&made, self.id, new).map_err(lie)?;
        Ok((made, compiled))
    }

    /// Returns the graph of where a pack comes from. All of it is of this diary.
    pub(crate) fn graph(&self, pack: &PackNamed, depth: u64) -> Result<Value, MemoryError> {
        let path = match pack {
            PackNamed::Id(id) => format!("/packs/{id}/provenance"),
            PackNamed::Cid(cid) => {
                let cid =
                    Cid::parse_link(cid).map_err(|_| MemoryError::NotInDiary("Context pack"))?;
                format!("/packs/by-cid/{cid}/provenance")
            }
        };
        let graph = self.server.get(&path, &[("depth", depth.to_string())])?;
        for node in list(&graph, "nodes")? {
            let meta = node.get("meta").ok_or_else(|| lie("a node of the graph says nothing"))?;
            self.check_is_own(meta, "Context pack")?;
        }
        Ok(graph)
    }

    /// Has a pack of this diary rendered, and returns what the server says of that. The text is the one that was sent, if one was.
    pub(crate) fn render(
        &self,
        pack: Uuid,
        rendering: &Rendering,
        keep: Option<Pinned>,
    ) -> Result<Value, MemoryError> {
        rendering.check()?;
        let mut body = Object::default().with("renderMethod", rendering.method.as_str());
        if let Some(markdown) = &rendering.markdown {
            body = body.with("renderedMarkdown", markdown.as_str());
        }
        let mut path = format!("/packs/{pack}/render");
        match keep {
            None => path += "/preview",
            Some(Pinned::Yes) => body = body.with("pinned", true),
            Some(Pinned::No) => {}
        }
        let rendered = self.server.post(&path, &body.into())?;
        if keep.is_some() {
            self.check_is_own(&rendered, "Rendered pack")?;
        }
        let text = rendered.text_of("renderedMarkdown");
        let text = text.ok_or_else(|| lie("it has no renderedMarkdown"))?;
        let is_sent = rendering.markdown.as_ref().is_none_or(|markdown| *markdown == text);
        if !is_of(&rendered, "sourcePackId", pack) || !is_sent {
            return Err(lie("it gave another rendering than the one that was asked for"));
        }
        Ok(rendered)
    }

    /// Returns the server's answer about renderings, and its items without their texts.
    pub(crate) fn renderings(
        &self,
        query: &[(&'static str, String)],
    ) -> Result<(Value, Value), MemoryError> {
        let answer = self.get_in_diary("rendered-packs", query)?;
        let items = list(&answer, "items")?.iter().map(|rendered| {
            self.check_is_own(rendered, "Rendered pack")?;
            // No hash of a text is compared here.
            Ok(rendered.as_object().map(|rendered| rendered.without("content")))
        });
        let items = items.collect::<Result<_, MemoryError>>()?;
        Ok((answer, items))
    }

    /// Returns a rendering of this diary, whose text is the one of its hash.
    pub(crate) fn rendered_value(&self, id: Uuid) -> Result<Value, MemoryError> {
        let rendered = self.server.get(&format!("/rendered-packs/{id}"), &[])?;
        self.check_is_own(&rendered, "Rendered pack")?;
        if !is_of(&rendered, "id", id) {
            return Err(lie("it gave another rendering than the one that was asked for"));
        }
        let content = rendered.text_of("content").ok_or_else(|| lie("it has no content"))?;
        let hash = rendered.text_of("contentHash");
        if hash.is_none_or(|hash| hash != content_hash(&content)) {
            return Err(lie("the text is not the one of its hash"));
        }
        Ok(rendered)
    }

    /// Returns the rendering of a pack that a server's answer describes. Its address is that of its content.
    pub(crate) fn rendered_pack(
        &self,
        value: &Value,
        pack: &Pack,
        rendering: &Rendering,
    ) -> Result<RenderedPack, MemoryError> {
        let invalid = |what: &str| lie(format!("it gave a rendering without {what}"));
        let content = value.text_of("content").ok_or_else(|| invalid("its text"))?.into_owned();
        if rendering.markdown.as_ref().is_some_and(|markdown| *markdown != content) {
            return Err(lie("it kept another text than the one that it was sent"));
        }
        let hash = content_hash(&content);
        let cid = address(&pack.cid, &rendering.method, &hash).map_err(lie)?;
        if value.text_of("packCid").is_none_or(|its| its != cid.as_str()) {
            return Err(lie("the address of the rendering is not that of its text"));
        }
        let time = |name: &str| -> Option<Timestamp> {
            value.text_of(name).and_then(|time| times::read(&time))
        };
        let id = value.text_of("id").and_then(|id| id.parse().ok());
        Ok(RenderedPack {
            id: id.ok_or_else(|| invalid("its id"))?,
            diary: self.id,
            cid,
            pack: pack.id,
            pack_cid: pack.cid.clone(),
            method: rendering.method.clone(),
            tokens: value.get("totalTokens").and_then(Value::as_count).unwrap_or_default(),
            content,
            content_hash: hash,
            pinned: value.get("pinned").and_then(Value::as_bool) == Some(true),
            expires_at: time("expiresAt"),
            created_at: time("createdAt").ok_or_else(|| invalid("its time"))?,
        })
    }
}

/// What becomes of a pack that is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Pack,
    Preview,
}

/// Whether a rendering that is kept stays for longer than seven days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pinned {
    Yes,
    No,
}

impl From<bool> for Pinned {
    fn from(is_pinned: bool) -> Self {
        if is_pinned { Self::Yes } else { Self::No }
    }
}
