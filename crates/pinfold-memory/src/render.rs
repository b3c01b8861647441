//! Packs as texts for a reader.

mod local;
mod server;

pub(crate) use local::without_wrappers;

use data_encoding::HEXLOWER;
use pinfold_content::{Cid, Dag, NotDag, Timestamp, Uuid};

use ring::digest::{SHA256, digest};

use crate::MemoryError;
use crate::pack::Pack;

/// The method of which this program writes the text.
pub const SERVER_METHOD: &str = "server:pack-to-docs-v1";
/// The method by which an agent's tools write it, grouped for a reader.
pub const LOCAL_METHOD: &str = "pi:pack-to-docs-v1";

/// Characters of a method and a text at most.
const LONGEST_METHOD: usize = 100;
const LONGEST_TEXT: usize = 500_000;

/// How a pack is made a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// The method. `server:…` is of this program, the text of others comes from the caller.
    pub method: String,
    /// The text, for other methods.
    pub markdown: Option<String>,
}

impl Rendering {
    /// Returns the rendering of this program's own method.
    #[must_use]
    pub fn server() -> Self {
        Self { method: SERVER_METHOD.to_owned(), markdown: None }
    }

    /// Returns the rendering of a pack for a reader: in groups, with rules and sources.
    #[must_use]
    pub fn local(pack: &Pack) -> Self {
        let markdown = local::render(pack);
        Self { method: LOCAL_METHOD.to_owned(), markdown: Some(markdown) }
    }

    pub(crate) fn check(&self) -> Result<(), MemoryError> {
        let is_from = |most: usize, text: &str| {
            !text.is_empty() && (text.len() <= most || text.chars().nth(most).is_none())
        };
        if !is_from(LONGEST_METHOD, &self.method) {
            return Err(MemoryError::invalid("/renderMethod", "must have 1 to 100 characters"));
        }
        let is_server = self.method.starts_with("server:");
        let bad = |what: &str| Err(MemoryError::BadPack(what.to_owned()));
        match &self.markdown {
            Some(_) if is_server => {
                bad("renderedMarkdown must not be provided for server render methods")
            }
            None if !is_server => bad("renderedMarkdown is required for non-server render methods"),
            Some(text) if !is_from(LONGEST_TEXT, text) => {
                Err(MemoryError::invalid("/renderedMarkdown", "must have 1 to 500000 characters"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the text.
    pub(crate) fn text(&self, pack: &Pack) -> String {
        self.markdown.clone().unwrap_or_else(|| server::render(pack))
    }
}

/// Returns the SHA-256 digest of a text, in hexadecimal digits.
pub(crate) fn content_hash(text: &str) -> String {
    HEXLOWER.encode(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Returns the address of a rendering.
pub(crate) fn address(pack: &Cid, method: &str, hash: &str) -> Result<Cid, NotDag> {
    Cid::of_dag(&Dag::Map(vec![
        ("v", Dag::Text("moltnet:rendered-pack:v1")),
        ("sourcePackCid", Dag::Link(pack)),
        ("renderMethod", Dag::Text(method)),
        ("contentHash", Dag::Text(hash)),
    ]))
}

/// A text that was made of a pack.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedPack {
    pub id: Uuid,
    pub diary: Uuid,
    pub cid: Cid,
    pub pack: Uuid,
    /// The pack's address.
    pub pack_cid: Cid,
    /// How it was made.
    pub method: String,
    pub content: String,
    /// The SHA-256 digest of the text, in hexadecimal digits.
    pub content_hash: String,
    /// Tokens of the text.
    pub tokens: u64,
    /// Whether it stays.
    pub pinned: bool,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests;
