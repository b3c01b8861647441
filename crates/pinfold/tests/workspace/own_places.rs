//! What pinfold reads as its user's word cannot be written from inside, however wide a grant is.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use pinfold_testkit::{Stage, people};

/// An agent of the user's.
const OTHER: &str = "name = \"other\"\ncli_command = \"x\"\n";
/// What a refusal says.
const OWN: &str = "among pinfold's own files";

/// Writes wherever pinfold would read it, and says what it could.
const PLANT: &str = r#"
cd "$1" || exit 9
for directory in .config/pinfold .config/pinfold/agents .config/pinfold/secrets .config/pinfold/images/pi \
    .local/state/pinfold .local/state/pinfold/trust .local/state/pinfold/sessions .local/state/pinfold/review \
    .local/state/pinfold/agents/own .local/state/pinfold/budget .local/state/pinfold/worktrees \
    .cache/pinfold .cache/pinfold/agents .cache/pinfold/bases; do
    mkdir -p "$directory" 2>/dev/null
    for file in config.toml evil.toml approvals.json mount-allowlist.toml; do
        (echo planted >"$directory/$file") 2>/dev/null && echo "$directory/$file"
    done
    ln -s /etc/passwd "$directory/link" 2>/dev/null && echo "$directory/link"
    mv "$directory" "$directory-away" 2>/dev/null && echo "$directory moved"
done
for above in .config .local/state .local .cache; do
    mv "$above" "$above-away" 2>/dev/null && echo "$above moved"
    [ "$above" = .local ] && continue
    mkdir -p "$above/pinfold" && (echo planted >"$above/pinfold/config.toml") && echo "$above again"
done 2>/dev/null
echo mine >mine
"#;

/// Every file below that holds what was planted, and every link.
fn planted(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(planted(&entry.path()));
        } else if kind.is_symlink() || fs::read(entry.path()).is_ok_and(|text| text == b"planted\n")
        {
            found.push(entry.path());
        }
    }
    found
}

/// Runs it, in a home in which pinfold has or has not been before.
fn plant(stage: &Stage, options: &[&str], directory: &Path, command: &[&str]) {
    let home = stage.path("home").display().to_string();
    let mut run = stage.pinfold(&["run"]);
    run.args(options).args(command).arg(&home).current_dir(directory);
    let output = run.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options:?}: {errors}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "", "{options:?}: could be written");
    assert_eq!(planted(&stage.path("home")), Vec::<PathBuf>::new(), "{options:?}");
    assert_eq!(
        fs::read_to_string(stage.path("home/mine")).unwrap(),
        "mine\n",
        "the rest is theirs"
    );
    fs::remove_file(stage.path("home/mine")).unwrap();
    let config = stage.pinfold(&["config"]).output().unwrap();
    assert!(config.status.success(), "{}", String::from_utf8_lossy(&config.stderr));
}

#[test]
fn a_grant_above_pinfolds_own_files_gives_none_of_them_whether_they_are_there_or_not() {
    for user in people() {
        let shell = ["--", "sh", "-c", PLANT, "sh"];
        for is_known in [false, true] {
            let stage = Stage::new(user);
            if is_known {
                stage.write("home/.config/pinfold/agents/other.toml", OTHER);
                assert!(stage.run(&[], &["true"]).status.success());
            }
            let home = stage.path("home").display().to_string();
            plant(&stage, &["--write", &home], &stage.workspace(), &shell);
        }
    }
}

/// The error of a run that is refused.
fn refused(stage: &Stage, options: &[&str], directory: &Path) -> String {
    let mut run = stage.pinfold(&["run"]);
    let output = run.args(options).args(["--", "true"]).current_dir(directory).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{options:?} in {}", directory.display());
    assert!(errors.contains("hint: "), "{errors}");
    errors
}

#[test]
fn pinfolds_own_files_are_refused_as_a_workspace_and_as_a_grant() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("home/.config/pinfold/agents/other.toml", OTHER);
        stage.write("home/.cache/pinfold/agents/known/file", "known");
        assert!(stage.run(&[], &["true"]).status.success());
        let link = stage.path("home/link");
        symlink(stage.path("home/.config/pinfold/agents"), &link).unwrap();
        for name in [
            "home/.config/pinfold",
            "home/.config/pinfold/",
            "home/.config/pinfold/agents",
            "home/.config/../.config/pinfold/agents/../agents",
            "home/link",
            "home/.local/state/pinfold",
            "home/.local/state/pinfold/sessions",
            "home/.cache/pinfold",
            "home/.cache/pinfold/agents/known",
        ] {
            let path = stage.path(name);
            let errors = refused(&stage, &[], &path);
            assert!(errors.contains("the workspace ") && errors.contains(OWN), "{name}: {errors}");
            for option in ["--read", "--write"] {
                let errors = refused(&stage, &[option, path.to_str().unwrap()], &stage.workspace());
                let said = format!("by {option} is {OWN}");
                assert!(errors.contains(&said), "{option} {name}: {errors}");
            }
        }
        let file = stage.path("home/.config/pinfold/agents/other.toml").display().to_string();
        assert!(refused(&stage, &["--read", &file], &stage.workspace()).contains(OWN));
    }
}

