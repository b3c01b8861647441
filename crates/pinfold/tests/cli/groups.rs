//! What the sessions of a group see, and what they never do.

mod mounts;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::process::{Output, Stdio};

use pinfold_testkit::{Stage, people};

const SETTINGS: &str = r#"
[group_home]
root = "~/assistant"
scripts = "~/assistant/container/scripts"
runner = "~/assistant/container/src"
env = ["CHANNEL"]
[groups.main]
trust = "admin"
[[groups.main.mounts]]
host_path = "~/projects/notes"
readonly = false
[groups.dev]
repo_access = "~/checkout"
[[groups.dev.mounts]]
host_path = "~/projects/notes"
container_path = "team/notes"
readonly = false
[[groups.dev.mounts]]
host_path = "~/docs"
readonly = false
"#;

const ALLOWLIST: &str = r#"
non_admin_read_only = true
blocked_patterns = ["password"]
[[allowed_roots]]
path = "~/projects"
allow_read_write = true
description = "Development projects"
[[allowed_roots]]
path = "~/docs"
"#;

/// Every path of the table, and what may be done there: by its content for what holds a mark.
const LOOK: &str = r#"
for path in /workspace/group /home/agent/.claude /workspace/scripts /app/src /workspace/ipc \
    /workspace/env-dir/env /workspace/project/config.toml /workspace/project \
    /workspace/extra/notes /workspace/extra/team/notes /workspace/extra/docs; do
    access=none mark=
    if [ -d "$path" ]; then
        mark=$(cat "$path/mark" 2>/dev/null)
        if (: >"$path/made") 2>/dev/null; then access=rw; else access=ro; fi
    elif [ -e "$path" ]; then
        mark=$(cat "$path")
        if (: >>"$path") 2>/dev/null; then access=rw; else access=ro; fi
    fi
    echo "$path $access $mark"
done
echo "CHANNEL ${CHANNEL-none} ${HIDDEN-none}"
"#;

fn scene(stage: &Stage) {
    stage.write("home/.config/pinfold/config.toml", SETTINGS);
    stage.write("home/.config/pinfold/mount-allowlist.toml", ALLOWLIST);
    for group in ["main", "dev"] {
        stage.write(&format!("home/assistant/groups/{group}/mark"), group);
        stage.write(&format!("home/assistant/data/sessions/{group}/.claude/mark"), group);
        stage.write(&format!("home/assistant/data/ipc/{group}/mark"), group);
        let env = format!("CHANNEL='{group}'\nHIDDEN=secret-{group}\n");
        stage.write(&format!("home/assistant/data/env/{group}/env"), env);
    }
    for (file, mark) in [
        ("assistant/container/scripts/mark", "scripts"),
        ("assistant/container/src/mark", "runner"),
        ("assistant/config.toml", "[secrets]"),
        ("checkout/mark", "checkout"),
        ("projects/notes/mark", "notes"),
        ("docs/mark", "docs"),
    ] {
        stage.write(&format!("home/{file}"), mark);
    }
}

