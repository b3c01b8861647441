//! Wrappers (requirement 8.2): what every launch goes through before it is made, in the order in which
//! they were registered. Each takes what is to be launched and gives what is launched instead.
//!
//! What counts as a launch is a command of a session (its own, `resumeCommands`, what `pinfold exec`
//! brings) and a program that pinfold starts on the host. A wrapper's own program does not count, and neither
//! does pinfold itself, which it starts in processes of its own.
//!
//! A list acts for one session at most.

mod bearer;
mod bounds;
mod context;
mod error;
mod launch;
mod program;

use crate::Refusal;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use pinfold_policy::authority::Authority;
use pinfold_policy::settings::WrapperSetting;

use self::bearer::Bearer;
pub use self::context::{Context, Subject};
pub use self::context::{Launch, split_variable};
pub use self::error::{WrapError, Wrong};
use self::program::Program;
use crate::search_path::SearchPath;

/// A wrapper in the program that embeds this crate. It gives what is launched instead, or why nothing
/// may be.
pub type Function =
    dyn Fn(Context, Option<&Subject>) -> Result<Context, Refusal> + Send + Sync + 'static;

#[derive(Clone)]
enum How {
    Function(Arc<Function>),
    Program(Arc<Program>),
}

#[derive(Clone)]
struct Wrapper {
    id: String,
    label: Option<String>,
    how: How,
}

impl fmt::Debug for Wrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrapper").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Where the wrappers of the settings come from; the error says which file is wrong.
pub type Source = fn() -> Result<Vec<WrapperSetting>, Refusal>;

#[derive(Debug, Default)]
struct Registry {
    /// Read with the first launch: most commands launch nothing.
    source: Option<Source>,
    wrappers: Vec<Wrapper>,
    bearer: Option<Arc<Bearer>>,
}

/// The wrappers that launches go through, in their order.
#[derive(Debug)]
pub struct Wrappers(Mutex<Registry>);

impl Wrappers {
    /// Returns a list without any wrapper, to which functions may be added.
    #[must_use]
    pub fn none() -> Self {
        Self(Mutex::default())
    }

    /// Returns the wrappers of the settings, which come from here. Those that are registered are behind them.
    #[must_use]
    pub fn of_settings(source: Source) -> Self {
        Self(Mutex::new(Registry { source: Some(source), ..Registry::default() }))
    }

    /// Registers a function. One of the same id is replaced, and keeps its place; launches show the
    /// label, or the id where it has no label.
    ///
    /// # Errors
    /// Returns an error for settings that cannot be read: their wrappers come first.
    pub fn register(
        &self,
        id: &str,
        function: impl Fn(Context, Option<&Subject>) -> Result<Context, Refusal> + Send + Sync + 'static,
        label: Option<&str>,
    ) -> Result<(), WrapError> {
        let mut registry = self.0.lock();
        registry.read_settings()?;
        registry.put(Wrapper {
            id: id.to_owned(),
            label: label.map(str::to_owned),
            how: How::Function(Arc::new(function)),
        });
        Ok(())
    }

    /// Has all further launches made for a session of this authority.
    pub(crate) fn act_for(&self, authority: &Authority) {
        self.0.lock().bearer = Some(Arc::new(Bearer::of(authority)));
    }

    /// Has all of them handle a launch in a boundary, or on the `host`. What their programs start by name is found on
    /// this path.
    ///
    /// # Errors
    /// Returns an error for one that refuses, or fails in whatever way: then nothing is launched.
    pub(crate) fn wrap(
        &self,
        boundary: &str,
        mut launch: Launch,
        path: &SearchPath,
    ) -> Result<Launch, WrapError> {
        let (wrappers, bearer) = {
            let mut registry = self.0.lock();
            registry.read_settings()?;
            (registry.wrappers.clone(), registry.bearer.clone())
        };
        launch.handled_by = vec![boundary.to_owned()];
        let Some(first) = wrappers.first() else { return Ok(launch) };
        let mut context = Context::of(&launch).map_err(|wrong| first.failed(wrong))?;
        for wrapper in &wrappers {
            let given = context.clone();
            let answer = match &wrapper.how {
                How::Function(function) => {
                    let subject = bearer.as_ref().map(|bearer| &bearer.subject);
                    function(context, subject).map_err(Wrong::Refused)
                }
                How::Program(program) => program.ask(&context, boundary, bearer.as_deref(), path),
            };
            context = answer
                .and_then(|answer| answer.checked(&given))
                .map_err(|wrong| wrapper.failed(wrong))?;
            context.wrappers.push(wrapper.shown().to_owned());
        }
        launch.handled_by.append(&mut context.wrappers.clone());
        Ok(context.into_launch(launch.handled_by))
    }
}

impl Registry {
    fn read_settings(&mut self) -> Result<(), WrapError> {
        let Some(source) = self.source else { return Ok(()) };
        for setting in source().map_err(WrapError::Settings)? {
            let (id, label) = (setting.id.clone(), setting.label.clone());
            self.put(Wrapper { id, label, how: How::Program(Arc::new(Program::of(setting))) });
        }
        self.source = None;
        Ok(())
    }

    fn put(&mut self, wrapper: Wrapper) {
        match self.wrappers.iter_mut().find(|other| other.id == wrapper.id) {
            Some(other) => *other = wrapper,
            None => self.wrappers.push(wrapper),
        }
    }
}

impl Wrapper {
    fn shown(&self) -> &str {
        self.label.as_ref().unwrap_or(&self.id)
    }

    fn failed(&self, wrong: Wrong) -> WrapError {
        WrapError::Wrapper { id: self.id.clone(), wrong }
    }
}

#[cfg(test)]
mod tests;
