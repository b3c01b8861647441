use super::*;
use proptest::prelude::*;

mod moved;

fn defaults() -> Protection {
    Protection::defaults([]).unwrap()
}

fn effect(protection: &Protection, root: &Site, path: &str) -> Option<Effect> {
    protection.classify(root, Path::new(path)).map(|class| class.effect())
}

fn ordinary() -> Site {
    Site::of_names(Path::new("/srv/w"))
}

/// Part of the user's home, or the home itself.
fn in_home(below: &str) -> Site {
    let home = Path::new("/home/u");
    Site::new(&home.join(below), &[HomePart::home(home.to_owned())])
}

#[test]
fn secrets_vanish_by_name() {
    let protection = defaults();
    for path in [
        ".env",
        "app/.env",
        ".env.local",
        "prod.env",
        "deploy/id_ed25519",
        "server.pem",
        "tls/server.key",
        ".netrc",
        ".aws",
        "x/.docker/config.json",
        ".git-credentials",
        "service-account-prod.json",
        ".ssh",
    ] {
        assert_eq!(effect(&protection, &ordinary(), path), Some(Effect::Hide), "{path}");
    }
}

#[test]
fn histories_of_commands_vanish_with_the_files_of_direnv_in_a_home() {
    let protection = defaults();
    for path in [
        ".bash_history",
        ".zsh_history",
        ".python_history",
        ".psql_history",
        ".local/share/fish/fish_history",
        ".envrc",
        "src/app/.envrc",
    ] {
        assert_eq!(effect(&protection, &in_home(""), path), Some(Effect::Hide), "{path}");
    }
    // From where it really lies.
    let shared = in_home(".local/share");
    assert_eq!(effect(&protection, &shared, "fish/fish_history"), Some(Effect::Hide));
    assert_eq!(effect(&protection, &ordinary(), "src/history.rs"), None);
    let lifted = Protection::defaults(["histories"]).unwrap();
    assert_eq!(effect(&lifted, &in_home(""), ".bash_history"), None);
}

#[test]
fn text_that_only_looks_like_a_secret_stays() {
    let protection = defaults();
    for path in [
        ".env.example",
        "app/.env.sample",
        ".env.template",
        ".env.dist",
        "example.env",
        "id_rsa.pub",
        "certs/ca.pem",
        "cert.pem",
        ".npmrc",
        "env",
        "environment",
        "src/env.rs",
        "docker/config.json",
        ".gitmodules",
        "package.json",
        "Makefile",
        ".github/workflows",
    ] {
        assert_eq!(effect(&protection, &ordinary(), path), None, "{path}");
    }
}

#[test]
fn files_that_the_host_executes_are_read_only() {
    let protection = defaults();
    for path in [
        ".vscode",
        "sub/.vscode",
        ".idea",
        ".claude",
        ".mcp.json",
        ".husky",
        ".pre-commit-config.yaml",
        ".bashrc",
        ".devcontainer",
    ] {
        assert_eq!(effect(&protection, &ordinary(), path), Some(Effect::ReadOnly), "{path}");
    }
    assert_eq!(effect(&protection, &ordinary(), "fixtures/.bashrc"), None);
    assert_eq!(effect(&protection, &ordinary(), ".local/bin"), None);
    assert_eq!(effect(&protection, &in_home(""), ".local/bin"), Some(Effect::ReadOnly));
}

