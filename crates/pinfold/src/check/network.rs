//! `pinfold check host` and `pinfold check secret`.

use std::fmt;

use pinfold_policy::network::{Endpoint, Host, NetworkPolicy, SecretRule};
use pinfold_policy::origin::Valued;
use pinfold_policy::path::plain_line;
use pinfold_policy::settings::Settings;
use pinfold_secrets::{SecretId, Store};
use serde::Serialize;

use super::RequestArgs;
use crate::exit::Failure;

/// Whether something of the network is allowed, and why.
#[derive(Debug, Serialize)]
pub(super) struct NetworkAnswer {
    /// What was asked about: `host` or `secret`.
    pub(super) access: &'static str,
    /// The host with its port and request, or the secret's name.
    pub(super) asked: String,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The rule that allows it, and who gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Facts about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl NetworkAnswer {
    fn new(access: &'static str, asked: String) -> Self {
        Self {
            access,
            asked,
            verdict: "allow",
            reason: None,
            rule: None,
            notes: Vec::new(),
            hint: None,
        }
    }

    fn deny(mut self, reason: impl fmt::Display, hint: Option<String>) -> Self {
        self.verdict = "deny";
        (self.reason, self.hint) = (Some(reason.to_string()), hint);
        self
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.verdict == "allow"
    }
}

impl fmt::Display for NetworkAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_allowed() { "allowed" } else { "denied" };
        write!(f, "{} {}: {verdict}", self.access, self.asked)?;
        let reason = self.reason.iter().map(|reason| ("because", reason));
        let rule = self.rule.iter().map(|rule| ("rule", rule));
        let notes = self.notes.iter().map(|note| ("note", note));
        let hint = self.hint.iter().map(|hint| ("hint", hint));
        for (name, text) in reason.chain(rule).chain(notes).chain(hint) {
            write!(f, "\n  {name:<9} {text}")?;
        }
        Ok(())
    }
}

/// Explains whether a host may be reached, or a request made to it. Looks up no name.
///
/// # Errors
/// Returns an error for a text that is no host.
pub(super) fn host(
    text: &str,
    request: &RequestArgs,
    settings: &Settings,
) -> Result<NetworkAnswer, Failure> {
    let invalid = |error: &dyn fmt::Display| {
        Failure::new(format!("{}: {error}", plain_line(text)))
            .hint(Some("name a host, such as api.github.com or db.corp:5432".to_owned()))
    };
    let asked = Endpoint::parse(text, Some(443)).map_err(|error| invalid(&error))?;
    let shown = match (&request.method, &request.url_path) {
        (None, None) => asked.to_string(),
        (method, path) => {
            let method = method.as_deref().unwrap_or("GET");
            plain_line(&format!("{asked} {method} {}", path.as_deref().unwrap_or("/"))).into_owned()
        }
    };
    let answer = NetworkAnswer::new("host", shown);
    let policy = &settings.network;
    let rule = match policy.decide(&asked) {
        Ok(rule) => rule,
        Err(refused) => {
            let hint = refused.hint().map(|hint| format!("`pinfold run {hint}`"));
            return Ok(answer.deny(&refused, hint));
        }
    };
    if let Host::Address(address) = &asked.host
        && let Err(refused) = policy.check_address(&asked, *address)
    {
        let hint = refused.hint().map(|hint| format!("`pinfold run {hint}`"));
        return Ok(answer.deny(&refused, hint));
    }
    let method = request.method.as_deref().unwrap_or("GET");
    let path = request.url_path.as_deref().unwrap_or("/");
    let is_request = request.method.is_some() || request.url_path.is_some();
    if is_request && !policy.allows_request(&asked, method, path) {
        return Ok(answer.deny(policy.refused_request(&asked, &rule.value), None));
    }
    let mut answer = answer;
    answer.rule = Some(format!("{}; by {}", rule.value, rule.origin));
    answer.notes = notes(&asked, is_request, policy, &settings.secrets);
    Ok(answer)
}

fn notes(
    asked: &Endpoint,
    is_request: bool,
    policy: &NetworkPolicy,
    secrets: &[Valued<SecretRule>],
) -> Vec<String> {
    let mut notes = Vec::new();
    if !is_request {
        let limited = policy.rules_for(asked).filter(|rule| rule.looks_at_requests());
        notes.extend(limited.map(|rule| format!("only these requests: {rule}")));
    }
    if policy.intercepts(asked) {
        notes.push("TLS ends at pinfold, which looks at each request".to_owned());
    }
    let sent = secrets.iter().filter(|secret| secret.value.is_for(asked));
    notes.extend(sent.map(|secret| format!("gets the secret {}", secret.value.id)));
    notes
}

/// Explains whether sessions here have a secret, and which hosts get it. Reads no value.
///
/// # Errors
/// Returns an error for a text that is no secret's name, or a store that cannot be read.
pub(super) fn secret(
    name: &str,
    settings: &Settings,
    store: &Store,
) -> Result<NetworkAnswer, Failure> {
    let id = SecretId::new(name.to_owned()).map_err(Failure::new)?;
    let answer = NetworkAnswer::new("secret", id.to_string());
    let Some(rule) = settings.secrets.iter().find(|secret| secret.value.id == name) else {
        let is_of_models = settings.providers.contains_key(name)
            || pinfold_secrets::fallbacks_for(name).next().is_some();
        if is_of_models {
            let hint =
                "nothing is to be done: agents use it by the gateway, outside of the sandbox";
            let what = format!("it is the credential of the provider {name}, which no session has");
            return Ok(answer.deny(what, Some(hint.to_owned())));
        }
        let names: Vec<&str> = settings.secrets.iter().map(|rule| rule.value.id.as_str()).collect();
        let known = if names.is_empty() {
            "sessions here have no secrets".to_owned()
        } else {
            format!("sessions here have {}", names.join(", "))
        };
        let hint = format!("{known}; name it in a `[[secrets]]` table of config.toml");
        return Ok(answer.deny("no settings give it to sessions here", Some(hint)));
    };
    if store.check(&id).map_err(Failure::new)?.found.is_none() {
        let hint = format!("keep it with `pinfold secret set {id}`");
        return Ok(answer.deny("it is not stored", Some(hint)));
    }
    let mut answer = answer;
    answer.rule = Some(format!("{}; by {}", rule.value, rule.origin));
    let brokered = &settings.network.brokered;
    answer.notes.push(if brokered.iter().any(|its| its.secret.value == rule.value) {
        "only git on the host uses it, for this repository's remotes".to_owned()
    } else {
        format!("{} is a placeholder in the sandbox; these hosts get the value", rule.value.env)
    });
    Ok(answer)
}
