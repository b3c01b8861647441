//! What a request about a diary does.

use pinfold_content::{Object, Uuid, Value, times};
use pinfold_memory::{
    Diary, DiaryTools as _, EntryType, Filter, MemoryError, NewPack, Search, ToolError, Weights,
    compiled_to_json, entry_to_json, new_pack_from_json, pack_to_json, rendered_to_json,
};

use super::route::Route;
use super::{DiaryApi, signing};
use crate::problem::{Kind, Problem};
use crate::server::caller::Caller;
use crate::server::query::Query;

/// Entries and packs of a page.
pub(super) const PAGE: u32 = 20;
pub(super) const LARGEST_PAGE: u32 = 100;
/// Types in a filter.
const MOST_TYPES: usize = 4;
/// Results of a search.
const RESULTS: u32 = 10;

impl DiaryApi {
    pub(super) fn operate(
        &self,
        route: &Route,
        caller: &Caller,
        query: &Query,
        body: impl FnOnce() -> Result<Value, Problem>,
    ) -> Result<Value, Problem> {
        match route {
            // Both are answered before.
            Route::Token | Route::Whoami => Err(Problem::internal()),
            Route::InvalidId => Err(Problem::field("/id", "must match format \"uuid\"")),
            Route::Diaries => {
                Ok(Value::object([("items", Value::Array(vec![self.described(caller)?]))]))
            }
            Route::Diary(id) => self.check_diary(*id).and_then(|()| self.described(caller)),
            Route::Entries(id) => self.check_diary(*id).and_then(|()| self.entries(query)),
            Route::CreateEntry(id) => {
                self.check_diary(*id)?;
                self.create(caller, &body()?)
            }
            Route::Search => self.search(&body()?),
            Route::Tags(id) => self.check_diary(*id).and_then(|()| self.tags(query)),
            Route::Entry(id) => Ok(self.json(&self.diary().entry(*id)?)),
            Route::VerifyEntry(id) => self.verified(*id),
            Route::ChangeEntry(id) => self.change(*id, &body()?),
            Route::ChangePack(id) => {
                self.diary().pin_pack(*id, pinned(&body()?)?)?;
                self.tool("moltnet_pack_get", of_pack(*id).into())
            }
            Route::LatestRendering(id) => {
                let (found, _) = self.diary().renderings(Some(*id), None, 1, 0)?;
                let latest = found.first();
                let missing = || Problem::not_found("Rendered pack not found");
                latest.map(rendered_to_json).ok_or_else(missing)
            }
            Route::ChangeRendering(id) => {
                self.diary().pin_rendering(*id, pinned(&body()?)?)?;
                self.rendering(*id)
            }
            Route::Supersede(id) => self.supersede(*id, &body()?),
            Route::RemoveEntry(id) => self.remove(*id),
            Route::RemoveEntries => self.remove_all(&body()?),
            Route::Identity => signing::identity(caller),
            Route::SigningRequests => self.requests.list(caller, query),
            Route::AskToSign => self.requests.ask(caller, &body()?),
            Route::SigningRequest(id) => self.requests.get(caller, *id),
            Route::Sign(id) => self.requests.sign(caller, *id, &body()?),
            Route::Packs(id) => self.check_diary(*id).and_then(|()| self.packs(query)),
            Route::PreviewPack(id) => {
                self.check_diary(*id)?;
                let new = new_pack(&body()?)?;
                let compiled = self.diary().preview_pack(&new)?;
                Ok(compiled_to_json(&compiled, None, &new.params, 0))
            }
            Route::CreatePack(id) => {
                self.check_diary(*id)?;
                Ok(self.tools.make_pack(&new_pack(&body()?)?)?)
            }
            Route::Pack(id) => {
                let expand = query.one("expand") == Some("entries");
                let asked = of_pack(*id).with("expandEntries", expand);
                self.tool("moltnet_pack_get", asked.into())
            }
            Route::Provenance(id) => self.provenance(of_pack(*id), query),
            Route::ProvenanceOf(cid) => {
                self.provenance(Object::default().with("packCid", cid.as_str()), query)
            }
            Route::Preview(id) => self.render(*id, &body()?, Some(true)),
            Route::Render(id) => self.render(*id, &body()?, None),
            Route::Renderings(id) => self.check_diary(*id).and_then(|()| self.renderings(query)),
            Route::Rendering(id) => self.rendering(*id),
        }
    }

    pub(super) fn diary(&self) -> &Diary {
        self.tools.diary()
    }

