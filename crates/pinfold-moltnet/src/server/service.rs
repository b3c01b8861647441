//! The operations of the API on a store of tasks: each is one transaction.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use pinfold_tasks::{Store, TaskId, Transaction};

use super::document::{Document, load, save};
use super::render;
use crate::problem::Problem;
use crate::schema::Schema;
use crate::server::caller::Caller;
use pinfold_content::{Value, read};

/// How many tasks time passes for in one transaction of the sweeper.
const SWEPT_AT_ONCE: u32 = 100;
/// How much of tasks' documents is kept read, in bytes of their texts: some ten thousand usual ones. A list needs those of
/// all tasks.
const MOST_READ: usize = 64 << 20;
/// The shapes of requests.
const REQUESTS: &str = include_str!("../../data/requests.json");

static SHAPES: LazyLock<Value> = LazyLock::new(|| read(REQUESTS).unwrap_or(Value::Null));

/// The operations on one store.
pub(crate) struct Service<S> {
    pub(super) store: S,
    /// The directory of artifacts.
    pub(super) files: PathBuf,
    documents: Mutex<Documents>,
}

/// Documents that were read.
#[derive(Default)]
struct Documents {
    read: HashMap<TaskId, Arc<Document>>,
    /// The bytes of their texts.
    bytes: usize,
}

impl<S: Store> Service<S> {
    pub(crate) fn new(store: S, files: PathBuf) -> Self {
        Self { store, files, documents: Mutex::default() }
    }

    /// Returns a task.
    pub(super) fn task(&self, caller: &Caller, id: TaskId) -> Result<Value, Problem> {
        self.store.read(|transaction| {
            let (record, document) = load(transaction, caller, id)?;
            render::record(transaction, &record, &document)
        })
    }

    /// Makes time pass for what nobody asks about. Returns whether there may be more to do.
    pub(crate) fn sweep(&self) -> Result<bool, Problem> {
        self.store.write(|transaction| {
            let now = transaction.now();
            let due = transaction.due(now, SWEPT_AT_ONCE)?;
            for id in &due {
                let Some(mut record) = transaction.load(*id)? else { continue };
                record.pass_time(now);
                save(transaction, &record)?;
            }
            Ok(due.len() == SWEPT_AT_ONCE as usize)
        })
    }

    /// Returns what a task is, which never changes.
    pub(super) fn document(
        &self,
        transaction: &mut impl Transaction,
        id: TaskId,
    ) -> Result<Option<Arc<Document>>, Problem> {
        if let Some(document) = self.documents.lock().read.get(&id) {
            return Ok(Some(Arc::clone(document)));
        }
        let Some(text) = transaction.spec(id)? else { return Ok(None) };
        let document = Arc::new(Document::read(&text)?);
        let mut documents = self.documents.lock();
        if documents.bytes + text.len() > MOST_READ {
            *documents = Documents::default();
        }
        documents.bytes += text.len();
        documents.read.insert(id, Arc::clone(&document));
        Ok(Some(document))
    }
}

/// Checks the body of a request. What it has too much at the top is ignored by who reads it.
pub(super) fn check(shape: &str, body: &Value) -> Result<(), Problem> {
    let schema = SHAPES.get("requests").and_then(|requests| requests.get(shape));
    let (Some(schema), Some(definitions)) = (schema, SHAPES.get("$defs")) else {
        return Err(Problem::internal());
    };
    match (Schema { schema, definitions }).faults(body, "") {
        faults if faults.is_empty() => Ok(()),
        faults => Err(Problem::invalid(faults)),
    }
}
