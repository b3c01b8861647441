//! Working in an identity's name: with its secrets outside, and with them inside.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use pinfold_testkit::{LS_FAILS, Stage, User, not_behind_gvisor};

use super::world::{make_key, people_with};

const SECRET: &str = "s3cr3t-of-alice";

/// A repository with one commit and the identity alice, in `place`.
fn stage(user: User, place: &str) -> Stage {
    let stage = Stage::new(user);
    let git = |args: &[&str]| {
        let mut git = stage.command("git");
        git.args(["-c", "user.name=Me", "-c", "user.email=me@example.com"]).args(args);
        assert!(git.status().unwrap().success(), "{args:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    let file = |name: &str, content: String, mode| {
        let path = stage.write(&format!("ws/{place}/alice/{name}"), content);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let home = stage.workspace().join(place).join("alice");
    let home = home.display();
    file(
        "moltnet.json",
        format!(
            "{{\"keys\":{{\"private_key\":\"{SECRET}\"}},\"ssh\":{{\"private_key_path\":\"{home}/ssh/id_ed25519\"}},\"elsewhere\":\"/other/machine/app.pem\",\"stays\":\"/usr/bin/git\"}}"
        ),
        0o600,
    );
    file(
        "env",
        format!(
            "MOLTNET_AGENT_NAME='alice'\nMOLTNET_CLIENT_SECRET='{SECRET}'\nALICE_GITHUB_APP_ID=42\n\
             GIT_CONFIG_GLOBAL={place}/alice/gitconfig\nALICE_GITHUB_APP_PRIVATE_KEY_PATH={home}/app.pem\n"
        ),
        0o600,
    );
    file(
        "gitconfig",
        format!(
            "[user]\n\tname = Alice\n\temail = alice@example.com\n\tsigningKey = {home}/ssh/id_ed25519.pub\n\
             [gpg]\n\tformat = ssh\n[commit]\n\tgpgsign = true\n[credential \"https://github.com\"]\n\t\
             helper = \"!moltnet github credential-helper --credentials {home}/moltnet.json\"\n"
        ),
        0o644,
    );
    file("app.pem", format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n"), 0o600);
    file("ssh/allowed_signers", String::new(), 0o644);
    make_key(&stage, "ed25519", &stage.path(&format!("ws/{place}/alice/ssh/id_ed25519")));
    stage.write("ws/.git/info/exclude", ".moltnet\n.pinfold\n");
    stage
}

fn said(stage: &Stage, directory: &Path, options: &[&str], script: &str) -> (bool, String) {
    let mut run = stage.pinfold(&["run", "--identity", "alice"]);
    run.current_dir(directory).args(options).args(["--", "sh", "-c", script]);
    let output = run.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The last commit's author and committer, whose signature verifies outside.
fn signed_by_alice(stage: &Stage, directory: &Path, place: &str) {
    let key = stage.path(&format!("ws/{place}/alice/ssh/id_ed25519.pub"));
    let allowed = format!("alice@example.com {}", fs::read_to_string(key).unwrap());
    let allowed = stage.write("allowed", allowed);
    let git = |args: &[&str]| {
        let mut git = stage.command("git");
        git.current_dir(directory);
        git.arg("-c").arg(format!("gpg.ssh.allowedSignersFile={}", allowed.display()));
        let output = git.args(args).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let verified = git(&["verify-commit", "HEAD"]);
    assert!(verified.contains("Good \"git\" signature for alice@example.com"), "{verified}");
    let who = git(&["log", "-1", "--format=%an <%ae> %cn <%ce>"]);
    assert_eq!(who.trim(), "Alice <alice@example.com> Alice <alice@example.com>");
}

#[test]
fn a_brokered_identity_signs_and_none_of_its_secrets_is_inside() {
    for user in people_with("brokered identity", &["git", "ssh-keygen"]) {
        for place in [".moltnet", ".pinfold/identities"] {
            let stage = stage(user, place);
            let script = format!(
                "git commit -q --allow-empty -m signed && ! ls {place}/alice 2>/dev/null && \
                 test ! -e ~/.moltnet && ! env | grep -q SECRET && \
                 ! grep -rqs {} / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr && \
                 echo $MOLTNET_AGENT_NAME $ALICE_GITHUB_APP_ID \
                 ${{ALICE_GITHUB_APP_PRIVATE_KEY_PATH-none}} ${{GIT_CONFIG_GLOBAL-none}}",
                SECRET.replacen("s3", "s''3", 1)
            );
            let (ok, text) = said(&stage, &stage.workspace(), &[], &script);
            assert!(ok && text.contains("alice 42 none none"), "{text}");
            signed_by_alice(&stage, &stage.workspace(), place);
            let audit = stage.pinfold(&["audit", "--json"]).output().unwrap().stdout;
            assert!(String::from_utf8_lossy(&audit).contains("\"identity\":\"alice\""));
        }
    }
}

#[test]
fn an_identity_is_found_in_the_main_worktree_from_a_linked_one() {
    for user in people_with("linked worktree", &["git", "ssh-keygen"]) {
        let stage = stage(user, ".moltnet");
        let linked = stage.path("other/linked");
        let mut git = stage.command("git");
        git.args(["worktree", "add", "-q"]).arg(&linked);
        assert!(git.status().unwrap().success());
        let (ok, text) = said(&stage, &linked, &[], "git commit -q --allow-empty -m signed");
        assert!(ok, "{text}");
        signed_by_alice(&stage, &linked, ".moltnet");
    }
}

#[test]
fn injected_identity_has_the_paths_of_the_sandbox() {
    if not_behind_gvisor("injected_identity_has_the_paths_of_the_sandbox", LS_FAILS) {
        return;
    }
    for user in people_with("injected identity", &["git", "ssh-keygen"]) {
        let stage = stage(user, ".moltnet");
        let script = "cd ~/.moltnet/alice && stat -c '%a %n' env moltnet.json gitconfig app.pem \
             ssh/id_ed25519 ssh/id_ed25519.pub ssh/allowed_signers && cat moltnet.json gitconfig env && \
             echo \"$GIT_CONFIG_GLOBAL $ALICE_GITHUB_APP_PRIVATE_KEY_PATH $MOLTNET_CLIENT_SECRET\" && \
             cd - && git commit -q --allow-empty -m signed && echo ${SSH_AUTH_SOCK-no agent}; \
             echo \"hidden: $(ls -A .moltnet).\"";
        let (_, text) = said(&stage, &stage.workspace(), &["--identity-mode", "inject"], script);
        for expected in [
            "600 env",
            "600 moltnet.json",
            "644 gitconfig",
            "600 app.pem",
            "600 ssh/id_ed25519\n",
            "644 ssh/id_ed25519.pub",
            "644 ssh/allowed_signers",
            "\"private_key_path\": \"/home/agent/.moltnet/alice/ssh/id_ed25519\"",
            "\"elsewhere\": \"/home/agent/.moltnet/alice/app.pem\"",
            "\"stays\": \"/usr/bin/git\"",
            "signingkey = \"/home/agent/.moltnet/alice/ssh/id_ed25519.pub\"",
            "--credentials /home/agent/.moltnet/alice/moltnet.json",
            "GIT_CONFIG_GLOBAL='/home/agent/.moltnet/alice/gitconfig'",
            "/home/agent/.moltnet/alice/gitconfig /home/agent/.moltnet/alice/app.pem s3cr3t-of-alice",
            "no agent",
            // The directory of the workspace itself looks empty.
            "hidden: .\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(
            !text.contains(&stage.workspace().join(".moltnet").display().to_string()),
            "{text}"
        );
        signed_by_alice(&stage, &stage.workspace(), ".moltnet");
    }
}

#[test]
fn an_identity_that_is_missing_or_cannot_be_trusted_is_refused_with_the_reason() {
    for user in people_with("identity refusals", &["git", "ssh-keygen"]) {
        type Break = fn(&Stage, &Path);
        let cases: [(&str, Break); 9] = [
            ("no identity alice: looked for ", |_, alice| {
                fs::remove_dir_all(alice).unwrap();
            }),
            ("the identity alice has no ", |_, alice| {
                fs::remove_file(alice.join("env")).unwrap();
            }),
            ("the identity alice has no ", |_, alice| {
                fs::remove_file(alice.join("moltnet.json")).unwrap();
            }),
            ("is tracked by git", |stage, _| {
                let mut git = stage.command("git");
                git.args(["add", "-f", ".moltnet/alice/gitconfig"]);
                assert!(git.status().unwrap().success());
            }),
            ("other users can write to", |_, alice| {
                fs::set_permissions(alice, fs::Permissions::from_mode(0o777)).unwrap();
            }),
            ("other users can write to", |_, alice| {
                let file = alice.join("gitconfig");
                fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
            }),
            ("is, or lies behind, a symbolic link", |stage, alice| {
                let env = alice.join("env");
                let outside = stage.write("other/env", "A=1\n");
                fs::remove_file(&env).unwrap();
                symlink(outside, env).unwrap();
            }),
            ("is there twice", |stage, _| {
                stage.write("ws/.pinfold/identities/alice/env", "");
            }),
            ("is, or lies behind, a symbolic link", |stage, alice| {
                let to = stage.path("other/alice");
                fs::rename(alice, &to).unwrap();
                symlink(to, alice).unwrap();
            }),
        ];
        for (expected, damage) in cases {
            for mode in ["brokered", "inject"] {
                let stage = stage(user, ".moltnet");
                damage(&stage, &stage.workspace().join(".moltnet/alice"));
                let options = ["--identity-mode", mode];
                let (ok, text) = said(&stage, &stage.workspace(), &options, "echo RAN");
                assert!(!ok && !text.contains("RAN"), "{expected}: {text}");
                assert!(text.contains(expected) && !text.contains(SECRET), "{expected}: {text}");
            }
        }
    }
}

#[test]
fn an_identity_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return pinfold_testkit::skip("another user's identity", "only root gives files away");
    }
    for user in people_with("another user's identity", &["git", "ssh-keygen"]) {
        let stage = stage(user, ".moltnet");
        chown(stage.workspace().join(".moltnet/alice/gitconfig"), Some(65534), None).unwrap();
        let (ok, text) = said(&stage, &stage.workspace(), &[], "echo RAN");
        assert!(!ok && text.contains("belongs to another user"), "{text}");
    }
}