    pub(super) fn json(&self, entry: &pinfold_memory::Entry) -> Value {
        entry_to_json(entry, self.diary().id())
    }

    fn tool(&self, name: &str, arguments: Value) -> Result<Value, Problem> {
        Ok(self.tools.value(name, &arguments)?)
    }

    fn check_diary(&self, id: Uuid) -> Result<(), Problem> {
        let missing = || Problem::not_found("Diary not found or access denied");
        (id == self.diary().id()).then_some(()).ok_or_else(missing)
    }

    fn described(&self, caller: &Caller) -> Result<Value, Problem> {
        let made = times::write(self.diary().created_at()?);
        Ok(Value::object([
            ("id", self.diary().id().to_string().into()),
            ("name", self.name.as_str().into()),
            ("visibility", "private".into()),
            ("teamId", caller.agent.team.as_str().into()),
            ("signed", false.into()),
            ("creator", Value::Null),
            ("createdAt", made.as_str().into()),
            ("updatedAt", made.as_str().into()),
        ]))
    }

    fn packs(&self, query: &Query) -> Result<Value, Problem> {
        let limit = query.number("limit", 1, LARGEST_PAGE)?.unwrap_or(PAGE);
        let offset = query.number("offset", 0, u32::MAX)?.unwrap_or_default();
        let is_expanded = query.one("expand") == Some("entries");
        let packs = self.diary().packs(limit, offset)?;
        let items = packs.iter().map(|pack| match pack_to_json(pack) {
            Value::Object(pack) if !is_expanded => pack.without("entries").into(),
            pack => pack,
        });
        Ok(Value::object([
            ("items", items.collect()),
            ("total", self.diary().pack_count()?.into()),
            ("limit", limit.into()),
            ("offset", offset.into()),
        ]))
    }

    fn rendering(&self, id: Uuid) -> Result<Value, Problem> {
        let asked = Object::default().with("renderedPackId", id.to_string());
        self.tool("moltnet_rendered_pack_get", asked.into())
    }

    fn search(&self, body: &Value) -> Result<Value, Problem> {
        if let Some(id) = body.text_of("diaryId") {
            let invalid = |_| Problem::field("/diaryId", "must match format \"uuid\"");
            self.check_diary(id.to_ascii_lowercase().parse().map_err(invalid)?)?;
        }
        let weight = |key: &'static str, default: f64| match body.given(key) {
            None => Ok(default),
            Some(Value::Number(weight)) if (0.0..=1.0).contains(weight) => Ok(*weight),
            Some(_) => Err(Problem::field(&format!("/{key}"), "must be a number from 0 to 1")),
        };
        let count = |key: &'static str, default: u32| match body.given(key) {
            None => Ok(default),
            Some(value) => value
                .as_count()
                .and_then(|count| u32::try_from(count).ok())
                .ok_or_else(|| Problem::field(&format!("/{key}"), "must be a whole number")),
        };
        let limit = count("limit", RESULTS)?;
        if !(1..=LARGEST_PAGE).contains(&limit) {
            return Err(Problem::field("/limit", "must be from 1 to 100"));
        }
        let search = Search {
            query: body.text_of("query").map(|query| query.into_owned()),
            filter: Filter {
                tags: list(body, "tags")?,
                exclude_tags: list(body, "excludeTags")?,
                types: parsed(&list(body, "entryTypes")?, "/entryTypes")?,
                exclude_superseded: body.get("excludeSuperseded").and_then(Value::as_bool)
                    == Some(true),
            },
            limit,
            offset: count("offset", 0)?,
            weights: Weights {
                relevance: weight("wRelevance", 1.0)?,
                recency: weight("wRecency", 0.0)?,
                importance: weight("wImportance", 0.0)?,
            },
        };
        let found = self.diary().search(&search)?;
        Ok(Value::object([
            ("results", found.iter().map(|entry| self.json(entry)).collect()),
            ("total", (found.len() as u64).into()),
        ]))
    }

    fn tags(&self, query: &Query) -> Result<Value, Problem> {
        let mut asked = Object::default();
        if let Some(prefix) = query.one("prefix") {
            asked = asked.with("prefix", prefix);
        }
        if let Some(least) = query.number("minCount", 1, u32::MAX)? {
            asked = asked.with("minCount", least);
        }
        let types: Value = query.all("entryTypes").collect();
        self.tool("moltnet_diary_tags", asked.with("entryTypes", types).into())
    }

    fn provenance(&self, asked: Object, query: &Query) -> Result<Value, Problem> {
        let depth = query.number("depth", 0, pinfold_memory::MOST_DEPTH)?;
        let asked = match depth {
            Some(depth) => asked.with("depth", depth),
            None => asked,
        };
        let answer = self.tool("moltnet_pack_provenance", asked.into())?;
        answer.get("graph").cloned().ok_or_else(Problem::internal)
    }

    fn render(&self, id: Uuid, body: &Value, preview: Option<bool>) -> Result<Value, Problem> {
        let method = body.text_of("renderMethod");
        let method = method.ok_or_else(|| Problem::field("/renderMethod", "is required"))?;
        let markdown = body.text_of("renderedMarkdown");
        if markdown.is_none() && !method.starts_with("server:") {
            let what = "renderedMarkdown is required for non-server render methods";
            return Err(Problem::new(Kind::Invalid, what));
        }
        let mut asked = of_pack(id)
            .with("renderMethod", &*method)
            .with("markdown", markdown.as_deref())
            .with("pinned", body.get("pinned").and_then(Value::as_bool) == Some(true));
        if let Some(preview) = preview {
            asked = asked.with("preview", preview);
        }
        self.tool("moltnet_pack_render", asked.into())
    }

    fn renderings(&self, query: &Query) -> Result<Value, Problem> {
        let mut asked = Object::default();
        for key in ["sourcePackId", "renderMethod"] {
            if let Some(text) = query.one(key) {
                asked = asked.with(key, text);
            }
        }
        for (key, least) in [("limit", 1), ("offset", 0)] {
            if let Some(number) = query.number(key, least, u32::MAX)? {
                asked = asked.with(key, number);
            }
        }
        self.tool("moltnet_rendered_pack_list", asked.into())
    }
}

