//! Packs: entries chosen for a reader, in an order, within a budget of tokens.

use std::fmt;
use std::str::FromStr;

use pinfold_content::{Cid, Dag, NotDag, Object, Timestamp, Uuid, Value};

use crate::MemoryError;
use crate::compress::{compress, tokens};
use crate::entry::Entry;

/// Entries of a pack at most, and tokens of a budget.
const MOST_ENTRIES: usize = 500;
const LARGEST_BUDGET: u64 = 100_000;
/// What kind of pack a caller makes.
pub(crate) const CUSTOM: &str = "custom";

/// How much of an entry is in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompressionLevel {
    /// All of it.
    Full,
    /// Its best sentences.
    Summary,
    /// Its best words.
    Keywords,
}

impl CompressionLevel {
    /// Returns its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Summary => "summary",
            Self::Keywords => "keywords",
        }
    }
}

impl fmt::Display for CompressionLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for CompressionLevel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Full, Self::Summary, Self::Keywords]
            .into_iter()
            .find(|level| level.word() == text)
            .ok_or(())
    }
}

/// A pack to make.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPack {
    /// Entries with their ranks: 1 is the most prominent.
    pub entries: Vec<(Uuid, u32)>,
    /// What its maker wants to note. Part of its address.
    pub params: Object,
    /// Tokens at most.
    pub token_budget: Option<u64>,
    /// Whether it stays. Others end after seven days.
    pub pinned: bool,
    /// Whether entries may be in it that read like instructions to a model.
    pub force: bool,
    /// The pack that it takes the place of.
    pub supersedes: Option<Uuid>,
}

impl NewPack {
    /// Returns a pack of these entries, the first one first.
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = Uuid>) -> Self {
        Self {
            entries: entries.into_iter().zip(1..).collect(),
            params: Object::default(),
            token_budget: None,
            pinned: false,
            force: false,
            supersedes: None,
        }
    }

    /// Checks its numbers, and that nothing is in it twice.
    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        if !(1..=MOST_ENTRIES).contains(&self.entries.len()) {
            return Err(MemoryError::invalid("/entries", "must be from 1 to 500"));
        }
        if self.token_budget.is_some_and(|budget| !(1..=LARGEST_BUDGET).contains(&budget)) {
            return Err(MemoryError::invalid("/tokenBudget", "must be from 1 to 100000"));
        }
        if self.entries.iter().any(|(_, rank)| *rank == 0) {
            return Err(MemoryError::invalid("/entries", "must have ranks from 1"));
        }
        let mut entries = self.entries.clone();
        entries.sort();
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let what = format!("Duplicate entryId \"{}\" in pack selection", pair[0].0);
            return Err(MemoryError::BadPack(what));
        }
        entries.sort_by_key(|(_, rank)| *rank);
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].1 == pair[1].1) {
            let what = format!("Duplicate rank \"{}\" in pack selection", pair[0].1);
            return Err(MemoryError::BadPack(what));
        }
        Ok(())
    }
}

/// An entry in a pack.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedEntry {
    pub entry: Uuid,
    /// Its address when the pack was made.
    pub cid: Cid,
    pub rank: u32,
    /// How much of it is there.
    pub level: CompressionLevel,
    /// Tokens of all of it.
    pub original_tokens: u64,
    /// Tokens of what is there.
    pub packed_tokens: u64,
}

/// What a pack is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    pub cid: Cid,
    /// Its entries, by rank.
    pub entries: Vec<PackedEntry>,
    /// How well it fits.
    pub stats: Stats,
}

/// How well a pack fits its budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// Tokens of what is there.
    pub total_tokens: u64,
    /// Tokens of all of the entries that are there.
    pub original_tokens: u64,
    /// Tokens at most, if there is a budget.
    pub budget: Option<u64>,
}

impl Stats {
    /// Returns how well these entries fit a budget.
    pub(crate) fn of(entries: &[PackedEntry], budget: Option<u64>) -> Self {
        let sum = |tokens: fn(&PackedEntry) -> u64| {
            entries.iter().map(tokens).fold(0, u64::saturating_add)
        };
        Self {
            total_tokens: sum(|entry| entry.packed_tokens),
            original_tokens: sum(|entry| entry.original_tokens),
            budget,
        }
    }
}

/// Chooses how much of each entry is in a pack, and computes its address.
///
/// # Errors
/// Returns an error if nothing fits the budget, or for parameters that have no address.
pub(crate) fn compile(
    new: &NewPack,
    entries: &[(Entry, u32)],
    diary: Uuid,
) -> Result<Compiled, MemoryError> {
    let mut packed: Vec<(PackedEntry, &Entry)> = entries
        .iter()
        .map(|(entry, rank)| {
            let tokens = tokens(&entry.content);
            let packed = PackedEntry {
                entry: entry.id,
                cid: entry.cid.clone(),
                rank: *rank,
                level: CompressionLevel::Full,
                original_tokens: tokens,
                packed_tokens: tokens,
            };
            (packed, entry)
        })
        .collect();
    packed.sort_by_key(|(packed, _)| packed.rank);
    if let Some(budget) = new.token_budget {
        fit(&mut packed, budget);
        if packed.is_empty() {
            let what = format!("no entry fits {budget} tokens");
            return Err(MemoryError::BadPack(what));
        }
    }
    let entries: Vec<PackedEntry> = packed.into_iter().map(|(packed, _)| packed).collect();
    let stats = Stats::of(&entries, new.token_budget);
    let cid = address(diary, &new.params, &entries)
        .map_err(|error| MemoryError::invalid("/params", error))?;
    Ok(Compiled { cid, entries, stats })
}