#[test]
fn outside_a_home_only_what_an_open_program_executes_has_a_placeholder() {
    let protection = defaults();
    for site in [ordinary(), in_home("src/app")] {
        let names: Vec<_> = protection.missing(&site).collect();
        let is_plain =
            |name: &Missing| name.placeholder == Placeholder::Directory && !name.is_of_home;
        assert!(names.iter().all(is_plain));
        let names: Vec<_> = names.iter().map(|name| name.relative.as_path()).collect();
        assert_eq!(names, [".vscode", ".zed", ".cursor", ".claude"].map(Path::new));
    }
    let site = in_home("");
    let home: Vec<_> = protection.missing(&site).collect();
    for expected in [".bashrc", ".codex", ".pi", ".gemini"] {
        let is_it = |name: &&Missing| name.relative == Path::new(expected);
        assert!(home.iter().find(is_it).is_some_and(|name| name.is_of_home), "{expected}");
    }
    for name in &home {
        let class = protection.classify(&in_home(""), &name.relative).unwrap();
        assert_eq!(class.effect(), name.class.effect(), "{:?}", name.relative);
    }
}

#[test]
fn an_opt_in_lifts_what_the_reason_names() {
    let reason = |path: &str| {
        let protection = defaults();
        protection.classify(&ordinary(), Path::new(path)).unwrap().reason()
    };
    for path in [".husky", ".pre-commit-config.yaml", "lefthook.yml", ".vscode", ".env", ".claude"]
    {
        let name = reason(path).opt_in.unwrap();
        let lifted = Protection::defaults([&*name]).unwrap();
        assert_eq!(effect(&lifted, &ordinary(), path), None, "{path}");
        assert_eq!(effect(&lifted, &ordinary(), ".netrc"), Some(Effect::Hide));
    }
    assert_eq!(reason(".env").why, Why::Secret);
    assert_eq!(reason(".husky").why, Why::HostExecutes);
}

#[test]
fn class_becomes_a_restriction_with_a_hint() {
    let class = defaults().classify(&ordinary(), Path::new(".husky")).unwrap();
    let made = class.restriction(HostPath::new("/w/.husky").unwrap());
    assert_eq!((made.effect, made.source), (Effect::ReadOnly, Origin::Default));
    assert_eq!(made.reason.opt_in.as_deref(), Some("husky"));
}

#[test]
fn an_opt_in_that_lifts_nothing_is_an_error() {
    let error = Protection::defaults(["huskie"]).unwrap_err().to_string();
    assert!(error.starts_with("opt_in \"huskie\" lifts nothing; known: agent-logins, "), "{error}");
}

#[test]
fn the_built_in_data_is_sound() {
    for rule in tables::RULES {
        for glob in rule.names.iter().chain(rule.except) {
            assert_eq!(Glob::new(&glob.to_string()).as_ref(), Ok(glob));
            let text = glob.to_string();
            assert_eq!(&*fold(text.as_bytes()), text.as_bytes(), "names are compared folded");
            assert!(text.matches('/').count() < 5, "Site keeps as many components as are needed");
            assert!(!rule.only_home || !glob.is_floating(), "{glob}: a home's names begin at it");
        }
        if rule.missing.is_some() {
            assert!(rule.names.iter().all(|glob| glob.literal_path().is_some()), "{}", rule.reason);
        }
    }
    assert!(tables::LITERAL.is_sorted());
    assert!(tables::BUILT_NAMES.iter().all(|name| !name.contains(['*', '?'])));
    for glob in tables::BUILT.iter().flat_map(|(globs, _)| *globs) {
        let text = glob.to_string();
        assert_eq!(Glob::new(&text).as_ref(), Ok(glob));
        assert_eq!(&*fold(text.as_bytes()), text.as_bytes(), "names are compared folded");
    }
}

proptest! {
    #[test]
    fn the_index_changes_no_verdict(
        directory in "(|a/|\\.config/)", name in r"\.?(env|VScode|aws|gh|x|npmrc)(\.[a-z]{1,7}|)",
    ) {
        let protection = defaults();
        let path = format!("{directory}{name}");
        for root in [&ordinary(), &in_home(""), &in_home("a")] {
            let names = root.names(Path::new(&path));
            let slow = tables::RULES.iter().filter(|rule| rule.matches(&names));
            prop_assert_eq!(
                effect(&protection, root, &path), slow.map(|rule| rule.effect).max()
            );
        }
    }
}