/// What stow and chezmoi make: the settings lie in a repository of dotfiles.
#[test]
fn settings_that_lie_elsewhere_behind_a_link_or_under_a_second_name_are_hidden_there() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("home/.config/pinfold/agents/other.toml", OTHER);
        stage.write("home/dot/pf.toml", "# mine\n");
        stage.write("home/dot/later/ours.toml", "");
        symlink(stage.path("home/dot/pf.toml"), stage.path("home/.config/pinfold/config.toml"))
            .unwrap();
        symlink("../../dot/approved.json", stage.path("home/.config/pinfold/approvals.json"))
            .unwrap();
        fs::hard_link(
            stage.path("home/.config/pinfold/agents/other.toml"),
            stage.path("home/dot/later/notes.txt"),
        )
        .unwrap();
        let script = "for name in pf.toml approved.json later/notes.txt; do
                (echo '# in' >>$name) 2>/dev/null && echo $name
                rm -f $name 2>/dev/null && echo $name removed
                mv $name other 2>/dev/null && echo $name moved
            done
            mv later later-away 2>/dev/null && mkdir later && echo x >later/notes.txt
            echo x >mine";
        for mode in ["shared_mount", "overlay"] {
            let mut run = stage.pinfold(&["run", "--workspace", mode, "--", "sh", "-c", script]);
            let output = run.current_dir(stage.path("home/dot")).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{mode}: {errors}");
            let said = String::from_utf8_lossy(&output.stdout);
            // What is missing can be made in a view, and does not come out of it.
            let made =
                if mode == "overlay" { "approved.json\napproved.json removed\n" } else { "" };
            assert_eq!(said, made, "{mode}: could be written");
            let read = |name: &str| fs::read_to_string(stage.path(name)).unwrap();
            assert_eq!(read("home/.config/pinfold/config.toml"), "# mine\n", "{mode}");
            assert_eq!(read("home/.config/pinfold/agents/other.toml"), OTHER, "{mode}");
            assert!(!stage.path("home/dot/approved.json").exists(), "{mode}");
        }
        for name in ["pf.toml", "later/notes.txt"] {
            let mut check = stage.pinfold(&["check", "write", name]);
            let status = check.current_dir(stage.path("home/dot")).status().unwrap();
            assert_eq!(status.code(), Some(1), "{name}: check says what the kernel does");
            let path = stage.path("home/dot").join(name).display().to_string();
            assert!(refused(&stage, &["--write", &path], &stage.workspace()).contains(OWN));
        }
    }
}

/// Another environment is no way to the settings of the next run without it.
#[test]
fn the_default_places_are_pinfolds_own_whatever_the_environment_says() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("home/.config/pinfold/config.toml", "# mine\n");
        stage.write("home/.config/pinfold/secrets/x", "secret");
        let other = stage.write("home/xdg/config/x", "");
        let run = |options: &[&str], directory: &Path| {
            let mut run = stage.pinfold(&["run"]);
            run.env("XDG_CONFIG_HOME", other.parent().unwrap()).current_dir(directory);
            run.args(options).args(["--", "sh", "-c"]);
            run.arg("cat .config/pinfold/secrets/x; echo x >>.config/pinfold/config.toml");
            run.output().unwrap()
        };
        let home = stage.path("home").display().to_string();
        let config = stage.path("home/.config").display().to_string();
        let output = run(&[], &stage.path("home/.config/pinfold"));
        assert_eq!(output.status.code(), Some(125));
        for (directory, option) in [(stage.workspace(), &home), (stage.workspace(), &config)] {
            let mut run = stage.pinfold(&["run", "--write", option, "--", "sh", "-c"]);
            run.env("XDG_CONFIG_HOME", other.parent().unwrap()).current_dir(directory);
            run.arg(format!(
                "cat {config}/pinfold/secrets/x; echo x >>{config}/pinfold/config.toml; true"
            ));
            let output = run.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{option}");
        }
        let read = fs::read_to_string(stage.path("home/.config/pinfold/config.toml")).unwrap();
        assert_eq!(read, "# mine\n");
    }
}

