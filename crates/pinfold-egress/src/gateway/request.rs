//! What a JSON body asks for: models, and how much they may say.

use super::model::is_name;

/// Models that a body may name. No API takes more alternatives.
const MOST_MODELS: usize = 32;

/// Longest key that means something here, in bytes.
const LONGEST_KEY: usize = 64;

/// What a model says at most, in tokens. No model says more in one answer (2026).
const MOST_OUTPUT: u64 = 1_000_000;

/// What is reserved for an answer whose length the request does not limit, in tokens.
const USUAL_OUTPUT: u64 = 32 * 1024;

/// What a body asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// The models it names, also as alternatives.
    pub(super) models: Vec<String>,
    /// Those that parts of it name: its tools, or requests within it.
    pub(super) of_parts: Vec<String>,
    /// Whether it is answered later, by another request.
    pub(super) is_deferred: bool,
    /// A key whose value can choose a model in a way that is not understood.
    pub(super) unclear: Option<&'static str>,
    /// The most tokens of one answer.
    output: Option<u64>,
    /// How many answers.
    choices: u64,
    /// The keys that were there and mean something.
    seen: u64,
}

/// What a value of a body means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It holds nothing that is judged.
    Plain,
    /// The whole body.
    Body,
    /// The name of a model.
    Model,
    /// Names of models, or one.
    Models,
    /// Whether the answer comes later.
    Deferred,
    /// The most tokens of an answer.
    Output,
    /// How many answers there are.
    Choices,
    /// An object of Gemini's with limits.
    Config,
    /// Something with a model of its own, or several of them.
    Parts,
    /// The model of such a part.
    PartModel,
    /// Chooses a model in a way that is not understood. The number is that of its key.
    Unclear(u8),
}

/// Keys of a body, folded as [`folded`] does.
const BODY: [(&str, Role); 23] = [
    ("model", Role::Model),
    ("models", Role::Models),
    // OpenRouter, LiteLLM, and what other routers may call it.
    ("fallback", Role::Models),
    ("fallbacks", Role::Models),
    ("defaultfallbacks", Role::Models),
    ("contextwindowfallbacks", Role::Models),
    ("contentpolicyfallbacks", Role::Models),
    ("fallbackmodels", Role::Models),
    // Responses; xAI.
    ("background", Role::Deferred),
    ("deferred", Role::Deferred),
    ("maxtokens", Role::Output),
    ("maxcompletiontokens", Role::Output),
    ("maxoutputtokens", Role::Output),
    ("maxtokenstosample", Role::Output),
    ("n", Role::Choices),
    ("bestof", Role::Choices),
    // Gemini; Bedrock's Converse.
    ("generationconfig", Role::Config),
    ("inferenceconfig", Role::Config),
    // Tools of Anthropic's and OpenAI's can have models of their own.
    ("tools", Role::Parts),
    // Gemini: batchEmbedContents, countTokens.
    ("requests", Role::Parts),
    ("generatecontentrequest", Role::Parts),
    // OpenRouter; LiteLLM.
    ("preset", Role::Unclear(0)),
    ("routersettingsoverride", Role::Unclear(1)),
];

/// Keys of a `generationConfig` and an `inferenceConfig`.
const CONFIG: [(&str, Role); 3] = [
    ("maxoutputtokens", Role::Output),
    ("maxtokens", Role::Output),
    ("candidatecount", Role::Choices),
];

/// The names of keys that are not understood.
const UNCLEAR: [&str; 2] = ["preset", "router_settings_override"];

impl Role {
    /// Returns the role of the items of an array with this role.
    pub(super) fn of_items(self) -> Self {
        match self {
            Self::Models => Self::Model,
            Self::Parts => Self::Parts,
            _ => Self::Plain,
        }
    }
}