fn run(stage: &Stage, group: &str, script: &str) -> Output {
    stage.run_shell(&["--group", group], script)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn refused(stage: &Stage, group: &str) -> String {
    let output = run(stage, group, "echo ran");
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(output.stdout.is_empty());
    said(&output)
}

/// What a group's session shows.
fn shown(stage: &Stage, group: &str, script: &str) -> String {
    let output = run(stage, group, script);
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn two_groups_that_run_together_have_their_own_places_and_not_each_others() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        let script = format!("echo ready; read -r go; {LOOK}");
        let start = |group: &str| {
            let args = ["run", "--group", group, "--", "sh", "-c", &script];
            let mut run = stage.pinfold(&args);
            run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = run.spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            if line != "ready\n" {
                let mut error = String::new();
                child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
                panic!("{group}: {error}");
            }
            (child, output)
        };
        let mut both = [start("main"), start("dev")];
        let [main, dev] = both.each_mut().map(|(child, output)| {
            child.stdin.take().unwrap().write_all(b"go\n").unwrap();
            let mut shown = String::new();
            output.read_to_string(&mut shown).unwrap();
            assert!(child.wait().unwrap().success());
            shown
        });
        let expected = "/workspace/group rw main\n/home/agent/.claude rw main\n\
                        /workspace/scripts ro scripts\n/app/src ro runner\n/workspace/ipc rw main\n\
                        /workspace/env-dir/env ro CHANNEL='main'\n\
                        /workspace/project/config.toml rw [secrets]\n/workspace/project ro \n\
                        /workspace/extra/notes rw notes\n/workspace/extra/team/notes none \n\
                        /workspace/extra/docs none \nCHANNEL main none\n";
        assert_eq!(main, expected, "as {}", user.uid);
        let expected = "/workspace/group rw dev\n/home/agent/.claude rw dev\n\
                        /workspace/scripts ro scripts\n/app/src ro runner\n/workspace/ipc rw dev\n\
                        /workspace/env-dir/env ro CHANNEL='dev'\n\
                        /workspace/project/config.toml none \n/workspace/project rw checkout\n\
                        /workspace/extra/notes none \n/workspace/extra/team/notes ro notes\n\
                        /workspace/extra/docs ro docs\nCHANNEL dev none\n";
        assert_eq!(dev, expected, "as {}", user.uid);
        // Nothing of the other's, nor of what groups share, is anywhere else inside.
        let everywhere = "grep -rlsE 'secret-|^main$' / --include=env --include=mark 2>/dev/null \
                          | grep -v ^/proc; echo end";
        assert_eq!(shown(&stage, "dev", everywhere), "end\n");
        // What was written is the group's, on the host.
        assert!(stage.path("home/assistant/groups/dev/made").exists());
        assert!(stage.path("home/checkout/made").exists());
        assert!(!stage.path("home/docs/made").exists());
    }
}

#[test]
fn a_group_that_is_new_gets_directories_and_nothing_else() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        let look = shown(&stage, "fresh", LOOK);
        assert!(look.starts_with("/workspace/group rw \n/home/agent/.claude rw \n"), "{look}");
        assert!(look.contains("/workspace/env-dir/env none"), "{look}");
        assert!(look.contains("/workspace/project none"), "{look}");
        assert!(look.ends_with("CHANNEL none none\n"), "{look}");
        // Without a group, and with a group that has no files, nothing is there.
        for options in [&[][..], &["--group", "main"]] {
            if !options.is_empty() {
                stage.write(
                    "home/.config/pinfold/config.toml",
                    "[groups.main]\ntrust = \"admin\"\n",
                );
            }
            let output = stage.run_shell(options, "ls -d /workspace /app");
            assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn no_group_has_another_groups_folder() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        let config = |from: &str, to: &str| {
            assert!(SETTINGS.contains(from));
            stage.write("home/.config/pinfold/config.toml", SETTINGS.replacen(from, to, 1));
        };
        config("repo_access =", "folder = \"main\"\nrepo_access =");
        for group in ["dev", "main"] {
            let error = refused(&stage, group);
            assert!(error.contains("would have the files of group"), "{error}");
        }
        config("repo_access =", "folder = \"other\"\nrepo_access =");
        assert!(refused(&stage, "other").contains("group other would have the files of group dev"));
        // By a worktree, a grant, or the directory that the session works in.
        let shows = "which groups do not share";
        for place in [
            "~/assistant/groups/main",
            "~/assistant",
            "~/assistant/data",
            "~/assistant/data/env/main",
        ] {
            config("~/checkout", place);
            let error = refused(&stage, "dev");
            assert!(error.contains(shows), "{place}: {error}");
        }
        config("~/checkout", "~/checkout");
        let root = stage.path("home/assistant");
        for option in ["--read", "--write"] {
            let path = root.join("groups").display().to_string();
            let output = stage.run_shell(&["--group", "dev", option, &path], "echo ran");
            assert!(said(&output).contains(shows), "{}", said(&output));
        }
        for place in ["", "groups/main", "data"] {
            let mut run = stage.pinfold(&["run", "--group", "dev", "--", "echo", "ran"]);
            let output = run.current_dir(root.join(place)).output().unwrap();
            assert!(said(&output).contains(shows), "{place}: {}", said(&output));
        }
        let mut own = stage.pinfold(&["run", "--group", "dev", "--", "cat", "mark"]);
        let output = own.current_dir(root.join("groups/dev")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "dev", "{}", said(&output));
        // By a link where its own directory would be.
        for place in ["groups/dev", "data/ipc/dev", "data/sessions/dev", "data/env/dev"] {
            let (own, kept) = (root.join(place), root.join("kept"));
            fs::rename(&own, &kept).unwrap();
            symlink("main", &own).unwrap();
            let error = refused(&stage, "dev");
            assert!(
                error.contains("is not a directory of the group's own")
                    || error.contains("for a group"),
                "{place}: {error}"
            );
            fs::remove_file(&own).unwrap();
            fs::rename(&kept, &own).unwrap();
        }
    }
}

