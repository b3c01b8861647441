//! An agent as its file describes it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::host_files::{HostFile, HostVariables};
use crate::place::UrlTemplate;
use crate::template::Template;
use pinfold_policy::env::EnvName;
use pinfold_policy::network::HostPattern;
use pinfold_policy::settings::Api;
use pinfold_policy::settings::BaseUrl;
use pinfold_policy::words;

words! {
    /// The kind of credential a provider takes.
    AuthMode, "auth mode":
    /// A token of a subscription.
    Oauth = "oauth",
    /// A key of the API.
    ApiKey = "api_key",
    /// A key of somebody's gateway.
    Gateway = "gateway",
    /// None: the server asks for no key.
    None = "none",
}

words! {
    /// The form of a question to a login's server.
    RefreshForm, "refresh form":
    /// JSON.
    Json = "json",
    /// `application/x-www-form-urlencoded`.
    Form = "form",
}

/// What stands for the prompt in [`AgentProfile::prompt_args`].
pub const PROMPT: &str = "{prompt}";

/// Where a sandbox has the specification that its agent works on, as Ralph has it.
pub const SPEC: &str = "/tmp/spec.md";

/// An agent's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProfile {
    /// The agent's name.
    pub name: String,
    pub cli_command: String,
    /// Its first arguments.
    pub cli_flags: Vec<String>,
    /// The model when none is chosen; the agent's own default if absent.
    pub default_model: Option<String>,
    /// The provider when none is chosen; present if there are providers.
    pub default_provider: Option<String>,
    /// The list of packages that makes the agent; the user's own program if absent.
    pub recipe: Option<String>,
    /// Arguments that choose a model.
    pub model_args: Vec<Template>,
    /// Arguments for an unattended run.
    pub unattended_flags: Vec<String>,
    /// Arguments with which it cannot ask for permissions, and skips what needs one.
    pub headless_args: Vec<String>,
    /// Arguments with which it skips less, or nothing.
    pub permission_args: Vec<String>,
    /// Arguments for a session with a diary, by which the agent finds its tools.
    pub memory_flags: Vec<String>,
    /// Variables for such a session.
    pub memory_env: Vec<(EnvName, Template)>,
    /// Files for such a session, which take the place of those of the same path.
    pub memory_files: Vec<FileTemplate>,
    /// Arguments that have it work on a prompt and end. The one that is [`PROMPT`] stands for it.
    pub prompt_args: Vec<String>,
    /// Whether it needs user namespaces of its own.
    pub nested: bool,
    /// Variables.
    pub env: Vec<(EnvName, Template)>,
    /// Files written into the private home at start.
    pub files: Vec<FileTemplate>,
    /// What outlives a session when that is granted, relative to the home.
    pub state: Vec<PathBuf>,
    /// Paths of the host it reads, absolute or relative to the home.
    pub reads: Vec<PathBuf>,
    /// Hosts that it asks for by itself and does without; a refusal of one is not shown.
    pub silent_hosts: Vec<HostPattern>,
    /// The providers by name.
    pub providers: BTreeMap<String, Provider>,
    /// What the agent needs for a provider that imitates an API and is not among its own.
    pub compatible: BTreeMap<Api, Provider>,
    /// Variables of the host that choose what pinfold cannot give, with a hint.
    pub host_refused: BTreeMap<EnvName, String>,
    /// Variables of the host that name models, which enter.
    pub model_variables: Vec<EnvName>,
    /// Files of the agent on the host that choose a provider.
    pub host_files: Vec<HostFile>,
    /// Its paths on the host that variables move.
    pub host_directories: Vec<HostDirectory>,
    /// What of the user's own setup of the agent enters when it is wanted.
    pub my_config: MyConfig,
    /// Of `cli_flags`, those that a run with kept state does without.
    pub stateless_flags: Vec<String>,
}

