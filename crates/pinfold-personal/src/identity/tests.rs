use std::fs;
use std::path::Path;

use pinfold_policy::path::HostPath;
use pinfold_worktree::workspace::Workspace;

use super::directory::Directory;
use super::variables::{is_public, parse};

#[test]
fn an_identity_in_another_repository_within_the_worktree_is_refused() {
    let found = |git: &dyn Fn(&Path)| {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(".moltnet/alice")).unwrap();
        git(root.path());
        let root = HostPath::new(root.path()).unwrap();
        let workspace = Workspace { cwd: root.clone(), root, git_outside: None, is_scratch: false };
        Directory::find("alice", &workspace).map(|found| found.path)
    };
    assert!(found(&|_| {}).is_ok());
    for place in [".moltnet", ".moltnet/alice"] {
        let kinds: [&dyn Fn(&Path); 4] = [
            &|git| fs::create_dir(git).unwrap(),
            &|git| fs::write(git, "gitdir: ../.git/modules/x").unwrap(),
            &|git| fs::write(git, "").unwrap(),
            &|git| std::os::unix::fs::symlink("nowhere", git).unwrap(),
        ];
        for make in kinds {
            let error = found(&|root| make(&root.join(place).join(".git"))).unwrap_err();
            assert!(error.to_string().contains("is a git repository of its own"), "{error}");
            assert!(error.hint().is_some());
        }
    }
}

#[test]
fn only_names_that_say_so_are_public() {
    let public = |name: &str, value: &str| is_public(&name.parse().unwrap(), value);
    for (name, value) in [
        ("MOLTNET_AGENT_NAME", "alice"),
        ("ALICE_GITHUB_APP_ID", "12345"),
        ("ALICE_GITHUB_APP_INSTALLATION_ID", "678"),
        ("GIT_AUTHOR_EMAIL", "alice@example.com"),
        ("MOLTNET_API_URL", "https://api.example.com:8443/"),
        ("MOLTNET_FINGERPRINT", "A1B2"),
    ] {
        assert!(public(name, value), "{name}");
    }
    for (name, value) in [
        ("MOLTNET_CLIENT_SECRET", "x"),
        ("MOLTNET_CLIENT_SECRET_ID", "x"),
        ("GITHUB_TOKEN", "x"),
        ("GITHUB_TOKEN_URL", "https://example.com"),
        ("ALICE_GITHUB_APP_PRIVATE_KEY_PATH", "/k.pem"),
        ("AWS_ACCESS_KEY_ID", "AKIA"),
        ("DATABASE_URL", "postgres://user:password@db.example.com/x"),
        ("API_URL", "https://example.com/?token=x"),
        ("HOOK_URL", "https://hooks.example.com/services/T0/B0/x"),
        ("SLACK_WEBHOOK_URL", "https://hooks.example.com"),
        ("API", "x"),
        ("WHATEVER", "x"),
        ("password_name", "x"),
        ("_", "x"),
    ] {
        assert!(!public(name, value), "{name}");
    }
}

#[test]
fn the_env_file_is_read_without_expansion_and_never_quoted_in_errors() {
    let file = b"# comment\n\nA=1\nexport B='two words'\nC=\"$A\"\nD=\n";
    let found = parse("env", file).unwrap();
    let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    assert_eq!(found, [("A", "1"), ("B", "two words"), ("C", "$A"), ("D", "")]);
    for (file, line) in
        [("A=1\nsecret-value", "env:2"), ("A='secret-value", "env:1"), ("1=secret-value", "env:1")]
    {
        let error = parse("env", file.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(line) && !error.contains("secret-value"), "{error}");
    }
}
