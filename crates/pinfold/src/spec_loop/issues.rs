//! All issues that are specifications and ready.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_host::sys;
use pinfold_specs::{Gh, Home as _, IssueHome, TrustedAuthors, Vouched};
use pinfold_tasks::SpecStatus;
use pinfold_terminal::notify;

use super::one::{Key, Worked, plain, work_on};
use super::{Context, is_asked_to_end};
use crate::exit::Failure;

/// Works on one issue after the other.
pub(super) struct Issues<'a> {
    gh: Gh,
    trusted: TrustedAuthors,
    context: &'a Context<'a>,
    /// Why issues are left out, each said once.
    left_out: BTreeMap<u64, String>,
    /// How issues ended last that were worked on.
    ended: BTreeMap<u64, Worked>,
}

impl<'a> Issues<'a> {
    pub(super) fn new(gh: Gh, trusted: TrustedAuthors, context: &'a Context<'a>) -> Self {
        Self { gh, trusted, context, left_out: BTreeMap::new(), ended: BTreeMap::new() }
    }

    /// Works until no issue is ready, or with an interval until this process is asked to end. Returns how the first
    /// issue ended that is not done.
    ///
    /// # Errors
    /// Returns an error if issues cannot be listed, unless they will be listed again.
    pub(super) fn work(mut self, interval: Option<Duration>) -> Result<Worked, Failure> {
        loop {
            match self.round() {
                Ok(Some(Worked::Interrupted)) => return Ok(Worked::Interrupted),
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(failure) if interval.is_some() => drop(failure.show()),
                Err(failure) => return Err(failure),
            }
            let Some(interval) = interval else { return Ok(self.result()) };
            if is_asked_to_end(&self.context.signals, interval) {
                return Ok(Worked::Interrupted);
            }
        }
    }

    /// Works on the first issue that is ready. Returns `None` if no issue is.
    fn round(&mut self) -> Result<Option<Worked>, Failure> {
        self.unblock()?;
        for issue in self.gh.list(&["spec", "status:ready"])? {
            if sys::next_signal(&self.context.signals).is_some() {
                return Ok(Some(Worked::Interrupted));
            }
            let mut home = self.home(issue.number);
            let key = Key::of_issue(self.gh.repository(), issue.number);
            match work_on(&mut home, &key, self.context) {
                Ok(worked) => {
                    self.left_out.remove(&issue.number);
                    self.ended.insert(issue.number, worked);
                    return Ok(Some(worked));
                }
                Err(failure) => self.leave_out(issue.number, failure),
            }
        }
        Ok(None)
    }

    /// Makes issues ready again whose dependencies are done by now.
    fn unblock(&mut self) -> Result<(), Failure> {
        for issue in self.gh.list(&["spec", "status:blocked"])? {
            let mut home = self.home(issue.number);
            let unblocked = home.read().and_then(|known| {
                let depends = &known.spec().depends;
                // An issue without dependencies was blocked for another reason.
                if depends.is_empty() || !home.unmet(depends)?.is_empty() {
                    return Ok(());
                }
                notify!("pinfold: {}: what it depends on is done", home.name());
                home.set_status(&known, SpecStatus::Ready).map(drop)
            });
            if let Err(refusal) = unblocked {
                self.leave_out(issue.number, refusal.into());
            }
        }
        Ok(())
    }

    fn result(&self) -> Worked {
        let unfinished = self.ended.values().copied().find(|worked| *worked != Worked::Done);
        let left_out = (!self.left_out.is_empty()).then_some(Worked::Attention);
        unfinished.or(left_out).unwrap_or(Worked::Done)
    }

    fn home(&self, number: u64) -> IssueHome {
        IssueHome::new(self.gh.clone(), number, self.trusted.clone(), Vouched::ByNobody)
    }

    fn leave_out(&mut self, number: u64, failure: Failure) {
        let why = plain(&failure.to_string());
        if self.left_out.get(&number) != Some(&why) {
            notify!("pinfold: issue {number} is left out: {why}");
            self.left_out.insert(number, why);
        }
    }
}
