//! Search by words, with marks in the same index.

use pinfold_content::Timestamp;
use rusqlite::{Transaction, params};

use super::entries::{mark_of_tag, mark_of_type, tag_number};
use super::row::{COLUMNS, Stored};
use super::{Diary, Filter};
use crate::MemoryError;
use crate::entry::Entry;
use crate::query::{self, Marks};

/// Characters and words of a query at most. The index takes time for each word at each place of each other one, and
/// nothing interrupts it within an entry.
const LONGEST_QUERY: usize = 500;
const MOST_WORDS: usize = 64;
/// Entries that a search returns at most.
const MOST: u32 = 100;
/// Matches that are ranked at most: the newest ones. A word that more entries have says little of any of them, and
/// ranking takes some microseconds for each.
const MOST_RANKED: u32 = 1_000;
/// The constant of reciprocal rank fusion, and what the best rank of two channels adds up to.
const FUSION: f64 = 60.0;
const BEST: f64 = 2.0 / 61.0;
/// How much of its weight an entry keeps in an hour.
const KEPT_IN_AN_HOUR: f64 = 0.99;

/// What to look for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// The words. Without them, the newest entries are found.
    pub query: Option<String>,
    /// Which entries are meant.
    pub filter: Filter,
    /// Entries at most.
    pub limit: u32,
    /// Entries to leave out, the best ones first.
    pub offset: u32,
    /// What makes one entry better than another.
    pub weights: Weights,
}

/// How much counts what of an entry, each from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// How well it has the words.
    pub relevance: f64,
    /// How new it is, or how lately it was read.
    pub recency: f64,
    /// How important it is.
    pub importance: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { relevance: 1.0, recency: 0.0, importance: 0.0 }
    }
}

impl Search {
    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        let invalid = MemoryError::invalid;
        self.filter.check()?;
        if self.query.as_ref().is_some_and(|query| query.chars().count() > LONGEST_QUERY) {
            return Err(invalid("/query", "must have 500 characters at most"));
        }
        if self.query.as_deref().is_some_and(|query| query::words(query) > MOST_WORDS) {
            return Err(invalid("/query", "must have 64 words at most"));
        }
        if !(1..=MOST).contains(&self.limit) {
            return Err(invalid("/limit", "must be from 1 to 100"));
        }
        let Weights { relevance, recency, importance } = self.weights;
        let fields =
            [("/wRelevance", relevance), ("/wRecency", recency), ("/wImportance", importance)];
        for (field, weight) in fields {
            if !(0.0..=1.0).contains(&weight) {
                return Err(invalid(field, "must be from 0 to 1"));
            }
        }
        Ok(())
    }
}

impl Diary {
    /// Returns the entries that are found, the best first. Without one that has the words it returns none.
    ///
    /// # Errors
    /// Returns an error for a value that is too long or out of range.
    pub fn search(&self, search: &Search) -> Result<Vec<Entry>, MemoryError> {
        search.check()?;
        let Some(query) = search.query.as_deref() else {
            return self.list(&search.filter, search.limit, search.offset);
        };
        self.read(|transaction, now| {
            let Some(marks) = marks(transaction, &search.filter)? else { return Ok(Vec::new()) };
            let Some(expression) = query::expression(query, &marks) else { return Ok(Vec::new()) };
            let found = candidates(transaction, &expression, search)?;
            let mut scored: Vec<(f64, Entry)> = found
                .into_iter()
                .zip(1_u32..)
                .map(|(entry, position)| (score(&entry, position, search.weights, now), entry))
                .collect();
            // Equal ones stay as the index has them.
            scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
            let found = scored.into_iter().map(|(_, entry)| entry);
            Ok(found.skip(search.offset as usize).take(search.limit as usize).collect())
        })
    }
}

/// Returns the marks that found entries have; none if a tag is missing that all must have.
fn marks(transaction: &Transaction<'_>, filter: &Filter) -> Result<Option<Marks>, MemoryError> {
    let mut marks = Marks::default();
    for tag in &filter.tags {
        let Some(number) = tag_number(transaction, tag)? else { return Ok(None) };
        marks.all.push(mark_of_tag(number));
    }
    for tag in &filter.exclude_tags {
        marks.none.extend(tag_number(transaction, tag)?.map(mark_of_tag));
    }
    marks.one_of = filter.types.iter().copied().map(mark_of_type).collect();
    Ok(Some(marks))
}

/// Returns the entries that fit best, twice as many as are wanted: other weights put them in another order.
fn candidates(
    transaction: &Transaction<'_>,
    expression: &str,
    search: &Search,
) -> Result<Vec<Entry>, MemoryError> {
    let superseded = if search.filter.exclude_superseded {
        "AND NOT EXISTS (SELECT 1 FROM supersedes WHERE older = entry_text.rowid)"
    } else {
        ""
    };
    // The inner query computes the rank of the rows that it returns alone.
    let query = format!(
        "SELECT {COLUMNS} FROM (
             SELECT number, place FROM (
                 SELECT rowid AS number, bm25(entry_text) AS place FROM entry_text
                 WHERE entry_text MATCH ?1 {superseded} ORDER BY rowid DESC LIMIT ?2
             ) ORDER BY place, number DESC LIMIT ?3
         ) AS found JOIN entry ON entry.number = found.number ORDER BY place, entry.number DESC"
    );
    let wanted = search.limit.saturating_add(search.offset).saturating_mul(2);
    let mut statement = transaction.prepare_cached(&query)?;
    let rows = statement.query_map(params![expression, MOST_RANKED, wanted], Stored::of)?;
    rows.map(|row| Ok(row?.entry()?)).collect()
}

fn score(entry: &Entry, position: u32, weights: Weights, now: Timestamp) -> f64 {
    let relevance = 1.0 / (FUSION + f64::from(position)) / BEST;
    let used = entry.last_accessed_at.unwrap_or(entry.created_at);
    let hours = now.since(used).as_secs_f64() / 3600.0;
    weights.relevance * relevance
        + weights.recency * KEPT_IN_AN_HOUR.powf(hours)
        + weights.importance * f64::from(entry.importance) / 10.0
}
