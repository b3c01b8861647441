//! What agents remember: diaries of entries, and packs of entries for the next session.
//!
//! A [`Diary`] is one SQLite file of one identity. Its entries are found by words, tags and kinds ([`Search`]), and known by
//! content addresses that equal MoltNet's. A pack is a choice of entries that fits a budget of tokens. Its address
//! is over the addresses of its entries, so a pack with the same content is the same pack.
//!
//! Entries are text that models and strangers wrote. They are data: nothing here obeys them, and what reads like an
//! instruction to a model is marked ([`Threat`]). Secrets of this machine are refused ([`KnownSecrets`]).
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod anywhere;
mod compress;
mod entry;
mod error;
mod json;
mod known_secrets;
mod made;
mod markdown;
mod name;
mod pack;
mod provenance;
mod query;
mod render;
mod scan;
mod served;
mod sign;
mod store;
mod task;
mod tools;

pub use anywhere::{DiaryChoice, DiaryStore, ImportError};
pub use entry::{Entry, EntryType, NewEntry, UnknownEntryType};
pub use error::{MemoryError, ServerError, StoreError};
pub use json::{
    MOST_IMPORTED, entries_from_lines, entry_from_json, entry_to_json, pack_to_json,
    rendered_to_json,
};
pub use known_secrets::{KnownSecrets, SecretsError, UnreadableSecret};
pub use markdown::{entries_from_markdown, entry_to_markdown};
pub use name::{DiaryName, InvalidName};
pub use pack::{
    Compiled, CompressionLevel, NewPack, Pack, PackEntry, PackedEntry, Stats, compiled_to_json,
};
pub use provenance::MOST_DEPTH;
pub use render::{LOCAL_METHOD, RenderedPack, Rendering, SERVER_METHOD};
pub use scan::Threat;
pub use served::{DiaryServer, ServedDiary, SignWhen};
pub use sign::{Signature, Signer, SignerError, signing_bytes};
pub use store::{Diary, Filter, Limits, Repaired, Search, TagCount, Weights};
pub use task::{InvalidTaskDiary, TaskDiary, TaskSocket};
pub use tools::{
    DiaryTools, FailedCall, MemoryTools, Rules, ServedTools, ToolError, definitions, is_tool,
    new_pack_from_json,
};