/// What of the user's own setup of an agent enters, read-only. Never a login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MyConfig {
    /// Files and directories, relative to the home outside and inside.
    pub read: Vec<PathBuf>,
    /// Keys with MCP servers, which enter without secrets.
    pub servers: Vec<ConfigKey>,
    /// Keys with plain values, such as a theme.
    pub keys: Vec<ConfigKey>,
    /// Arguments when there are servers.
    pub server_args: Vec<Template>,
    /// Variables when there are servers.
    pub server_env: Vec<(EnvName, Template)>,
    /// Of `cli_flags`, those that would keep this from being used.
    pub without_flags: Vec<String>,
}

/// A key of a JSON or TOML file on the host, and the generated file that gets it under the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigKey {
    /// The file, relative to the home.
    pub from: PathBuf,
    /// The key, with dots between tables.
    pub key: String,
    /// The generated file, relative to the home inside.
    pub into: PathBuf,
}

/// A path on the host that a variable moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDirectory {
    /// The file or directory without the variable, relative to the home.
    pub path: PathBuf,
    /// The variable, which names a directory.
    pub variable: EnvName,
    /// Where below that directory it is; empty for the directory itself.
    pub below: PathBuf,
}

/// A file written into the private home at start. What lies in persistent state is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTemplate {
    /// The file, relative to the home.
    pub path: PathBuf,
    /// What is in it.
    pub content: Template,
    /// Its permission bits.
    pub mode: u32,
    /// Whether a file that is there already, in persistent state, stays as it is.
    pub keep: bool,
}

/// A provider of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provider {
    /// The agent's name in a container engine's terms.
    pub sandbox_agent: Option<String>,
    /// The container image to build on.
    pub base_image: Option<String>,
    /// Whether the credential is put in at the boundary. The agent sees a stand-in either way.
    pub uses_proxy: bool,
    /// The hosts the provider needs.
    pub allowed_hosts: Vec<String>,
    /// The variable that holds the credential, where the agent runs unprotected.
    pub env_var_name: Option<EnvName>,
    /// The kinds of credential it takes.
    pub auth_modes: Vec<AuthMode>,
    /// The kind when none is known; present if there are kinds.
    pub default_auth_mode: Option<AuthMode>,
    /// What the gateway speaks; no gateway if absent.
    pub api: Option<Api>,
    /// The provider's own URL; for some only the user knows it.
    pub base_url: Option<UrlTemplate>,
    /// The header that carries its key, instead of the one that is usual for the API.
    pub key_header: Option<String>,
    /// A command that prints its credential, for the hint when it is missing.
    pub secret_command: Vec<String>,
    /// Variables of the host that say where it is.
    pub host: HostVariables,
    /// The id of the secret; present with `api`.
    pub secret: Option<String>,
    /// The prefix of the model's name.
    pub model_prefix: String,
    /// The model when none is chosen, instead of the agent's.
    pub default_model: Option<String>,
    /// Variables for this provider.
    pub env: Vec<(EnvName, Template)>,
    /// Files for this provider.
    pub files: Vec<FileTemplate>,
    /// What a kind of credential adds.
    pub auth: BTreeMap<AuthMode, AuthProfile>,
}

/// What a kind of credential adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthProfile {
    /// How the session's key begins: agents choose what they send by its shape.
    pub key_prefix: String,
    /// Variables for this mode.
    pub env: Vec<(EnvName, Template)>,
    /// The provider's URL for this mode, instead of its own.
    pub base_url: Option<BaseUrl>,
    /// Whether `/v1` stands between that URL and a path of the API.
    pub versioned: bool,
    /// The header that names a login's account.
    pub account_header: Option<String>,
    /// How a login is refreshed.
    pub refresh: Option<RefreshTerms>,
}

/// How a login is refreshed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshTerms {
    /// The token end point of its server.
    pub token_url: BaseUrl,
    /// The client that the login was made for.
    pub client_id: String,
    /// The form of the question.
    pub form: RefreshForm,
}

impl Default for AuthProfile {
    fn default() -> Self {
        let (key_prefix, env) = (String::new(), Vec::new());
        let (base_url, account_header, refresh) = (None, None, None);
        Self { key_prefix, env, base_url, versioned: true, account_header, refresh }
    }
}
