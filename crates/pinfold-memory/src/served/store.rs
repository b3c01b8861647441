//! A server's diary as any other one.

use std::collections::HashSet;
use std::time::Duration;

use pinfold_content::{Uuid, Value};

use super::entries::Given;
use super::packs::{Make, PackNamed};
use super::{LARGEST_PAGE, ServedDiary, lie};
use crate::anywhere::{DiaryStore, ImportError};
use crate::entry::{Entry, EntryType, NewEntry};
use crate::error::MemoryError;
use crate::known_secrets::KnownSecrets;
use crate::pack::{Compiled, NewPack, Pack};
use crate::render::{RenderedPack, Rendering};
use crate::store::{Filter, Search, TagCount, Weights};

/// Pages of the newest entries and packs among which one is looked for by the beginning of its id.
const PAGES: u32 = 10;
/// Pages of entries whose content may be imported already: as many entries as an import has at most.
const MOST_PAGES: u32 = 5_000;
/// Pages that a minute's requests give, and how long to wait before each further one.
const QUICK_PAGES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(500);
/// Packs of a page with their entries, which are long.
const PACKS: u32 = 10;

impl DiaryStore for ServedDiary {
    fn id(&self) -> Uuid {
        self.id()
    }

    fn create(&self, new: &NewEntry, secrets: &KnownSecrets) -> Result<Entry, MemoryError> {
        new.check()?;
        secrets.check(new)?;
        let (_, entry) = self.add(new)?;
        for older in &new.supersedes {
            self.supersede(entry.id, *older).map_err(|cause| MemoryError::Partly {
                entry: entry.id,
                older: *older,
                cause: Box::new(cause),
            })?;
        }
        Ok(entry)
    }

    fn import(&self, all: &[NewEntry], secrets: &KnownSecrets) -> Result<u64, ImportError> {
        let failed = |number, added, error| ImportError { number, added, is_unknown: false, error };
        for (new, number) in all.iter().zip(1..) {
            let checked = new.check().and_then(|()| secrets.check(new));
            checked.map_err(|error| failed(number, 0, error))?;
        }
        let (mut known, mut pages) = (HashSet::new(), 0);
        let looked = self.among_newest(MOST_PAGES, |page| {
            pages += 1;
            if pages > QUICK_PAGES {
                std::thread::sleep(PAUSE);
            }
            known.extend(page.into_iter().map(|(_, entry)| entry.cid.as_str().to_owned()));
            None::<()>
        });
        looked.map_err(|error| failed(0, 0, error))?;
        let mut added = 0;
        for (new, number) in all.iter().zip(1..) {
            if known.insert(new.address().as_str().to_owned()) {
                if let Err(error) = self.add(new) {
                    match self.has_newest(&error, new) {
                        Ok(true) => {}
                        Ok(false) => return Err(failed(number, added, error)),
                        Err(_) => {
                            return Err(ImportError { number, added, is_unknown: true, error });
                        }
                    }
                }
                added += 1;
            }
        }
        Ok(added)
    }

    fn entry(&self, id: Uuid) -> Result<Entry, MemoryError> {
        Ok(self.one(id)?.1)
    }

    fn entries_that_begin(&self, beginning: &str, limit: u32) -> Result<Vec<Uuid>, MemoryError> {
        let beginning = beginning.to_ascii_lowercase();
        if let Ok(id) = beginning.parse() {
            return Ok(vec![id]);
        }
        let mut found = Vec::new();
        self.among_newest(PAGES, |page| {
            found.extend(
                page.iter().map(|(_, entry)| entry.id).filter(|id| begins(*id, &beginning)),
            );
            (found.len() >= limit as usize).then_some(())
        })?;
        found.truncate(limit as usize);
        Ok(found)
    }

    fn list(&self, filter: &Filter, limit: u32, offset: u32) -> Result<Vec<Entry>, MemoryError> {
        if filter.exclude_superseded {
            // Only a search leaves them out.
            let weights = Weights::default();
            let search = Search { query: None, filter: filter.clone(), limit, offset, weights };
            return self.search(&search);
        }
        filter.check()?;
        let mut query = vec![("limit", limit.to_string()), ("offset", offset.to_string())];
        query.extend(filter.tags.iter().map(|tag| ("tags", tag.clone())));
        query.extend(filter.exclude_tags.iter().map(|tag| ("excludeTags", tag.clone())));
        query.extend(filter.types.iter().map(|kind| ("entryType", kind.word().to_owned())));
        Ok(self.page(query)?.into_iter().map(|(_, entry)| entry).collect())
    }

    fn search(&self, search: &Search) -> Result<Vec<Entry>, MemoryError> {
        search.check()?;
        let Search { query, filter, limit, offset, weights } = search;
        // MoltNet's server ignores offsets of searches.
        let whole = limit.saturating_add(*offset);
        if whole > LARGEST_PAGE {
            let reason = "must be 100 at most with the limit: a server gives no more";
            return Err(MemoryError::invalid("/offset", reason));
        }
        let mut question = self.question();
        if let Some(query) = query {
            question = question.with("query", query.as_str());
        }
        let types: Vec<&str> = filter.types.iter().map(|kind| kind.word()).collect();
        let [tags, without] = [&filter.tags, &filter.exclude_tags]
            .map(|tags| tags.iter().map(String::as_str).collect::<Vec<_>>());
        for (name, texts) in [("tags", tags), ("excludeTags", without), ("entryTypes", types)] {
            if !texts.is_empty() {
                question = question.with(name, texts.into_iter().collect::<Value>());
            }
        }
        question = question.with("limit", whole);
        if filter.exclude_superseded {
            question = question.with("excludeSuperseded", true);
        }
        if query.is_some() {
            let Weights { relevance, recency, importance } = *weights;
            question = question.with("wRelevance", Value::Number(relevance));
            question = question.with("wRecency", Value::Number(recency));
            question = question.with("wImportance", Value::Number(importance));
        }
        let found = self.found(question)?;
        if found.len() > whole as usize {
            return Err(lie("it gave more than it was asked for"));
        }
        Ok(found.into_iter().map(|(_, entry)| entry).skip(*offset as usize).collect())
    }

