//! What programs expect of the place that they run in: commands, sockets, engines.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Output;

use pinfold_testkit::{Stage, engine, executable, has_engine, installed, people, skip};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(output: &Output) -> (String, String) {
    (text(&output.stdout), text(&output.stderr))
}

/// Writes a program that says its name.
fn program(stage: &Stage, name: &str) {
    let path = stage.write(name, format!("#!/bin/sh\necho {name}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a shell line with these variables outside.
fn with(stage: &Stage, variables: &[(&str, &str)], options: &[&str], script: &str) -> Output {
    let mut run = stage.pinfold(&["run"]);
    run.args(options).args(["--", "sh", "-c", script]);
    run.envs(variables.iter().copied()).output().unwrap()
}

/// Removes the socket and binds another one at its place.
const BIND_AGAIN: &str = "rm left.sock && perl -MIO::Socket::UNIX -e '
    IO::Socket::UNIX->new(Local => \"left.sock\", Listen => 1) or die \"bind: $!\"; print \"bound\\n\"'";

#[test]
fn a_socket_that_nobody_listens_at_can_be_bound_again() {
    for user in people() {
        for options in [&[][..], &["--workspace", "overlay"]] {
            let stage = Stage::new(user);
            let path = stage.workspace().join("left.sock");
            drop(UnixListener::bind(&path).unwrap());
            stage.own(&path);
            let (said, errors) = shown(&stage.run_shell(options, BIND_AGAIN));
            assert_eq!(said, "bound\n", "{options:?}: {errors}");
            // The second session finds what the first one left.
            let (said, errors) = shown(&stage.run_shell(options, BIND_AGAIN));
            assert_eq!(said, "bound\n", "{options:?}: {errors}");
        }
    }
}

#[test]
fn a_socket_that_somebody_listens_at_stays_masked() {
    for user in people() {
        let stage = Stage::new(user);
        let path = stage.workspace().join("live.sock");
        let listener = UnixListener::bind(&path).unwrap();
        stage.own(&path);
        let script = "rm live.sock 2>&1; perl -MIO::Socket::UNIX -e '
            print IO::Socket::UNIX->new(Peer => \"live.sock\") ? \"open\\n\" : \"closed\\n\"'";
        let (said, errors) = shown(&stage.run_shell(&[], script));
        assert!(said.contains("rm:") && said.ends_with("closed\n"), "{said}{errors}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody has connected");
    }
}

#[test]
fn the_virtual_environment_and_version_that_are_active_outside_count_inside() {
    for user in people() {
        let stage = Stage::new(user);
        let roots = ["ws/.venv", "home/.virtualenvs/app"];
        for root in roots {
            stage.write(&format!("{root}/pyvenv.cfg"), "home = /usr/bin\n");
            program(&stage, &format!("{root}/bin/tool"));
        }
        let node = "home/.nvm/versions/node/v20.11.1/bin";
        program(&stage, &format!("{node}/node"));
        for root in roots {
            let at = |name: &str| stage.path(name).display().to_string();
            let path = format!("{}/bin:{}:/usr/bin:/bin", at(root), at(node));
            let variables = [("PATH", path.as_str()), ("VIRTUAL_ENV", &at(root))];
            let script = "tool; echo $VIRTUAL_ENV; node";
            let (said, errors) = shown(&with(&stage, &variables, &[], script));
            let expected = format!("{root}/bin/tool\n{}\n{node}/node\n", at(root));
            assert_eq!(said, expected, "{errors}");
        }
        // Without it being active nothing of it is there.
        let script = format!("ls {}; command -v tool", stage.path(roots[1]).display());
        assert_eq!(text(&stage.run_shell(&[], &script).stdout), "");
    }
}

#[test]
fn a_directory_that_is_no_virtual_environment_is_not_granted() {
    for user in people() {
        let stage = Stage::new(user);
        program(&stage, "home/private/bin/tool");
        let root = stage.path("home/private").display().to_string();
        let variables = [("PATH", &*format!("{root}/bin:/usr/bin:/bin")), ("VIRTUAL_ENV", &root)];
        let script = format!("ls {root}; command -v tool; echo \"<$VIRTUAL_ENV>\"");
        assert_eq!(text(&with(&stage, &variables, &[], &script).stdout), "<>\n");
    }
}

#[test]
fn a_path_that_the_user_sets_counts() {
    for user in people() {
        let stage = Stage::new(user);
        program(&stage, "readable/tool");
        let readable = stage.path("readable").display().to_string();
        let path = format!("PATH={readable}:/usr/bin:/bin");
        let options = ["--read", &readable, "--env", &path];
        let (said, errors) = shown(&stage.run_shell(&options, "tool; echo $PATH"));
        // The explaining container tools may come before.
        assert!(said.starts_with("readable/tool\n"), "{said}{errors}");
        assert!(said.ends_with(&format!("{readable}:/usr/bin:/bin\n")), "{said}");
        stage.write("ws/sandbox.json", r#"{"env": {"PATH": "/evil"}}"#);
        let (said, errors) = shown(&stage.run_shell(&[], "echo $PATH"));
        assert!(!said.is_empty() && !said.contains("/evil"), "{said}{errors}");
        assert!(errors.contains("env: set PATH to /evil"), "{errors}");
    }
}

#[test]
fn the_hint_for_a_missing_command_names_a_grant_that_works() {
    for user in people() {
        let stage = Stage::new(user);
        program(&stage, "readable/tool");
        let readable = stage.path("readable").display().to_string();
        let path = format!("{readable}:/usr/bin:/bin");
        let run = |options: &[&str]| {
            let mut run = stage.pinfold(&["run"]);
            run.args(options).args(["--", "tool"]).env("PATH", &path).output().unwrap()
        };
        let missing = run(&[]);
        assert_eq!(missing.status.code(), Some(127));
        let grant = format!("grant that with --read {readable}\n");
        assert!(text(&missing.stderr).ends_with(&grant), "{}", text(&missing.stderr));
        assert_eq!(text(&run(&["--read", &readable]).stdout), "readable/tool\n");
        let unknown = stage.run(&[], &["no-such-program"]);
        assert!(text(&unknown.stderr).contains("--env PATH="), "{}", text(&unknown.stderr));
    }
}

#[test]
fn a_nested_pinfold_says_in_one_sentence_that_it_does_not_work() {
    for user in people() {
        let stage = Stage::new(user);
        let own = fs::canonicalize(executable()).unwrap().display().to_string();
        let output = stage.run(&["--read", &own], &[&own, "run", "--", "true"]);
        let (said, errors) = shown(&output);
        assert_eq!((said.as_str(), output.status.code()), ("", Some(125)), "{errors}");
        assert!(errors.contains("cannot start a sandbox inside its own sandbox"), "{errors}");
        assert_eq!(errors.lines().count(), 2, "{errors}");
        let output = stage.run(&["--read", &own], &[&own, "doctor"]);
        let (said, errors) = shown(&output);
        assert_eq!((said.as_str(), output.status.code()), ("", Some(1)), "{errors}");
        assert!(errors.contains("inside its own sandbox"), "{errors}");
    }
}

#[test]
fn options_that_do_nothing_here_are_named() {
    for user in people() {
        let stage = Stage::new(user);
        for (option, value, says) in [
            ("--forward-env", "NOT_SET", Some("NOT_SET is not set here (--forward-env)")),
            ("--forward-env", "PATH", None),
            ("--allow-host", "localhost:1", Some("need --allow-internal-host localhost:1")),
            ("--allow-internal-host", "localhost:1", None),
        ] {
            let output = stage.run(&[option, value], &["true"]);
            let (_, errors) = shown(&output);
            assert_eq!(output.status.code(), Some(0), "{errors}");
            match says {
                Some(says) => assert!(errors.contains(says), "{errors}"),
                None => assert!(!errors.contains("note: "), "{option} {value}: {errors}"),
            }
        }
    }
}

#[test]
fn container_tools_say_in_one_sentence_that_they_do_not_work() {
    const SAYS: &str = "containers do not work in a sandbox";
    let tools: Vec<&str> =
        ["docker", "podman"].into_iter().filter(|tool| has_engine(tool)).collect();
    if tools.is_empty() {
        let test = "container_tools_say_in_one_sentence_that_they_do_not_work";
        return skip(test, "neither docker nor podman is installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        for tool in &tools {
            let output = stage.run(&[], &[tool, "run", "--rm", "alpine", "true"]);
            let (_, errors) = shown(&output);
            assert!(!output.status.success());
            assert_eq!(errors.matches(SAYS).count(), 1, "{tool}: {errors}");
            let elsewhere = format!("DOCKER_HOST=tcp://127.0.0.1:1 {tool} --no-such-option");
            let (_, errors) = shown(&stage.run_shell(&[], &elsewhere));
            assert!(!errors.contains(SAYS), "{tool}: {errors}");
            let (said, errors) = shown(&stage.run(&[], &[tool, "--version"]));
            assert!(!said.is_empty() && errors.is_empty(), "{tool}: {said}{errors}");
        }
    }
}

#[test]
fn tools_of_an_administrator_say_what_to_do_instead() {
    const SAYS: &str = "have packages installed by a snapshot (docs/guides/snapshots.md)";
    for user in people() {
        let stage = Stage::new(user);
        for tool in ["apt-get", "sudo"].into_iter().filter(|tool| installed(tool)) {
            let (_, errors) = shown(&stage.run(&[], &[tool, "--no-such-option"]));
            assert_eq!(errors.matches(SAYS).count(), 1, "{tool}: {errors}");
        }
    }
}

#[test]
fn debians_chromium_starts_without_an_option() {
    let test = "debians_chromium_starts_without_an_option";
    if !installed("chromium") || !Path::new("/etc/chromium.d").exists() || engine().is_some() {
        return skip(test, "Debian's chromium is not installed, or an engine is tried");
    }
    for user in people() {
        let stage = Stage::new(user);
        let options = ["--headless", "--dump-dom", "data:text/html,<p>shown"];
        let output = stage.run(&[], &[&["chromium"][..], &options].concat());
        let (said, errors) = shown(&output);
        assert!(said.contains("<p>shown"), "{said}{errors}");
        // With namespaces of its own it keeps its sandbox.
        let output = stage.run(&["--nested"], &["sh", "-c", "cat /etc/chromium.d/*"]);
        let (said, errors) = shown(&output);
        assert!(
            said.contains("CHROMIUM_FLAGS") && !said.contains("--no-sandbox"),
            "{said}{errors}"
        );
    }
}
