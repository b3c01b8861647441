//! What is asked of a live session, and what it answers. Both are the same program.

use pinfold_host::Refusal;
use pinfold_wire::{Ended, Window};
use serde::{Deserialize, Serialize};

use super::Limits;
use crate::outcome::LimitReached;

/// A change of a live session's network rules.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Change {
    /// Let a host be reached.
    Allow(String),
    /// Take a rule away; connections that nothing else allows are cut.
    Forbid(String),
}

/// The rules of a live session after a change.
#[derive(Debug, Serialize, Deserialize)]
pub struct RulesNow {
    /// Each with who gave it.
    pub rules: Vec<String>,
    /// Whether only programs that use a proxy reach what they allow.
    pub by_proxy: bool,
}

/// What can be asked of a live session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Answered by the rules that are in force then.
    Change(Change),
    /// Run what the next messages say ([`pinfold_wire::LaunchOrder::Command`]), for so many milliseconds
    /// at most. The connection lasts as long as it runs.
    Exec {
        /// None for as long as it takes.
        timeout: Option<u64>,
        /// As whom; none for the session's user.
        user: Option<String>,
        /// Open files of each process.
        files: Option<u64>,
        /// By how much others go before it.
        nice: u8,
        /// What it may use up.
        limits: Limits,
    },
    /// Serve the session's tools on the socket that comes along.
    Tools,
    /// Of what runs: send it this signal.
    Signal(i32),
    /// Of what runs: end it with all that it has started.
    Kill,
    /// Show the session's terminal. The connection lasts as long as it is attached.
    Attach {
        /// Rows and columns; none for one who only looks.
        window: Option<Window>,
        /// Whether urgent notices are wanted. A client of an older version does not know them.
        #[serde(default)]
        with_notices: bool,
    },
    /// Of who is attached: this is the size now, and everything is to be painted again.
    Window(Window),
    /// Speak of what waits for a user's answer (`pinfold_ask`), on this connection.
    Approvals,
    /// End the session, and kill what is left of it after so many milliseconds. The connection is
    /// closed when it has ended.
    Stop {
        /// Patience.
        grace: u64,
    },
}

/// What a live session answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The rules that are in force now.
    Rules(RulesNow),
    /// It is being done.
    Done,
    /// It cannot be done.
    Error(Why),
    /// The terminal of what runs, whose controlling side comes along.
    Terminal,
    /// The client that asked is attached: where what is written comes from comes along, and, for one who may write, where keys
    /// go.
    Attached,
    /// The same, with where urgent notices come from in between. Only to who asked for them.
    AttachedWithNotices,
    /// The session has no terminal of its own. Its end will be sent.
    NoTerminal,
    /// What runs was stopped.
    Stopped,
    /// It cannot be executed, by this number of the system's, which is about this.
    Failed(i32, Vec<u8>),
    /// It returned this status, and had reached this limit of its own.
    Code(u8, Option<LimitReached>),
    /// The same of what this signal ended.
    Killed(u8, Option<LimitReached>),
}

/// Why something cannot be done. Sessions of pinfold 0.1 before hints, and what needs none, say a text alone.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Why {
    Text(String),
    WithHint {
        what: String,
        /// What the user can do about it.
        hint: String,
    },
}

impl From<Refusal> for Why {
    fn from(refusal: Refusal) -> Self {
        let what = refusal.to_string();
        match refusal.hint() {
            Some(hint) => Self::WithHint { what, hint: hint.to_owned() },
            None => Self::Text(what),
        }
    }
}

impl From<Why> for Refusal {
    fn from(why: Why) -> Self {
        match why {
            Why::Text(what) => Self::new(what),
            Why::WithHint { what, hint } => Self::new(what).with_hint(hint),
        }
    }
}

impl Answer {
    pub(super) fn error(refusal: impl Into<Refusal>) -> Self {
        Self::Error(refusal.into().into())
    }

    pub(super) fn ended(ended: Ended, limit: Option<LimitReached>) -> Self {
        match ended {
            Ended::Code(code) => Self::Code(code, limit),
            Ended::Signal(signal) => Self::Killed(signal, limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use pinfold_host::Refusal;

    use super::{Answer, Request};

    /// What a client and a session of pinfold 0.1 before notices say: sessions outlive an upgrade.
    #[test]
    fn older_client_attaches_without_notices_and_an_older_session_has_none() {
        let asked: Request = serde_json::from_str(r#"{"Attach":{"window":null}}"#).unwrap();
        assert!(matches!(asked, Request::Attach { window: None, with_notices: false }));
        let answer: Answer = serde_json::from_str(r#""Attached""#).unwrap();
        assert!(matches!(answer, Answer::Attached));
    }

    #[test]
    fn hint_of_an_error_comes_along_and_an_older_session_gives_none() {
        let refusal = Refusal::new("not now").with_hint("wait".to_owned());
        for (sent, hint) in [(Answer::error(refusal), Some("wait")), (Answer::error("no"), None)] {
            let text = serde_json::to_string(&sent).unwrap();
            let Ok(Answer::Error(why)) = serde_json::from_str(&text) else { panic!("{text}") };
            assert_eq!(Refusal::from(why).hint(), hint);
        }
        let older: Answer = serde_json::from_str(r#"{"Error":"not now"}"#).unwrap();
        let Answer::Error(why) = older else { panic!() };
        assert_eq!(Refusal::from(why).to_string(), "not now");
    }
}
