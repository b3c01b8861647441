//! What an agent keeps from one session to the next.

use std::fs;

use pinfold_testkit::{Stage, people};

/// An agent of the user's own, with a generated file in what it keeps.
const AGENT: &str = "name = \"own\"\ncli_command = \"sh\"\n[state]\npaths = [\".own\"]\n\
                     [[files]]\npath = \".own/deep/er/settings.json\"\ncontent = \"generated\"\n";

#[test]
fn a_session_cannot_keep_its_agent_from_starting_again() {
    let obstacles = [
        "rm -rf ~/.own/deep; ln -s /tmp ~/.own/deep",
        "rm -rf ~/.own/deep; ln -s /nowhere ~/.own/deep",
        "rm -rf ~/.own/deep; echo file >~/.own/deep",
        "rm -rf ~/.own/deep/er; ln -s .. ~/.own/deep/er",
        "rm -rf ~/.own/deep/er/settings.json; mkdir -p ~/.own/deep/er/settings.json/x",
        "chmod 0 ~/.own/deep",
        "chmod 500 ~/.own/deep/er",
        "chmod -R u+rwx ~/.own; rm -rf ~/.own/deep; mkfifo ~/.own/deep",
        "chmod 0 ~/.own",
        "rm -f ~/.own/deep/er/settings.json; ln -s /etc/passwd ~/.own/deep/er/settings.json",
    ];
    for user in people() {
        let stage = Stage::new(user);
        stage.write("home/.config/pinfold/agents/own.toml", AGENT);
        for obstacle in obstacles {
            for script in [obstacle, "cat ~/.own/deep/er/settings.json"] {
                let options = ["run", "--state", "persistent", "own", "--", "-c", script];
                let output = stage.pinfold(&options).output().unwrap();
                let errors = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(0), "{obstacle}: {errors}");
                let shown = String::from_utf8_lossy(&output.stdout);
                assert!(script == obstacle || shown == "generated", "{obstacle}: {shown} {errors}");
            }
        }
        let kept = stage.state().join("agents/own/.own");
        let aside = fs::read_dir(kept).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().contains("pinfold-quarantine")
        });
        assert!(aside.count() >= 4, "what was in the way is kept aside");
    }
}

#[test]
fn an_attended_run_finds_what_the_last_one_in_its_workspace_kept() {
    const KEEP: &str = "cat ~/.own/kept 2>/dev/null || echo nothing; pwd >~/.own/kept";
    for user in people() {
        let stage = Stage::new(user);
        stage.write("home/.config/pinfold/agents/own.toml", AGENT);
        stage.write("other/file", "");
        let run = |options: &[&str], workspace: &str| {
            let mut run = stage.pinfold(&["run"]);
            run.args(options).args(["own", "--", "-c", KEEP]);
            let output = run.current_dir(stage.path(workspace)).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{errors}");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let here = fs::canonicalize(stage.workspace()).unwrap().display().to_string();
        let here_name = stage.workspace();
        let here_name = here_name.file_name().unwrap().to_str().unwrap();
        assert_eq!(run(&[], here_name), "nothing");
        assert_eq!(run(&[], here_name), here);
        assert_eq!(run(&[], "other"), "nothing", "another workspace has its own");
        assert_eq!(run(&["--state", "ephemeral"], here_name), "nothing");
        assert_eq!(run(&["--unattended"], here_name), "nothing", "nobody attends it");
        assert_eq!(run(&["--unattended", "--state", "repository"], here_name), here);
        // Another directory in its place is somebody else's work.
        fs::rename(stage.path("other"), stage.path("aside")).unwrap();
        stage.write("other/file", "");
        stage.own(&stage.path("other"));
        assert_eq!(run(&[], "other"), "nothing");
    }
}
