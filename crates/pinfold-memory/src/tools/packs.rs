//! The tools for packs and renderings.

use pinfold_content::{Object, Uuid, Value};

use super::arguments::{Arguments, wrong};
use super::{MemoryTools, ToolError};
use crate::json::{pack_to_json, rendered_to_json};
use crate::pack::NewPack;
use crate::render::{LOCAL_METHOD, RenderedPack, Rendering};
use crate::served::PackNamed;

/// Superseded packs that are followed unless another number is asked for.
pub(super) const DEPTH: u64 = 2;

impl MemoryTools {
    pub(super) fn pack_get(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let pack = pack_to_json(&self.diary.pack(arguments.required_id("packId")?)?);
        let expand = arguments.flag("expandEntries")?;
        let object = pack.as_object().filter(|_| !expand).map(|pack| pack.without("entries"));
        Ok(object.map_or(pack, Value::Object))
    }

    pub(super) fn pack_provenance(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let id = match one_pack(arguments)? {
            PackNamed::Id(id) => id,
            PackNamed::Cid(cid) => self.diary.pack_with_cid(&cid)?,
        };
        let depth = u32::try_from(arguments.count("depth")?.unwrap_or(DEPTH))
            .map_err(|_| wrong("depth", "a number from 0 to 10"))?;
        let graph = self.diary.provenance(id, depth)?;
        Ok(of_graph(&graph))
    }

    pub(super) fn pack_render(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let id = arguments.required_id("packId")?;
        let method = arguments.text("renderMethod")?.unwrap_or_else(|| LOCAL_METHOD.to_owned());
        let mut markdown = arguments.text("markdown")?;
        if markdown.is_none() && !method.starts_with("server:") {
            markdown = Rendering::local(&self.diary.pack(id)?).markdown;
        }
        let rendering = Rendering { method, markdown };
        if arguments.flag("preview")? {
            let (pack, text, tokens) = self.diary.preview_rendering(id, &rendering)?;
            return Ok(Value::object([
                ("sourcePackId", pack.id.to_string().into()),
                ("sourcePackCid", pack.cid.as_str().into()),
                ("renderMethod", rendering.method.into()),
                ("renderedMarkdown", text.into()),
                ("totalTokens", tokens.into()),
            ]));
        }
        self.rules.may_write()?;
        let pinned = arguments.flag("pinned")?;
        let rendered = self.diary.render_pack(id, &rendering, pinned, &self.rules.secrets()?);
        let rendered = rendered.map_err(|error| self.rules.refused(error))?;
        Ok(Value::object([
            ("id", rendered.id.to_string().into()),
            ("packCid", rendered.cid.as_str().into()),
            ("sourcePackId", rendered.pack.to_string().into()),
            ("sourcePackCid", rendered.pack_cid.as_str().into()),
            ("diaryId", rendered.diary.to_string().into()),
            ("contentHash", rendered.content_hash.into()),
            ("renderMethod", rendered.method.into()),
            ("renderedMarkdown", rendered.content.into()),
            ("totalTokens", rendered.tokens.into()),
            ("pinned", rendered.pinned.into()),
        ]))
    }

    pub(super) fn rendered_pack_list(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let (limit, offset) = (arguments.limit(10, 100)?, arguments.offset()?);
        let (pack, method) = (arguments.id("sourcePackId")?, arguments.text("renderMethod")?);
        let (rendered, total) = self.diary.renderings(pack, method.as_deref(), limit, offset)?;
        Ok(Value::object([
            ("items", rendered.iter().map(without_content).collect()),
            ("total", total.into()),
            ("limit", limit.into()),
            ("offset", offset.into()),
        ]))
    }

    pub(super) fn rendered_pack_get(&self, arguments: &Arguments<'_>) -> Result<Value, ToolError> {
        let id = arguments.required_id("renderedPackId")?;
        let rendered = self.diary.rendered(id).map_err(|error| match error {
            crate::MemoryError::NoPack(_) => ToolError::not_found("Rendered pack"),
            other => other.into(),
        })?;
        Ok(rendered_to_json(&rendered))
    }
}

/// Returns the pack that a call asks for.
pub(super) fn new_pack(arguments: &Arguments<'_>) -> Result<NewPack, ToolError> {
    let entries: Result<Vec<_>, _> = arguments
        .given("entries")
        .and_then(Value::as_array)
        .ok_or_else(|| wrong("entries", "a list"))?
        .iter()
        .map(ranked)
        .collect();
    let params = match arguments.given("params") {
        None => Object::default(),
        Some(Value::Object(params)) => params.clone(),
        Some(_) => return Err(wrong("params", "an object")),
    };
    Ok(NewPack {
        entries: entries?,
        params,
        token_budget: arguments.count("tokenBudget")?,
        pinned: arguments.flag("pinned")?,
        ..NewPack::new([])
    })
}

/// Returns the pack that a request asks for: as a tool's call does, and also of flagged entries or in the place of an older one.
///
/// # Errors
/// Returns an error for a value of another type.
pub fn new_pack_from_json(body: &Value) -> Result<NewPack, ToolError> {
    let asked = Arguments::new(body)?;
    let (force, supersedes) = (asked.flag("force")?, asked.id("supersedesPackId")?);
    Ok(NewPack { force, supersedes, ..new_pack(&asked)? })
}

/// Returns the one pack that a call names.
pub(super) fn one_pack(arguments: &Arguments<'_>) -> Result<PackNamed, ToolError> {
    match (arguments.id("packId")?, arguments.text("packCid")?) {
        (None, None) => Err(ToolError::plain("Provide either packId or packCid")),
        (Some(_), Some(_)) => Err(ToolError::plain("Provide only one of packId or packCid")),
        (Some(id), None) => Ok(PackNamed::Id(id)),
        (None, Some(cid)) => Ok(PackNamed::Cid(cid)),
    }
}

/// Returns what is answered about a graph.
pub(super) fn of_graph(graph: &Value) -> Value {
    let count = |list: &str| {
        let items = graph.get(list).and_then(Value::as_array).unwrap_or_default();
        Value::from(items.len() as u64)
    };
    Value::object([
        ("metadata", graph.get("metadata").cloned().unwrap_or(Value::Null)),
        ("counts", Value::object([("nodes", count("nodes")), ("edges", count("edges"))])),
        ("graph", graph.clone()),
    ])
}

fn without_content(rendered: &RenderedPack) -> Object {
    let value = rendered_to_json(rendered);
    value.as_object().map(|object| object.without("content")).unwrap_or_default()
}

fn ranked(item: &Value) -> Result<(Uuid, u32), ToolError> {
    let item = Arguments::new(item).map_err(|_| wrong("entries", "a list of objects"))?;
    let rank = item
        .count("rank")?
        .and_then(|rank| u32::try_from(rank).ok())
        .ok_or_else(|| wrong("rank", "a number from 1"))?;
    Ok((item.required_id("entryId")?, rank))
}
