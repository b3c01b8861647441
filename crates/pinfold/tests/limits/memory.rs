//! What pinfold reads of a user's is in no process of the sandbox, the first of which begins as a copy of
//! pinfold's memory.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use pinfold_testkit::memory::{descendants, search_memory};
use pinfold_testkit::{Stage, people, skip};

/// Begins every password below, none of which is written to the sandbox.
const PASSWORD: &str = "hunter2-of-the-user";

/// Files of a user's home and of the repository, with passwords in every place of them.
fn write_passwords(stage: &Stage) {
    let files = [
        (
            "home/.gitconfig",
            "[user]\n name = A\n[url \"https://x:@1@git.example\"]\n insteadOf = at:\n\
             [credential \"https://git.example\"]\n password = \"@2\" ; @3\n[filter \"lfs\"]\n process = @4\n\
             [alias]\n p = \"!curl \\\n -u x:@5\"\n# @6\n",
        ),
        ("home/.config/git/config", "[http]\n proxy = http://x:@7@proxy.example\n"),
        (
            "ws/.git/config",
            "[core]\n repositoryformatversion = 0\n[remote \"origin\"]\n url = https://x:@8@git.example\n\
             [http \"https://git.example/\"]\n extraheader = AUTHORIZATION: basic @9\n",
        ),
        ("home/.netrc", "machine git.example login x password @10\n"),
        ("home/.git-credentials", "https://x:@11@git.example\n"),
        ("home/.config/gh/hosts.yml", "github.com:\n    oauth_token: @12\n"),
        ("home/.npmrc", "//registry.example/:_authToken=@13\n"),
        ("home/.cargo/credentials.toml", "[registry]\ntoken = \"@14\"\n"),
        ("home/.ssh/known_hosts", "git.example ssh-ed25519 @15\n"),
        ("home/.docker/config.json", "{\"auths\":{\"x\":{\"auth\":\"@16\"}}}\n"),
    ];
    for (name, text) in files {
        stage.write(name, text.replace('@', PASSWORD));
    }
}

#[test]
fn no_password_of_a_persons_files_or_variables_is_in_the_insides_memory() {
    if !rustix::process::geteuid().is_root() {
        return skip("the sandbox's memory", "only root reads it");
    }
    for user in people() {
        for mode in [&[][..], &["--workspace", "overlay"]] {
            let stage = Stage::new(user);
            let made = stage.command("git").args(["init", "--quiet"]).status().unwrap();
            assert!(made.success());
            write_passwords(&stage);
            let mut run = stage.pinfold(&["run"]);
            run.args(mode).args(["--", "sh", "-c", "echo ready; read line"]);
            run.env("GITHUB_TOKEN", PASSWORD).env("ANTHROPIC_API_KEY", PASSWORD);
            let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(run.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            let inside = descendants(run.id());
            assert!(inside.len() >= 2, "init and its command: {inside:?}");
            for pid in inside {
                let (searched, found) = search_memory(pid, PASSWORD);
                assert!(searched > 0 && found.is_empty(), "process {pid}: {found:?}");
            }
            // That which reads them has them: the search finds what is there.
            assert!(!search_memory(run.id(), PASSWORD).1.is_empty());
            drop(run.stdin.take());
            run.wait().unwrap();
        }
    }
}
