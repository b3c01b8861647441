//! Entries of a server's diary.

use pinfold_content::{Object, Uuid, Value, times};

use super::{LARGEST_PAGE, ServedDiary, is_of, lie, list};
use crate::entry::{Entry, LONGEST_TAG, NewEntry};
use crate::error::MemoryError;
use crate::json::entry_from_json;
use crate::made::made;
use crate::store::TagCount;

/// An entry as the server gave it, and what it is.
pub(crate) type Given = (Value, Entry);

impl ServedDiary {
    /// Returns a page of entries, the newest first.
    pub(crate) fn page(
        &self,
        query: Vec<(&'static str, String)>,
    ) -> Result<Vec<Given>, MemoryError> {
        let mut all = vec![("orderBy", "createdAt".to_owned()), ("order", "desc".to_owned())];
        all.extend(query);
        let answer = self.get_in_diary("entries", &all)?;
        self.all_checked(list(&answer, "items")?)
    }

    /// Returns a page of whatever entries there are.
    pub(crate) fn page_at(&self, limit: u32, offset: u32) -> Result<Vec<Given>, MemoryError> {
        self.page(vec![("limit", limit.to_string()), ("offset", offset.to_string())])
    }

    /// Returns the beginning of a question about this diary.
    pub(crate) fn question(&self) -> Object {
        Object::default().with("diaryId", self.id.to_string())
    }

    /// Returns the entries that a search finds, the best one first.
    pub(crate) fn found(&self, question: Object) -> Result<Vec<Given>, MemoryError> {
        let answer = self.server.post("/diaries/search", &question.into())?;
        self.all_checked(list(&answer, "results")?)
    }

    fn all_checked(&self, entries: &[Value]) -> Result<Vec<Given>, MemoryError> {
        entries.iter().map(|entry| Ok((entry.clone(), self.checked(entry)?))).collect()
    }

    /// Returns an entry, whose signature is verified if that can be done.
    pub(crate) fn one(&self, id: Uuid) -> Result<Given, MemoryError> {
        let value = self.server.get(&format!("/entries/{id}"), &[])?;
        let entry = self.checked(&value)?;
        if entry.id != id {
            return Err(lie("it gave another entry than the one that was asked for"));
        }
        Ok((value, self.with_claim_looked_into(entry)?))
    }

    /// Adds an entry, signed if this diary's are.
    pub(crate) fn add(&self, new: &NewEntry) -> Result<Given, MemoryError> {
        let tags: Value = new.tags.iter().map(String::as_str).collect();
        let mut body = Object::default()
            .with("title", new.title.as_deref())
            .with("content", new.content.as_str())
            .with("tags", tags)
            .with("importance", u32::from(new.importance));
        // The server has the same default.
        if new.entry_type != Default::default() {
            body = body.with("entryType", new.entry_type.word());
        }
        let cid = new.address();
        let signed = self.sign(&cid)?;
        if let Some((request, _)) = &signed {
            body = body.with("signingRequestId", request.to_string());
            body = body.with("contentHash", cid.as_str());
        }
        let value = self.server.post(&self.in_diary("entries"), &body.into())?;
        let mut entry = self.checked(&value)?;
        if entry.cid != cid {
            return Err(lie("it kept another entry than the one that it was sent"));
        }
        if let Some((_, signature)) = signed {
            let kept = value.text_of("contentSignature");
            if kept.is_none_or(|kept| kept != signature.signature) {
                return Err(lie("it kept the entry without its signature"));
            }
            (entry.signature, entry.claim) = (Some(signature), None);
        }
        Ok((value, entry))
    }

    /// Removes an entry of this diary.
    pub(crate) fn remove_entry(&self, id: Uuid) -> Result<(), MemoryError> {
        // The server would remove one of another diary.
        self.one(id)?;
        let done = self.server.delete(&format!("/entries/{id}"))?;
        let is_done = done.get("success").and_then(Value::as_bool) == Some(true);
        is_done.then_some(()).ok_or_else(|| lie("it does not say that the entry is removed"))
    }

    /// Notes that an entry takes the place of another one.
    pub(crate) fn supersede(&self, entry: Uuid, older: Uuid) -> Result<(), MemoryError> {
        let body = Value::object([
            ("targetId", older.to_string().into()),
            ("relation", "supersedes".into()),
            ("status", "accepted".into()),
        ]);
        let made = self.server.post(&format!("/entries/{entry}/relations"), &body)?;
        let is_meant = is_of(&made, "sourceId", entry) && is_of(&made, "targetId", older);
        is_meant.then_some(()).ok_or_else(|| lie("it noted another relation between entries"))
    }

    /// Returns tags, and how many there are as the server says.
    pub(crate) fn tag_counts(
        &self,
        query: &[(&'static str, String)],
    ) -> Result<(Vec<TagCount>, Value), MemoryError> {
        let answer = self.get_in_diary("tags", query)?;
        let tags = list(&answer, "tags")?.iter().map(|tag| {
            let text = tag.text_of("tag").filter(|text| text.chars().count() <= LONGEST_TAG);
            let count = tag.get("count").and_then(Value::as_count);
            let (text, count) = text.zip(count).ok_or_else(|| lie("it gave an invalid tag"))?;
            Ok(TagCount { tag: text.into_owned(), count })
        });
        let tags = tags.collect::<Result<_, MemoryError>>()?;
        Ok((tags, answer.get("total").cloned().unwrap_or(Value::Null)))
    }

    /// Calls a function with pages of entries, the newest first, until it finds something or the newest ones are seen.
    pub(crate) fn among_newest<T>(
        &self,
        pages: u32,
        mut find: impl FnMut(Vec<Given>) -> Option<T>,
    ) -> Result<Option<T>, MemoryError> {
        for page in 0..pages {
            let given = self.page_at(LARGEST_PAGE, page * LARGEST_PAGE)?;
            let is_last = given.len() < LARGEST_PAGE as usize;
            if let Some(found) = find(given) {
                return Ok(Some(found));
            }
            if is_last {
                break;
            }
        }
        Ok(None)
    }

    /// Returns the entry that an answer holds. It is one of this diary, as long as an entry may be, and has the content of its
    /// address. A signature is verified if the answer has its nonce.
    pub(crate) fn checked(&self, value: &Value) -> Result<Entry, MemoryError> {
        self.check_is_own(value, "Diary entry")?;
        let new = entry_from_json(value).map_err(lie)?;
        new.check().map_err(lie)?;
        let id = value.text_of("id").and_then(|id| id.parse().ok());
        let (Some(id), Some(created_at)) = (id, new.created_at) else {
            return Err(lie("it gave an entry without an id or a time"));
        };
        let entry = made(new, id, created_at);
        let (signature, claim) = self.signature_of(value, &entry)?;
        let time = |name: &str| value.text_of(name).and_then(|time| times::read(&time));
        Ok(Entry {
            access_count: value.get("accessCount").and_then(Value::as_count).unwrap_or_default(),
            last_accessed_at: time("lastAccessedAt"),
            updated_at: time("updatedAt").unwrap_or(created_at),
            is_superseded: value.get("superseded").and_then(Value::as_bool) == Some(true),
            signature,
            claim,
            ..entry
        })
    }
}
