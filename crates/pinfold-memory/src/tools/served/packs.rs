//! The tools for packs and renderings of a server's diary.

use pinfold_content::Value;

use super::{LARGEST_PAGE, ServedTools, members};
use crate::render::{LOCAL_METHOD, Rendering};
use crate::served::Make;
use crate::tools::ToolError;
use crate::tools::arguments::Arguments;
use crate::tools::packs::{DEPTH, new_pack, of_graph, one_pack};

impl ServedTools {
    pub(super) fn pack_get(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        Ok(self.diary.pack_value(asked.required_id("packId")?, asked.flag("expandEntries")?)?)
    }

    pub(super) fn pack_create(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        self.rules.may_write()?;
        Ok(self.diary.make_pack(&new_pack(asked)?, Make::Pack)?.0)
    }

    pub(super) fn pack_provenance(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let depth = asked.count("depth")?.unwrap_or(DEPTH);
        Ok(of_graph(&self.diary.graph(&one_pack(asked)?, depth)?))
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
        let pack = self.diary.pack_with_entries(id)?;
        if is_local {
            markdown = Rendering::local(&pack).markdown;
        }
        let keep = if is_preview { None } else { Some(asked.flag("pinned")?.into()) };
        Ok(self.diary.render(id, &Rendering { method, markdown }, keep)?)
    }

    pub(super) fn rendered_pack_list(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        let mut query = Vec::new();
        query.extend(asked.id("sourcePackId")?.map(|id| ("sourcePackId", id.to_string())));
        query.extend(asked.text("renderMethod")?.map(|method| ("renderMethod", method)));
        query.push(("limit", asked.limit(10, LARGEST_PAGE)?.to_string()));
        query.push(("offset", asked.offset()?.to_string()));
        let (answer, items) = self.diary.renderings(&query)?;
        Ok(members(&answer, &["items", "total", "limit", "offset"]).with("items", items).into())
    }

    pub(super) fn rendered_pack_get(&self, asked: &Arguments<'_>) -> Result<Value, ToolError> {
        Ok(self.diary.rendered_value(asked.required_id("renderedPackId")?)?)
    }
}
