use std::time::Duration;

use super::*;

/// MoltNet's own example, as its documentation has it.
const EXAMPLE: &str = r#"{
  "env": { "GOROOT": "/usr/lib/go", "GOPATH": "/home/agent/go" },
  "resources": { "cpus": 4, "memory": "8G" },
  "snapshot": {
    "setupCommands": ["apk add --no-cache go python3", "npm install -g typescript"],
    "allowedHosts": ["downloads.example.org"],
    "overlaySize": "8G"
  },
  "resumeCommands": [
    "git config --global init.defaultBranch main",
    { "run": "cd \"$MOLTNET_GUEST_WORKSPACE\" && npm ci",
      "retries": 2, "retryBackoffMs": 5000,
      "when": { "workspaceMode": ["shared_mount", "dedicated_worktree"] } }
  ],
  "vfs": { "shadow": ["node_modules"], "shadowMode": "tmpfs" },
  "hostExec": { "autoApprove": [
    { "executable": "git", "argsPrefix": ["push"], "argsExcludes": ["--mirror", "--all"] },
    { "executable": "gh", "argsPrefix": ["pr", "create"] } ] }
}"#;

#[test]
fn moltnets_example_is_read_as_it_is() {
    let settings = trusted(EXAMPLE).resolve().unwrap();
    assert_eq!(waiting(&settings), [""; 0]);
    assert_eq!(shown(&settings.limits.memory), "8G by sandbox.json:3");
    assert_eq!(shown(&settings.limits.cpus), "4 by sandbox.json:3");
    assert_eq!(settings.snapshot.setup[1].value, "npm install -g typescript");
    assert_eq!(settings.snapshot.hosts[0].to_string(), "downloads.example.org by sandbox.json:6");
    assert_eq!(shown(&settings.snapshot.size), "8G by sandbox.json:7");
    let [first, second] = settings.resume.as_slice() else { panic!("two commands") };
    assert_eq!((first.value.retries, first.value.backoff), (0, Duration::from_secs(2)));
    assert_eq!((second.value.retries, second.value.backoff), (2, Duration::from_secs(5)));
    assert_eq!(second.value.run, "cd \"$MOLTNET_GUEST_WORKSPACE\" && npm ci");
    assert!(first.value.runs_in(WorkspaceMode::Overlay));
    assert!(second.value.runs_in(WorkspaceMode::SharedMount));
    assert!(!second.value.runs_in(WorkspaceMode::Overlay));
    assert_eq!(settings.shadow[0].to_string(), "node_modules by sandbox.json:15");
    assert_eq!(settings.shadow_mode.value, ShadowMode::Tmpfs);
    assert_eq!(settings.approve[0].value.to_string(), "git push … without --mirror, --all");
}

#[test]
fn widening_settings_wait_and_narrowing_ones_do_not() {
    let case = project(EXAMPLE);
    let settings = case.resolve().unwrap();
    assert_eq!(
        waiting(&settings),
        [
            "sandbox.json:5: snapshot.setupCommands: run with the package registries in reach: apk \
             add --no-cache go python3",
            "sandbox.json:5: snapshot.setupCommands: run with the package registries in reach: npm \
             install -g typescript",
            "sandbox.json:6: snapshot.allowedHosts: let these commands reach downloads.example.org",
            "sandbox.json:7: snapshot.overlaySize: fill 8G of this machine's disk",
            "sandbox.json:17: hostExec.autoApprove: run on this machine without asking: git push … \
             without --mirror, --all",
            "sandbox.json:18: hostExec.autoApprove: run on this machine without asking: gh pr \
             create …",
            "sandbox.json:10: resumeCommands: run inside at each start: git config --global \
             init.defaultBranch main",
            "sandbox.json:11: resumeCommands: run inside at each start: cd \"$MOLTNET_GUEST_WORKSPACE\" \
             && npm ci",
        ]
    );
    assert!(settings.snapshot.is_host() && settings.approve.is_empty());
    assert!(settings.resume.is_empty(), "what they need is not set up");
    assert_eq!(settings.shadow.len(), 1);
}

