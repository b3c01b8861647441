//! Credentials as the agents' own programs keep them on the host.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::{Entry, EnvName, Login, Secret, SecretId};

/// A program that keeps credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Claude Code: `.credentials.json`.
    Claude,
    /// Codex: `auth.json`.
    Codex,
    /// pi: `auth.json`.
    Pi,
}

/// A credential that was found.
pub struct Foreign {
    /// The provider's name in the file.
    pub provider: String,
    /// The secret that it becomes.
    pub id: SecretId,
    /// What is kept; what is not understood says why.
    pub entry: Result<Entry, &'static str>,
}

/// Why a file of credentials cannot be read. Never quotes the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// It is no JSON object.
    #[error("it is not a JSON object")]
    NotJson,
    /// There is nothing in it that counts.
    #[error("it holds no credential; log in with the agent first")]
    Nothing,
    /// A login that lacks something or has another form.
    #[error("{0}")]
    NotUnderstood(&'static str),
}

/// Which secret each provider of pi's is.
const PI_PROVIDERS: [(&str, &str); 4] = [
    ("anthropic", "anthropic"),
    ("openai", "openai"),
    ("openai-codex", "openai"),
    ("google", "gemini"),
];

/// Reads the credentials in a file of a program.
///
/// # Errors
/// Returns [`ForeignError`].
pub fn read_foreign(client: Client, bytes: &[u8]) -> Result<Vec<Foreign>, ForeignError> {
    let file: Value = serde_json::from_slice(bytes).map_err(|_| ForeignError::NotJson)?;
    let object = file.as_object().ok_or(ForeignError::NotJson)?;
    let found = match client {
        Client::Claude => vec![one("anthropic", claude(&file)?)?],
        Client::Codex => vec![one("openai", codex(&file)?)?],
        Client::Pi => object.iter().filter_map(|(name, entry)| pi(name, entry)).collect(),
    };
    if found.is_empty() { Err(ForeignError::Nothing) } else { Ok(found) }
}

fn one(id: &str, entry: Entry) -> Result<Foreign, ForeignError> {
    let provider = id.to_owned();
    let id = SecretId::new(id).map_err(|_| ForeignError::Nothing)?;
    Ok(Foreign { provider, id, entry: Ok(entry) })
}

/// Reads `{"claudeAiOauth": {accessToken, refreshToken, expiresAt, …}}`, in milliseconds.
fn claude(file: &Value) -> Result<Entry, ForeignError> {
    let login = file.get("claudeAiOauth").ok_or(ForeignError::Nothing)?;
    let text = |key: &str| secret(&login[key]);
    let access = text("accessToken")
        .ok_or(ForeignError::NotUnderstood("its claudeAiOauth has no accessToken"))?;
    let expires_at = login["expiresAt"].as_u64();
    let refresh = text("refreshToken");
    Ok(Entry::Login(Login { access, refresh, expires_at, refreshed_at: None, account: None }))
}

/// Reads `{"tokens": {access_token, refresh_token, account_id, …}}` or `{"OPENAI_API_KEY": …}`.
fn codex(file: &Value) -> Result<Entry, ForeignError> {
    let tokens = &file["tokens"];
    if tokens.is_null() {
        return secret(&file["OPENAI_API_KEY"]).map(Entry::Value).ok_or(ForeignError::Nothing);
    }
    let access = secret(&tokens["access_token"])
        .ok_or(ForeignError::NotUnderstood("its tokens have no access_token"))?;
    let account = tokens["account_id"].as_str().map(str::to_owned);
    let expires_at = jwt_end(access.expose());
    let refresh = secret(&tokens["refresh_token"]);
    Ok(Entry::Login(Login { access, refresh, expires_at, refreshed_at: None, account }))
}

/// Reads `{type: "oauth", access, refresh, expires, accountId?}` in milliseconds, or
/// `{type: "api_key", key}`.
fn pi(provider: &str, entry: &Value) -> Option<Foreign> {
    let known = PI_PROVIDERS.iter().find(|(name, _)| *name == provider);
    let id = SecretId::new(known.map_or(provider, |(_, id)| id)).ok()?;
    let entry = match entry["type"].as_str() {
        Some("oauth") if known.is_some() => pi_login(entry),
        Some("oauth") => Err("a login that pinfold cannot refresh"),
        Some("api_key") => pi_key(entry),
        _ => Err("neither an oauth nor an api_key entry"),
    };
    Some(Foreign { provider: provider.to_owned(), id, entry })
}

fn pi_login(entry: &Value) -> Result<Entry, &'static str> {
    let access = secret(&entry["access"]).ok_or("a login without an access token")?;
    let account = entry["accountId"].as_str().map(str::to_owned);
    let expires_at = entry["expires"].as_u64().or_else(|| jwt_end(access.expose()));
    let refresh = secret(&entry["refresh"]);
    Ok(Entry::Login(Login { access, refresh, expires_at, refreshed_at: None, account }))
}

fn pi_key(entry: &Value) -> Result<Entry, &'static str> {
    let key = entry["key"].as_str().ok_or("an api_key entry without a key")?;
    if key.starts_with('!') {
        return Err("a command; keep it with `pinfold secret set ID --from-command`");
    }
    if let Some(name) = key.strip_prefix('$') {
        let name = name.trim_start_matches('{').trim_end_matches('}');
        return EnvName::new(name).map(Entry::Env).map_err(|_| "no name of a variable");
    }
    secret(&entry["key"]).map(Entry::Value).ok_or("no usable key")
}

fn secret(value: &Value) -> Option<Secret> {
    Secret::from_bytes(value.as_str()?.as_bytes().to_vec()).ok()
}

/// Returns when a token ends that is a JSON Web Token (RFC 7519, 4.1.4), in milliseconds. Nothing is
/// trusted by it: it only says when to ask for the next one.
fn jwt_end(token: &str) -> Option<u64> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    claims["exp"].as_u64()?.checked_mul(1000)
}
