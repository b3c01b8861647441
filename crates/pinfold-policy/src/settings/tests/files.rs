use super::*;

#[test]
fn the_schema_that_an_editor_names_is_accepted_and_ignored() {
    let with = "\"$schema\" = \"https://example.org/schema.json\"\n[resources]\npids = 7";
    assert_eq!(user(with).resolve(), user("\n[resources]\npids = 7").resolve());
    assert_eq!(ceiling(with, "").resolve(), ceiling("\n[resources]\npids = 7", "").resolve());
    let with = "{\"$schema\": \"x\", \"env\": {\"A\": \"1\"}}";
    assert_eq!(project(with).resolve(), project("{\"env\": {\"A\": \"1\"}}").resolve());
    let error = project("{\"$schema\": 1}").error();
    assert_eq!(error, "sandbox.json:1: \"$schema\": expected text, found a number");
    let error = project("{\"env\": {\"$schema\": \"x\"}}").error();
    assert!(error.contains("is not the name"), "only at the top: {error}");
}

#[test]
fn unknown_keys_name_the_nearest() {
    for (text, expected) in [
        ("{\"enviroment\": {}}", "sandbox.json:1: enviroment: unknown key"),
        ("{\"ressources\": {}}", "did you mean `resources`?"),
        ("{\"host_exec\": {}}", "did you mean `hostExec`?"),
        (
            "{\"resources\": {\"cpu\": 1}}",
            "sandbox.json:1: resources.cpu: unknown key; did you mean `cpus`?",
        ),
    ] {
        let error = project(text).error();
        assert!(error.contains(expected), "{error}");
    }
    let error = user("[files]\nwirte = []").error();
    assert_eq!(error, "config.toml:2: files.wirte: unknown key; did you mean `write`?");
}

#[test]
fn wrong_types_say_what_was_expected() {
    for (text, expected) in [
        (
            "[resources]\nmemory = 8",
            "sandbox.toml:2: resources.memory: expected text, found a number",
        ),
        (
            "[resources]\nmemory = \"8X\"",
            "sandbox.toml:2: resources.memory: expected a size such as \"8G\" or \"512M\"",
        ),
        (
            "[resources]\ncpus = \"4\"",
            "sandbox.toml:2: resources.cpus: expected a number, found text",
        ),
        (
            "[resources]\ncpus = nan",
            "sandbox.toml:2: resources.cpus: expected a number of CPUs between 0.001 and 65536, such as 2 or 0.5",
        ),
        ("[resources]\npids = 0", "sandbox.toml:2: resources.pids: expected at least 1"),
        (
            "[resources]\npids = 99999999999999999999",
            "sandbox.toml:2: resources.pids: expected a whole number, found a number",
        ),
        (
            "[resources]\ntimeout = \"soon\"",
            "sandbox.toml:2: resources.timeout: expected a duration such as \"90s\" or \"2h\"",
        ),
        ("env = []", "sandbox.toml:1: env: expected a table, found a list"),
        ("[env]\nA = 1", "sandbox.toml:2: env.A: expected text, found a number"),
        (
            "[env]\n\"A B\" = \"1\"",
            "sandbox.toml:2: env.\"A B\": \"A B\" is not the name of an environment variable: use letters, digits and `_`, not beginning with a digit",
        ),
        ("[env]\nA = \"\\u0000\"", "sandbox.toml:2: env.A: contains a NUL byte"),
        ("[]", "sandbox.toml:1: "),
    ] {
        let error = project(text).error();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn the_users_file_is_read_in_full() {
    let settings = user(
        "boundary = \"namespace\"\nagent = \"pi\"\nprovider = \"anthropic\"\n\
         landlock = \"required\"\nforward_env = [\"TERM\"]\n[files]\nread = [\"~/ref\"]\n\
         write = [\"/srv/out\"]\ndeny = [\"*.key\"]\nsockets = [\"/run/x.sock\"]\n\
         opt_in = [\"husky\"]\nstate = \"persistent\"\n[providers.local]\nbase_url = \"http://127.0.0.1:8080/\"",
    )
    .resolve()
    .unwrap();
    assert_eq!(settings.files.read[0].value.to_string(), "/home/me/ref");
    assert_eq!(settings.files.state.value, AgentState::Persistent);
    assert_eq!(settings.files.opt_in[0].origin.to_string(), "config.toml:11");
    assert_eq!(
        settings.providers["local"].base_url.as_ref().unwrap().value.as_str(),
        "http://127.0.0.1:8080"
    );
    assert_eq!(settings.forward_env[0].value.as_str(), "TERM");
}

#[test]
fn mistakes_in_the_users_file_are_reported() {
    for (text, expected) in [
        ("boundary = \"dokcer\"", "unknown boundary \"dokcer\"; known: namespace, container"),
        (
            "[files]\nread = [\"x\"]",
            "files.read[0]: expected an absolute path or one that begins with ~/",
        ),
        ("[files]\nread = [\"~/../x\"]", "contains `..`"),
        ("[files]\ndeny = [\"a[b]\"]", "has no meaning here"),
        ("[providers.p]\nmodels = []", "providers.p.models: expected at least one model"),
        (
            "[providers.p.account]\nOpenAI-Project = 1",
            "providers.p.account.OpenAI-Project: expected",
        ),
        ("model = \"\"", "not empty"),
        (
            "files = { state = \"kept\" }",
            "unknown state \"kept\"; known: ephemeral, repository, persistent",
        ),
    ] {
        let error = user(text).error();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn http_is_for_loopback_only() {
    let parse = |text: &str| text.parse::<BaseUrl>();
    for good in [
        "https://api.example.org",
        "https://a.b:8443/v1/",
        "http://localhost:1",
        "http://127.1.2.3",
        "http://[::1]:80/x",
        "https://[2001:db8::1]",
    ] {
        assert!(parse(good).is_ok(), "{good}");
    }
    for (bad, expected) in [
        ("http://example.org", BaseUrlError::Plain),
        ("http://127.0.0.1.example.org", BaseUrlError::Plain),
        ("http://localhost.example.org", BaseUrlError::Plain),
        ("http://[2001:db8::1]", BaseUrlError::Plain),
        ("ftp://x", BaseUrlError::Scheme),
        ("x", BaseUrlError::Scheme),
        ("https://", BaseUrlError::Host),
        ("https://a_b", BaseUrlError::Host),
        ("https://-a", BaseUrlError::Host),
        ("https://[::1", BaseUrlError::Host),
        ("https://a:0", BaseUrlError::Port),
        ("https://a:+1", BaseUrlError::Port),
        ("https://a:65536", BaseUrlError::Port),
        ("https://user:hush@a", BaseUrlError::Extra),
        ("https://a?b", BaseUrlError::Extra),
        ("http://127.0.0.1\\@evil", BaseUrlError::Extra),
    ] {
        assert_eq!(parse(bad), Err(expected), "{bad}");
    }
    assert_eq!(parse("https://A.B/V1/").unwrap().as_str(), "https://a.b/V1");
    assert_eq!(parse("http://[::1]:80").unwrap().host(), "::1");
    assert_eq!(parse("https://a:1/x").unwrap().host(), "a");
}

proptest! {
    #[test]
    fn no_bytes_make_any_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        for path in ["x.json", "x.toml"] {
            let file = SettingsFile { path: Path::new(path), bytes: &bytes };
            let _ = Project::read(&[file]);
            let _ = Settings::resolve(Layers { user: Some(file), ..Layers::default() });
            let _ = Settings::resolve(Layers { ceiling: Some(file), ..Layers::default() });
        }
    }
}