#[test]
fn commands_that_need_nothing_untrusted_run_in_a_session_with_nothing_to_lose() {
    for (text, runs) in [
        (r#"{ "resumeCommands": ["make"] }"#, 1),
        (r#"{ "snapshot": { "overlaySize": "8G" }, "resumeCommands": ["make"] }"#, 1),
        (r#"{ "snapshot": { "setupCommands": ["apk add go"] }, "resumeCommands": ["make"] }"#, 0),
        (
            r#"{ "snapshot": { "base": "docker.io/library/alpine:3" }, "resumeCommands": ["make"] }"#,
            0,
        ),
        (r#"{ "network": { "allow": ["a.example"] }, "resumeCommands": ["npm ci"] }"#, 0),
        (r#"{ "network": { "allowedInternalHosts": ["db:5432"] }, "resumeCommands": ["x"] }"#, 0),
    ] {
        assert_eq!(project(text).resolve().unwrap().resume.len(), runs, "{text}");
        assert_eq!(trusted(text).resolve().unwrap().resume.len(), 1, "{text}");
    }
}

/// Gives a session something to lose.
type Give = fn(&mut Flags);

#[test]
fn commands_of_a_repository_wait_in_a_session_with_something_to_lose() {
    let something: [(&str, Give); 6] = [
        ("an agent", |flags| flags.scalars.agent = Some("pi".to_owned())),
        ("a host", |flags| flags.network.allow.push("a.example".parse().unwrap())),
        ("a port", |flags| flags.network.publish.push("80".parse().expect("a port"))),
        ("a path", |flags| flags.read.push(HostPath::new("/srv").unwrap())),
        ("a variable", |flags| flags.forward_env.push("TOKEN".parse().unwrap())),
        ("an identity", |flags| flags.scalars.identity = Some("me".to_owned())),
    ];
    for (what, give) in something {
        let mut case = project(r#"{"resumeCommands": ["make"]}"#);
        assert_eq!(case.resolve().unwrap().resume.len(), 1);
        give(&mut case.flags);
        let settings = case.resolve().unwrap();
        assert!(settings.resume.is_empty(), "{what}");
        assert_eq!(
            waiting(&settings),
            ["sandbox.json:1: resumeCommands: run inside at each start: make"]
        );
        case.trust = Trust::Trusted;
        assert_eq!(case.resolve().unwrap().resume.len(), 1, "{what}");
    }
}

#[test]
fn hosts_secrets_and_ports_wait_unless_the_user_gives_them_anyway() {
    let asked = r#"{
        "network": {
            "allow": ["a.example"],
            "allowedHosts": ["*.b.example:22"],
            "allowedInternalHosts": ["db.internal:5432"],
            "requests": [{"host": "c.example", "methods": ["GET"]}],
            "intercept": ["a.example"]
        },
        "secrets": [{"id": "npm", "env": "NPM_TOKEN", "hosts": ["a.example"]}],
        "publish": ["3000"]
    }"#;
    let settings = project(asked).resolve().unwrap();
    assert!(settings.network.allow.is_empty() && settings.network.internal.is_empty());
    assert!(settings.secrets.is_empty() && settings.publish.is_empty());
    assert_eq!(settings.waiting().count(), 7);
    let settings = trusted(asked).resolve().unwrap();
    assert_eq!(settings.waiting().count(), 0);
    assert_eq!(settings.network.allow.len(), 4, "the secret's host is one");
    assert_eq!((settings.secrets.len(), settings.publish.len()), (1, 1));

    let user = "publish = [\"3000\"]\n[network]\nallow = [\"a.example\", \"*.b.example:*\"]\n\
                [[secrets]]\nid = \"npm\"\nenv = \"NPM\"\nhosts = [\"r.example\"]";
    let settings = Case { user, ..project(asked) }.resolve().unwrap();
    let waits: Vec<String> = settings.waiting().map(|one| one.asks.clone()).collect();
    assert_eq!(
        waits,
        [
            "reach c.example GET",
            "reach db.internal:5432 although it leads to a private address",
            "end the TLS of a.example",
        ]
    );
    assert_eq!(settings.secrets[0].value.env.as_str(), "NPM", "the user places the user's secret");
}

#[test]
fn a_rule_on_some_requests_gives_a_repository_no_others() {
    let user = "[[network.requests]]\nhost = \"a.example\"\nmethods = [\"GET\"]";
    let asked = r#"{"network": {"allow": ["a.example"]}}"#;
    assert_eq!(Case { user, ..project(asked) }.resolve().unwrap().waiting().count(), 1);
}

#[test]
fn the_administrators_ceiling_holds_for_a_trusted_file_too() {
    let case = Case {
        ceiling: "[network]\nhosts = [\"*.example\"]\n[resources]\nmemory = \"4G\"",
        ..trusted(r#"{"network": {"allow": ["evil.test"]}}"#)
    };
    assert!(case.error().contains("network.allow: evil.test by sandbox.json:1 is not allowed"));
    let case = Case { project: r#"{"resources": {"memory": "6G"}}"#, ..case };
    assert!(case.error().contains("above 4G"), "{}", case.error());
}

#[test]
fn a_repository_may_only_require_a_stronger_wall() {
    let boundary = |case: Case| case.resolve().map(|settings| shown(&settings.scalars.boundary));
    let container = project(r#"{"boundary": "container"}"#);
    assert_eq!(boundary(container).unwrap(), "none", "the default is as strong");
    let vm = project(r#"{"boundary": "vm"}"#);
    assert_eq!(boundary(vm.clone()).unwrap(), "vm by sandbox.json:1");
    let chosen = Case { user: "boundary = \"namespace\"", ..vm };
    assert_eq!(
        chosen.error(),
        "boundary: sandbox.json:1 needs at least vm, and namespace by config.toml:1 is weaker\n\
         hint: choose vm or a stronger one, or leave --boundary out"
    );
    let stronger = Case { user: "boundary = \"vm\"", ..project(r#"{"boundary": "namespace"}"#) };
    assert_eq!(boundary(stronger).unwrap(), "vm by config.toml:1");
}

#[test]
fn a_shadowed_path_stays_in_the_workspace() {
    for (path, message) in [
        ("../x", "sandbox.json:1: vfs.shadow[0]: path escapes workspace: ../x"),
        ("a/../../x", "path escapes workspace: a/../../x"),
        ("/etc", "path escapes workspace: /etc"),
        ("a/..", "names the workspace itself"),
        ("", "names the workspace itself"),
        ("a\\u0000", "NUL"),
    ] {
        let text: &'static str = format!(r#"{{"vfs": {{"shadow": ["{path}"]}}}}"#).leak();
        let error = project(text).error();
        assert!(error.contains(message), "{error}");
    }
    let settings = project(r#"{"vfs": {"shadow": ["./a//b/../c"]}}"#).resolve().unwrap();
    assert_eq!(settings.shadow[0].value.to_string(), "a/c");
}

#[test]
fn mistakes_name_line_key_and_what_was_expected() {
    for (text, message) in [
        ("resumeCommands = [3]", "resumeCommands[0]: expected a command, or a table with `run`"),
        ("resumeCommands = [\" \"]", "resumeCommands[0]: expected a command"),
        ("[[resumeCommands]]\nretries = 1", "resumeCommands[0].run: missing"),
        ("[[resumeCommands]]\nrun = \"x\"\nretries = -1", "retries: expected at least 0"),
        ("[[resumeCommands]]\nrun = \"x\"\nretrys = 1", "did you mean `retries`?"),
        (
            "[[resumeCommands]]\nrun = \"x\"\nwhen.workspaceMode = [\"shared\"]",
            "sandbox.toml:3: resumeCommands[0].when.workspaceMode[0]: unknown workspace mode",
        ),
        ("hostExec.autoApprove = 1", "expected true, false or a list of rules"),
        ("[[hostExec.autoApprove]]\nargsPrefix = []", "executable: missing"),
        ("[[hostExec.autoApprove]]\nexecutable = \"/bin/sh\"", "without a slash"),
        ("[snapshot]\nbase = \"~/x\"", "snapshot.base: expected host, alpine, debian"),
        ("[snapshot]\noverlaySize = \"0\"", "more than zero"),
        ("[vfs]\nshadowMode = \"ro\"", "unknown shadow mode \"ro\"; known: tmpfs, deny"),
        ("workspaceMode = \"copy\"", "unknown workspace mode \"copy\""),
        ("boundary = \"jail\"", "unknown boundary \"jail\""),
    ] {
        let error = project(text).error();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_base_is_what_it_looks_like() {
    use crate::project::{Base, ImageEngine};
    for (text, base) in [
        ("host", Base::Host),
        ("debian", Base::Debian),
        ("debian:12", Base::Image("debian:12".to_owned())),
        ("127.0.0.1:5000/a/b@sha256:ab", Base::Image("127.0.0.1:5000/a/b@sha256:ab".to_owned())),
        ("./root", Base::Directory("./root".into())),
        ("docker-daemon:a:1", Base::Stored(ImageEngine::Docker, "a:1".to_owned())),
        ("containers-storage:a", Base::Stored(ImageEngine::Podman, "a".to_owned())),
        ("/srv/root.tar.gz", Base::Tarball("/srv/root.tar.gz".into())),
    ] {
        assert_eq!(text.parse(), Ok(base), "{text}");
    }
    for text in ["", "-x", "a b", "~/x", "a\"b", "docker-daemon:", "docker-daemon:-v"] {
        assert!(text.parse::<Base>().is_err(), "{text}");
    }
}

/// Ralph's file, with an agent.
fn ralph(agent: &str, text: &'static str) -> Case {
    let mut case = Case { agent_loop: text, ..Case::default() };
    case.flags.scalars.agent = Some(agent.to_owned());
    case
}

#[test]
fn ralphs_file_chooses_pis_model_unless_the_user_does() {
    let text = r#"{"type": "docker-sandbox", "pi": {"provider": "openai", "model": "any-name"}}"#;
    let chosen = |case: &Case| {
        let settings = case.resolve().unwrap();
        [
            shown(&settings.scalars.provider),
            shown(&settings.scalars.model),
            shown(&settings.scalars.boundary),
        ]
    };
    let mut case = ralph("pi", text);
    let by = "by .agent-loop/config.json:1";
    assert_eq!(chosen(&case), ["none", "none", "none"], "another provider waits for trust");
    assert_eq!(
        waiting(&case.resolve().unwrap()),
        [".agent-loop/config.json:1: pi.provider: ask models of openai, with your key for it"]
    );
    let trusted = Case { trust: Trust::Trusted, ..ralph("pi", text) };
    assert_eq!(chosen(&trusted)[..2], [format!("openai {by}"), format!("any-name {by}")]);
    case.flags.scalars.provider = Some("openai".to_owned());
    assert!(waiting(&case.resolve().unwrap()).is_empty(), "it is given anyway");
    let own = r#"{"pi": {"provider": "anthropic", "model": "m"}}"#;
    assert_eq!(chosen(&ralph("pi", own))[..2], [format!("anthropic {by}"), format!("m {by}")]);
    assert!(waiting(&ralph("pi", own).resolve().unwrap()).is_empty());
    assert_eq!(
        chosen(&case),
        ["openai by --provider".to_owned(), format!("any-name {by}"), "none".to_owned()]
    );
    case.flags.scalars.model = Some("claude-sonnet-4-6".to_owned());
    assert_eq!(chosen(&case)[1], "claude-sonnet-4-6 by --model");
    assert_eq!(chosen(&ralph("claude", text))[1], "none");
    for nothing in ["{}", r#"{"pi": {}}"#, r#"{"other": 1}"#] {
        assert_eq!(chosen(&ralph("pi", nothing)), ["none", "none", "none"]);
    }
    assert_eq!(chosen(&ralph("pi", r#"{"type": "tart"}"#))[2], "vm by .agent-loop/config.json:1");
}

#[test]
fn mistakes_in_ralphs_file_are_reported_in_its_words() {
    for (text, message) in [
        (r#"{"pi": []}"#, "'pi' section in .agent-loop/config.json must be an object"),
        (r#"{"pi": null}"#, "'pi' section in .agent-loop/config.json must be an object"),
        (r#"{"pi": {"model": 3}}"#, ".agent-loop/config.json:1: pi.model: expected text"),
        (
            r#"{"type": "docker"}"#,
            "unknown type \"docker\"; known: docker-sandbox, docker-container",
        ),
        ("[]", ".agent-loop/config.json:1: expected a table, found a list"),
    ] {
        let error = ralph("pi", text).error();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn sandbox_can_ask_once_trusted_settings_allow_it() {
    let silent = Case::default().resolve().unwrap();
    assert!(!silent.host_exec.enabled.value);
    let asks = r#"{"hostExec": {"autoApprove": [{"executable": "git"}], "executables": ["make"],
                  "onPath": ["make"]}}"#;
    let untrusted = Case { project: asks, ..Case::default() }.resolve().unwrap();
    assert!(!untrusted.host_exec.enabled.value && untrusted.approve.is_empty());
    assert_eq!(untrusted.waiting().count(), 3);
    let trusted = trusted(asks).resolve().unwrap();
    assert!(trusted.host_exec.enabled.value);
    assert!(matches!(trusted.host_exec_verdict(b"git", &[], &[]), HostExecVerdict::Allowed(_)));
    assert_eq!(trusted.host_exec_verdict(b"make", &[], &[]), HostExecVerdict::Ask);
    assert_eq!(trusted.host_exec_verdict(b"cargo", &[], &[]), HostExecVerdict::NotListed);
    let user = Case { user: "[hostExec]\n", ..Case::default() }.resolve().unwrap();
    assert!(user.host_exec.enabled.value);
    let off = Case { user: "[hostExec]\nenabled = false\n", ..Case::default() }.resolve().unwrap();
    assert!(!off.host_exec.enabled.value);
}

#[test]
fn the_administrator_forbids_commands_on_the_host_and_bounds_the_list() {
    let forbids = "[host_exec]\nallowed = false\n";
    let forbidden = Case { ceiling: forbids, user: "[hostExec]\n", ..Case::default() };
    assert!(forbidden.resolve().unwrap_err().to_string().contains("host_exec.allowed"));
    assert!(Case { ceiling: forbids, ..Case::default() }.resolve().is_ok());
    let bounded = "[host_exec]\nexecutables = [\"git\"]\n";
    let user = "[hostExec]\nautoApprove = true\n";
    let settings = Case { ceiling: bounded, user, ..Case::default() }.resolve().unwrap();
    assert!(matches!(settings.host_exec_verdict(b"git", &[], &[]), HostExecVerdict::Allowed(_)));
    assert_eq!(settings.host_exec_verdict(b"gh", &[], &[]), HostExecVerdict::NotListed);
    let more = Case {
        ceiling: bounded,
        user: "[hostExec]\nexecutables = [\"make\"]\n",
        ..Case::default()
    };
    assert!(more.resolve().unwrap_err().to_string().contains("hostExec.executables"));
}