/// A project's environment often has them in the workspace, and programs of the host read them there.
#[test]
fn settings_that_a_variable_has_in_the_workspace_are_protected_there() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/cx/auth.json", "login");
        std::os::unix::fs::symlink("../dot", stage.path("ws/dot")).unwrap();
        let run = |mode: &str, script: &str| {
            let mut run = stage.pinfold(&["run", "--workspace", mode, "--", "sh", "-c", script]);
            run.env("XDG_CONFIG_HOME", stage.workspace().join(".config"));
            run.env("CODEX_HOME", stage.workspace().join("cx"));
            run.env("CARGO_HOME", stage.workspace().join("dot/cargo"));
            run.env("KUBECONFIG", "kube/dev:/nowhere");
            run.output().unwrap()
        };
        let script = "mkdir -p .config/git; echo x >.config/git/config; echo x >cx/config.toml; \
                      mkdir kube; echo x >kube/dev; cat cx/auth.json; rm dot; echo x >.config/mine";
        let planted = [".config/git", "cx/config.toml", "kube/dev"];
        let output = run("shared_mount", script);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "a login is hidden");
        for path in planted {
            assert!(!stage.workspace().join(path).exists(), "{path}: {output:?}");
        }
        assert!(stage.workspace().join("dot").is_symlink(), "{output:?}");
        assert!(stage.workspace().join(".config/mine").exists(), "{output:?}");

        let keys = stage.write("home/keys/pubring.kbx", "");
        let mut read = stage.pinfold(&["run", "--read", keys.to_str().unwrap(), "--", "true"]);
        read.env("GNUPGHOME", keys.parent().unwrap());
        assert_eq!(read.status().unwrap().code(), Some(125), "as for a file of ~/.gnupg");

        let output = run("overlay", script);
        assert!(output.status.success(), "{output:?}");
        // The variables of the session count in any shell.
        let output = stage.pinfold(&["apply"]).output().unwrap();
        for path in planted {
            assert!(!stage.workspace().join(path).exists(), "{path}: {output:?}");
        }
    }
}

/// The kernel follows such a link before it goes up, so that the path leads elsewhere.
#[test]
fn link_in_the_place_of_a_directory_that_a_variable_leaves_by_dots_is_set_aside() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/gen/file", "");
        let script = "rm -r gen; mkdir -p x/y x/cfg/git; ln -s x/y gen; echo x >x/cfg/git/config";
        let mut run = stage.pinfold(&["run", "--", "sh", "-c", script]);
        run.env("XDG_CONFIG_HOME", stage.workspace().join("gen/../cfg"));
        let output = run.output().unwrap();
        assert!(stage.workspace().join("x/cfg/git/config").exists(), "{output:?}");
        assert!(!stage.workspace().join("gen").is_symlink(), "{output:?}");
    }
}

