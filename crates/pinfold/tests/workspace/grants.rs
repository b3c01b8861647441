//! Grants of directories that hold secrets, or at which sessions have something of their own.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use pinfold_testkit::{Stage, User, engine, executable, people, skip};

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Files with a secret, in a home.
const SECRETS: [&str; 10] = [
    ".config/gh/hosts.yml",
    ".config/containers/auth.json",
    ".config/git/credentials",
    ".cargo/credentials.toml",
    ".local/share/keyrings/login.keyring",
    ".codex/auth.json",
    ".ENV",
    ".envrc",
    ".bash_history",
    ".local/share/fish/fish_history",
];

fn with_secrets(stage: &Stage) {
    for name in SECRETS {
        stage.write(&format!("home/{name}"), "token");
    }
    stage.write("home/.config/nvim/init.lua", "open");
}

/// The name of a secret counts from where it lies, not from where a grant begins.
#[test]
fn secrets_are_hidden_below_every_grant_and_in_every_mode() {
    for user in people() {
        let stage = Stage::new(user);
        with_secrets(&stage);
        let read = SECRETS.map(|name| format!("cat {}", stage.path("home").join(name).display()));
        let script = read.join("; ");
        let grants =
            [".config", ".cargo", ".local", ".local/share", ".codex", ".config/containers", ""];
        for grant in grants {
            let grant = stage.path("home").join(grant).display().to_string();
            for option in ["--read", "--write"] {
                let output = stage.run_shell(&[option, &grant], &script);
                assert_eq!(stdout(&output), "", "{option} {grant}");
            }
        }
        let file = stage.path("home/.config/gh/hosts.yml");
        for grant in ["", ".config", ".config/gh"] {
            let grant = stage.path("home").join(grant).display().to_string();
            let mut check = stage.pinfold(&["check", "read", "--read", &grant]);
            let checked = check.arg(&file).output().unwrap();
            let is_named = grant.ends_with("gh");
            assert_eq!(checked.status.success(), is_named, "--read {grant}");
        }
        let options: [&[&str]; 3] = [&[], &["--unattended"], &["--workspace", "overlay"]];
        for options in options {
            for workspace in ["home/.config", "home/.cargo", "home/.codex"] {
                let mut run = stage.pinfold(&["run"]);
                run.args(options).args(["--", "sh", "-c", &script]);
                let output = run.current_dir(stage.path(workspace)).output().unwrap();
                assert_eq!(stdout(&output), "", "{options:?} in {workspace}");
            }
        }
        let config = stage.path("home/.config").display().to_string();
        let open = format!("cat {config}/nvim/init.lua");
        assert_eq!(stdout(&stage.run_shell(&["--read", &config], &open)), "open");
    }
}

/// Debian's `/root` is closed to others, whose rights a session of root has.
#[test]
fn home_that_is_closed_to_others_can_be_granted_and_hides_the_same() {
    for user in people() {
        let stage = Stage::new(user);
        with_secrets(&stage);
        let note = stage.write("home/docs/note", "mine");
        let history = stage.write("home/.bash_history", "export TOKEN=secret");
        let home = stage.path("home");
        for (path, mode) in [(&note, 0o600), (&history, 0o600), (&home, 0o700)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let workspace = stage.path("home/src/app");
        stage.write("home/src/app/file", "");
        let (note, history, home) = (note.display(), history.display(), home.display().to_string());
        let script =
            format!("cat {note} {history}; echo x >>{note}; echo x >>file && echo written");
        let mut run = stage.pinfold(&["run", "--read", &home, "--", "sh", "-c", &script]);
        let output = run.current_dir(&workspace).output().unwrap();
        assert_eq!(stdout(&output), "minewritten\n", "{}", stderr(&output));
        let metadata = fs::metadata(stage.path("home/docs/note")).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.uid(), metadata.len()), (0o600, user.uid, 4));
    }
}

