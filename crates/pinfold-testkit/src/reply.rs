//! One assistant turn, and its three wire formats.

mod anthropic;
mod chat;
mod responses;
mod turn;

use serde_json::Value;

use crate::conversation::Api;
pub(crate) use turn::{CallOut, Data, Event, Reply};

impl Reply {
    /// Returns the whole turn as one object.
    pub(crate) fn json(&self, api: Api) -> Value {
        match api {
            Api::Anthropic => anthropic::message(self),
            Api::Chat => chat::message(self),
            Api::Responses => responses::message(self),
        }
    }

    /// Returns the turn as a stream.
    pub(crate) fn events(&self, api: Api) -> Vec<Event> {
        match api {
            Api::Anthropic => anthropic::events(self),
            Api::Chat => chat::events(self),
            Api::Responses => responses::events(self),
        }
    }
}
