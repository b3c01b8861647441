//! `pinfold check` for hosts, requests and secrets. Paths are in `workspace` and `git_guard`.

use std::io::Write as _;
use std::process::Stdio;

use pinfold_testkit::{Stage, people};

/// Runs `pinfold check` with these words. Returns its status and what it said.
fn check(stage: &Stage, words: &[&str]) -> (i32, String) {
    let output = stage.pinfold(&[&["check"], words].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn check_answers_for_hosts_requests_and_secrets() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write(
            "home/.config/pinfold/config.toml",
            "[network]\nallow = [\"*.crates.io\"]\n\
             requests = [{ host = \"api.github.com\", methods = [\"GET\"], paths = [\"/repos/me/**\"] }]\n\
             [[secrets]]\nid = \"github\"\nenv = \"GH_TOKEN\"\nhosts = [\"api.github.com\"]\n",
        );
        for (words, status, said) in [
            (&["host", "static.crates.io"][..], 0, "rule      *.crates.io; by"),
            (&["host", "crates.io.evil.example"], 1, "no rule allows crates.io.evil.example"),
            (&["host", "evil.example"], 1, "`pinfold run --allow-host evil.example`"),
            (&["host", "evil.example", "--allow-host", "evil.example"], 0, "by --allow-host"),
            (&["host", "static.crates.io:22"], 1, "no rule allows port 22 of static.crates.io"),
            (&["host", "127.0.0.1:5432"], 1, "--allow-internal-host 127.0.0.1:5432"),
            (&["host", "api.github.com"], 0, "only these requests: api.github.com"),
            (&["host", "api.github.com"], 0, "gets the secret github"),
            (&["host", "api.github.com", "--url-path", "/repos/me/a"], 0, "allowed"),
            (
                &["host", "api.github.com", "--method", "DELETE", "--url-path", "/repos/me/a"],
                1,
                "allows only",
            ),
            (&["host", "api.github.com", "--url-path", "/repos/me/../you"], 1, "denied"),
            (&["host", "me@api.github.com"], 1, "a user name before the host"),
            (&["secret", "github"], 1, "`pinfold secret set github`"),
            (&["secret", "other"], 1, "sessions here have github"),
            (&["read", "a", "--method", "GET"], 1, "are about a host"),
        ] {
            let (code, text) = check(&stage, words);
            assert!(code == status && text.contains(said), "{words:?}: {code}: {text}");
        }
        let mut set =
            stage.pinfold(&["secret", "set", "github"]).stdin(Stdio::piped()).spawn().unwrap();
        set.stdin.take().unwrap().write_all(b"ghp_0123456789abcdefghijABCDEFGHIJ012345\n").unwrap();
        assert!(set.wait().unwrap().success());
        let (code, text) = check(&stage, &["secret", "github"]);
        assert!(code == 0 && text.contains("GH_TOKEN is a placeholder"), "{text}");
        assert!(!text.contains("ghp_"), "the value is not read");
        let (code, text) = check(&stage, &["host", "evil.example", "--json"]);
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, answer["verdict"].as_str()), (1, Some("deny")), "{text}");
    }
}
