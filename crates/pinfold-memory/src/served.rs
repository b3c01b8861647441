//! A diary that a server keeps, by MoltNet's API.
//!
//! What the server answers is untrusted: entries have the content of their addresses and lie in the one diary that is meant, or
//! the answer is an error. A signature is verified where the answer has all of it.

mod entries;
mod packs;
mod signing;
mod store;

use pinfold_content::{Uuid, Value};

use crate::error::{MemoryError, ServerError};
use crate::sign::Signer;

pub(crate) use packs::{Make, PackNamed};

/// Entries of a page at most.
pub(crate) const LARGEST_PAGE: u32 = 100;

/// A server with MoltNet's API for diaries, and who one is there.
pub trait DiaryServer: Send + Sync {
    /// Asks for a path below the server's address, with members of a query.
    ///
    /// # Errors
    /// Returns an error for an answer that is no success, or none.
    fn get(&self, path: &str, query: &[(&'static str, String)]) -> Result<Value, ServerError>;

    /// Sends a JSON value to a path below the server's address.
    ///
    /// # Errors
    /// Returns an error for an answer that is no success, or none.
    fn post(&self, path: &str, body: &Value) -> Result<Value, ServerError>;

    /// Removes what is at a path below the server's address.
    ///
    /// # Errors
    /// Returns an error for an answer that is no success, or none.
    fn delete(&self, path: &str) -> Result<Value, ServerError>;
}

/// When entries are signed that go to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignWhen {
    /// Each, or it is an error.
    Always,
    /// If the server knows the key as its client's.
    KeyIsKnown,
    /// None: the key only verifies.
    Never,
}

/// A diary that a server keeps.
pub struct ServedDiary {
    server: Box<dyn DiaryServer>,
    id: Uuid,
    signing: signing::Signing,
}

impl std::fmt::Debug for ServedDiary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedDiary").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ServedDiary {
    /// Returns a diary of a server. Nothing is asked for yet.
    #[must_use]
    pub fn new(server: Box<dyn DiaryServer>, id: Uuid) -> Self {
        Self { server, id, signing: signing::Signing::default() }
    }

    /// Returns the diary of a server that is called so.
    ///
    /// # Errors
    /// Returns an error unless there is exactly one.
    pub fn named(server: Box<dyn DiaryServer>, name: &str) -> Result<Self, MemoryError> {
        let answer = server.get("/diaries", &[])?;
        let is_named = |diary: &&Value| diary.text_of("name").is_some_and(|its| its == name);
        let found: Vec<&Value> = list(&answer, "items")?.iter().filter(is_named).collect();
        let [one] = found[..] else {
            return Err(MemoryError::NoDiary { name: name.to_owned(), count: found.len() });
        };
        let id = one.text_of("id").and_then(|id| id.parse().ok());
        Ok(Self::new(server, id.ok_or_else(|| lie("it gave a diary without an id"))?))
    }

    /// Returns the same diary, whose new entries are signed.
    #[must_use]
    pub fn signed_by(self, signer: Option<Signer>, when: SignWhen) -> Self {
        Self { signing: signing::Signing::new(signer, when), ..self }
    }

    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    fn in_diary(&self, rest: &str) -> String {
        format!("/diaries/{}/{rest}", self.id)
    }

    /// Asks for something in the diary.
    pub(crate) fn get_in_diary(
        &self,
        rest: &str,
        query: &[(&'static str, String)],
    ) -> Result<Value, MemoryError> {
        Ok(self.server.get(&self.in_diary(rest), query)?)
    }

    /// Checks that something is of this diary: the server may let its user see more.
    fn check_is_own(&self, value: &Value, what: &'static str) -> Result<(), MemoryError> {
        let diary = value.text_of("diaryId").and_then(|id| id.parse().ok());
        (diary == Some(self.id)).then_some(()).ok_or(MemoryError::NotInDiary(what))
    }
}

/// Returns the error for an answer that cannot be believed.
pub(crate) fn lie(why: impl std::fmt::Display) -> MemoryError {
    MemoryError::Untrusted(why.to_string())
}

/// Returns whether a member of a value is this id.
pub(crate) fn is_of(value: &Value, name: &str, id: Uuid) -> bool {
    value.text_of(name).is_some_and(|its| its.parse() == Ok(id))
}

pub(crate) fn list<'a>(answer: &'a Value, name: &str) -> Result<&'a [Value], MemoryError> {
    answer.get(name).and_then(Value::as_array).ok_or_else(|| lie(format!("it has no {name}")))
}
