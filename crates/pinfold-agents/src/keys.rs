//! The keys of an agent's file. Ralph's keep their names.

use crate::host_files::HostKey;
use crate::profile::{AuthMode, RefreshForm};
use pinfold_policy::document::{Key, Shape};
use pinfold_policy::env::NAME_PATTERN;
use pinfold_policy::settings::Api;
use pinfold_policy::settings::{ID_PATTERN, PLACE_PATTERN};

const TEXTS: Shape = Shape::List(&Shape::Text);
const NAMES: Shape = Shape::List(&Shape::Pattern(NAME_PATTERN));
const ENV: Shape = Shape::Map(NAME_PATTERN, &Shape::Text);

/// `[[files]]`.
pub(crate) const FILE: &[Key] = &[
    Key::new("path", Shape::Text, "The file, relative to the home directory inside."),
    Key::new("content", Shape::Text, "What is in it; a template."),
    Key::new("mode", Shape::Pattern("^0?[0-7]{3}$"), "Its mode in octal; 0600 by default."),
    Key::new("keep", Shape::Flag, "Whether one that is there already, in persistent state, stays."),
];

/// `[providers.NAME.auth.MODE]`.
pub(crate) const AUTH: &[Key] = &[
    Key::new("key_prefix", Shape::Text, "How the session's key begins: its shape matters."),
    Key::new("env", ENV, "Variables for this mode; templates."),
    Key::new("base_url", Shape::Text, "The provider's URL for this mode."),
    Key::new("versioned", Shape::Flag, "Whether /v1 follows that URL; true by default."),
    Key::new("account_header", Shape::Text, "The header that names a login's account."),
    Key::new("token_url", Shape::Text, "Where a login is refreshed."),
    Key::new("client_id", Shape::Text, "The client that the login was made for."),
    Key::new("refresh_form", Shape::Choice(RefreshForm::WORDS), "json by default."),
];

/// `[providers.NAME]`.
pub(crate) const PROVIDER: &[Key] = &[
    Key::new("sandbox_agent", Shape::Text, "The agent's name in a container engine's terms."),
    Key::new("base_image", Shape::Text, "The container image to build on."),
    Key::new("uses_proxy", Shape::Flag, "Whether the credential is put in at the boundary."),
    Key::new("allowed_hosts", TEXTS, "The hosts the provider needs."),
    Key::new("env_var_name", Shape::Pattern(NAME_PATTERN), "The variable with the credential."),
    Key::new("auth_modes", Shape::List(&Shape::Choice(AuthMode::WORDS)), "Kinds of credential."),
    Key::new("default_auth_mode", Shape::Choice(AuthMode::WORDS), "The kind when none is known."),
    Key::new("api", Shape::Choice(Api::WORDS), "What the gateway speaks."),
    Key::new("base_url", Shape::Text, "The provider's own URL; {region} stands for its region."),
    Key::new("region_urls", Shape::Map(PLACE_PATTERN, &Shape::Text), "URLs of other regions."),
    Key::new("key_header", Shape::Text, "The header of the key, if not the API's usual one."),
    Key::new("secret", Shape::Pattern(ID_PATTERN), "The id of the secret."),
    Key::new("secret_command", TEXTS, "A command that prints the credential, for a hint."),
    Key::new("host", Shape::Table(HOST), "Variables of the host that say where it is."),
    Key::new("model_prefix", Shape::Text, "The prefix of the model's name."),
    Key::new("default_model", Shape::Text, "The model when none is chosen."),
    Key::new("env", ENV, "Variables for this provider; templates."),
    Key::new("files", Shape::List(&Shape::Table(FILE)), "Files for this provider."),
    Key::new("auth", Shape::Map("^(oauth|api_key|gateway|none)$", &Shape::Table(AUTH)), "By mode."),
];

/// `[providers.NAME.host]`.
pub(crate) const HOST: &[Key] = &[
    Key::new("chosen_by", NAMES, "Variables that choose this provider when they are true."),
    Key::new("base_url", NAMES, "Variables with its base URL."),
    Key::new("region", NAMES, "Variables with its region."),
    Key::new("project", NAMES, "Variables with its project."),
];

/// `[[host_files]]`.
pub(crate) const HOST_FILE: &[Key] = &[
    Key::new("path", Shape::Text, "The file, absolute or relative to the home; JSON or TOML."),
    Key::new("key", Shape::Text, "Its key, with dots between tables."),
    Key::new("sets", Shape::Choice(HostKey::WORDS), "What it sets."),
    Key::new("provider", Shape::Pattern(ID_PATTERN), "The provider that it concerns."),
    Key::new("except", TEXTS, "Values that choose what pinfold chooses anyway."),
];

