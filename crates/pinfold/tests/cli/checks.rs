//! `pinfold check` for hosts, requests, secrets and permissions of files. Paths are in `workspace` and `git_guard`.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::process::Stdio;

use pinfold_testkit::{Stage, User, people};

/// Runs `pinfold check` with these words. Returns its status and what it said.
fn check(stage: &Stage, words: &[&str]) -> (i32, String) {
    let output = stage.pinfold(&[&["check"], words].concat()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn check_answers_for_hosts_requests_and_secrets() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write(
            "home/.config/pinfold/config.toml",
            "[network]\nallow = [\"*.crates.io\"]\n\
             requests = [{ host = \"api.github.com\", methods = [\"GET\"], paths = [\"/repos/me/**\"] }]\n\
             [[secrets]]\nid = \"github\"\nenv = \"GH_TOKEN\"\nhosts = [\"api.github.com\"]\n",
        );
        for (words, status, said) in [
            (&["host", "static.crates.io"][..], 0, "rule      *.crates.io; by"),
            (&["host", "crates.io.evil.example"], 1, "no rule allows crates.io.evil.example"),
            (&["host", "evil.example"], 1, "`pinfold run --allow-host evil.example`"),
            (&["host", "evil.example", "--allow-host", "evil.example"], 0, "by --allow-host"),
            (&["host", "static.crates.io:22"], 1, "no rule allows port 22 of static.crates.io"),
            (&["host", "127.0.0.1:5432"], 1, "--allow-internal-host 127.0.0.1:5432"),
            (&["host", "api.github.com"], 0, "only these requests: api.github.com"),
            (&["host", "api.github.com"], 0, "gets the secret github"),
            (&["host", "api.github.com", "--url-path", "/repos/me/a"], 0, "allowed"),
            (
                &["host", "api.github.com", "--method", "DELETE", "--url-path", "/repos/me/a"],
                1,
                "allows only",
            ),
            (&["host", "api.github.com", "--url-path", "/repos/me/../you"], 1, "denied"),
            (&["host", "me@api.github.com"], 1, "a user name before the host"),
            (&["secret", "github"], 1, "`pinfold secret set github`"),
            (&["secret", "other"], 1, "sessions here have github"),
            (&["read", "a", "--method", "GET"], 1, "are about a host"),
        ] {
            let (code, text) = check(&stage, words);
            assert!(code == status && text.contains(said), "{words:?}: {code}: {text}");
        }
        let mut set =
            stage.pinfold(&["secret", "set", "github"]).stdin(Stdio::piped()).spawn().unwrap();
        set.stdin.take().unwrap().write_all(b"ghp_0123456789abcdefghijABCDEFGHIJ012345\n").unwrap();
        assert!(set.wait().unwrap().success());
        let (code, text) = check(&stage, &["secret", "github"]);
        assert!(code == 0 && text.contains("GH_TOKEN is a placeholder"), "{text}");
        assert!(!text.contains("ghp_"), "the value is not read");
        let (code, text) = check(&stage, &["host", "evil.example", "--json"]);
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, answer["verdict"].as_str()), (1, Some("deny")), "{text}");
    }
}

/// A sandbox of root's has nobody's rights where nothing is shown as its own.
#[test]
fn check_of_a_path_agrees_with_the_permissions_that_the_kernel_looks_at() {
    for user in people() {
        let stage = Stage::new(user);
        let is_root = User::current().is_root();
        let readable = stage.path("readable");
        for (directory, mode) in [("open", 0o755), ("entered", 0o711), ("closed", 0o700)] {
            for (name, file) in [("all", 0o644), ("own", 0o600), ("nobody", 0o000), ("run", 0o755)]
            {
                let path = stage.write(&format!("readable/{directory}/{name}"), "#!/bin/sh\n");
                fs::set_permissions(path, Permissions::from_mode(file)).unwrap();
            }
            let other = stage.write(&format!("readable/{directory}/other"), "");
            fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
            if is_root {
                chown(other, Some(65_533), Some(65_533)).unwrap();
            }
            fs::set_permissions(readable.join(directory), Permissions::from_mode(mode)).unwrap();
        }
        let mut compared = 0;
        for grant in ["readable", "readable/closed", "readable/open"] {
            let grant = stage.path(grant).display().to_string();
            for option in ["--read", "--write"] {
                let files = ["all", "own", "nobody", "run", "other"];
                let files: Vec<String> = ["open", "entered", "closed"]
                    .iter()
                    .flat_map(|directory| files.map(|name| readable.join(directory).join(name)))
                    .filter(|file| file.starts_with(&grant))
                    .map(|file| file.display().to_string())
                    .collect();
                let script = "for file; do test -r $file; echo $?; test -x $file; echo $?; done";
                let tried = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
                let tried: Vec<String> = [tried, files.clone()].concat();
                let tried: Vec<&str> = tried.iter().map(String::as_str).collect();
                let kernel = stage.run(&[option, &grant], &tried).stdout;
                let kernel = String::from_utf8(kernel).unwrap();
                let asked = files.iter().flat_map(|file| [("read", file), ("exec", file)]);
                for ((access, file), status) in asked.zip(kernel.lines()) {
                    let (code, said) = check(&stage, &[access, option, &grant, file]);
                    let shown = format!("uid {}: {option} {grant}: {said}", user.uid);
                    assert_eq!(code.to_string(), status, "{shown}");
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, 100);
    }
}

/// Where the host's directories of programs are links, they are links in the sandbox.
#[test]
fn check_of_a_path_through_links_of_the_system_agrees_with_the_kernel() {
    for user in people() {
        let stage = Stage::new(user);
        symlink("/bin/sh", stage.workspace().join("shell")).unwrap();
        symlink("/lib/../bin", stage.workspace().join("programs")).unwrap();
        let paths = [
            "/bin/sh",
            "/bin/",
            "/sbin/no-such-program",
            "/lib",
            "/bin/../lib/os-release",
            "/etc/os-release",
            "/etc/localtime",
            "/etc/shadow",
            "/nowhere/../bin/sh",
            "shell",
            "programs/sh",
        ];
        let script = "for path; do test -r $path; echo $?; test -w $path; echo $?; done";
        let kernel = stage.run(&[], &[&["sh", "-c", script, "sh"], &paths[..]].concat()).stdout;
        let kernel = String::from_utf8(kernel).unwrap();
        let asked = paths.iter().flat_map(|path| [("read", path), ("write", path)]);
        let mut compared = 0;
        for ((access, path), status) in asked.zip(kernel.lines()) {
            let (code, said) = check(&stage, &[access, path]);
            // What is missing may be read, if it ever is there.
            if !said.contains("not there yet") {
                assert_eq!(code.to_string(), status, "uid {}: {said}", user.uid);
            }
            compared += 1;
        }
        assert_eq!(compared, 2 * paths.len());
    }
}
