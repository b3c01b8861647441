//! Sandboxes that add an authority to what the caller's programs trust, by another way than the name of the file.

use std::fs;
use std::path::Path;
use std::process::Command;

use pinfold_testkit::{Stage, User, engine, executable, installed, people, skip};

const MINE: &str = "mine\n";

/// One way in which programs of the caller's come to a file.
struct Way {
    name: &'static str,
    /// What the host has made, in the workspace.
    host: &'static str,
    /// Variables; `@` stands for the workspace.
    variables: &'static [(&'static str, &'static str)],
    /// What the sandbox tries.
    inside: &'static str,
    /// What the host reads afterwards, from the workspace.
    file: &'static str,
}

const WRITE: &str = "echo planted > certs/ca.crt";

const fn way(name: &'static str, host: &'static str, variables: &'static [(&str, &str)]) -> Way {
    Way { name, host, variables, inside: WRITE, file: "certs/ca.crt" }
}

const WAYS: [Way; 18] = [
    way("dots", "true", &[("SSL_CERT_FILE", "@/certs/../certs/ca.crt")]),
    way("dots of a working directory", "true", &[("NODE_EXTRA_CA_CERTS", "../ws/certs/ca.crt")]),
    Way {
        inside: "ln -s certs/sub new; mkdir new; echo planted > certs/ca.crt",
        ..way("dots after what is missing", "true", &[("SSL_CERT_FILE", "@/new/../certs/ca.crt")])
    },
    way(
        "link in a directory",
        "mkdir t; ln -s ../certs/ca.crt t/0a0a0a0a.0",
        &[("SSL_CERT_DIR", "@/t")],
    ),
    way(
        "hard link in a directory",
        "mkdir t; ln certs/ca.crt t/0a0a0a0a.0",
        &[("SSL_CERT_DIR", "@/t")],
    ),
    Way {
        inside: "echo planted > other",
        ..way("other name", "ln certs/ca.crt other", &[("SSL_CERT_FILE", "@/certs/ca.crt")])
    },
    way(
        "name elsewhere",
        "ln certs/ca.crt ../other/ca.crt",
        &[("SSL_CERT_FILE", "@/../other/ca.crt")],
    ),
    way("variable of npm in capitals", "true", &[("NPM_CONFIG_CAFILE", "@/certs/ca.crt")]),
    way("directory of git", "true", &[("GIT_SSL_CAPATH", "@/certs")]),
    way(
        "settings of git in variables",
        "true",
        &[
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "HTTP.sslCAInfo"),
            ("GIT_CONFIG_VALUE_0", "@/certs/ca.crt"),
        ],
    ),
    way(
        "other settings of git",
        "printf '[http]\\nsslCAInfo = %s/certs/ca.crt\\n' \"$PWD\" > ../other/gitconfig",
        &[("GIT_CONFIG_GLOBAL", "@/../other/gitconfig")],
    ),
    way(
        "settings of cargo",
        "mkdir ../home/.cargo; printf '[http]\\ncainfo = \"%s/certs/ca.crt\"\\n' \"$PWD\" > ../home/.cargo/config.toml",
        &[],
    ),
    way("settings of curl", "echo \"cacert = $PWD/certs/ca.crt\" > ../home/.curlrc", &[]),
    way("settings of wget", "echo \"ca_certificate=$PWD/certs/ca.crt\" > ../home/.wgetrc", &[]),
    way(
        "settings of yarn",
        "echo \"httpsCaFilePath: $PWD/certs/ca.crt\" > ../home/.yarnrc.yml",
        &[],
    ),
    Way {
        inside: "echo 'cacert = /planted' >> wget",
        file: "wget",
        ..way("settings of wget by a variable", "echo mine > wget", &[("WGETRC", "@/wget")])
    },
    Way {
        inside: "echo 'cert = /planted' >> pip.ini",
        file: "pip.ini",
        ..way("settings of pip", "echo mine > pip.ini", &[("PIP_CONFIG_FILE", "@/pip.ini")])
    },
    Way {
        inside: "echo 'cafile = /planted' >> dotfiles/npmrc",
        file: "dotfiles/npmrc",
        ..way(
            "settings of npm by a link",
            "mkdir dotfiles; echo mine > dotfiles/npmrc; ln -s \"$PWD/dotfiles/npmrc\" ../home/.npmrc",
            &[],
        )
    },
];

