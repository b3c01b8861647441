//! What a repository asks for beyond what its user gives.

use std::fmt;

use crate::origin::Place;

/// One thing that a repository's file asks for and that is more than its user gives. It waits until
/// the user trusts the file as it is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Widening {
    /// The dotted key.
    pub key: String,
    /// What would happen, as a fragment that begins with a verb.
    pub asks: String,
    /// Where it is asked for.
    #[serde(serialize_with = "shown")]
    pub place: Place,
    /// Whether it is in effect although nobody trusts the file: commands that run in a session with
    /// nothing to lose.
    pub in_effect: bool,
}

fn shown<S: serde::Serializer>(place: &Place, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(place)
}

impl fmt::Display for Widening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.key, self.asks)
    }
}
