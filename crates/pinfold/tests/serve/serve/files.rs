//! Files of the API are those that commands of the session see.

use std::fs;
use std::path::Path;

use pinfold_client::api::ExecStart;
use pinfold_testkit::{Stage, people};

use super::{Served, shell, until};

#[test]
fn files_of_the_host_that_the_session_was_not_given_escape() {
    for user in people() {
        let stage = Stage::new(user);
        fs::write(stage.path("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(stage.path("secret"), stage.path("ws/link")).unwrap();
        stage.write("ws/.env", "KEY=secret\n");
        let served = Served::new(&stage);
        let session = served.start(&[]);
        for path in ["/etc/shadow", "/root/.ssh/id_ed25519", "/srv/a"] {
            let error = served.read(&session, path).unwrap_err().to_string();
            assert_eq!(error, format!("path escapes workspace: {path}"));
        }
        // The sandbox has a /tmp of its own, without the host's files.
        for path in [stage.path("secret").to_str().unwrap(), "link", "../secret"] {
            let error = served.read(&session, path).unwrap_err().to_string();
            assert_eq!(error, format!("no such file or directory: {path}"));
        }
        // Everything else is the kernel's to refuse, as for a command.
        for path in
            ["/proc/1/root/etc/passwd", "/proc/1/mem", "/dev/tty", "/dev/zero", "/run/pinfold"]
        {
            served.read(&session, path).unwrap_err();
        }
        let hidden = served.read(&session, ".env");
        assert!(hidden.is_err() || hidden.is_ok_and(|content| content == "".into()));
        assert!(served.read(&session, "/usr/bin/env").is_ok(), "what is granted is read");
        for path in ["/usr/bin/new", "/usr/bin/env", "/etc/passwd"] {
            let said = served.write(&session, path, "x").unwrap_err().to_string();
            assert!(said.contains("read-only") || said.contains("permission denied"), "{said}");
        }
        assert_eq!(fs::read_to_string(stage.path("secret")).unwrap(), "secret");
        served.end();
    }
}

#[test]
fn files_of_the_api_are_those_of_a_command() {
    for user in people() {
        let stage = Stage::new(user);
        let served = Served::new(&stage);
        let session = served.start(&[]);
        let script = "echo command > /tmp/of-the-api; echo command > ~/a; cat /etc/passwd; echo ~";
        let (_, said) = served.shell(&session, script);
        let (users, home) = said.trim_end().rsplit_once('\n').unwrap();
        for path in ["/tmp/of-the-api", &format!("{home}/a")] {
            assert_eq!(served.read(&session, path).unwrap(), "command\n".into());
            served.write(&session, path, "api\n").unwrap();
            assert_eq!(served.shell(&session, &format!("cat {path}")).1, "api\n");
        }
        assert_eq!(
            served.read(&session, "/etc/passwd").unwrap(),
            format!("{users}\n").as_str().into()
        );
        // What is missing where the session has files of its own is missing, and no escape.
        let missing = served.read(&session, "/tmp/none").unwrap_err().to_string();
        assert_eq!(missing, "no such file or directory: /tmp/none");
        assert!(!Path::new("/tmp/of-the-api").exists(), "nothing of it is on the host");
        served.end();
    }
}

/// A command swaps a link while the API uses it: the API reaches no more than the command.
#[test]
fn a_link_that_a_command_swaps_leads_the_api_to_nothing_of_the_host() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("other/file", "secret");
        let other = stage.path("other");
        let served = Served::new(&stage);
        let session = served.start(&[]);
        let script = format!(
            "mkdir /tmp/own; echo own > /tmp/own/file; while :; do \
             ln -sfn {} d; ln -sfn /proc/1/root{0} d; ln -sfn /tmp/own d; done",
            other.display()
        );
        let program = shell(&script);
        let start = ExecStart { session: session.clone(), program, ..ExecStart::default() };
        let exec = served.client.exec(&start).unwrap();
        until("the command works", || served.read(&session, "d/file").is_ok());
        for _ in 0..300 {
            if let Ok(content) = served.read(&session, "d/file") {
                assert_ne!(content, "secret".into());
            }
            let _ = served.write(&session, "d/file", "own");
            let _ = served.write(&session, "d/new", "own");
        }
        drop(exec);
        served.end();
        assert_eq!(fs::read_to_string(other.join("file")).unwrap(), "secret");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    }
}
