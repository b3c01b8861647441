//! Commits and tags that are signed inside verify outside.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pinfold_testkit::{Stage, executable};

use super::world::{people_with, stage_with_key};

const COMMIT: &str =
    "git -c user.name=Agent -c user.email=agent@example.com commit -q --allow-empty";

fn verified(stage: &Stage, what: &[&str]) {
    let key = fs::read_to_string(stage.path("home/.ssh/id.pub")).unwrap();
    let allowed = stage.write("allowed", format!("agent@example.com {key}"));
    let mut git = stage.command("git");
    git.arg("-c").arg(format!("gpg.ssh.allowedSignersFile={}", allowed.display())).args(what);
    let output = git.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("Good \"git\" signature"), "{what:?}: {said}");
}

fn init(stage: &Stage) {
    assert!(stage.command("git").args(["init", "-q"]).status().unwrap().success());
}

#[test]
fn a_commit_and_a_tag_signed_inside_verify_outside_for_each_kind_of_key() {
    for user in people_with("signing", &["git", "ssh-keygen"]) {
        for kind in ["ed25519", "ecdsa", "rsa"] {
            let stage = stage_with_key(user, kind);
            stage.write("home/.config/pinfold/config.toml", "[ssh]\nkey = \"~/.ssh/id\"\n");
            init(&stage);
            let script = format!(
                "{COMMIT} -S -m signed && git -c user.name=Agent -c user.email=agent@example.com \
                 tag -s -m signed v1 && test ! -e ~/.ssh/id"
            );
            let output = stage.run_shell(&[], &script);
            assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
            verified(&stage, &["verify-commit", "HEAD"]);
            verified(&stage, &["verify-tag", "v1"]);
            let audit = fs::read_to_string(stage.state().join("audit.jsonl")).unwrap();
            let records = audit.matches(r#""event":"signature","purpose":"git-signature""#).count();
            assert_eq!(records, 2, "{audit}");
        }
    }
}

#[test]
fn the_users_own_agent_signs_with_the_one_key_that_is_named() {
    for user in people_with("own agent", &["git", "ssh-keygen", "ssh-agent", "ssh-add"]) {
        let stage = stage_with_key(user, "ed25519");
        super::world::make_key(&stage, "ed25519", &stage.path("home/.ssh/second"));
        let public = fs::read_to_string(stage.path("home/.ssh/id.pub")).unwrap();
        let config = format!("[ssh]\nagent = true\npublic_key = {:?}\n", public.trim());
        stage.write("home/.config/pinfold/config.toml", config);
        init(&stage);
        let script = format!(
            "ssh-add -q ~/.ssh/id ~/.ssh/second && exec {} run -- sh -c '{COMMIT} -S -m signed && \
             ssh-add -L | wc -l >keys'",
            executable()
        );
        let output = stage.command("ssh-agent").args(["sh", "-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        verified(&stage, &["verify-commit", "HEAD"]);
        assert_eq!(fs::read_to_string(stage.path("ws/keys")).unwrap().trim(), "1");
    }
}

#[test]
fn without_a_key_in_the_settings_there_is_no_agent_inside() {
    for user in people_with("no agent", &["sh"]) {
        let stage = Stage::new(user);
        let output = stage.run_shell(&[], "echo \"${SSH_AUTH_SOCK-none}\"; ls /run/pinfold");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with("none\n") && !said.contains("ssh-agent"), "{said}");
    }
}

#[test]
fn unusable_key_is_refused_with_a_hint() {
    for user in people_with("unusable keys", &["ssh-keygen"]) {
        let stage = stage_with_key(user, "ed25519");
        let config = |text: &str| stage.write("home/.config/pinfold/config.toml", text);
        let key = stage.path("home/.ssh/id");
        let refused = |expected: &str| {
            let output = stage.run_shell(&[], "true");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains(expected), "{expected}: {said}");
        };
        config("[ssh]\nkey = \"~/.ssh/absent\"\n");
        refused("cannot read the SSH key");
        config("[ssh]\nkey = \"~/.ssh/id\"\n");
        let protect = ["-q", "-p", "-P", "", "-N", "passphrase", "-f", key.to_str().unwrap()];
        assert!(stage.command("ssh-keygen").args(protect).status().unwrap().success());
        refused("a passphrase protects it");
        let other = stage_with_key(user, "ed25519");
        stage.write("home/.ssh/id", fs::read(other.path("home/.ssh/id")).unwrap());
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        stage.write("home/.ssh/id.pub", {
            super::world::make_key(&other, "ed25519", &other.path("home/.ssh/second"));
            fs::read(other.path("home/.ssh/second.pub")).unwrap()
        });
        config("[ssh]\nkey = \"~/.ssh/id\"\n");
        refused("halves of different keys");
    }
}