/// On a hardened machine `/opt` is closed, and nobody has asked for what root alone may read in it.
#[test]
fn directory_of_the_system_that_is_closed_to_others_stays_closed_to_roots_sessions() {
    const TEST: &str =
        "directory_of_the_system_that_is_closed_to_others_stays_closed_to_roots_sessions";
    let user = User::current();
    if !user.is_root() || engine().is_some() {
        return skip(TEST, "it needs root and the boundary namespace");
    }
    let stage = Stage::new(user);
    stage.write("other/key", "token");
    for (name, mode) in [("other/key", 0o600), ("other", 0o750)] {
        fs::set_permissions(stage.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (options, shown) in [("", ""), ("--read /opt", "token")] {
        let script = format!(
            "mount --bind {} /opt; exec {} run {options} -- cat /opt/key",
            stage.path("other").display(),
            executable()
        );
        let mut run = stage.command("unshare");
        let output = run.args(["--mount", "sh", "-c", &script]).output().unwrap();
        assert_eq!(stdout(&output), shown, "{}", stderr(&output));
    }
}

/// Debian has a file `*.pem` for each authority, and links to them by hashes of their names.
#[test]
fn certificates_of_the_system_are_shown_below_a_grant_of_etc() {
    const TEST: &str = "certificates_of_the_system_are_shown_below_a_grant_of_etc";
    let is_link = |path: &PathBuf| path.extension() == Some("pem".as_ref()) && path.is_symlink();
    let found = fs::read_dir("/etc/ssl/certs").into_iter().flatten().flatten();
    let Some(authority) = found.map(|entry| entry.path()).find(is_link) else {
        return skip(TEST, "it needs the authorities of Debian");
    };
    for user in people() {
        let stage = Stage::new(user);
        let script = format!(
            "openssl verify -no-CAfile -CApath /etc/ssl/certs {path} && \
             python3 -c 'import ssl, sys; ssl.create_default_context(cafile=sys.argv[1])' {path}",
            path = authority.display()
        );
        let output = stage.run_shell(&["--read", "/etc"], &script);
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        let mut check = stage.pinfold(&["check", "read", "--read", "/etc"]);
        assert!(check.arg(&authority).output().unwrap().status.success());
    }
}

/// What an administrator puts among the authorities of the system is hidden for its name as elsewhere, unless
/// everything says that it is public.
#[test]
fn keys_among_the_certificates_of_the_system_are_hidden() {
    const TEST: &str = "keys_among_the_certificates_of_the_system_are_hidden";
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
    let user = User::current();
    if !user.is_root() || engine().is_some() {
        return skip(TEST, "it needs root and the boundary namespace");
    }
    let both = [CERTIFICATE, KEY].concat();
    let files: [(&str, &str, u32, u32); 6] = [
        ("public.pem", CERTIFICATE, 0, 0o644),
        ("key.pem", KEY, 0, 0o644),
        ("both.pem", &both, 0, 0o644),
        ("closed.pem", CERTIFICATE, 0, 0o640),
        ("shared.pem", CERTIFICATE, 0, 0o664),
        ("others.pem", CERTIFICATE, 1234, 0o644),
    ];
    let stage = Stage::new(user);
    for (name, content, owner, mode) in files {
        let path = stage.write(&format!("certs/{name}"), content);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(owner), None).unwrap();
    }
    // A link to what lies elsewhere.
    let elsewhere = stage.write("etc/elsewhere.pem", CERTIFICATE);
    symlink(&elsewhere, stage.path("certs/link.pem")).unwrap();
    fs::set_permissions(stage.path("certs"), fs::Permissions::from_mode(0o755)).unwrap();
    let inside = |command: &str| {
        let certs = stage.path("certs");
        let script = format!("mount --bind {} /etc/ssl/certs; exec {command}", certs.display());
        stage.command("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap()
    };
    let run = format!(
        "{} run --read /etc -- sh -c 'cd /etc/ssl/certs; find . -size +0 -name \"*.pem\" -type f'",
        executable()
    );
    let output = inside(&run);
    assert_eq!(stdout(&output), "./public.pem\n", "{}", stderr(&output));
    for (name, is_shown) in [("public", true), ("key", false), ("both", false), ("shared", false)] {
        let path = format!("/etc/ssl/certs/{name}.pem");
        let checked = inside(&format!("{} check read --read /etc {path}", executable()));
        assert_eq!(checked.status.success(), is_shown, "{name}: {}", stdout(&checked));
        assert_eq!(stdout(&checked).contains("public certificates"), is_shown, "{name}");
    }
}

/// What a tool of the host runs is not changed by granting its own directory.
#[test]
fn files_that_the_host_runs_in_a_home_are_read_only_in_every_part_of_it() {
    for user in people() {
        let stage = Stage::new(user);
        stage.write("home/.cargo/config.toml", "# mine\n");
        stage.write("home/.cargo/registry/x", "");
        let cargo = stage.path("home/.cargo").display().to_string();
        let script = format!("echo x >>{cargo}/config.toml; echo x >{cargo}/registry/x");
        let output = stage.run_shell(&["--write", &cargo], &script);
        assert!(output.status.success(), "{}", stderr(&output));
        let read = |name: &str| fs::read_to_string(stage.path(name)).unwrap();
        assert_eq!(read("home/.cargo/config.toml"), "# mine\n");
        assert_eq!(read("home/.cargo/registry/x"), "x\n");
    }
}

#[test]
fn directories_of_keys_are_refused_unless_they_are_opted_in() {
    for user in people() {
        let stage = Stage::new(user);
        for (name, opt_in) in [
            (".ssh", "user-keys"),
            (".gnupg", "user-keys"),
            (".aws", "service-credentials"),
            (".kube", "service-credentials"),
        ] {
            stage.write(&format!("home/{name}/below/config"), "shown");
            for part in ["", "below"] {
                let place = stage.path("home").join(name).join(part);
                let shown = place.display().to_string();
                let mut here = stage.pinfold(&["run", "--", "true"]);
                let here = here.current_dir(&place).output().unwrap();
                let granted =
                    ["--read", "--write"].map(|option| stage.run(&[option, &shown], &["true"]));
                for output in [here].iter().chain(&granted) {
                    assert_eq!(output.status.code(), Some(125), "{shown}");
                    let hint = format!("--opt-in {opt_in}");
                    assert!(stderr(output).contains(&hint), "{}", stderr(output));
                }
            }
            let file = stage.path("home").join(name).join("below/config").display().to_string();
            let options = ["--read", &file, "--opt-in", opt_in];
            assert_eq!(stdout(&stage.run(&options, &["cat", &file])), "shown", "{file}");
        }
    }
}

/// A file with an ordinary name in such a directory stays readable for its owner, and its name is
/// compared as file systems do that fold case.
#[test]
fn an_envrc_that_git_has_is_shown_and_cannot_be_changed() {
    for user in people() {
        let stage = Stage::new(user);
        let git = |args: &[&str]| {
            let mut git = stage.command("git");
            git.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(args);
            assert!(git.output().unwrap().status.success(), "{args:?}");
        };
        stage.write("ws/.envrc", "use flake\n");
        stage.write("ws/sub/.envrc", "export KEY=1\n");
        git(&["init", "-q"]);
        git(&["add", ".envrc"]);
        git(&["commit", "-qm", "x"]);
        let script = "cat .envrc; cat sub/.envrc; echo x >>.envrc; mv sub away; echo x >sub/.envrc";
        assert_eq!(stdout(&stage.run_shell(&[], script)), "use flake\n");
        let read = |name: &str| fs::read_to_string(stage.path(name)).unwrap();
        assert_eq!(read("ws/.envrc"), "use flake\n");
        assert_eq!(read("ws/sub/.envrc"), "export KEY=1\n");
    }
}

#[test]
fn a_grant_at_which_sessions_have_their_own_is_refused_in_one_sentence_or_works() {
    for user in people() {
        let stage = Stage::new(user);
        for path in
            ["/", "/run", "/proc", "/proc/self", "/dev", "/home", "/etc/passwd", "/etc/hosts"]
        {
            for option in ["--read", "--write"] {
                let output = stage.run(&[option, path], &["true"]);
                let errors = stderr(&output);
                assert_eq!(output.status.code(), Some(125), "{option} {path}: {errors}");
                assert!(errors.starts_with("error: cannot use the grant of "), "{path}: {errors}");
                assert!(errors.contains("hint: "), "{path}: {errors}");
            }
        }
        let script = "cat /etc/passwd /etc/hosts; test -e /etc/localtime";
        let output = stage.run_shell(&["--read", "/etc"], script);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains("agent:x:") && text.contains("localhost pinfold"), "{text}");
    }
}

#[test]
fn check_says_what_the_kernel_does_with_files_that_describe_the_session() {
    for user in people() {
        let stage = Stage::new(user);
        for name in ["passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf"] {
            let path = format!("/etc/{name}");
            for (access, script) in
                [("read", format!("cat {path}")), ("write", format!("echo x >>{path}"))]
            {
                let checked = stage.pinfold(&["check", access, &path]).output().unwrap();
                let done = stage.run_shell(&[], &script);
                let is_allowed = checked.status.code() == Some(0);
                assert_eq!(is_allowed, done.status.success(), "{access} {path}");
                assert!(!stdout(&checked).contains("--read"), "{}", stdout(&checked));
            }
        }
    }
}

#[test]
fn check_says_what_the_kernel_does_with_what_a_sandbox_has_of_its_own() {
    for user in people() {
        let stage = Stage::new(user);
        std::os::unix::fs::symlink("/dev/null", stage.workspace().join("link")).unwrap();
        for path in [
            "/dev/null",
            "/dev/full",
            "/dev/fd",
            "/dev/sda",
            "/proc/1/status",
            "/sys/kernel",
            "/sys/fs/cgroup/memory.max",
            "link",
        ] {
            let checked = stage.pinfold(&["check", "read", path]).output().unwrap();
            let done = stage.run_shell(&[], &format!("test -r {path}"));
            let is_allowed = checked.status.code() == Some(0);
            assert_eq!(is_allowed, done.status.success(), "{path}: {}", stdout(&checked));
            assert!(!stdout(&checked).contains("--read"), "{}", stdout(&checked));
        }
        let written = stage.run_shell(&[], "echo x >/dev/null && echo x >/tmp/x");
        assert!(written.status.success());
        for path in ["/dev/null", "/tmp/x"] {
            let checked = stage.pinfold(&["check", "write", path]).output().unwrap();
            assert!(checked.status.success(), "{}", stdout(&checked));
        }
    }
}

/// A home that is called as it is inside: there agents' settings would land in the user's own.
const AGENT: &str = r#"
set -eu
mount -t tmpfs -o mode=755 none /home
mkdir -p /home/agent/ws /home/agent/.codex /home/agent/.config/pinfold/agents /home/agent/bare/sub
cd /home/agent
cat >.config/pinfold/agents/mine.toml <<'END'
name = "mine"
cli_command = "sh"
[[files]]
path = ".codex/config.toml"
mode = "0600"
content = "of the session"
[[files]]
path = ".codex/sub/more.toml"
mode = "0600"
content = "more"
END
cat >.config/pinfold/agents/bare.toml <<'END'
name = "bare"
cli_command = "sh"
[[files]]
path = "bare/sub/config.toml"
content = "of the session"
END
echo mine >.codex/config.toml
chown -R "$1:$1" /home/agent
cd ws
exec setpriv --reuid "$1" --regid "$1" --clear-groups env HOME=/home/agent sh -euc "$3" "$2" "$2"
"#;

/// Everything in the home but what is pinfold's.
const TRIALS: &str = r#"
pinfold=$1
state() { (cd /home/agent && find . -path '*pinfold*' -o -printf '%p %s %m
' | sort
    cat .codex/config.toml); }
git init -q .
"$pinfold" run -- true
before=$(state)
same() { after=$(state); [ "$before" = "$after" ] || { echo "changed by: $1"; echo "$after"; exit 1; }; }
"$pinfold" run --write ~/.codex mine -- -c 'cat ~/.codex/config.toml ~/.codex/sub/more.toml
    echo x >>~/.codex/config.toml; rm -f ~/.codex/config.toml; true'
same "--write ~/.codex"
mkdir -p ~/.codex/sub && touch ~/.codex/sub/more.toml && before=$(state)
"$pinfold" run --read ~/.codex mine -- -c 'cat ~/.codex/config.toml ~/.codex/sub/more.toml'
same "--read ~/.codex"
(cd ~/.codex && "$pinfold" run mine -- -c 'cat config.toml')
same "in ~/.codex"
(cd ~/.codex && "$pinfold" run --workspace overlay mine -- -c 'cat config.toml; echo x >>config.toml')
same "a view of ~/.codex"
"$pinfold" run --write ~/bare bare -- -c 'cat ~/bare/sub/config.toml'
same "--write of a directory without the file"
"$pinfold" run --read ~/bare bare -- -c true && { echo "not refused"; exit 1; }
same "--read of a directory without the file"
"$pinfold" run --write ~/.config -- true
(cd ~/.config && "$pinfold" run -- sh -c 'git config core.excludesFile')
same "~/.config"
for option in --read --write; do
    "$pinfold" run $option ~ -- true
    same "$option ~"
done
"#;

#[test]
fn files_of_a_session_never_land_in_what_is_granted() {
    if !people().iter().any(|user| user.is_root()) {
        return skip("files_of_a_session", "only root can mount another /home");
    }
    let pinfold = executable();
    for user in people() {
        let stage = Stage::new(user);
        let mut unshare = people()[0].command("unshare");
        unshare.args(["-m", "sh", "-c", AGENT, "sh", &user.uid.to_string()]);
        unshare.arg(Path::new(&pinfold)).arg(TRIALS);
        let output = unshare.current_dir(stage.base()).output().unwrap();
        let (text, errors) = (stdout(&output), stderr(&output));
        assert!(output.status.success(), "{text}\n{errors}");
        assert_eq!(text.matches("of the session").count(), 5, "{text}\n{errors}");
        assert_eq!(text.matches("more").count(), 2, "{text}\n{errors}");
        assert!(text.contains("/run/pinfold/generated/gitignore"), "{text}");
        assert!(errors.contains("there is no file to mount it over"), "{errors}");
    }
}

/// What a build runs may be changed, and is named at the end.
#[test]
fn changes_of_what_a_build_runs_are_named_at_the_end() {
    for user in people() {
        let stage = Stage::new(user);
        for name in ["Makefile", "package.json", "node_modules/x/package.json", "src/main.rs"] {
            stage.write(&format!("ws/{name}"), "old");
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        let quiet = stage.run_shell(&[], "cat Makefile; echo x >src/main.rs; rm package.json");
        assert!(!stderr(&quiet).contains("your tools run it"), "{}", stderr(&quiet));
        let script = "echo x >Makefile; mkdir -p sub/.cargo; echo x >sub/.cargo/config.toml
            echo x >CLAUDE.md; mkdir node_modules/.bin; echo x >node_modules/x/package.json";
        let output = stage.run_shell(&[], script);
        let note = "pinfold: changed, and your tools run it: CLAUDE.md, Makefile, \
                    node_modules/.bin, sub/.cargo/config.toml\n";
        assert!(stderr(&output).contains(note), "{}", stderr(&output));
    }
}

#[test]
fn devices_are_refused_by_name() {
    for user in people() {
        let stage = Stage::new(user);
        for option in ["--read", "--write"] {
            for device in ["/dev/null", "/dev/random", "/dev/tty"] {
                let output = stage.run(&[option, device], &["true"]);
                assert_eq!(output.status.code(), Some(125), "{option} {device}");
                let says = format!("cannot use the grant of {device}");
                let errors = stderr(&output);
                assert!(errors.contains(&says) && errors.contains("character device"), "{errors}");
            }
        }
    }
}
