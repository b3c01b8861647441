//! The user's own setup of an agent, from inside.

use std::fs;
use std::os::unix::fs::symlink;

use pinfold_testkit::{Stage, people};

const AGENT: &str = r#"
name = "own"
cli_command = "sh"
cli_flags = ["-u"]
[state]
paths = [".own"]
[[files]]
path = ".own/config.toml"
content = "generated = true\n"
[host_directories]
".own" = "OWN_HOME"
[my_config]
read = [".own/AGENTS.md", ".own/skills", ".own/auth.json", ".absent"]
server_env = { SERVERS = "{home}/.own/config.toml" }
[[my_config.servers]]
from = ".own/config.toml"
key = "mcp_servers"
into = ".own/config.toml"
"#;

const CONFIG: &str = r#"
[mcp_servers.docs]
command = "docs-server"
env = { DOCS_TOKEN = "hush-token" }
[mcp_servers.database]
command = "db"
args = ["postgres://me:hush@db/x"]
"#;

fn stage(user: pinfold_testkit::User) -> Stage {
    let stage = Stage::new(user);
    stage.write("home/.config/pinfold/agents/own.toml", AGENT);
    stage.write("home/.own/AGENTS.md", "my instructions");
    stage.write("home/.own/skills/one/SKILL.md", "my skill");
    stage.write("home/.own/config.toml", CONFIG);
    stage.write("home/.aws/credentials", "hush-aws");
    let link = stage.path("home/.own/skills/leak.md");
    symlink(stage.path("home/.aws/credentials"), &link).unwrap();
    stage
}

#[test]
fn the_users_own_setup_comes_in_read_only_and_without_secrets() {
    const LOOK: &str = "cat ~/.own/AGENTS.md ~/.own/skills/one/SKILL.md; cat $SERVERS; ls ~/.own/skills; \
        echo x 2>/dev/null >~/.own/AGENTS.md || echo refused; \
        echo x 2>/dev/null >~/.own/skills/new || echo refused; \
        rm -rf ~/.own/skills 2>/dev/null || echo refused; \
        mkdir -p ~/.own/more && echo made";
    for user in people() {
        let stage = stage(user);
        for state in ["ephemeral", "repository", "repository", "persistent"] {
            let options = ["run", "--my-config", "--state", state, "own", "--", "-c", LOOK];
            let output = stage.pinfold(&options).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{state}: {said}{errors}");
            assert!(said.starts_with("my instructionsmy skill"), "{state}: {said}{errors}");
            assert!(said.contains("generated = true") && said.contains("docs-server"), "{said}");
            assert!(!said.contains("hush") && !said.contains("leak.md"), "{said}");
            assert!(said.ends_with("refused\nrefused\nrefused\nmade\n"), "{state}: {said}");
            let line = errors.lines().find(|line| line.contains("your setup of own")).unwrap();
            for part in [
                ".own/AGENTS.md, .own/skills (1 file), MCP servers docs",
                "leak.md (a secret by its name)",
                "env DOCS_TOKEN of docs",
                "MCP server database",
            ] {
                assert!(line.contains(part), "{line}");
            }
            assert_eq!(errors.matches("your setup of own").count(), 1, "{errors}");
        }
        assert_eq!(
            fs::read_to_string(stage.path("home/.own/AGENTS.md")).unwrap(),
            "my instructions"
        );
        let without = stage.pinfold(&["run", "own", "--", "-c", "ls ~/.own"]).output().unwrap();
        let said = String::from_utf8_lossy(&without.stdout).into_owned();
        assert!(!String::from_utf8_lossy(&without.stderr).contains("your setup"));
        assert!(said.contains("config.toml"), "{said}");
    }
}

#[test]
fn what_a_session_leaves_in_the_way_of_the_setup_is_no_way_out() {
    let obstacles = [
        "rm -rf ~/.own/skills; ln -s /etc ~/.own/skills",
        "rm -f ~/.own/AGENTS.md; ln -s /etc/passwd ~/.own/AGENTS.md",
        "rm -rf ~/.own/AGENTS.md; mkdir -p ~/.own/AGENTS.md/x",
        "rm -rf ~/.own/skills; echo file >~/.own/skills",
        "rm -rf ~/.own/skills; mkfifo ~/.own/skills",
        "chmod 0 ~/.own",
    ];
    for user in people() {
        let stage = stage(user);
        for obstacle in obstacles {
            let options = ["run", "--state", "repository", "own", "--", "-c", obstacle];
            assert!(stage.pinfold(&options).output().unwrap().status.success(), "{obstacle}");
            let look = "cat ~/.own/AGENTS.md ~/.own/skills/one/SKILL.md";
            let options = ["run", "--my-config", "--state", "repository", "own", "--", "-c", look];
            let output = stage.pinfold(&options).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said, "my instructionsmy skill", "{obstacle}: {errors}");
        }
    }
}

#[test]
fn the_setup_is_taken_from_where_the_callers_variable_says() {
    for user in people() {
        let stage = stage(user);
        stage.write("elsewhere/AGENTS.md", "of elsewhere");
        stage.write("ws/setup/AGENTS.md", "of the workspace");
        let run = |directory: &str| {
            let options = ["run", "--my-config", "own", "--", "-c", "cat ~/.own/AGENTS.md"];
            let output = stage.pinfold(&options).env("OWN_HOME", stage.path(directory)).output();
            let output = output.unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        let (code, said, errors) = run("elsewhere");
        assert_eq!((code, said.as_str()), (Some(0), "of elsewhere"), "{errors}");
        assert!(
            errors.contains("your setup of own (OWN_HOME), read-only: .own/AGENTS.md"),
            "{errors}"
        );
        let (code, said, errors) = run("ws/setup");
        assert_eq!((code, said.as_str()), (Some(125), ""), "{errors}");
        assert!(errors.contains("OWN_HOME names "), "{errors}");
    }
}