#[test]
fn git_works_on_the_worktree_of_a_group_and_its_config_leaves_nothing_there() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        let git = |directory: &str, args: &[&str]| {
            let mut git = stage.command("git");
            git.arg("-C").arg(stage.path(directory)).args([
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
            ]);
            let output = git.args(args).output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
            String::from_utf8(output.stdout).unwrap()
        };
        stage.write("home/repo/file", "x");
        git("home/repo", &["init", "--quiet"]);
        git("home/repo", &["add", "file"]);
        git("home/repo", &["commit", "--quiet", "--message", "first"]);
        git("home/repo", &["worktree", "add", "--quiet", "../tree"]);
        let settings = SETTINGS.replace("~/checkout", "~/tree");
        let settings = settings.replace("[groups.dev]", "[groups.dev]\ntrust = \"admin\"");
        stage.write("home/.config/pinfold/config.toml", settings);
        let before = fs::read_dir(stage.path("home/tree")).unwrap().count();
        let script = "cd /workspace/project && git -c user.name=a -c user.email=a@b commit \
                      --quiet --allow-empty --message \"$0\"; ls config.toml 2>&1";
        let command = ["sh", "-c", script, "made"];
        let output = stage.run(&["--group", "dev"], &command);
        assert!(
            said(&output).contains("the worktree has none to show it over"),
            "{}",
            said(&output)
        );
        assert!(git("home/tree", &["log", "--format=%s"]).starts_with("made"), "{}", said(&output));
        assert_eq!(fs::read_dir(stage.path("home/tree")).unwrap().count(), before);
        // One that is there is covered.
        stage.write("home/tree/config.toml", "the repository's");
        let output = stage.run(&["--group", "dev"], &["cat", "/workspace/project/config.toml"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "[secrets]");
    }
}

#[test]
fn check_says_what_would_be_allowed_without_making_anything() {
    for user in people() {
        let stage = Stage::new(user);
        scene(&stage);
        let check = |group: &str, access: &str, path: &str| {
            let args = ["check", access, path, "--group", group];
            stage.pinfold(&args).output().unwrap().status.success()
        };
        assert!(check("dev", "write", "/workspace/group/x"));
        assert!(check("dev", "read", "/workspace/extra/docs/mark"));
        assert!(!check("dev", "write", "/workspace/extra/docs/mark"));
        assert!(!check("main", "read", "/workspace/extra/docs/mark"));
        assert!(check("main", "write", "/workspace/project/config.toml"));
        assert!(!check("fresh", "read", "/workspace/project/config.toml"));
        assert!(!check("fresh", "read", "/workspace/group/x"));
        assert!(!stage.path("home/assistant/groups/fresh").exists());
    }
}