/// A table of `agents/providers.toml`.
pub(crate) const SHARED: &[Key] = &[
    Key::new("apis", Shape::List(&Shape::Choice(Api::WORDS)), "The APIs it imitates."),
    Key::new("base_url", Shape::Text, "Its URL, if it has one for everybody."),
    Key::new("key_header", Shape::Text, "The header of the key, if not the API's usual one."),
    Key::new("env_var_name", Shape::Pattern(NAME_PATTERN), "The variable with the credential."),
    Key::new("auth_modes", Shape::List(&Shape::Choice(AuthMode::WORDS)), "Kinds of credential."),
    Key::new("default_auth_mode", Shape::Choice(AuthMode::WORDS), "The kind when none is known."),
    Key::new("host", Shape::Table(HOST), "Variables of the host that say where it is."),
];

/// `[state]`.
pub(crate) const STATE: &[Key] = &[
    Key::new("paths", TEXTS, "What the agent keeps, relative to its home."),
    Key::new("without_flags", TEXTS, "Of cli_flags, those that are left out when it is kept."),
];

/// `[my_config]`.
pub(crate) const MY_CONFIG: &[Key] = &[
    Key::new("read", TEXTS, "Files and directories that enter read-only, relative to the home."),
    Key::new(
        "servers",
        Shape::List(&Shape::Table(CONFIG_KEY)),
        "Keys with MCP servers, which enter without secrets.",
    ),
    Key::new("keys", Shape::List(&Shape::Table(CONFIG_KEY)), "Keys with plain values."),
    Key::new("server_args", TEXTS, "Arguments when there are servers; templates."),
    Key::new("server_env", ENV, "Variables when there are servers; templates."),
    Key::new("without_flags", TEXTS, "Of cli_flags, those that are left out."),
];

/// An entry of `my_config.servers` and `my_config.keys`.
pub(crate) const CONFIG_KEY: &[Key] = &[
    Key::new("from", Shape::Text, "The file on the host, relative to the home; JSON or TOML."),
    Key::new("key", Shape::Text, "The key, with dots between tables."),
    Key::new("into", Shape::Text, "The generated file that gets it, relative to the home."),
];

/// `[grants]`.
pub(crate) const GRANTS: &[Key] =
    &[Key::new("read", TEXTS, "Paths of the host to read, absolute or relative to the home.")];

/// An agent's file.
pub const AGENT: &[Key] = &[
    Key::new("name", Shape::Pattern(ID_PATTERN), "The agent's name, which is the file's."),
    Key::new("cli_command", Shape::Text, "The program."),
    Key::new("cli_flags", TEXTS, "Its first arguments."),
    Key::new("default_model", Shape::Text, "The model when none is chosen."),
    Key::new("default_provider", Shape::Pattern(ID_PATTERN), "The provider when none is chosen."),
    Key::new("recipe", Shape::Pattern(ID_PATTERN), "The list of packages that makes it."),
    Key::new("model_args", TEXTS, "Arguments that choose a model; templates."),
    Key::new("unattended_flags", TEXTS, "Arguments for an unattended run."),
    Key::new("headless_args", TEXTS, "Arguments with which it skips what needs a permission."),
    Key::new("permission_args", TEXTS, "Arguments with which it skips less, or nothing."),
    Key::new(
        "memory_flags",
        TEXTS,
        "Arguments for a session with a diary: its tools are `pinfold-memory`.",
    ),
    Key::new("memory_env", ENV, "Variables for a session with a diary; templates."),
    Key::new(
        "memory_files",
        Shape::List(&Shape::Table(FILE)),
        "Files for a session with a diary, in the place of those of the same path.",
    ),
    Key::new(
        "prompt_args",
        TEXTS,
        "Arguments that have it work on a prompt and end; the one that is {prompt} is the prompt.",
    ),
    Key::new(
        "silent_hosts",
        TEXTS,
        "Hosts that it asks for by itself and does without: a refusal is recorded and not shown.",
    ),
    Key::new("nested", Shape::Flag, "Whether it needs user namespaces of its own."),
    Key::new("env", ENV, "Variables; templates."),
    Key::new("files", Shape::List(&Shape::Table(FILE)), "Files written into the home at start."),
    Key::new("state", Shape::Table(STATE), "What outlives a session when that is granted."),
    Key::new(
        "my_config",
        Shape::Table(MY_CONFIG),
        "What of the user's own setup enters with --my-config.",
    ),
    Key::new("grants", Shape::Table(GRANTS), "What it needs of the host."),
    Key::new("providers", Shape::Map(ID_PATTERN, &Shape::Table(PROVIDER)), "Its providers."),
    Key::new(
        "compatible",
        Shape::Map("^(openai|anthropic)$", &Shape::Table(PROVIDER)),
        "What it needs for other providers that imitate an API.",
    ),
    Key::new("host_refused", ENV, "Variables of the host that pinfold cannot follow, with a hint."),
    Key::new("model_variables", NAMES, "Variables of the host that name models, which enter."),
    Key::new(
        "host_files",
        Shape::List(&Shape::Table(HOST_FILE)),
        "Keys of its files on the host that choose a provider.",
    ),
    Key::new(
        "host_directories",
        Shape::Map("^[^/]", &Shape::Text),
        "Its paths on the host, relative to the home, that a variable moves: VARIABLE, or VARIABLE/path below it.",
    ),
];
