//! Names that are not free, and why.

use super::EnvName;

/// Who may still set a reserved name. Each includes the ones after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The user and the administrator; a repository once the user trusts its file.
    User,
    /// The administrator alone.
    Administrator,
    /// pinfold alone.
    Pinfold,
}

/// A reserved name or family of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The name; a final `*` stands for any ending.
    pub pattern: &'static str,
    /// Who may set it.
    pub owner: Owner,
    /// Why it is reserved, a fragment that reads well after "because".
    pub reason: &'static str,
}

const FIXED: &str = "pinfold gives it the value that is right inside";
const DOOR: &str = "it points the agent at pinfold's gateway; set `base_url` under [providers.NAME] in \
                    config.toml, and keys with `pinfold secret set`";
const PROVIDER: &str = "it chooses the provider; set it outside, or use --provider";
const NETWORK: &str = "it would lead traffic past pinfold's door";
const TRUST: &str = "it decides which certificates are trusted";
const LOADER: &str = "it loads code into every program before any of them has asked";
const AGENT: &str = "it moves the agent's own configuration to a place the repository chooses";
const GIT: &str = "it makes git run programs or take another configuration";
const HOST: &str = "it names a door of the host";

const fn rule(pattern: &'static str, owner: Owner, reason: &'static str) -> Reserved {
    Reserved { pattern, owner, reason }
}

/// The first match decides. What a user may set, a repository may ask for: it waits for trust. Every other one is refused.
/// `GIT_TERMINAL_PROMPT`, `PYTHONPATH`, `JAVA_TOOL_OPTIONS` and the like stay free: they act on
/// programs that the agent starts on the repository's own code.
const RESERVED: &[Reserved] = &[
    rule("PATH", Owner::User, FIXED),
    rule("HOME", Owner::Pinfold, FIXED),
    rule("PINFOLD_*", Owner::Pinfold, FIXED),
    rule("MOLTNET_GUEST_WORKSPACE", Owner::Pinfold, FIXED),
    rule("IS_SANDBOX", Owner::Pinfold, FIXED),
    rule("ANTHROPIC_*", Owner::Pinfold, DOOR),
    rule("CLAUDE_CODE_OAUTH_TOKEN", Owner::Pinfold, DOOR),
    rule("OPENAI_*", Owner::Pinfold, DOOR),
    rule("AWS_BEARER_TOKEN_BEDROCK", Owner::Pinfold, DOOR),
    rule("CLAUDE_CODE_USE_BEDROCK", Owner::Pinfold, PROVIDER),
    rule("CLAUDE_CODE_USE_VERTEX", Owner::Pinfold, PROVIDER),
    rule("GOOGLE_GEMINI_BASE_URL", Owner::Pinfold, DOOR),
    rule("GEMINI_API_KEY", Owner::Pinfold, DOOR),
    rule("GOOGLE_API_KEY", Owner::Pinfold, DOOR),
    rule("HTTP_PROXY", Owner::Pinfold, NETWORK),
    rule("HTTPS_PROXY", Owner::Pinfold, NETWORK),
    rule("ALL_PROXY", Owner::Pinfold, NETWORK),
    rule("NO_PROXY", Owner::Pinfold, NETWORK),
    rule("http_proxy", Owner::Pinfold, NETWORK),
    rule("https_proxy", Owner::Pinfold, NETWORK),
    rule("all_proxy", Owner::Pinfold, NETWORK),
    rule("no_proxy", Owner::Pinfold, NETWORK),
    rule("NODE_EXTRA_CA_CERTS", Owner::Pinfold, TRUST),
    rule("NODE_TLS_REJECT_UNAUTHORIZED", Owner::Pinfold, TRUST),
    rule("SSL_CERT_*", Owner::Pinfold, TRUST),
    rule("CURL_CA_BUNDLE", Owner::Pinfold, TRUST),
    rule("REQUESTS_CA_BUNDLE", Owner::Pinfold, TRUST),
    rule("GIT_SSL_*", Owner::Pinfold, TRUST),
    rule("SSH_AUTH_SOCK", Owner::Pinfold, HOST),
    rule("DBUS_SESSION_BUS_ADDRESS", Owner::Pinfold, HOST),
    rule("XDG_RUNTIME_DIR", Owner::Pinfold, HOST),
    rule("LD_*", Owner::User, LOADER),
    rule("DYLD_*", Owner::User, LOADER),
    rule("GCONV_PATH", Owner::User, LOADER),
    rule("GLIBC_TUNABLES", Owner::User, LOADER),
    rule("BASH_ENV", Owner::User, LOADER),
    rule("ENV", Owner::User, LOADER),
    rule("ZDOTDIR", Owner::User, LOADER),
    rule("PROMPT_COMMAND", Owner::User, LOADER),
    rule("OPENSSL_CONF", Owner::User, LOADER),
    rule("OPENSSL_ENGINES", Owner::User, LOADER),
    rule("OPENSSL_MODULES", Owner::User, LOADER),
    // Agents start it for each command, and once to read its settings.
    rule("SHELL", Owner::User, LOADER),
    // `--max-old-space-size` is harmless, `--require` is not, and pi and its kin are node
    // programs: the user may set it, for everything.
    rule("NODE_OPTIONS", Owner::User, LOADER),
    rule("BUN_OPTIONS", Owner::User, LOADER),
    rule("NODE_PATH", Owner::User, LOADER),
    rule("XDG_CONFIG_HOME", Owner::User, AGENT),
    rule("XDG_DATA_HOME", Owner::User, AGENT),
    rule("CLAUDE_*", Owner::User, AGENT),
    rule("PI_*", Owner::User, AGENT),
    rule("CODEX_*", Owner::User, AGENT),
    rule("OPENCODE_*", Owner::User, AGENT),
    rule("GEMINI_*", Owner::User, AGENT),
    rule("CURSOR_*", Owner::User, AGENT),
    rule("GIT_CONFIG*", Owner::User, GIT),
    rule("GIT_SSH*", Owner::User, GIT),
    rule("GIT_TEMPLATE_DIR", Owner::User, GIT),
    rule("GIT_EXEC_PATH", Owner::User, GIT),
    rule("GIT_ASKPASS", Owner::User, GIT),
    rule("GIT_PROXY_COMMAND", Owner::User, GIT),
    rule("GIT_EXTERNAL_DIFF", Owner::User, GIT),
    rule("GIT_DIR", Owner::User, GIT),
    rule("GIT_COMMON_DIR", Owner::User, GIT),
    rule("GIT_ALTERNATE_OBJECT_DIRECTORIES", Owner::User, GIT),
    rule("SSH_ASKPASS", Owner::User, GIT),
];

/// Returns the rule a name falls under; none when it is free.
#[must_use]
pub fn reserved(name: &EnvName) -> Option<Reserved> {
    let name = name.as_str();
    RESERVED.iter().copied().find(|rule| match rule.pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == rule.pattern,
    })
}