#[test]
fn name_that_cannot_match_is_ruled_out_by_the_name_alone() {
    for name in [".env", "prod.env", ".env.local", "a.pem", "tasks.code-workspace", "gcloud"] {
        assert!(Protection::may_match(&Folded::of(name.as_bytes())), "{name}");
    }
    for name in ["main.rs", "envs", "README.md", "index.js", "pem"] {
        assert!(!Protection::may_match(&Folded::of(name.as_bytes())), "{name}");
    }
}

#[test]
fn protections_by_structure_have_opt_ins_too() {
    let protection = Protection::defaults([GIT_HOOKS]).unwrap();
    assert!(protection.is_lifted(GIT_HOOKS) && !protection.is_lifted(GIT_CONFIG));
}

#[test]
fn names_are_judged_by_where_they_really_lie() {
    let protection = defaults();
    for (root, path) in [
        ("/home/u/.config", "gh"),
        ("/home/u/.config", "gcloud"),
        ("/home/u/.config", "git/credentials"),
        ("/home/u/.config", "containers/auth.json"),
        ("/home/u/.config/sops", "age"),
        ("/home/u/.local", "share/keyrings"),
        ("/home/u/.local/share", "keyrings"),
        ("/home/u/.local/share/opencode", "auth.json"),
        ("/home/u/.docker", "config.json"),
        ("/home/u/.cargo", "credentials.toml"),
        ("/home/u/.codex", "auth.json"),
        ("/home/u/.claude", ".credentials.json"),
        ("/home/u/.gemini", "oauth_creds.json"),
        ("/srv/dotfiles/.config", "gh"),
        ("/home/other/.config", "pinfold"),
    ] {
        let site = Site::of_names(Path::new(root));
        assert_eq!(effect(&protection, &site, path), Some(Effect::Hide), "{path} in {root}");
    }
    let site = Site::of_names(Path::new("/home/u/.config"));
    assert_eq!(effect(&protection, &site, "nvim"), None);
    assert_eq!(effect(&protection, &site, "helm/values.yaml"), None);
    // What is mounted a second time is called as it is in its file system, too.
    let site = Site::of_names(Path::new("/mnt/x")).also_at(Path::new("/u/.config"));
    assert_eq!(effect(&protection, &site, "gh"), Some(Effect::Hide));
    // An anchored name means the root itself, wherever that lies.
    let site = Site::of_names(Path::new("/srv/githooks"));
    assert_eq!(effect(&protection, &site, "a"), None);
}

#[test]
fn protected_names_of_a_home_are_protected_in_every_part_of_it() {
    let protection = defaults();
    let read_only = Some(Effect::ReadOnly);
    assert_eq!(effect(&protection, &in_home(".config"), "systemd"), read_only);
    assert_eq!(effect(&protection, &in_home(".cargo"), "config.toml"), read_only);
    assert_eq!(effect(&protection, &in_home(".local"), "bin"), read_only);
    assert_eq!(effect(&protection, &in_home(""), ".npmrc"), Some(Effect::Hide));
    assert_eq!(effect(&protection, &in_home("src/app"), ".npmrc"), None);
    assert_eq!(effect(&protection, &in_home("src/app"), "bin"), None);
    for (part, path) in [
        ("", ".local/share/bash-completion/completions/git"),
        ("", ".config/Claude/claude_desktop_config.json"),
        ("", ".copilot/mcp-config.json"),
        ("", ".sqliterc"),
        (".local/share", "systemd/user/x.service"),
        (".local/share", "dbus-1/services/x.service"),
        ("", ".vscode-server/data/Machine/settings.json"),
        (".cursor", "mcp.json"),
        (".config/opencode", "plugin/x.js"),
        (".m2", "settings.xml"),
        (".sbt", "1.0/plugins/x.sbt"),
    ] {
        let is_protected =
            Path::new(path).ancestors().filter(|it| *it != Path::new("")).any(|it| {
                let class = protection.classify(&in_home(part), it);
                class.is_some_and(|class| class.executed().is_some())
            });
        assert!(is_protected, "{part}/{path}");
    }
    let site = in_home(".config");
    let missing: Vec<_> = protection.missing(&site).map(|it| it.relative).collect();
    let is_missing = |name: &str| missing.iter().any(|missing| missing == Path::new(name));
    assert!(is_missing("autostart"), "{missing:?}");
    assert!(!is_missing(".bashrc") && !is_missing(""));
}

