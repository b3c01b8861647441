//! All ways by which the user of one session is asked.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use pinfold_host::directories::Places;
use pinfold_terminal::prompt_overlay::Passage;

use crate::approvals::{Answered, Approvals, NoAnswer, Pending, Terms};
use crate::away::{Away, Courier};
use crate::links::{Followed, LinkError, Visit};
use crate::question::Question;
use crate::watchers::Watchers;

/// All ways by which the user of one session is asked: its terminal, the control socket, and what reaches a
/// user who is away. Nothing of it runs before the first question.
pub struct Desk {
    approvals: Arc<Approvals>,
    terminal: Option<Arc<Question>>,
    away: Option<Arc<Courier>>,
    is_started: Mutex<bool>,
}

impl Desk {
    /// Returns a desk that asks at this terminal and by these ways. Those who come to the control socket or watch all
    /// sessions are asked in any case.
    ///
    /// # Errors
    /// Returns the error of `eventfd(2)`.
    pub fn new(
        terminal: Option<Arc<Passage>>,
        away: Option<Away>,
        places: &Places,
    ) -> io::Result<Arc<Self>> {
        let approvals = Arc::new(Approvals::new(Watchers::of(places)));
        let away = away.map(|away| Courier::new(away, &approvals)).transpose()?.map(Arc::new);
        let terminal = terminal.map(|passage| Arc::new(Question::new(passage)));
        Ok(Arc::new(Self { approvals, terminal, away, is_started: Mutex::new(false) }))
    }

    /// Returns what waits for an answer.
    #[must_use]
    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.approvals
    }

    /// Returns whether anybody could answer now.
    pub(crate) fn is_attended(&self) -> bool {
        self.see_who_is_there();
        self.approvals.is_attended()
    }

    fn see_who_is_there(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.presence(&self.approvals);
        }
        if let Some(away) = &self.away {
            away.presence();
        }
    }

    /// Asks, and waits for the answer or until `is_withdrawn`, which is called again and again.
    ///
    /// # Errors
    /// Returns why there is no answer.
    pub fn ask(
        &self,
        pending: Pending,
        terms: Terms,
        is_withdrawn: impl FnMut() -> bool,
    ) -> Result<Answered, NoAnswer> {
        self.see_who_is_there();
        self.start().map_err(|_| NoAnswer::Nobody)?;
        self.approvals.ask(pending, terms, is_withdrawn)
    }

    /// Starts what asks, once.
    fn start(&self) -> io::Result<()> {
        let mut is_started = self.is_started.lock();
        if *is_started {
            return Ok(());
        }
        if let Some(terminal) = &self.terminal {
            terminal.start(&self.approvals)?;
        }
        if let Some(away) = &self.away {
            Courier::start(away)?;
        }
        *is_started = true;
        Ok(())
    }

    /// Returns the question that a link is for, or answers it.
    ///
    /// # Errors
    /// Returns an error for a link that is for no question that waits.
    pub(crate) fn by_link(&self, token: &str, visit: Visit) -> Result<Followed, LinkError> {
        let away = self.away.as_ref().ok_or(LinkError)?;
        away.links().follow(token, visit)
    }

    /// Returns whether answers are given at this port of the loopback interface.
    pub(crate) fn answers_at(&self, port: u16) -> bool {
        self.away.as_ref().is_some_and(|away| away.links().is_at(port))
    }

    /// Ends all waiting, since the session ends. The screen is given back when this returns.
    pub fn end(&self) {
        self.approvals.end();
        if let Some(terminal) = &self.terminal {
            terminal.end();
        }
        if let Some(away) = &self.away {
            away.end();
        }
    }
}
