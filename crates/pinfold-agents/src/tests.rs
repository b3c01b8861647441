use std::path::Path;

use super::*;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::env::{EnvLayer, compose_env};
use pinfold_policy::settings::AgentLoop;
use proptest::prelude::*;

const VALUES: TemplateValues<'static> = TemplateValues {
    gateway: Some("http://127.0.0.1:4100"),
    key: Some("KEY"),
    model: None,
    home: Some("/home/agent"),
    workspace: Some("/w/a \"b\"\\c"),
    ..NO_VALUES
};

const NO_VALUES: TemplateValues<'static> = TemplateValues {
    gateway: None,
    key: None,
    model: None,
    model_id: None,
    region: None,
    project: None,
    home: None,
    workspace: None,
    provider: None,
};

fn resolve(name: &str, selection: Selection<'_>) -> ResolvedAgent {
    Registry::default().load(name).unwrap().resolve(selection).unwrap()
}

fn env(agent: &ResolvedAgent) -> Vec<String> {
    let vars = compose_env(agent.env(&VALUES).unwrap());
    vars.iter().map(|var| format!("{}={}", var.name, var.value.to_str().unwrap())).collect()
}

fn user_agent(text: &str) -> Result<AgentProfile, AgentError> {
    let file = SettingsFile { path: Path::new("/u/mine.toml"), bytes: text.as_bytes() };
    Registry::new(vec![file]).load("mine")
}

#[test]
fn every_built_in_agent_resolves_with_every_provider_and_credential() {
    for name in Registry::default().names() {
        let profile = Registry::default().load(&name).unwrap();
        let providers: Vec<Option<String>> = if profile.providers.is_empty() {
            vec![None]
        } else {
            profile.providers.keys().cloned().map(Some).collect()
        };
        for provider in providers {
            let modes = provider.as_ref().map(|p| profile.providers[p].auth_modes.clone());
            for mode in modes.unwrap_or_default().into_iter().map(Some).chain([None]) {
                let (provider, model) = (provider.as_deref(), Some("m"));
                let selection =
                    Selection { provider, model, auth_mode: mode, ..Selection::default() };
                let mut agent = profile.clone().resolve(selection).unwrap();
                agent.place.region = Some("us-east-1".parse().unwrap());
                agent.place.project = Some("p".parse().unwrap());
                let vars = agent.env(&VALUES).unwrap();
                let files = agent.files(&VALUES).unwrap();
                agent.args(&VALUES).unwrap();
                for file in &files {
                    check_format(file);
                }
                let key_somewhere = vars.iter().any(|var| var.layer == EnvLayer::Placeholder)
                    || files.iter().any(|file| file.content.contains("KEY"));
                assert_eq!(
                    key_somewhere,
                    agent.terms.api.is_some(),
                    "{name} {provider:?} {mode:?}"
                );
            }
        }
    }
}

fn check_format(file: &AgentFile) {
    match file.path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => drop(serde_json::from_str::<serde_json::Value>(&file.content).unwrap()),
        Some("toml") => drop(toml::from_str::<toml::Table>(&file.content).unwrap()),
        _ => {}
    }
    assert_eq!(file.mode, 0o600, "it may hold the session's key");
}

#[test]
fn pi_is_configured_by_its_own_file() {
    let pi = resolve("pi", Selection::default());
    assert_eq!(pi.provider.as_deref(), Some("anthropic"));
    assert_eq!(pi.model.as_deref(), Some("anthropic/claude-sonnet-4-6"));
    assert_eq!(
        pi.args(&VALUES).unwrap(),
        ["--no-skills", "--no-session", "--model", "anthropic/claude-sonnet-4-6"]
    );
    assert_eq!(env(&pi), ["ANTHROPIC_API_KEY=KEY", "PI_OFFLINE=1"]);
    let files = pi.files(&VALUES).unwrap();
    assert_eq!(files[0].path, Path::new(".pi/agent/models.json"));
    let expected = r#"{"providers":{"anthropic":{"baseUrl":"http://127.0.0.1:4100"}}}"#;
    assert_eq!(files[0].content, expected);
    let openai = resolve("pi", Selection { provider: Some("openai"), ..Selection::default() });
    assert!(openai.files(&VALUES).unwrap()[0].content.contains("http://127.0.0.1:4100/v1"));
    assert!(!openai.terms.uses_proxy);
    assert_eq!(openai.model.as_deref(), Some("openai/gpt-5.4"), "not a model of anthropic");
}

#[test]
fn diary_replaces_the_file_in_which_gemini_looks_for_its_tools() {
    let manifest = |agent: ResolvedAgent| {
        let files = agent.files(&VALUES).unwrap();
        let is_manifest = |file: &AgentFile| file.path.ends_with("memory/gemini-extension.json");
        let mut found: Vec<AgentFile> = files.into_iter().filter(is_manifest).collect();
        assert_eq!(found.len(), 1);
        found.remove(0).content
    };
    let gemini = || resolve("gemini", Selection::default());
    assert!(!manifest(gemini()).contains("pinfold-memory"));
    assert!(manifest(gemini().with_memory()).contains("pinfold-memory"));
}

