use super::*;
use proptest::prelude::*;

fn defaults() -> Protection {
    Protection::defaults([]).unwrap()
}

fn effect(protection: &Protection, root: RootIs, path: &str) -> Option<Effect> {
    protection.classify(root, Path::new(path)).map(|class| class.effect())
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
        assert_eq!(effect(&protection, RootIs::Ordinary, path), Some(Effect::Hide), "{path}");
    }
}

#[test]
fn what_only_looks_like_a_secret_stays() {
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
        assert_eq!(effect(&protection, RootIs::Ordinary, path), None, "{path}");
    }
}

#[test]
fn what_the_host_executes_is_read_only() {
    let protection = defaults();
    for path in [
        ".vscode",
        "sub/.vscode",
        ".idea",
        ".claude",
        ".mcp.json",
        ".envrc",
        ".husky",
        ".pre-commit-config.yaml",
        ".bashrc",
        ".devcontainer",
    ] {
        assert_eq!(effect(&protection, RootIs::Ordinary, path), Some(Effect::ReadOnly), "{path}");
    }
    assert_eq!(effect(&protection, RootIs::Ordinary, "fixtures/.bashrc"), None);
    assert_eq!(effect(&protection, RootIs::Ordinary, ".local/bin"), None);
    assert_eq!(effect(&protection, RootIs::Home, ".local/bin"), Some(Effect::ReadOnly));
}

#[test]
fn outside_a_home_only_directories_stand_for_missing_names() {
    let protection = defaults();
    let names: Vec<_> = protection.missing(RootIs::Ordinary).collect();
    assert!(names.iter().all(|name| name.placeholder == Placeholder::Directory));
    assert!(names.iter().any(|name| name.relative == Path::new(".vscode")));
    assert!(names.iter().any(|name| name.relative == Path::new(".claude")));
    assert!(!names.iter().any(|name| name.relative == Path::new(".bashrc")));
    let home: Vec<_> = protection.missing(RootIs::Home).collect();
    assert!(home.iter().any(|name| name.relative == Path::new(".bashrc")));
    for name in &home {
        let class = protection.classify(RootIs::Home, name.relative).unwrap();
        assert_eq!(class.effect(), name.class.effect(), "{:?}", name.relative);
    }
}

#[test]
fn an_opt_in_lifts_what_the_reason_names() {
    let reason = |path: &str| {
        let protection = defaults();
        protection.classify(RootIs::Ordinary, Path::new(path)).unwrap().reason()
    };
    for path in [".husky", ".pre-commit-config.yaml", "lefthook.yml", ".vscode", ".env", ".claude"]
    {
        let name = reason(path).opt_in.unwrap();
        let lifted = Protection::defaults([&*name]).unwrap();
        assert_eq!(effect(&lifted, RootIs::Ordinary, path), None, "{path}");
        assert_eq!(effect(&lifted, RootIs::Ordinary, ".netrc"), Some(Effect::Hide));
    }
    assert_eq!(reason(".env").why, Why::Secret);
    assert_eq!(reason(".husky").why, Why::HostExecutes);
}

#[test]
fn a_class_becomes_a_restriction_that_names_the_way_out() {
    let class = defaults().classify(RootIs::Ordinary, Path::new(".husky")).unwrap();
    let made = class.restriction(HostPath::new("/w/.husky").unwrap());
    assert_eq!((made.effect, made.source), (Effect::ReadOnly, Origin::Default));
    assert_eq!(made.reason.opt_in.as_deref(), Some("husky"));
}

#[test]
fn an_opt_in_that_lifts_nothing_is_an_error() {
    let error = Protection::defaults(["huskie"]).unwrap_err().to_string();
    assert!(
        error.starts_with("opt_in \"huskie\" lifts nothing; known: agent-settings, "),
        "{error}"
    );
}

#[test]
fn the_built_in_data_is_sound() {
    for rule in tables::RULES {
        for glob in rule.names.iter().chain(rule.except) {
            assert_eq!(Glob::new(&glob.to_string()).as_ref(), Ok(glob));
        }
        if rule.missing.is_some() {
            assert!(rule.names.iter().all(|glob| glob.literal_path().is_some()), "{}", rule.reason);
        }
    }
    assert!(tables::LITERAL.is_sorted());
}

proptest! {
    #[test]
    fn the_index_changes_no_verdict(
        directory in "(|a/|\\.config/)", name in r"\.?(env|vscode|aws|gh|x)(\.[a-z]{1,7}|)",
    ) {
        let protection = defaults();
        let path = format!("{directory}{name}");
        for root in [RootIs::Ordinary, RootIs::Home] {
            let slow = tables::RULES.iter().filter(|rule| rule.matches(root, Path::new(&path)));
            prop_assert_eq!(
                effect(&protection, root, &path), slow.map(|rule| rule.effect).max()
            );
        }
    }
}

#[test]
fn a_name_that_cannot_match_is_told_from_the_name_alone() {
    for name in [".env", "prod.env", ".env.local", "a.pem", "tasks.code-workspace", "gcloud"] {
        assert!(Protection::may_match(name.as_bytes()), "{name}");
    }
    for name in ["main.rs", "env", "README.md", "index.js", "pem"] {
        assert!(!Protection::may_match(name.as_bytes()), "{name}");
    }
}

#[test]
fn protections_by_structure_have_opt_ins_too() {
    let protection = Protection::defaults([GIT_HOOKS]).unwrap();
    assert!(protection.is_lifted(GIT_HOOKS) && !protection.is_lifted(GIT_CONFIG));
}
