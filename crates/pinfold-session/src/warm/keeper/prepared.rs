//! One inside that waits for a run.

use std::os::fd::{AsFd, BorrowedFd};

use pinfold_boundary::namespace::{Namespace, explain};
use pinfold_boundary::{Hold, Inside, Released};
use pinfold_wire::Channel;

use super::super::ambience::{Ambience, Groups};
use super::super::fingerprint::fingerprint;
use super::super::message::Given;
use super::has_something;
use crate::outcome::RunError;
use crate::run::Request;
use crate::run::design::{self, Design};
use crate::state::{SessionId, SessionState};
use crate::talk::Json;

/// An inside that was made and is not used.
pub(super) struct Prepared {
    inside: Inside,
    design: Design,
    state: SessionState,
    /// Keeps what the inside stands on from being removed.
    request: Request,
    fingerprint: [u8; 32],
    ambience: Ambience,
    groups: Groups,
    is_ready: bool,
}

impl Prepared {
    /// Begins to make one.
    ///
    /// # Errors
    /// What a run would fail with.
    pub(super) fn make(request: Request) -> Result<Self, RunError> {
        let (_, plan) = Design::find(&request, &SessionId::anybodys())?;
        let fingerprint = fingerprint(&plan, &request.places).map_err(RunError::System)?;
        let (design, state, plan) = design::make(&request)?;
        let inside = Namespace.start(plan, Hold::Channel)?;
        let is_beside = inside.group.as_ref().is_some_and(|group| group.is_beside());
        let groups = if is_beside { Groups::Beside } else { Groups::Own };
        let ambience = Ambience::of("self", groups).map_err(RunError::System)?;
        let is_ready = false;
        Ok(Self { inside, design, state, request, fingerprint, ambience, groups, is_ready })
    }

    /// Whether it can be offered.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub(super) fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    pub(super) fn ambience(&self) -> &Ambience {
        &self.ambience
    }

    pub(super) fn groups(&self) -> Groups {
        self.groups
    }

    /// What tells that it goes on: init, until it waits, and its end.
    pub(super) fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let channel = (!self.is_ready).then(|| self.inside.channel.as_fd());
        channel.into_iter().chain([self.inside.ended()])
    }

    /// Looks how far it is; false if it has aged already. The first thing that init says comes when
    /// everything is mounted. What the paths led to meanwhile is asked again then.
    ///
    /// # Errors
    /// Why it ended.
    pub(super) fn go_on(&mut self) -> Result<bool, RunError> {
        if has_something(self.inside.ended()) {
            return Err(explain(self.inside.last_words()).into());
        }
        if !self.is_ready && has_something(self.inside.channel.as_fd()) {
            self.is_ready = true;
            return Ok(self.is_still(&self.request));
        }
        Ok(true)
    }

    /// Whether it is what this request would make now.
    pub(super) fn is_still(&self, request: &Request) -> bool {
        let found = Design::find(request, &SessionId::anybodys());
        found.is_ok_and(|(_, plan)| {
            let found = fingerprint(&plan, &request.places);
            found.is_ok_and(|fingerprint| fingerprint == self.fingerprint)
        })
    }

    /// Gives it to a run; none is left to be reaped where no descriptor could be had.
    ///
    /// # Errors
    /// Itself, where the run is gone.
    pub(super) fn hand_over(self, run: &Channel) -> Result<Option<Released>, Box<Self>> {
        let (session, handover) = (self.state.id().to_string(), self.inside.handover());
        let descriptors =
            [self.inside.channel.as_fd(), self.inside.init.as_fd(), self.state.record().as_fd()];
        if run.send(&Json(Given { session, handover }), &descriptors).is_err() {
            return Err(Box::new(self));
        }
        self.state.release();
        self.design.release();
        Ok(self.inside.release().ok())
    }
}