#[test]
fn the_shape_of_the_key_follows_the_credential() {
    let with =
        |auth_mode| resolve("pi", Selection { auth_mode: Some(auth_mode), ..Selection::default() });
    let oauth = with(AuthMode::Oauth);
    assert_eq!(oauth.auth.key_prefix, "sk-ant-oat01-");
    assert!(env(&oauth).contains(&"ANTHROPIC_OAUTH_TOKEN=KEY".to_owned()));
    assert_eq!(with(AuthMode::ApiKey).auth.key_prefix, "sk-ant-api03-");
    let claude =
        resolve("claude", Selection { auth_mode: Some(AuthMode::Oauth), ..Selection::default() });
    assert!(env(&claude).contains(&"CLAUDE_CODE_OAUTH_TOKEN=KEY".to_owned()));
}

#[test]
fn claude_honours_variables_and_codex_its_file() {
    let claude = resolve("claude", Selection::default());
    assert_eq!(
        env(&claude),
        [
            "ANTHROPIC_AUTH_TOKEN=KEY",
            "ANTHROPIC_BASE_URL=http://127.0.0.1:4100",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
            "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL=1",
            "CLAUDE_CONFIG_DIR=/home/agent/.claude",
            "DISABLE_AUTOUPDATER=1",
            "IS_SANDBOX=1"
        ]
    );
    assert_eq!(claude.args(&VALUES).unwrap(), Vec::<String>::new(), "its own default model");
    let codex = resolve("codex", Selection { model: Some("gpt-x"), ..Selection::default() });
    assert_eq!(codex.args(&VALUES).unwrap(), ["-c", "model=gpt-x"]);
    let config: toml::Table = toml::from_str(&codex.files(&VALUES).unwrap()[0].content).unwrap();
    let gateway = &config["model_providers"]["gateway"];
    assert_eq!(gateway["base_url"].as_str(), Some("http://127.0.0.1:4100/v1"));
    assert_eq!(gateway["supports_websockets"].as_bool(), Some(false));
    assert_eq!(gateway["env_key"].as_str(), Some("OPENAI_API_KEY"));
    assert!(config["projects"].as_table().unwrap().contains_key("/w/a \"b\"\\c"), "escaped");
}

#[test]
fn the_gateway_and_the_key_cannot_be_overridden() {
    let vars = resolve("claude", Selection::default()).env(&VALUES).unwrap();
    let layer = |name: &str| vars.iter().find(|var| var.name.as_str() == name).unwrap().layer;
    assert_eq!(layer("ANTHROPIC_BASE_URL"), EnvLayer::Door);
    assert_eq!(layer("ANTHROPIC_AUTH_TOKEN"), EnvLayer::Placeholder);
    assert_eq!(layer("IS_SANDBOX"), EnvLayer::Profile);
}

#[test]
fn an_unknown_provider_lists_the_known_ones() {
    let pi = Registry::default().load("pi").unwrap();
    let selection = Selection { provider: Some("openia"), ..Selection::default() };
    assert_eq!(
        pi.resolve(selection).unwrap_err().to_string(),
        "agent pi has no provider \"openia\"; known: anthropic, claude-sdk, openai, openrouter, azure, \
         ollama, lmstudio, llamacpp, litellm"
    );
    let opencode = Registry::default().load("opencode").unwrap();
    let selection = Selection { auth_mode: Some(AuthMode::Oauth), ..Selection::default() };
    assert_eq!(
        opencode.resolve(selection).unwrap_err().to_string(),
        "provider anthropic of agent opencode takes no oauth credential; it takes api_key, gateway"
    );
}

#[test]
fn an_agent_without_providers_resolves_to_itself() {
    let selection = Selection { provider: Some("any"), model: Some("m"), ..Selection::default() };
    let cursor = resolve("cursor", selection);
    assert_eq!((cursor.provider.clone(), cursor.terms.api), (None, None));
    assert_eq!(cursor.profile.recipe, None);
    assert_eq!(cursor.args(&VALUES).unwrap(), ["--model", "m"]);
}

#[test]
fn ralphs_record_is_kept() {
    let pi = resolve("pi", Selection { provider: Some("claude-sdk"), ..Selection::default() });
    assert_eq!(pi.terms.sandbox_agent.as_deref(), Some("claude"));
    assert_eq!(pi.terms.base_image.as_deref(), Some("docker/sandbox-templates:claude-code"));
    assert_eq!(pi.terms.allowed_hosts, ["api.anthropic.com", "statsig.anthropic.com", "sentry.io"]);
    assert_eq!(pi.terms.env_var_name.unwrap().as_str(), "CLAUDE_CODE_OAUTH_TOKEN");
    assert_eq!((pi.terms.uses_proxy, pi.auth_mode), (true, Some(AuthMode::Oauth)));
}