    fn remove(&self, id: Uuid) -> Result<(), MemoryError> {
        self.remove_entry(id)
    }

    fn tags(
        &self,
        prefix: &str,
        least: u64,
        types: &[EntryType],
    ) -> Result<Vec<TagCount>, MemoryError> {
        let mut query = vec![("minCount", least.max(1).to_string())];
        if !prefix.is_empty() {
            query.push(("prefix", prefix.to_owned()));
        }
        query.extend(types.iter().map(|kind| ("entryTypes", kind.word().to_owned())));
        Ok(self.tag_counts(&query)?.0)
    }

    fn create_pack(
        &self,
        new: &NewPack,
        secrets: &KnownSecrets,
    ) -> Result<(Uuid, Compiled), MemoryError> {
        secrets.check_value("/params", &Value::Object(new.params.clone()))?;
        let (made, compiled) = self.make_pack(new, Make::Pack)?;
        let id = made.text_of("packId").and_then(|id| id.parse().ok());
        Ok((id.ok_or_else(|| lie("it gave a pack without an id"))?, compiled))
    }

    fn preview_pack(&self, new: &NewPack) -> Result<Compiled, MemoryError> {
        Ok(self.make_pack(new, Make::Preview)?.1)
    }

    fn pack(&self, id: Uuid) -> Result<Pack, MemoryError> {
        self.pack_with_entries(id)
    }

    fn pack_with_cid(&self, cid: &str) -> Result<Uuid, MemoryError> {
        let graph = self.graph(&PackNamed::Cid(cid.to_owned()), 0)?;
        let root = graph.get("metadata").and_then(|data| data.text_of("rootPackId"));
        let root = root.and_then(|id| id.parse().ok());
        let id = root.ok_or_else(|| lie("the graph does not say which pack it is of"))?;
        let pack = self.pack_with_entries(id)?;
        (pack.cid.as_str() == cid)
            .then_some(id)
            .ok_or_else(|| lie("it gave a pack of another address"))
    }

    fn packs_that_begin(&self, beginning: &str, limit: u32) -> Result<Vec<Uuid>, MemoryError> {
        let beginning = beginning.to_ascii_lowercase();
        if let Ok(id) = beginning.parse() {
            return Ok(vec![id]);
        }
        let mut found = Vec::new();
        for page in 0..PAGES {
            let packs = self.pack_page(LARGEST_PAGE, page * LARGEST_PAGE, false)?;
            let ids = packs.iter().filter_map(|pack| pack.text_of("id")?.parse().ok());
            found.extend(ids.filter(|id| begins(*id, &beginning)));
            if packs.len() < LARGEST_PAGE as usize || found.len() >= limit as usize {
                break;
            }
        }
        found.truncate(limit as usize);
        Ok(found)
    }

    fn packs(&self, limit: u32, offset: u32) -> Result<Vec<Pack>, MemoryError> {
        let mut packs = Vec::new();
        while packs.len() < limit as usize {
            let next = offset.saturating_add(u32::try_from(packs.len()).unwrap_or(u32::MAX));
            let page = self.pack_page(PACKS, next, true)?;
            for pack in &page {
                packs.push(self.checked_pack(pack)?);
            }
            if page.len() < PACKS as usize {
                break;
            }
        }
        packs.truncate(limit as usize);
        Ok(packs)
    }

    fn render_pack(
        &self,
        pack: Uuid,
        rendering: &Rendering,
        pinned: bool,
        secrets: &KnownSecrets,
    ) -> Result<RenderedPack, MemoryError> {
        secrets.check_text("/renderMethod", &rendering.method)?;
        if let Some(markdown) = &rendering.markdown {
            secrets.check_text("/renderedMarkdown", markdown)?;
        }
        let source = self.pack_with_entries(pack)?;
        let kept = self.render(pack, rendering, Some(pinned.into()))?;
        let id = kept.text_of("id").and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| lie("it gave a rendering without an id"))?;
        self.rendered_pack(&self.rendered_value(id)?, &source, rendering)
    }

    fn provenance(&self, pack: Uuid, depth: u32) -> Result<Value, MemoryError> {
        self.graph(&PackNamed::Id(pack), depth.into())
    }
}

impl ServedDiary {
    /// Returns whether an entry is among the newest of the server although adding it failed: the answer may have been lost.
    fn has_newest(&self, error: &MemoryError, new: &NewEntry) -> Result<bool, MemoryError> {
        let is_refusal = |status: Option<u16>| status.is_some_and(|status| status < 500);
        if matches!(error, MemoryError::Server(error) if is_refusal(error.status)) {
            return Ok(false);
        }
        let cid = new.address();
        let has_it =
            |page: Vec<Given>| page.iter().any(|(_, entry)| entry.cid == cid).then_some(());
        Ok(self.among_newest(1, has_it)?.is_some())
    }
}

fn begins(id: Uuid, beginning: &str) -> bool {
    id.to_string().starts_with(beginning)
}
