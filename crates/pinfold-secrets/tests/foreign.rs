//! The files of agents, in the forms their programs write.

use pinfold_secrets::{Client, Entry, Foreign, ForeignError, Login, read_foreign};

fn read(client: Client, text: &str) -> Result<Vec<Foreign>, ForeignError> {
    read_foreign(client, text.as_bytes())
}

fn login(client: Client, text: &str) -> (String, Login) {
    let mut found = read(client, text).unwrap_or_else(|error| panic!("{error}"));
    let Foreign { id, entry, .. } = found.remove(0);
    match entry {
        Ok(Entry::Login(login)) => (id.to_string(), login),
        _ => panic!("no login: {text}"),
    }
}

fn tokens(login: &Login) -> (&str, Option<&str>) {
    (login.access.expose(), login.refresh.as_ref().map(pinfold_secrets::Secret::expose))
}

#[test]
fn claudes_credentials_are_a_login() {
    let (id, login) = login(
        Client::Claude,
        r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-a","refreshToken":"sk-ant-ort01-r",
            "expiresAt":1764000000000,"scopes":["user:inference"],"subscriptionType":"max"},
            "mcpOAuth":{}}"#,
    );
    assert_eq!(id, "anthropic");
    assert_eq!(tokens(&login), ("sk-ant-oat01-a", Some("sk-ant-ort01-r")));
    assert_eq!(login.expires_at, Some(1_764_000_000_000));
}

#[test]
fn codexs_auth_is_a_login_or_a_key() {
    // {"exp":1764000000}
    let access = "e30.eyJleHAiOjE3NjQwMDAwMDB9.sig";
    let text = format!(
        r#"{{"OPENAI_API_KEY":null,"tokens":{{"id_token":"i","access_token":"{access}",
            "refresh_token":"r","account_id":"acc-1"}},"last_refresh":"2026-01-01T00:00:00Z"}}"#
    );
    let (id, login) = login(Client::Codex, &text);
    assert_eq!((id.as_str(), tokens(&login)), ("openai", (access, Some("r"))));
    assert_eq!(login.expires_at, Some(1_764_000_000_000));
    assert_eq!(login.account.as_deref(), Some("acc-1"));
    let found = read(Client::Codex, r#"{"OPENAI_API_KEY":"sk-proj-1"}"#).unwrap_or_default();
    assert!(matches!(&found[0].entry, Ok(Entry::Value(key)) if key.expose() == "sk-proj-1"));
}

#[test]
fn pis_auth_has_providers_of_each_kind() {
    let text = r#"{
        "anthropic":{"type":"oauth","access":"a","refresh":"r","expires":5},
        "google":{"type":"api_key","key":"g"},
        "mistral":{"type":"api_key","key":"$MISTRAL_API_KEY"},
        "openai":{"type":"api_key","key":"!pass show openai"},
        "github-copilot":{"type":"oauth","access":"a","refresh":"r","expires":5}}"#;
    let found = read(Client::Pi, text).unwrap_or_default();
    let of = |name: &str| found.iter().find(|one| one.provider == name).unwrap();
    assert!(matches!(&of("anthropic").entry, Ok(Entry::Login(login)) if tokens(login).0 == "a"));
    assert!(matches!(&of("google").entry, Ok(Entry::Value(_))));
    assert_eq!(of("google").id.as_str(), "gemini");
    assert!(
        matches!(&of("mistral").entry, Ok(Entry::Env(name)) if name.as_str() == "MISTRAL_API_KEY")
    );
    assert!(of("openai").entry.as_ref().is_err_and(|what| what.contains("--from-command")));
    assert!(of("github-copilot").entry.is_err());
}

#[test]
fn malformed_file_is_reported_and_not_quoted() {
    for (client, text, expected) in [
        (Client::Claude, "hush", "not a JSON"),
        (Client::Claude, "[\"hush\"]", "not a JSON"),
        (Client::Claude, r#"{"mcpOAuth":"hush"}"#, "no credential"),
        (Client::Claude, r#"{"claudeAiOauth":{"token":"hush"}}"#, "no accessToken"),
        (Client::Claude, r#"{"claudeAiOauth":{"accessToken":"hu\nsh"}}"#, "no accessToken"),
        (Client::Codex, r#"{"OPENAI_API_KEY":null}"#, "no credential"),
        (Client::Codex, r#"{"tokens":{"id_token":"hush"}}"#, "no access_token"),
        (Client::Pi, "{}", "no credential"),
    ] {
        let error = read(client, text).err().unwrap().to_string();
        assert!(error.contains(expected) && !error.contains("hush"), "{text}: {error}");
    }
}
