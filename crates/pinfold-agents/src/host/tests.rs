use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::*;
use crate::{AuthMode, Registry, ResolvedAgent, Selection};
use pinfold_policy::document::SettingsFile;
use pinfold_policy::settings::{Api, Layers};

/// A host with variables, and files below the home.
#[derive(Default)]
struct Machine(BTreeMap<&'static str, &'static str>);

impl Host for Machine {
    fn variable(&self, name: &EnvName) -> Option<String> {
        self.0.get(name.as_str()).map(|value| (*value).to_owned())
    }

    fn file(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.get(path.to_str().unwrap()).map(|text| text.as_bytes().to_vec()))
    }
}

fn settings(text: &str) -> Settings {
    let user = SettingsFile { path: Path::new("/u/config.toml"), bytes: text.as_bytes() };
    Settings::resolve(Layers { user: Some(user), ..Layers::default() }).unwrap()
}

fn located(
    agent: &str,
    config: &str,
    host: &[(&'static str, &'static str)],
) -> Result<ResolvedAgent, AgentError> {
    let (settings, host) = (settings(config), Machine(host.iter().copied().collect()));
    let profile = Registry::default().load(agent).unwrap();
    let on_host = profile.chosen_on_host(&host)?;
    let given = settings.scalars.provider.as_ref().map(|provider| provider.value.clone());
    let provider = given.or(on_host.map(|(provider, _)| provider));
    let own = provider.as_ref().and_then(|name| settings.providers.get(name));
    let selection = Selection {
        provider: provider.as_deref(),
        model: settings.scalars.model.as_ref().map(|model| model.value.as_str()),
        settings: own,
        ..Selection::default()
    };
    profile.resolve(selection)?.located(&settings, &host)
}

fn url(agent: &ResolvedAgent) -> &str {
    agent.place.base_url.as_ref().unwrap().as_str()
}

fn refusal(agent: &str, config: &str, host: &[(&'static str, &'static str)]) -> (String, String) {
    let error = located(agent, config, host).unwrap_err();
    (error.to_string(), error.hint().unwrap_or_default())
}