impl Request {
    /// Returns the role of the value of a key in an object with a role. None for a key that some server
    /// takes for one that was there already.
    pub(super) fn key(&mut self, within: Role, key: &[u8]) -> Option<Role> {
        let (names, first): (&[(&str, Role)], usize) = match within {
            Role::Body => (&BODY, 0),
            Role::Config => (&CONFIG, BODY.len()),
            Role::Parts if folded(key).as_deref() == Some("model") => return Some(Role::PartModel),
            _ => return Some(Role::Plain),
        };
        let Some(key) = folded(key) else { return Some(Role::Plain) };
        let Some(index) = names.iter().position(|(name, _)| *name == key) else {
            return Some(Role::Plain);
        };
        let bit = 1 << (first + index);
        let is_new = self.seen & bit == 0;
        self.seen |= bit;
        is_new.then_some(names[index].1)
    }

    /// Notes that an object or array is the value of a role; gives the role of its inside.
    pub(super) fn opened(&mut self, role: Role, is_object: bool) -> Role {
        let fits = match role {
            Role::Plain | Role::Body | Role::PartModel | Role::Parts => true,
            Role::Config => is_object,
            Role::Models => !is_object,
            Role::Model | Role::Deferred | Role::Output | Role::Choices | Role::Unclear(_) => false,
        };
        if !fits {
            self.unclear.get_or_insert(role.name());
        }
        match role {
            Role::Body | Role::Config | Role::Models | Role::Parts => role,
            _ => Role::Plain,
        }
    }

    /// Notes a text, number or word, as JSON has it, as the value of a role.
    pub(super) fn value(&mut self, role: Role, json: &[u8]) {
        let text = || serde_json::from_slice::<String>(json).ok();
        let is_null = json == b"null";
        let fits = match role {
            Role::Plain | Role::Body | Role::Config | Role::Parts => true,
            Role::Model => text().is_some_and(|model| add(&mut self.models, model)),
            Role::Models => is_null || text().is_some_and(|model| add(&mut self.models, model)),
            Role::PartModel => text().is_none_or(|model| add(&mut self.of_parts, model)),
            Role::Deferred => {
                // A text or number counts as true in some languages.
                self.is_deferred |= !(is_null || json == b"false");
                true
            }
            Role::Output => {
                self.output = self.output.max(amount(json));
                true
            }
            Role::Choices => {
                self.choices = self.choices.max(amount(json).unwrap_or(1));
                true
            }
            Role::Unclear(_) => is_null,
        };
        if !fits {
            self.unclear.get_or_insert(role.name());
        }
    }

    /// Returns the most tokens that the answer may have.
    pub(super) fn most_output(&self) -> u64 {
        let one = self.output.unwrap_or(USUAL_OUTPUT).min(MOST_OUTPUT);
        one.saturating_mul(self.choices.max(1)).min(MOST_OUTPUT)
    }
}

fn add(models: &mut Vec<String>, model: String) -> bool {
    if !is_name(&model) || models.len() == MOST_MODELS {
        return false;
    }
    if !models.contains(&model) {
        models.push(model);
    }
    true
}

impl Role {
    /// Returns how a user knows it.
    fn name(self) -> &'static str {
        match self {
            Self::Plain | Self::Body => "the body",
            Self::Model | Self::PartModel => "model",
            Self::Models => "models",
            Self::Deferred => "background",
            Self::Output => "max_tokens",
            Self::Choices => "n",
            Self::Config => "generationConfig",
            Self::Parts => "tools",
            Self::Unclear(number) => UNCLEAR.get(usize::from(number)).unwrap_or(&"preset"),
        }
    }
}

/// Returns a key as the most lenient server compares it: letters of either case, with Unicode's two
/// further forms of `s` and `k` (Go's `encoding/json`), and without `_` (protobuf's JSON). None for one
/// that is too long to mean anything.
fn folded(key: &[u8]) -> Option<String> {
    let key = std::str::from_utf8(key).ok().filter(|key| key.len() <= LONGEST_KEY)?;
    let fold = |character| match character {
        'ſ' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    Some(key.chars().filter(|character| *character != '_').map(fold).collect())
}

/// Returns a number of tokens. None for what sets no limit: null, or a negative number, which some
/// servers take for "without end".
fn amount(json: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(json).ok()?;
    let whole = text.parse().ok();
    whole.or_else(|| {
        let number: f64 = text.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let number = (number >= 0.0).then_some(number.ceil() as u64);
        number
    })
}