/// Makes entries shorter until all fit a budget: the last one first, all to summaries, then to keywords. What is too long
/// even so is left out, the last one first.
fn fit(packed: &mut Vec<(PackedEntry, &Entry)>, budget: u64) {
    let fits =
        |packed: &[(PackedEntry, &Entry)]| total(packed.iter().map(|(packed, _)| packed)) <= budget;
    for level in [CompressionLevel::Summary, CompressionLevel::Keywords] {
        for at in (0..packed.len()).rev() {
            if fits(packed) {
                return;
            }
            let (entry, source) = &mut packed[at];
            entry.level = level;
            entry.packed_tokens = tokens(&compress(&source.content, level));
        }
    }
    while !fits(packed) {
        packed.pop();
    }
}

fn total<'a>(entries: impl Iterator<Item = &'a PackedEntry>) -> u64 {
    entries.map(|entry| entry.packed_tokens).sum()
}

/// Returns the address of a pack.
pub(crate) fn address(
    diary: Uuid,
    params: &Object,
    entries: &[PackedEntry],
) -> Result<Cid, NotDag> {
    let params = Value::Object(params.clone());
    let diary = diary.to_string();
    // Ranks are different, so they are the whole order.
    let entries = entries.iter().map(|entry| {
        Dag::Map(vec![
            ("cid", Dag::Link(&entry.cid)),
            ("compressionLevel", Dag::Text(entry.level.word())),
            ("rank", Dag::Count(entry.rank.into())),
        ])
    });
    Cid::of_dag(&Dag::Map(vec![
        ("v", Dag::Text("moltnet:pack:v1")),
        ("diaryId", Dag::Text(&diary)),
        ("packType", Dag::Text(CUSTOM)),
        ("params", Dag::Json(&params)),
        ("entries", Dag::List(entries.collect())),
    ]))
}

/// A pack of a diary.
#[derive(Clone, Debug, PartialEq)]
pub struct Pack {
    pub id: Uuid,
    pub diary: Uuid,
    pub cid: Cid,
    /// What its maker noted.
    pub params: Object,
    /// The pack that it takes the place of.
    pub supersedes: Option<Uuid>,
    /// Whether it stays.
    pub pinned: bool,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its entries, by rank.
    pub entries: Vec<PackEntry>,
}

/// An entry of a pack, and its text if the diary still has it.
#[derive(Clone, Debug, PartialEq)]
pub struct PackEntry {
    /// The id of its place in the pack.
    pub id: Uuid,
    /// What the pack says of it.
    pub packed: PackedEntry,
    /// The entry; none if it was removed.
    pub entry: Option<Entry>,
}

/// Returns what is answered to who makes a pack, or looks at what would be one.
#[must_use]
pub fn compiled_to_json(
    compiled: &Compiled,
    pack: Option<Uuid>,
    params: &Object,
    elapsed_ms: u64,
) -> Value {
    let Compiled { cid, entries, stats } = compiled;
    let compressed = entries.iter().filter(|entry| entry.level != CompressionLevel::Full).count();
    let part = |part: u64, whole: u64| match whole {
        0 => Value::Number(0.0),
        whole => Value::Number(part as f64 / whole as f64),
    };
    let entries: Vec<Value> = entries.iter().map(packed_to_json).map(Value::Object).collect();
    let stats = Value::object([
        ("totalTokens", stats.total_tokens.into()),
        ("entriesIncluded", (entries.len() as u64).into()),
        ("entriesCompressed", (compressed as u64).into()),
        ("compressionRatio", part(stats.total_tokens, stats.original_tokens)),
        ("budgetUtilization", part(stats.total_tokens, stats.budget.unwrap_or_default())),
        ("elapsedMs", elapsed_ms.into()),
    ]);
    let id = pack.map(|id| (("packId"), Value::from(id.to_string())));
    let rest = [
        ("packCid", cid.as_str().into()),
        ("packType", CUSTOM.into()),
        ("params", params.clone().into()),
        ("entries", Value::Array(entries)),
        ("compileStats", stats),
    ];
    let members = id.into_iter().chain(rest);
    Value::Object(members.fold(Object::default(), |all, (key, value)| all.with(key, value)))
}

pub(crate) fn packed_to_json(entry: &PackedEntry) -> Object {
    Object::default()
        .with("entryId", entry.entry.to_string())
        .with("entryCidSnapshot", entry.cid.as_str())
        .with("rank", u64::from(entry.rank))
        .with("compressionLevel", entry.level.word())
        .with("originalTokens", entry.original_tokens)
        .with("packedTokens", entry.packed_tokens)
}

#[cfg(test)]
mod tests;