#[test]
fn a_base_url_of_the_hosts_variables_is_honoured_and_a_setting_wins() {
    for (agent, variable) in [
        ("claude", "ANTHROPIC_BASE_URL"),
        ("pi", "ANTHROPIC_BASE_URL"),
        ("opencode", "ANTHROPIC_BASE_URL"),
        ("codex", "OPENAI_BASE_URL"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL"),
    ] {
        let host = [(variable, "https://llm.corp/api")];
        let found = located(agent, "", &host).unwrap();
        assert_eq!(url(&found), "https://llm.corp/api", "{agent}");
        assert_eq!(found.place.variable.as_ref().unwrap().as_str(), variable);
        assert!(found.place.is_users);
        let provider = found.provider.as_deref().unwrap();
        let config = format!("[providers.{provider}]\nbase_url = \"https://mine.example\"");
        let found = located(agent, &config, &host).unwrap();
        assert_eq!(
            (url(&found), &found.place.variable),
            ("https://mine.example", &None),
            "{agent}"
        );
        assert!(!located(agent, "", &[]).unwrap().place.is_users);
    }
}

#[test]
fn a_variable_that_cannot_be_honoured_is_refused_and_not_shown() {
    let (what, hint) = refusal("claude", "", &[("ANTHROPIC_BASE_URL", "http://llm.corp:4000")]);
    assert!(what.contains("ANTHROPIC_BASE_URL cannot be used: http is accepted only"), "{what}");
    assert_eq!(
        hint,
        "set base_url and plain_http = true under [providers.anthropic] in config.toml"
    );
    for value in ["https://me:hush@llm.corp", "https://llm.corp/?key=hush", "hush"] {
        let (what, hint) = refusal("codex", "", &[("OPENAI_BASE_URL", value)]);
        assert!(what.contains("OPENAI_BASE_URL") && !(what + &hint).contains("hush"));
    }
}

#[test]
fn plain_http_needs_a_setting_and_no_address_of_the_internet() {
    let config = "[providers.anthropic]\nbase_url = \"http://llm.corp:4000\"\nplain_http = true";
    assert_eq!(url(&located("claude", config, &[]).unwrap()), "http://llm.corp:4000");
    for text in [
        "[providers.p]\nbase_url = \"http://llm.corp:4000\"",
        "[providers.p]\nbase_url = \"http://93.184.216.34\"\nplain_http = true",
        "[providers.p]\nbase_url = \"http://u@llm.corp\"\nplain_http = true",
    ] {
        let user = SettingsFile { path: Path::new("/u/config.toml"), bytes: text.as_bytes() };
        let layers = Layers { user: Some(user), ..Layers::default() };
        assert!(Settings::resolve(layers).is_err(), "{text}");
    }
}

#[test]
fn variables_choose_bedrock_and_vertex_unless_a_provider_is_given() {
    let bedrock = [("CLAUDE_CODE_USE_BEDROCK", "1"), ("AWS_REGION", "eu-west-1")];
    let found = located("claude", "", &bedrock).unwrap();
    assert_eq!(found.terms.api, Some(Api::Bedrock));
    assert_eq!(url(&found), "https://bedrock-runtime.eu-west-1.amazonaws.com");
    let off = located("claude", "", &[("CLAUDE_CODE_USE_BEDROCK", "0")]).unwrap();
    assert_eq!(off.provider.as_deref(), Some("anthropic"));
    let given = located("claude", "provider = \"anthropic\"", &bedrock).unwrap();
    assert_eq!(url(&given), "https://api.anthropic.com");

    let vertex = [
        ("CLAUDE_CODE_USE_VERTEX", "true"),
        ("CLOUD_ML_REGION", "global"),
        ("ANTHROPIC_VERTEX_PROJECT_ID", "my-project"),
    ];
    let found = located("claude", "", &vertex).unwrap();
    assert_eq!(url(&found), "https://aiplatform.googleapis.com");
    assert_eq!(found.place.project.unwrap().as_str(), "my-project");
}

#[test]
fn missing_value_of_a_cloud_is_named_with_its_setting() {
    let (what, hint) = refusal("claude", "", &[("CLAUDE_CODE_USE_BEDROCK", "1")]);
    assert_eq!(what, "provider bedrock needs a region");
    assert_eq!(hint, "set region under [providers.bedrock] in config.toml, or AWS_REGION");
    let (what, _) =
        refusal("claude", "provider = \"vertex\"\n[providers.vertex]\nregion = \"us-east5\"", &[]);
    assert_eq!(what, "provider vertex needs a project");
    let (what, _) = refusal("claude", "provider = \"bedrock\"", &[("AWS_REGION", "evil.example/")]);
    assert!(what.starts_with("AWS_REGION: expected"), "{what}");
}

#[test]
fn unsupported_provider_setting_is_refused_with_a_hint() {
    for (agent, variable) in
        [("gemini", "GOOGLE_GENAI_USE_VERTEXAI"), ("claude", "CLAUDE_CODE_USE_FOUNDRY")]
    {
        let (what, hint) = refusal(agent, "", &[(variable, "true")]);
        assert!(what.contains(variable) && hint.contains("unset it"), "{what} {hint}");
    }
}

/// A session may have written the file: in a repository of dotfiles, for example.
#[test]
fn files_of_the_host_choose_nothing_and_are_not_ignored() {
    let claude =
        (".claude/settings.json", r#"{"env":{"ANTHROPIC_BASE_URL":"https://evil.example"}}"#);
    let (what, hint) = refusal("claude", "", &[claude]);
    assert!(what.contains("~/.claude/settings.json has its own env.ANTHROPIC_BASE_URL"), "{what}");
    assert!(hint.contains("base_url = \"https://evil.example\""), "{hint}");
    let config = "[providers.anthropic]\nbase_url = \"https://api.anthropic.com\"";
    assert_eq!(url(&located("claude", config, &[claude]).unwrap()), "https://api.anthropic.com");

    let bedrock = (".claude/settings.json", r#"{"env":{"CLAUDE_CODE_USE_BEDROCK":"1"}}"#);
    assert!(refusal("claude", "", &[bedrock]).1.contains("--provider bedrock"));
    located("claude", "provider = \"anthropic\"", &[bedrock]).unwrap();

    let codex = (".codex/config.toml", "model_provider = \"corp\"");
    assert!(refusal("codex", "", &[codex]).1.contains("--provider corp"));
    located("codex", "", &[(".codex/config.toml", "model_provider = \"openai\"")]).unwrap();
    let opencode = r#"{"provider":{"anthropic":{"options":{"baseURL":"https://u:hush@x"}}}}"#;
    let (what, hint) = refusal("opencode", "", &[(".config/opencode/opencode.json", opencode)]);
    assert!(!(what + &hint).contains("hush"), "{hint}");
    let commented = (".config/opencode/opencode.json", "{ // mine\n\"provider\":{\"baseURL\":1}}");
    assert!(refusal("opencode", "", &[commented]).0.contains("it cannot be parsed"));
    located("opencode", "", &[(".config/opencode/opencode.json", "{ // mine\n}")]).unwrap();
}

#[test]
fn a_provider_of_ones_own_is_defined_by_settings_and_has_its_own_variable() {
    let config = "provider = \"corp\"\nmodel = \"big\"\n[providers.corp]\napi = \"openai\"\n\
                  base_url = \"https://llm.corp/v1\"";
    for agent in ["pi", "opencode", "codex"] {
        let found = located(agent, config, &[]).unwrap();
        assert_eq!(url(&found), "https://llm.corp/v1", "{agent}");
        assert_eq!(found.terms.env_var_name.as_ref().unwrap().as_str(), "CORP_API_KEY");
        assert_eq!(found.terms.secret.as_deref(), Some("corp"));
    }
    let (error, hint) = refusal("claude", config, &[]);
    assert_eq!(error, "agent claude cannot use provider corp, which speaks openai");
    assert!(hint.contains("set api = \"anthropic\" under [providers.corp]"), "{hint}");
    let (_, hint) = refusal("pi", "provider = \"corp\"", &[]);
    assert!(hint.contains("[providers.corp]"), "{hint}");
}

#[test]
fn known_servers_that_imitate_an_api_need_no_definition() {
    for (provider, place, mode) in [
        ("openrouter", "https://openrouter.ai/api", AuthMode::Gateway),
        ("ollama", "http://127.0.0.1:11434", AuthMode::None),
        ("lmstudio", "http://127.0.0.1:1234", AuthMode::None),
    ] {
        let config = format!("provider = \"{provider}\"\nmodel = \"m/x\"");
        for agent in ["claude", "pi", "opencode", "codex"] {
            let found = located(agent, &config, &[]).unwrap();
            assert_eq!((url(&found), found.auth_mode), (place, Some(mode)), "{agent}");
        }
    }
    assert_eq!(
        refusal("pi", "provider = \"azure\"\nmodel = \"m\"", &[]).0,
        "provider azure needs a base_url"
    );
    let error = located("pi", "provider = \"ollama\"", &[]).unwrap_err().to_string();
    assert_eq!(error, "agent pi needs to know the model of provider ollama");
}

#[test]
fn a_file_that_a_variable_moves_is_looked_at_where_it_is() {
    let settings = r#"{"env":{"ANTHROPIC_BASE_URL":"https://llm.example.com"}}"#;
    let moved = [("CLAUDE_CONFIG_DIR", "/srv/claude"), ("/srv/claude/settings.json", settings)];
    let (what, hint) = refusal("claude", "", &moved);
    assert!(
        what.contains("/srv/claude/settings.json has its own env.ANTHROPIC_BASE_URL"),
        "{what}"
    );
    assert!(!what.contains('~') && hint.contains("https://llm.example.com"), "{what}; {hint}");
    // The usual one is not the agent's then.
    let usual = [("CLAUDE_CONFIG_DIR", "/srv/claude"), (".claude/settings.json", settings)];
    assert!(located("claude", "", &usual).is_ok());
    let (what, _) = refusal("claude", "", &[("CLAUDE_CONFIG_DIR", "claude")]);
    assert_eq!(what, "CLAUDE_CONFIG_DIR is not an absolute path");
    let toml = "model_provider = \"corp\"";
    let moved = [("CODEX_HOME", "/srv/codex/"), ("/srv/codex/config.toml", toml)];
    assert!(refusal("codex", "", &moved).0.contains("/srv/codex/config.toml chooses a provider"));
}

#[test]
fn the_longest_path_of_a_profile_says_where_a_file_is() {
    let profile = Registry::default().load("claude").unwrap();
    let host = Machine([("CLAUDE_CONFIG_DIR", "/c")].into());
    for (path, expected) in [
        (".claude", "/c"),
        (".claude/skills/x", "/c/skills/x"),
        (".claude.json", "/c/.claude.json"),
    ] {
        let moved = profile.moved(Path::new(path), &host).unwrap().unwrap();
        assert_eq!(moved.path.to_str(), Some(expected));
    }
    assert_eq!(profile.moved(Path::new(".claude-x"), &host), Ok(None));
    assert_eq!(profile.moved(Path::new(".claude"), &Machine::default()), Ok(None));
}
