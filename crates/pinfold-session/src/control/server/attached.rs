//! Clients that are attached to the session's terminal, or that follow its log and wait for its
//! end.

use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_host::Refusal;
use pinfold_host::ipc::Json;
use pinfold_terminal::screen::{Screen, Seat};
use pinfold_wire::Window;

use super::{Client, Control, State};
use crate::control::message::{Answer, Request};

impl Control {
    /// Offers a terminal that can be attached to, from now on.
    pub(crate) fn show(&mut self, screen: Screen) {
        self.screen = Some(screen);
    }

    /// Returns whether nobody but those who attach has the session's terminal.
    pub(crate) fn has_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// Tells who is attached how the session has ended.
    pub(crate) fn farewell(&mut self, status: u8) {
        self.screen = None;
        for client in &mut self.clients {
            if matches!(client.state, State::Attached(_)) {
                client.answer(Answer::Code(status, None), &[]);
            }
        }
    }

    /// Shows a client the session's terminal, if it has one.
    pub(super) fn attach(
        &mut self,
        client: &mut Client,
        window: Option<Window>,
        with_notices: bool,
    ) {
        let Some(screen) = &mut self.screen else {
            client.state = State::Attached(None);
            return client.answer(Answer::NoTerminal, &[]);
        };
        match screen.attach(window) {
            Ok(Seat { id, output, keys }) => {
                // A client for which no descriptor is left finds the notices in the log.
                let bulletin = self.bulletin.as_ref().filter(|_| with_notices);
                let notices = bulletin.and_then(|bulletin| bulletin.listen().ok());
                // A client that only looks is given nothing to write to.
                let keys = window.map(|_| keys.as_fd());
                let ends = [Some(output.as_fd()), notices.as_ref().map(OwnedFd::as_fd), keys];
                let ends: Vec<_> = ends.into_iter().flatten().collect();
                client.state = State::Attached(Some(id));
                let answer =
                    if notices.is_some() { Answer::AttachedWithNotices } else { Answer::Attached };
                client.answer(answer, &ends);
            }
            Err(error) => client.answer(Answer::error(Refusal::of(error)), &[]),
        }
    }

    /// Hears an attached client: the size of its window, or that it goes.
    pub(super) fn hear_attached(&mut self, client: &mut Client, seat: Option<u32>) {
        let said = client.channel.receive::<Json<Request>>();
        let screen = self.screen.as_ref().zip(seat);
        match (said.ok().flatten().map(|received| received.message.0), screen) {
            (Some(Request::Window(window)), Some((screen, seat))) => {
                screen.resize(seat, window);
                client.state = State::Attached(Some(seat));
            }
            (_, Some((screen, seat))) => screen.leave(seat),
            (_, None) => {}
        }
    }
}