/// A checkout puts them in place.
#[test]
fn commits_of_settings_that_a_variable_has_in_the_workspace_wait() {
    for user in people() {
        let stage = Stage::new(user);
        let git = |args: &[&str]| stage.command("git").args(args).output().unwrap().stdout;
        git(&["init", "-q", "-b", "main"]);
        let script = "git config user.name a; git config user.email b; mkdir -p .config/git; git checkout -q -b side; \
                      git update-index --add --cacheinfo 100644,$(echo x | git hash-object -w --stdin),.config/git/config; \
                      git commit -qm planted";
        let mut run = stage.pinfold(&["run", "--", "sh", "-c", script]);
        run.env("XDG_CONFIG_HOME", stage.workspace().join(".config"));
        let output = run.output().unwrap();
        let listed = git(&["for-each-ref", "--format=%(refname:lstrip=3)"]);
        assert_eq!(String::from_utf8_lossy(&listed), "heads/side\n", "{output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("it brings .config/git/config"), "{errors}");
    }
}

/// The next start may be in a shell without them.
#[test]
fn variables_of_a_killed_session_count_when_its_changes_are_settled() {
    for user in people() {
        let stage = Stage::new(user);
        let script = "mkdir cg; echo x >cg/config.toml; echo ready; read line";
        let mut run = stage.pinfold(&["run", "--", "sh", "-c", script]);
        run.env("CARGO_HOME", stage.workspace().join("cg"));
        let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child.kill().unwrap();
        child.wait().unwrap();
        let output = stage.pinfold(&["run", "--", "true"]).output().unwrap();
        assert!(!stage.workspace().join("cg/config.toml").exists(), "{output:?}");
    }
}

/// Settings that are not there yet are not made by way of a view, either.
#[test]
fn nothing_of_pinfolds_own_comes_out_of_a_view() {
    for user in people() {
        let stage = Stage::new(user);
        let other = stage.write("home/xdg/x", "");
        stage.write("home/.config/nvim/x", "");
        let pinfold = |args: &[&str]| {
            let mut command = stage.pinfold(args);
            command.env("XDG_CONFIG_HOME", other.parent().unwrap());
            command.current_dir(stage.path("home/.config"));
            command.output().unwrap()
        };
        let script = "mkdir pinfold; echo x >pinfold/config.toml; echo x >mine";
        let output = pinfold(&["run", "--workspace", "overlay", "--", "sh", "-c", script]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = pinfold(&["apply"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stage.path("home/.config/mine").exists(), "{errors}");
        assert!(!stage.path("home/.config/pinfold").exists(), "{errors}");
    }
}

/// A part that may be written to, as an agent's kept state is, and a grant of everything above do not go
/// together.
#[test]
fn kept_state_and_a_grant_above_it_do_not_go_together() {
    for user in people() {
        let stage = Stage::new(user);
        let home = stage.path("home").display().to_string();
        stage.write(
            "home/.config/pinfold/agents/own.toml",
            "name = \"own\"\ncli_command = \"sh\"\n[state]\npaths = [\".own\"]\n",
        );
        let options = ["run", "--state", "persistent", "--write", &home, "own", "--", "-c", "true"];
        let output = stage.pinfold(&options).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{errors}");
        assert!(errors.contains("it belongs to pinfold"), "{errors}");
    }
}

#[test]
fn settings_and_state_that_others_can_change_are_not_used() {
    for user in people() {
        let stage = Stage::new(user);
        let config = stage.write("home/.config/pinfold/config.toml", "# mine\n");
        assert!(stage.run(&[], &["true"]).status.success());
        let set_mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let directory = config.parent().unwrap().to_owned();
        for (path, mode) in [
            (config.clone(), 0o644),
            (directory, 0o755),
            (stage.state(), 0o700),
            (stage.path("home/.local"), 0o755),
        ] {
            set_mode(&path, 0o777);
            let errors = refused(&stage, &[], &stage.workspace());
            let hint = format!("hint: chmod go-w {}", path.display());
            assert!(errors.contains(&hint), "{errors}");
            let output = stage.pinfold(&["ps"]).output().unwrap();
            let is_settings = path == config;
            assert_eq!(output.status.success(), is_settings, "{}", path.display());
            set_mode(&path, mode);
        }
        assert!(stage.run(&[], &["true"]).status.success());
    }
}

/// `sudo -E`: root would run the plug-ins and wrappers of the user.
#[test]
fn root_does_not_use_the_settings_of_another_user() {
    let Some(root) = people().into_iter().find(|user| user.is_root()) else { return };
    let stage = Stage::new(root);
    let config = stage.write("home/.config/pinfold/config.toml", "# theirs\n");
    let hint = "sudo -H";
    chown(stage.path("home"), Some(4711), Some(4711)).unwrap();
    assert!(refused(&stage, &[], &stage.workspace()).contains(hint));
    chown(stage.path("home"), Some(0), Some(0)).unwrap();
    chown(&config, Some(4711), Some(4711)).unwrap();
    assert!(refused(&stage, &[], &stage.workspace()).contains(hint));
}

/// Only the directory above keeps others away from files that do not.
#[test]
fn files_of_the_state_are_their_users_alone() {
    for user in people() {
        let stage = Stage::new(user);
        let run =
            ["run", "--detach", "--name", "it", "--workspace", "overlay", "--", "sleep", "60"];
        let output = stage.pinfold(&run).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut open = Vec::new();
        shared_files(&stage.state(), &mut open);
        let stopped = stage.pinfold(&["stop", "it"]).output().unwrap();
        assert!(stopped.status.success());
        assert_eq!(open, Vec::<PathBuf>::new());
    }
}

/// Files and sockets that others may read. What a session itself is shown has the modes that it needs.
fn shared_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let (path, about) = (entry.path(), entry.metadata().unwrap());
        let is_shown = ["git", "layers", "trust"].iter().any(|name| entry.file_name() == **name);
        if about.is_dir() && !is_shown {
            shared_files(&path, found);
        } else if !about.is_dir() && about.permissions().mode() & 0o077 != 0 {
            found.push(path);
        }
    }
}