fn host(stage: &Stage, script: &str) {
    let output = stage.command("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

fn with_variables(run: &mut Command, stage: &Stage, variables: &[(&str, &str)]) {
    let workspace = stage.workspace().display().to_string();
    run.envs(variables.iter().map(|(name, value)| (name, value.replace('@', &workspace))));
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn sandbox_adds_no_authority_by_another_way() {
    for user in people() {
        for Way { name, host: made, variables, inside, file } in WAYS {
            let stage = Stage::new(user);
            stage.write("ws/certs/ca.crt", MINE);
            stage.write("ws/certs/sub/x", "");
            host(&stage, made);
            let mut run = stage.pinfold(&["run", "--workspace", "shared_mount"]);
            with_variables(&mut run, &stage, variables);
            let output = run.args(["--", "sh", "-c", &format!("{inside}; true")]).output().unwrap();
            assert!(output.status.success(), "{name}: {output:?}");
            assert_eq!(read(&stage.workspace().join(file)), MINE, "{name}: {output:?}");
            assert!(!stage.workspace().join("new").exists(), "{name}: {output:?}");
        }
    }
}

/// Once a program on the host replaced the file, nothing masks it for a moment; and in a new project nothing ever did.
#[test]
fn authority_that_a_sandbox_puts_where_nothing_is_masked_is_set_aside() {
    for user in people() {
        let stage = Stage::new(user);
        let mut run = stage.pinfold(&["run", "--workspace", "shared_mount"]);
        with_variables(&mut run, &stage, &[("SSL_CERT_FILE", "@/a/ca.crt")]);
        let script = "mkdir -p b; echo planted > b/ca.crt; ln -s b a";
        let output = run.args(["--", "sh", "-c", script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(read(&stage.workspace().join("a/ca.crt")), "", "{output:?}");
        assert_eq!(read(&stage.workspace().join("b/ca.crt")), "", "{output:?}");
    }
}

/// A view takes nothing over by which such a path would lead elsewhere.
#[test]
fn view_brings_no_authority_by_a_link() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/certs/ca.crt", MINE);
        let mut run = stage.pinfold(&["run", "--workspace", "overlay"]);
        with_variables(&mut run, &stage, &[("SSL_CERT_FILE", "@/new/sub/ca.crt")]);
        let script = "mkdir -p x/sub; echo planted > x/sub/ca.crt; ln -s x new";
        let output = run.args(["--", "sh", "-c", script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let applied = stage.pinfold(&["apply"]).output().unwrap();
        assert_eq!(read(&stage.workspace().join("new/sub/ca.crt")), "", "{applied:?}");
        assert_eq!(read(&stage.workspace().join("x/sub/ca.crt")), "planted\n", "{applied:?}");
    }
}

#[test]
fn sandbox_adds_no_authority_to_a_workspace_that_is_mounted_elsewhere() {
    const TEST: &str = "sandbox_adds_no_authority_to_a_workspace_that_is_mounted_elsewhere";
    let user = User::current();
    if !user.is_root() || engine().is_some() {
        return skip(TEST, "it needs root and the boundary namespace");
    }
    let stage = Stage::new(user);
    let file = stage.write("ws/ca.crt", MINE);
    let (workspace, other) = (stage.workspace(), stage.path("other"));
    let script = format!(
        "mount --bind {} {other}; export SSL_CERT_FILE={other}/ca.crt; \
         exec {} run --workspace shared_mount -- sh -c 'echo planted > ca.crt; true'",
        workspace.display(),
        executable(),
        other = other.display(),
    );
    let output = stage.command("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(read(&file), MINE, "{output:?}");
}

/// A commit waits as one does that changes `.envrc`: the next checkout on the host would put the file in its place.
#[test]
fn commit_that_changes_what_the_caller_trusts_waits() {
    if !installed("git") {
        return skip("commit_that_changes_what_the_caller_trusts_waits", "it takes git");
    }
    const PLANT: &str = "b=$(echo planted | git hash-object -w --stdin); \
        git update-index --cacheinfo 100644,$b,certs/ca.crt; git commit -qm planted";
    const REPLACE: &str = "b=$(printf elsewhere | git hash-object -w --stdin); \
        git rm -q --cached certs/ca.crt; git update-index --add --cacheinfo 120000,$b,certs; git commit -qm planted";
    const INCLUDED: &str = "b=$(printf '[core]\\nfsmonitor = touch /tmp/x\\n' | git hash-object -w --stdin); \
        git update-index --cacheinfo 100644,$b,settings; git commit -qm planted";
    for user in people() {
        for (mode, inside) in ["shared_mount", "overlay"]
            .into_iter()
            .flat_map(|mode| [PLANT, REPLACE, INCLUDED].map(|inside| (mode, inside)))
        {
            let stage = Stage::new(user);
            stage.write("ws/certs/ca.crt", MINE);
            stage.write("ws/settings", "");
            host(
                &stage,
                "git init -q -b main; git config user.name T; git config user.email t@example.org; \
                 git config include.path ../settings; git add .; git commit -qm first",
            );
            let mut run = stage.pinfold(&["run", "--workspace", mode]);
            with_variables(&mut run, &stage, &[("SSL_CERT_FILE", "@/certs/ca.crt")]);
            let output = run.args(["--", "sh", "-ec", inside]).output().unwrap();
            assert!(output.status.success(), "{mode}: {output:?}");
            stage.pinfold(&["apply"]).output().unwrap();
            let log = stage.command("git").args(["log", "--format=%s"]).output().unwrap();
            let log = String::from_utf8_lossy(&log.stdout).into_owned();
            assert_eq!(log, "first\n", "{mode}: {inside}: {output:?}");
            host(
                &stage,
                "git rev-parse -q --verify $(git for-each-ref --format='%(refname)' refs/pinfold)",
            );
        }
    }
}