#[test]
fn case_and_what_file_systems_drop_from_names_make_no_difference() {
    let protection = defaults();
    for path in
        [".ENV", ".Env.local", "Server.PEM", "ID_RSA", ".AWS", ".en\u{200b}v", "x.\u{212a}ey"]
    {
        assert_eq!(effect(&protection, &ordinary(), path), Some(Effect::Hide), "{path}");
        let name = Path::new(path).file_name().unwrap().as_bytes();
        assert!(Protection::may_match(&Folded::of(name)), "{path}");
    }
    for path in [".VSCode", ".v\u{17f}code", ".Husky", ".HUS\u{212a}Y"] {
        assert_eq!(effect(&protection, &ordinary(), path), Some(Effect::ReadOnly), "{path}");
    }
    let site = Site::of_names(Path::new("/home/u/.CONFIG"));
    assert_eq!(effect(&protection, &site, "GH"), Some(Effect::Hide));
    assert_eq!(&*fold(b"\xff.ENV"), b"\xff.env");
}

#[test]
fn secrets_by_their_further_names_vanish() {
    let protection = defaults();
    for path in [
        ".env~",
        "#.env#",
        "server.pem.bak",
        "key.p8",
        "kubeconfig",
        "terraform.tfvars",
        "secrets.json",
        "secrets.yml",
        ".secrets",
        ".streamlit/secrets.toml",
        "local.settings.json",
        ".dockercfg",
        ".boto",
        ".s3cfg",
        ".envrc",
        ".envs/prod",
        ".envs/.production",
        ".mozilla",
        "x/.config/google-chrome",
        "x/.config/op",
        "x/.config/github-copilot",
        "x/.config/pypoetry/auth.toml",
    ] {
        assert_eq!(effect(&protection, &ordinary(), path), Some(Effect::Hide), "{path}");
    }
    let kubeconfig = protection.classify(&ordinary(), Path::new("pkg/kubeconfig")).unwrap();
    assert!(kubeconfig.is_only_of_files(), "a package may be called so");
}

#[test]
fn files_that_tools_run_by_themselves_are_read_only() {
    let protection = defaults();
    for path in [
        ".direnv",
        "mise.local.toml",
        ".mise.local.toml",
        "mise.dev.toml",
        "mise/config.toml",
        "rust-toolchain.toml",
        ".helix",
        ".vim",
        ".nvim.lua",
        ".kiro",
        ".roo",
        ".qwen",
        ".crush.json",
        ".amazonq",
        ".factory",
        ".amp",
        ".codebuddy",
        ".vibe",
        ".trae",
        ".junie",
        ".vs",
        ".continue",
        ".aider.conf.yml",
        ".github/hooks",
        ".dir-locals.el",
        ".pdbrc",
        ".Rprofile",
        ".ghci",
        ".irbrc",
        ".mvn/jvm.config",
        ".bazelrc",
        "prek.toml",
        "lint-staged.config.js",
        "sub/.githooks",
    ] {
        assert_eq!(effect(&protection, &ordinary(), path), Some(Effect::ReadOnly), "{path}");
    }
}