fn new_pack(body: &Value) -> Result<NewPack, Problem> {
    if body.text_of("packType").is_none_or(|kind| kind != "custom") {
        return Err(Problem::field("/packType", "must be custom"));
    }
    Ok(new_pack_from_json(body)?)
}

/// Returns whether a pack or rendering is to stay, which is all that can be changed of it.
fn pinned(body: &Value) -> Result<bool, Problem> {
    let pinned = body.get("pinned").and_then(Value::as_bool);
    pinned
        .ok_or_else(|| Problem::field("/pinned", "must be a boolean; no other change is supported"))
}

fn of_pack(id: Uuid) -> Object {
    Object::default().with("packId", id.to_string())
}

pub(super) fn texts(query: &Query, name: &str) -> Vec<String> {
    query.all(name).map(str::to_owned).collect()
}

pub(super) fn types(query: &Query, name: &str) -> Result<Vec<EntryType>, Problem> {
    parsed(&texts(query, name), &format!("query/{name}"))
}

fn parsed(types: &[String], field: &str) -> Result<Vec<EntryType>, Problem> {
    if types.len() > MOST_TYPES {
        return Err(Problem::field(field, "must NOT have more than 4 items"));
    }
    let types: Result<_, _> = types.iter().map(|kind| kind.parse()).collect();
    types
        .map_err(|error: pinfold_memory::UnknownEntryType| Problem::field(field, error.to_string()))
}

/// Returns a list of texts of a body.
pub(super) fn list(body: &Value, key: &str) -> Result<Vec<String>, Problem> {
    let Some(value) = body.given(key) else { return Ok(Vec::new()) };
    let items = value.as_array().map(|items| items.iter().map(Value::as_text));
    let items = items.and_then(|items| {
        items.map(|item| item.map(|item| item.into_owned())).collect::<Option<Vec<_>>>()
    });
    items.ok_or_else(|| Problem::field(&format!("/{key}"), "must be a list of strings"))
}

impl From<ToolError> for Problem {
    fn from(error: ToolError) -> Self {
        if let Some((field, reason)) = error.fault() {
            return Self::field(field, reason);
        }
        let kind = match error.title() {
            "Not Found" => Kind::NotFound,
            "Conflict" => Kind::Conflict,
            "Forbidden" => Kind::Forbidden,
            "Service Unavailable" => Kind::Unavailable,
            _ => Kind::Invalid,
        };
        // What this machine's store says is nobody's business on another one.
        let detail = match kind {
            Kind::Unavailable => "the diary cannot be used right now",
            _ => error.detail(),
        };
        Self::new(kind, detail)
    }
}

impl From<MemoryError> for Problem {
    fn from(error: MemoryError) -> Self {
        ToolError::from(error).into()
    }
}
