//! The keys of providers of models and of budgets.

use super::shapes::{ID_PATTERN, PLACE_PATTERN, TEXTS};
use crate::document::{Key, Shape};
use crate::env::NAME_PATTERN;
use crate::settings::Api;
use crate::settings::words::Window;

/// `[providers.NAME]`.
pub(crate) const PROVIDER: &[Key] = &[
    Key::new("base_url", Shape::Text, "https URL of the provider; http only for loopback."),
    Key::new(
        "plain_http",
        Shape::Flag,
        "Whether base_url may be http for a server of your own network.",
    ),
    Key::new(
        "api",
        Shape::Choice(Api::WORDS),
        "What a provider of your own speaks: openai or anthropic.",
    ),
    Key::new(
        "env_var_name",
        Shape::Pattern(NAME_PATTERN),
        "The variable with the key of a provider of your own; NAME_API_KEY if absent.",
    ),
    Key::new("keyless", Shape::Flag, "Whether the provider needs no key."),
    Key::new("region", Shape::Pattern(PLACE_PATTERN), "The region of Bedrock or Vertex."),
    Key::new("project", Shape::Pattern(PLACE_PATTERN), "The Google Cloud project of Vertex."),
    Key::new(
        "models",
        TEXTS,
        "The models that may be asked for, NAME or NAME* for all that begin so; all if absent.",
    ),
    Key::new(
        "account",
        Shape::Map(ID_PATTERN, &Shape::Text),
        "Headers that choose an account, such as OpenAI-Project; those of the sandbox do not pass.",
    ),
];

/// A budget.
pub(crate) const BUDGET: &[Key] = &[
    Key::new("requests", Shape::Count, "Requests to models."),
    Key::new("tokens", Shape::Count, "Tokens, sent and received."),
    Key::new("usd", Shape::Amount, "Money, in USD, by the prices that pinfold knows."),
    Key::new("per", Shape::Choice(Window::WORDS), "How long it lasts; session by default."),
];

/// The user's `[budget]`.
pub(crate) const GROUPED: &[Key] = &[
    Key::new("requests", Shape::Count, "Requests to models."),
    Key::new("tokens", Shape::Count, "Tokens, sent and received."),
    Key::new("usd", Shape::Amount, "Money, in USD, by the prices that pinfold knows."),
    Key::new("per", Shape::Choice(Window::WORDS), "How long it lasts; session by default."),
    Key::new("group", Shape::Map(ID_PATTERN, &Shape::Table(BUDGET)), "Budgets of groups."),
    Key::new("tasks", Shape::Table(BUDGET), "The budget of all tasks and loops of this machine."),
];
