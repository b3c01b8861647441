//! What a request about entries does.

use pinfold_content::{Object, Uuid, Value};
use pinfold_memory::{Entry, Filter, MemoryError, Signature, entry_from_json, entry_to_json};

use super::DiaryApi;
use super::operations::{LARGEST_PAGE, PAGE, list, texts, types};
use crate::problem::{Kind, Problem};
use crate::server::caller::Caller;
use crate::server::query::Query;

/// Entries by their ids at most.
const MOST_IDS: usize = 50;
/// Entries that are removed at once.
const MOST_REMOVED: usize = 100;

impl DiaryApi {
    pub(super) fn entries(&self, query: &Query) -> Result<Value, Problem> {
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

    pub(super) fn create(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        // When it was made is this machine's to say.
        let without_time = body.as_object().map(|body| body.without("createdAt"));
        let new = entry_from_json(&without_time.unwrap_or_default().into())?;
        let signature = match body.text_of("signingRequestId") {
            Some(request) => {
                let what = "must match format \"uuid\"";
                let id = request.to_ascii_lowercase().parse();
                let id = id.map_err(|_| Problem::field("/signingRequestId", what))?;
                Some(self.requests.signature(caller, id, &new.address())?)
            }
            None if body.given("contentHash").is_some() => {
                let what = "contentHash requires signingRequestId to create a signed entry.";
                return Err(Problem::new(Kind::Invalid, what));
            }
            None => None,
        };
        Ok(self.json(&self.tools.create(new, signature)?))
    }

    /// Changes members of an entry, as far as a request names them.
    pub(super) fn change(&self, id: Uuid, body: &Value) -> Result<Value, Problem> {
        let known = ["title", "content", "tags", "importance", "entryType"];
        let members = body.as_object().map(|body| body.members()).into_iter().flatten();
        let names: Vec<String> = members.map(|(name, _)| name.to_str().into_owned()).collect();
        if names.is_empty() || names.iter().any(|name| !known.contains(&name.as_str())) {
            let what = "At least one of title, content, tags, importance, or entryType must be provided, \
                and no other property";
            return Err(Problem::field("", what));
        }
        let changed = self.tools.update(id, |entry| {
            let old = entry_to_json(entry, self.diary().id());
            let member = |name: &str| body.get(name).or(old.get(name)).cloned();
            let new = known.iter().fold(Object::default(), |new, name| {
                new.with(name, member(name).unwrap_or(Value::Null))
            });
            entry_from_json(&new.into())
        })?;
        Ok(self.json(&changed))
    }

    pub(super) fn verified(&self, id: Uuid) -> Result<Value, Problem> {
        // A diary gives no entry whose address or signature is wrong.
        let entry = self.one(id)?;
        let signature = entry.signature.as_ref();
        let is_signed = signature.is_some();
        Ok(Value::object([
            ("signed", is_signed.into()),
            ("hashMatches", is_signed.into()),
            ("signatureValid", is_signed.into()),
            ("valid", is_signed.into()),
            ("contentHash", signature.map(|_| entry.cid.as_str()).into()),
            ("agentFingerprint", signature.map(Signature::fingerprint).into()),
        ]))
    }

    /// Returns an entry, and does not count that it was read.
    fn one(&self, id: Uuid) -> Result<Entry, Problem> {
        let entry = self.diary().entries_with(&[id])?.pop();
        entry.ok_or_else(|| Problem::not_found("Diary entry not found"))
    }

    pub(super) fn supersede(&self, entry: Uuid, body: &Value) -> Result<Value, Problem> {
        for (field, name, only) in
            [("/relation", "relation", "supersedes"), ("/status", "status", "accepted")]
        {
            if body.text_of(name).is_none_or(|text| text != only) {
                return Err(Problem::field(
                    field,
                    format!("must be {only}; no other is supported"),
                ));
            }
        }
        let older = body.text_of("targetId").and_then(|id| id.to_ascii_lowercase().parse().ok());
        let older: Uuid =
            older.ok_or_else(|| Problem::field("/targetId", "must match format \"uuid\""))?;
        self.diary().supersede(entry, older)?;
        Ok(Value::object([
            ("sourceId", entry.to_string().into()),
            ("targetId", older.to_string().into()),
            ("relation", "supersedes".into()),
            ("status", "accepted".into()),
        ]))
    }

    pub(super) fn remove(&self, id: Uuid) -> Result<Value, Problem> {
        if self.one(id)?.signature.is_some() {
            return Err(MemoryError::Signed.into());
        }
        self.diary().remove(id)?;
        Ok(Value::object([("success", true.into())]))
    }

    /// Removes entries. Those that are signed or not there are skipped.
    pub(super) fn remove_all(&self, body: &Value) -> Result<Value, Problem> {
        let ids = list(body, "ids")?;
        if !(1..=MOST_REMOVED).contains(&ids.len()) {
            return Err(Problem::field("/ids", "must have 1 to 100 items"));
        }
        let invalid = |_| Problem::field("/ids", "must match format \"uuid\"");
        let (mut deleted, mut skipped) = (Vec::new(), Vec::new());
        for id in &ids {
            let is_removed = match self.remove(id.to_ascii_lowercase().parse().map_err(invalid)?) {
                Ok(_) => true,
                Err(problem) if matches!(problem.kind, Kind::NotFound | Kind::Conflict) => false,
                Err(problem) => return Err(problem),
            };
            (if is_removed { &mut deleted } else { &mut skipped }).push(id.as_str());
        }
        Ok(Value::object([
            ("deleted", deleted.into_iter().collect()),
            ("skipped", skipped.into_iter().collect()),
        ]))
    }
}
