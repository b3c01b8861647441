//! The tools for packs and renderings of a server's diary.

use pinfold_content::{Cid, Object, Uuid, Value};

use super::{LARGEST_PAGE, ServedTools, is_of, lie, list, members};
use crate::json::pack_from_json;
use crate::pack::PackEntry;
use crate::render::{LOCAL_METHOD, Rendering, content_hash};
use crate::tools::ToolError;
use crate::tools::arguments::Arguments;
use crate::tools::packs::{DEPTH, PackNamed, new_pack, of_graph, one_pack};

impl ServedTools {
    pub(super) fn pack_get(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        self.pack(asked.required_id("packId")?, asked.flag("expandEntries")?)
    }

    /// Asks for a pack of this diary, whose address is that of what it says.
    fn pack(&self, id: Uuid, expand: bool) -> Result<Value, ToolError> {
        let query = expand.then(|| ("expand", "entries".to_owned()));
        let pack = self.server.get(&format!("/packs/{id}"), query.as_slice())?;
        self.check_is_own(&pack, "Context pack")?;
        if !is_of(&pack, "id", id) {
            return Err(lie("it gave another pack than the one that was asked for"));
        }
        if !expand {
            return Ok(pack.as_object().map(|pack| pack.without("entries")).into());
        }
        let places = pack_from_json(&pack).map_err(lie)?.entries;
        let is_other = |place: &PackEntry| {
            place.entry.as_ref().is_some_and(|entry| entry.id != place.packed.entry)
        };
        if places.iter().any(is_other) {
            return Err(lie("it gave another entry than the one in the pack"));
        }
        list(&pack, "entries")?
            .iter()
            .filter_map(|place| place.given("entry"))
            .try_for_each(|entry| self.check_is_own(entry, "Diary entry"))?;
        Ok(pack)
    }

    pub(super) fn pack_create(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        self.rules.may_write()?;
        let new = new_pack(asked)?;
        new.check()?;
        let entries: Value = new
            .entries
            .iter()
            .map(|(entry, rank)| {
                Object::default().with("entryId", entry.to_string()).with("rank", *rank)
            })
            .collect();
        let mut body = Object::default()
            .with("packType", "custom")
            .with("params", new.params)
            .with("entries", entries);
        if let Some(budget) = new.token_budget {
            body = body.with("tokenBudget", budget);
        }
        let body = body.with("pinned", new.pinned);
        Ok(self.server.post(&self.in_diary("packs"), &body.into())?)
    }

    pub(super) fn pack_provenance(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let path = match one_pack(asked)? {
            PackNamed::Id(id) => format!("/packs/{id}/provenance"),
            PackNamed::Cid(cid) => {
                let cid =
                    Cid::parse_link(&cid).map_err(|_| ToolError::not_found("Context pack"))?;
                format!("/packs/by-cid/{cid}/provenance")
            }
        };
        let depth = asked.count("depth")?.unwrap_or(DEPTH);
        let graph = self.server.get(&path, &[("depth", depth.to_string())])?;
        for node in list(&graph, "nodes")? {
            let meta = node.get("meta").ok_or_else(|| lie("a node of the graph says nothing"))?;
            self.check_is_own(meta, "Context pack")?;
        }
        Ok(of_graph(&graph))
    }

    pub(super) fn pack_render(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let id = asked.required_id("packId")?;
        let method = asked.text("renderMethod")?.unwrap_or_else(|| LOCAL_METHOD.to_owned());
        let mut markdown = asked.text("markdown")?;
        let is_preview = asked.flag("preview")?;
        if !is_preview {
            self.rules.may_write()?;
        }
        let is_local = markdown.is_none() && !method.starts_with("server:");
        // Also for a rendering by the server: the pack and its entries are of this diary.
        let pack = self.pack(id, true)?;
        if is_local {
            markdown = Rendering::local(&pack_from_json(&pack).map_err(lie)?).markdown;
        }
        let rendering = Rendering { method, markdown };
        rendering.check()?;
        let mut body = Object::default().with("renderMethod", rendering.method);
        if let Some(markdown) = &rendering.markdown {
            body = body.with("renderedMarkdown", markdown.as_str());
        }
        let mut path = format!("/packs/{id}/render");
        if is_preview {
            path += "/preview";
        } else if asked.flag("pinned")? {
            body = body.with("pinned", true);
        }
        let rendered = self.server.post(&path, &body.into())?;
        if !is_preview {
            self.check_is_own(&rendered, "Rendered pack")?;
        }
        let text = rendered.text_of("renderedMarkdown");
        let text = text.ok_or_else(|| lie("it has no renderedMarkdown"))?;
        let is_sent = rendering.markdown.is_none_or(|markdown| markdown == text);
        if !is_of(&rendered, "sourcePackId", id) || !is_sent {
            return Err(lie("it gave another rendering than the one that was asked for"));
        }
        Ok(rendered)
    }

    pub(super) fn rendered_pack_list(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let mut query = Vec::new();
        query.extend(asked.id("sourcePackId")?.map(|id| ("sourcePackId", id.to_string())));
        query.extend(asked.text("renderMethod")?.map(|method| ("renderMethod", method)));
        query.push(("limit", asked.limit(10, LARGEST_PAGE)?.to_string()));
        query.push(("offset", asked.offset()?.to_string()));
        let answer = self.server.get(&self.in_diary("rendered-packs"), &query)?;
        let items = list(&answer, "items")?.iter().map(|rendered| {
            self.check_is_own(rendered, "Rendered pack")?;
            // No hash of a text is compared here.
            Ok(rendered.as_object().map(|rendered| rendered.without("content")))
        });
        let items: Value = items.collect::<Result<_, ToolError>>()?;
        Ok(members(&answer, &["items", "total", "limit", "offset"]).with("items", items).into())
    }

    pub(super) fn rendered_pack_get(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let id = asked.required_id("renderedPackId")?;
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
}
