//! What a session may use of models, as the gateway sees it.

use std::time::Duration;

use pinfold_policy::prices::Tokens;

/// Counts what is used. Called on the gateway's thread: what blocks, blocks every stream.
pub trait Budget: Send + Sync {
    /// Returns whether a request counts only when its model is known: money is limited.
    fn needs_model(&self) -> bool;

    /// Returns whether requests are counted one by one: their number is limited.
    fn limits_requests(&self) -> bool;

    /// Returns whether answers are to be followed word by word: tokens or money are limited.
    fn limits_answers(&self) -> bool;

    /// Counts a request and reserves what it may use, before it is sent.
    ///
    /// # Errors
    /// Returns [`Over`]; nothing is counted or reserved then.
    fn admit(&self, model: Option<&str>, reserved: &Tokens) -> Result<(), Over>;

    /// Corrects what an answer has used so far.
    ///
    /// # Errors
    /// Returns [`Over::Spent`] when that is more than there was; it is counted nevertheless.
    fn spend(&self, model: Option<&str>, before: &Tokens, now: &Tokens) -> Result<(), Over>;

    /// Gives back what was reserved for a request. What it has used is counted before.
    fn release(&self, model: Option<&str>, reserved: &Tokens);

    /// Returns what tokens cost, in billionths of a USD; none for a model without a price.
    fn cost(&self, model: &str, tokens: &Tokens) -> Option<u64>;
}

/// Why no more may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// A budget is spent.
    Spent {
        /// Which, how much of what it had, and who gave it.
        what: String,
        /// When there is more, in words.
        reset: String,
        /// And from now on; none for a session's budget.
        after: Option<Duration>,
    },
    /// What is left of a budget is reserved by requests that are under way.
    Reserved {
        /// Which budget.
        what: String,
    },
    /// Money is limited, and nobody knows what the model costs.
    Unpriced { model: String },
    /// The count cannot be kept.
    Broken {
        /// Why, for the host.
        cause: String,
    },
}
