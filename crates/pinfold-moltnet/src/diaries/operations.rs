//! What a request about a diary does.

use pinfold_content::{Object, Uuid, Value, times};
use pinfold_memory::{
    Diary, DiaryTools as _, EntryType, Filter, MemoryError, Search, ToolError, Weights,
    entry_from_json, entry_to_json,
};

use super::DiaryApi;
use super::route::Route;
use crate::problem::{Kind, Problem};
use crate::server::caller::Caller;
use crate::server::query::Query;

/// Entries of a page, and by their ids.
const PAGE: u32 = 20;
const LARGEST_PAGE: u32 = 100;
const MOST_IDS: usize = 50;
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
                self.create(&body()?)
            }
            Route::Search => self.search(&body()?),
            Route::Tags(id) => self.check_diary(*id).and_then(|()| self.tags(query)),
            Route::Entry(id) => Ok(self.json(&self.diary().entry(*id)?)),
            Route::RemoveEntry(id) => self.remove(*id),
            Route::CreatePack(id) => {
                self.check_diary(*id)?;
                let body = body()?;
                if body.text_of("packType").is_none_or(|kind| kind != "custom") {
                    return Err(Problem::field("/packType", "must be custom"));
                }
                self.tool("moltnet_pack_create", body)
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
            Route::Rendering(id) => {
                let asked = Object::default().with("renderedPackId", id.to_string());
                self.tool("moltnet_rendered_pack_get", asked.into())
            }
        }
    }

    fn diary(&self) -> &Diary {
        self.tools.diary()
    }

    fn json(&self, entry: &pinfold_memory::Entry) -> Value {
        entry_to_json(entry, self.diary())
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

    fn entries(&self, query: &Query) -> Result<Value, Problem> {
        let limit = query.number("limit", 1, LARGEST_PAGE)?.unwrap_or(PAGE);
        let offset = query.number("offset", 0, u32::MAX)?.unwrap_or_default();
        let ids: Vec<&str> = query.all("ids").collect();
        let (items, total) = if ids.is_empty() {
            let filter = Filter {
                tags: texts(query, "tags"),
                exclude_tags: texts(query, "excludeTags"),
                types: types(query, "entryType")?,
                exclude_superseded: false,
            };
            (self.diary().list(&filter, limit, offset)?, self.diary().count(&filter)?)
        } else {
            if ids.len() > MOST_IDS {
                return Err(Problem::field("query/ids", "must NOT have more than 50 items"));
            }
            let invalid = || Problem::field("query/ids", "must match format \"uuid\"");
            let ids = ids.iter().map(|id| id.to_ascii_lowercase().parse().ok());
            let ids: Vec<Uuid> = ids.collect::<Option<_>>().ok_or_else(invalid)?;
            let items = self.diary().entries_with(&ids)?;
            let total = items.len() as u64;
            (items, total)
        };
        Ok(Value::object([
            ("items", items.iter().map(|entry| self.json(entry)).collect()),
            ("total", total.into()),
            ("limit", limit.into()),
            ("offset", offset.into()),
        ]))
    }

    fn create(&self, body: &Value) -> Result<Value, Problem> {
        if body.given("signingRequestId").is_some() {
            let what = "requests for signatures are not supported";
            return Err(Problem::field("/signingRequestId", what));
        }
        // When it was made is this machine's to say.
        let body = body.as_object().map(|body| body.without("createdAt")).unwrap_or_default();
        let new = entry_from_json(&body.into())?;
        Ok(self.json(&self.tools.create(new)?))
    }

    fn remove(&self, id: Uuid) -> Result<Value, Problem> {
        let entry = self.diary().entries_with(&[id])?.pop();
        let entry = entry.ok_or_else(|| Problem::not_found("Diary entry not found"))?;
        if entry.signature.is_some() {
            let what = "Entry is content-signed and immutable; it cannot be removed here";
            return Err(Problem::conflict(what));
        }
        self.diary().remove(id)?;
        Ok(Value::object([("success", true.into())]))
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

fn of_pack(id: Uuid) -> Object {
    Object::default().with("packId", id.to_string())
}

fn texts(query: &Query, name: &str) -> Vec<String> {
    query.all(name).map(str::to_owned).collect()
}

fn types(query: &Query, name: &str) -> Result<Vec<EntryType>, Problem> {
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
fn list(body: &Value, key: &str) -> Result<Vec<String>, Problem> {
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