#[test]
fn the_chosen_model_wins_and_is_prefixed_once() {
    let model =
        |model| resolve("pi", Selection { model: Some(model), ..Selection::default() }).model;
    assert_eq!(model("x").as_deref(), Some("anthropic/x"));
    assert_eq!(model("anthropic/x").as_deref(), Some("anthropic/x"));
}

#[test]
fn a_user_adds_or_replaces_an_agent_by_a_file() {
    let file =
        |path, text: &'static str| SettingsFile { path: Path::new(path), bytes: text.as_bytes() };
    let registry = Registry::new(vec![
        file("/u/pi.toml", "name = \"pi\"\ncli_command = \"my-pi\""),
        file("/u/mine.toml", "name = \"mine\"\ncli_command = \"mine\""),
        file("/u/broken.toml", "!"),
    ]);
    assert_eq!(registry.load("pi").unwrap().cli_command, "my-pi");
    assert_eq!(registry.load("mine").unwrap().cli_command, "mine");
    let error = registry.load("claud").unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown agent \"claud\"; known: broken, claude, codex, cursor, gemini, mine, opencode, pi; \
         did you mean `claude`?"
    );
    let error = registry.load("nobody").unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown agent \"nobody\"; known: broken, claude, codex, cursor, gemini, mine, opencode, pi"
    );
}

#[test]
fn mistakes_in_an_agents_file_are_reported() {
    for (text, expected) in [
        ("name = \"other\"", "/u/mine.toml:1: name: must be \"mine\", as the file is called"),
        ("name = \"mine\"", "cli_command: missing"),
        ("cli_comand = \"x\"", "did you mean `cli_command`?"),
        ("[env]\nA = \"{gatway}\"", "env.A: unknown placeholder {gatway}; known: gateway, home"),
        ("[env]\n\"A-B\" = \"x\"", "is not the name of an environment variable"),
        ("[[files]]\npath = \"/etc/x\"\ncontent = \"\"", "files[0].path: expected a path relative"),
        ("[[files]]\npath = \"../x\"\ncontent = \"\"", "files[0].path: expected a path without"),
        ("[[files]]\npath = \"x\"\ncontent = \"\"\nmode = \"4755\"", "expected permission bits"),
        ("recipe = \"../x\"", "recipe: expected a name without `/`"),
        ("[providers.p]", "default_provider: missing"),
        ("default_provider = \"q\"\n[providers.p]", "names none of the providers"),
        ("[providers.p]\nauth_modes = [\"oauht\"]", "unknown auth mode \"oauht\""),
        ("[providers.p]\nauth_modes = [\"oauth\"]", "providers.p.default_auth_mode: missing"),
        ("[providers.p]\napi = \"openai\"", "providers.p.base_url: missing"),
        ("[providers.p]\nenv_var_name = \"A B\"", "is not the name of an environment variable"),
        ("[providers.p.auth.oauth]", "is not among auth_modes"),
    ] {
        let rest = if text.starts_with("name") || text.starts_with("cli") {
            text.to_owned()
        } else {
            format!("name = \"mine\"\ncli_command = \"x\"\n{text}")
        };
        let error = user_agent(&rest).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_template_without_a_value_is_an_error_that_shows_no_value() {
    let claude = resolve("claude", Selection::default());
    let nowhere = TemplateValues { gateway: None, ..VALUES };
    let error = claude.env(&nowhere).unwrap_err().to_string();
    assert_eq!(
        error,
        "agent claude: ANTHROPIC_BASE_URL: placeholder {gateway} has no value in this session"
    );
    let values = TemplateValues { key: Some("hush\n"), ..VALUES };
    let error = claude.env(&values).unwrap_err().to_string();
    assert!(error.contains("contains control characters") && !error.contains("hush"), "{error}");
}

proptest! {
    #[test]
    fn values_never_break_out_of_a_string(workspace in "[^\\p{C}]{0,20}") {
        let values = TemplateValues { workspace: Some(&workspace), ..VALUES };
        for name in ["claude", "codex"] {
            for file in resolve(name, Selection::default()).files(&values).unwrap() {
                check_format(&file);
            }
        }
    }

    #[test]
    fn no_text_makes_a_template_or_an_agent_panic(text in ".{0,40}") {
        if let Ok(template) = text.parse::<Template>() {
            prop_assert_eq!(template.to_string(), text.clone());
            let _ = template.uses("key");
        }
        let _ = user_agent(&text);
    }
}

#[test]
fn the_provider_that_needs_no_trust_is_pis_own() {
    let pi = Registry::default().load("pi").unwrap();
    assert_eq!(pi.default_provider.as_deref(), Some(AgentLoop::PROVIDER));
}