#[test]
fn a_secret_that_is_executed_as_well_stays_protected_where_its_content_is_known() {
    let class = defaults().classify(&ordinary(), Path::new("sub/.envrc")).unwrap();
    assert_eq!((class.effect(), class.reason().why), (Effect::Hide, Why::HostExecutes));
    let executed = class.executed().unwrap();
    assert_eq!(executed.effect(), Effect::ReadOnly);
    assert_eq!(executed.reason().opt_in.as_deref(), Some("directory-environment"));
    let lifted = Protection::defaults(["dotenv"]).unwrap();
    assert_eq!(effect(&lifted, &ordinary(), ".envrc"), Some(Effect::ReadOnly));
    let secret = defaults().classify(&ordinary(), Path::new(".env")).unwrap();
    assert_eq!((secret.executed(), secret.reason().why), (None, Why::Secret));
}

#[test]
fn places_of_keys_are_refused_as_grants_unless_they_are_opted_in() {
    let protection = defaults();
    for (host, part) in [
        ("/home/u/.ssh", "/home/u/.ssh"),
        ("/home/u/.ssh/x/y", "/home/u/.ssh"),
        ("/home/u/.SSH/config", "/home/u/.SSH"),
        ("/home/u/.aws", "/home/u/.aws"),
        ("/home/u/.kube/cache", "/home/u/.kube"),
        ("/root/.gnupg", "/root/.gnupg"),
        ("/home/u/.codex/auth.json", "/home/u/.codex/auth.json"),
        ("/home/u/.config/pinfold/agents", "/home/u/.config/pinfold"),
    ] {
        let (refused, _) = protection.refuses(Path::new(host)).unwrap();
        assert_eq!(refused, Path::new(part), "{host}");
    }
    for host in ["/", "/home/u", "/home/u/.config", "/home/u/.codex", "/w/ssh", "/w/server.pem"] {
        assert_eq!(protection.refuses(Path::new(host)), None, "{host}");
    }
    let (_, class) = protection.refuses(Path::new("/home/u/.ssh")).unwrap();
    assert_eq!(class.reason().opt_in.as_deref(), Some("user-keys"));
    let lifted = Protection::defaults(["user-keys"]).unwrap();
    assert_eq!(lifted.refuses(Path::new("/home/u/.ssh/known_hosts")), None);
}

#[test]
fn files_that_run_on_a_build_are_listed_and_not_protected() {
    for path in [
        ".cargo/config.toml",
        ".npmrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        "sub/.venv/bin",
        "sub/node_modules/.bin",
        "Makefile",
        "CLAUDE.md",
        "sub/AGENTS.md",
        ".github/workflows",
    ] {
        assert!(on_build(Path::new(path)).is_some(), "{path}");
        assert_eq!(effect(&defaults(), &ordinary(), path), None, "{path}");
    }
    for path in ["src/main.rs", "README.md", "bin", ".vscode"] {
        assert_eq!(on_build(Path::new(path)), None, "{path}");
    }
}

#[test]
fn a_root_that_lies_nobody_knows_where_has_protected_names() {
    let protection = Protection::default();
    for name in [".envrc", "sub/.vscode", "a/.husky"] {
        assert!(protection.classify(&Site::default(), Path::new(name)).is_some(), "{name}");
    }
}

#[test]
fn link_leads_to_names_of_the_directory_that_it_stands_for() {
    let protection = defaults();
    let led = |site: &Site, path: &str| {
        let led = protection.leads_to(site, Path::new(path));
        led.into_iter().map(|(rest, _)| rest.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(led(&ordinary(), "sub/.MVN"), ["jvm.config", "maven.config", "extensions.xml"]);
    assert_eq!(led(&ordinary(), ".github"), ["hooks"]);
    for path in [".vscode", "hooks", "src", "x.mvn", ".config/pinfold"] {
        assert_eq!(led(&ordinary(), path), [""; 0], "{path}");
    }
    assert!(led(&in_home(""), ".local").contains(&"bin".to_owned()));
    assert!(!led(&ordinary(), ".local").contains(&"bin".to_owned()));
    let lifted = Protection::defaults(["toolchain-files"]).unwrap();
    assert!(lifted.leads_to(&ordinary(), Path::new(".mvn")).is_empty());
}
