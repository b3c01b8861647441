//! The sessions of one server: all work in one directory, by the options that a user gave.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use pinfold_client::Fault;
use pinfold_host::directories::Places;
use pinfold_session::control::Session;
use pinfold_tools::{ErrorKind, ToolError, Tools};

use crate::exec::fault;
use crate::start::{Started, start};

/// Sessions of one server at once.
const MOST: usize = 8;

pub(super) struct Sessions {
    places: Places,
    directory: PathBuf,
    options: Vec<OsString>,
    /// The one that tools use unless another is named; none before the first call.
    first: Mutex<First>,
    all: Mutex<BTreeMap<String, Open>>,
}

/// Whether there was a first one.
enum First {
    NotYet,
    Session(String),
}

struct Open {
    _started: Started,
    session: Session,
    tools: Option<Arc<Tools>>,
}

impl Sessions {
    pub(super) fn new(places: Places, directory: PathBuf, options: Vec<OsString>) -> Self {
        let (first, all) = (Mutex::new(First::NotYet), Mutex::default());
        Self { places, directory, options, first, all }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts one more, and makes it the first if no other lives.
    pub(super) fn start(&self) -> Result<(String, Vec<String>), Fault> {
        let mut first = self.first.lock();
        let is_live = |name: &str| pinfold_host::sessions::is_live(&self.places, name);
        self.all.lock().retain(|name, _| is_live(name));
        if self.all.lock().len() >= MOST {
            return Err(Fault::refused(format!("{MOST} sessions are the most"), Some("stop one")));
        }
        let started = start(&self.directory, &self.options)?;
        let session = Session::find(&self.places, started.session()).map_err(fault)?;
        let (name, notes) = (started.session().to_owned(), started.notes().to_vec());
        let open = Open { _started: started, session, tools: None };
        self.all.lock().insert(name.clone(), open);
        let has_first =
            matches!(&*first, First::Session(name) if self.all.lock().contains_key(name));
        if !has_first {
            *first = First::Session(name.clone());
        }
        Ok((name, notes))
    }

    /// Returns the session that is meant; the first is started when it is needed for the first time.
    pub(super) fn session(&self, name: Option<&str>) -> Result<Session, Fault> {
        let name = self.name(name)?;
        let ended = || {
            let hint = Some("session_start starts another one");
            Fault::refused(format!("the session {name} has ended"), hint)
        };
        self.all.lock().get(&name).map(|open| open.session.clone()).ok_or_else(ended)
    }

    fn name(&self, name: Option<&str>) -> Result<String, Fault> {
        if let Some(name) = name {
            return if self.all.lock().contains_key(name) {
                Ok(name.to_owned())
            } else {
                Err(Fault::refused(format!("no session {name} of this server"), None))
            };
        }
        if let First::Session(name) = &*self.first.lock() {
            return Ok(name.clone());
        }
        self.start().map(|(name, _)| name)
    }

    /// Returns the session's tools, which are asked for once.
    pub(super) fn tools(&self, name: Option<&str>) -> Result<Arc<Tools>, Fault> {
        let session = self.session(name)?;
        let kept = self.all.lock().get(session.name()).and_then(|open| open.tools.clone());
        if let Some(tools) = kept {
            return Ok(tools);
        }
        let tools = Arc::new(session.tools().map_err(fault)?);
        if let Some(open) = self.all.lock().get_mut(session.name()) {
            open.tools = Some(Arc::clone(&tools));
        }
        Ok(tools)
    }

    /// Returns what a tool says; tools that have ended are not used again.
    pub(super) fn said<T>(
        &self,
        tools: &Arc<Tools>,
        said: Result<T, ToolError>,
    ) -> Result<T, Fault> {
        said.map_err(|error| {
            if error.kind == ErrorKind::Gone {
                for open in self.all.lock().values_mut() {
                    open.tools.take_if(|other| Arc::ptr_eq(other, tools));
                }
            }
            error.into()
        })
    }

    /// Returns those that live; the one that tools use unless another is named comes first.
    pub(super) fn list(&self) -> Vec<String> {
        let first = self.first.lock();
        let all = self.all.lock();
        let is_live = |name: &&String| pinfold_host::sessions::is_live(&self.places, name);
        let mut names: Vec<String> = all.keys().filter(is_live).cloned().collect();
        // Stable: the others stay in order.
        names.sort_by_key(|name| !matches!(&*first, First::Session(of) if of == name));
        names
    }

    pub(super) fn stop(&self, name: Option<&str>) -> Result<String, Fault> {
        let name = self.name(name)?;
        let open = self.all.lock().remove(&name);
        match open {
            // It is waited for.
            Some(open) => drop(open),
            None => return Err(Fault::refused(format!("the session {name} has ended"), None)),
        }
        Ok(name)
    }

    pub(super) fn end_all(&self) {
        let all = std::mem::take(&mut *self.all.lock());
        drop(all);
    }
}
