//! What a session has of the user's configuration and of the administrator's.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use pinfold_testkit::systemd::{Systemd, own};

use crate::{POLICY, failure, nothing_is_left, run, system, text};

/// The policy with more keys.
fn policy(more: &str) -> String {
    POLICY.replacen('{', &format!("{{ {more},"), 1)
}

/// Writes a file of alice's configuration.
fn configure(system: &Systemd, name: &str, content: &str) {
    let base = system.path("/home/alice");
    let path = base.join(".pi/agent").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    let below = path.ancestors().take_while(|above| *above != base);
    below.for_each(|path| own(path, "alice"));
}

#[test]
fn synced_managed_and_environment_values_arrive_in_their_order() {
    let Some(system) = system("synced_managed_and_environment_values_arrive") else { return };
    let root = |name: &str, content: &str| {
        fs::write(system.path(name), content).unwrap();
        fs::set_permissions(system.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    };
    root("/etc/pinfold/first.env", "B=first\nC=first\n");
    root("/etc/pinfold/second.env", "# secret\nC='second of two'\n");
    // As tools that decrypt secrets lay them out.
    symlink("first.env", system.path("/etc/pinfold/link.env")).unwrap();
    system.set_policy(&policy(
        r#""settings": {"theme": "managed", "nested": {"b": 2}}, "environment": {"A": "managed", "B": "managed", "LANG": "C"},
           "environmentFiles": ["/etc/pinfold/link.env", "/etc/pinfold/second.env"]"#,
    ));
    configure(&system, "settings.json", r#"{"theme": "own", "model": "m", "nested": {"a": 1}}"#);
    configure(&system, "agents/review.md", "review\n");
    configure(&system, "auth.json", "SECRET");
    configure(&system, "sessions/other.jsonl", "SECRET");
    let line = "cd ~/.pi/agent; cat agents/review.md; tr -d \" \\n\" <settings.json; echo; echo $A $B $C $LANG $MINE; ls; \
                cat /etc/pinfold/first.env 2>/dev/null";
    let said = system
        .shell("alice", &format!("export A=shell C=shell MINE=shell LANG=x; {}", run("", line)));
    let expected = "review\n{\"model\":\"m\",\"nested\":{\"a\":1,\"b\":2},\"theme\":\"managed\"}\nmanaged first second of two C\n\
                    agents\nsettings.json\n";
    assert_eq!(text(&said.stdout), expected, "{}", text(&said.stderr));
    let note = "left out: auth.json (a secret by its name), sessions (no configuration)";
    assert!(text(&said.stderr).contains(note), "{}", text(&said.stderr));
    // Also for what runs next to the command, and the second time.
    let mut session = crate::waiting(&system, "--name live");
    let output = system.shell("alice", "/opt/pinfold exec live -- sh -c 'echo $A $C'");
    assert_eq!(text(&output.stdout), "managed second of two\n", "{}", text(&output.stderr));
    let _ = system.shell("alice", "/opt/pinfold stop live");
    session.wait().unwrap();
    // What is gone on the host is gone in the next session.
    fs::remove_file(system.path("/home/alice/.pi/agent/agents/review.md")).unwrap();
    let output = system.shell("alice", &run("", "ls ~/.pi/agent"));
    assert_eq!(text(&output.stdout), "settings.json\n");
    nothing_is_left(&system);
}

#[test]
fn hostile_configuration_gives_nothing_and_leaves_the_last_good_one() {
    let Some(system) = system("hostile_configuration_gives_nothing") else { return };
    configure(&system, "AGENTS.md", "good\n");
    let read = || {
        let output = system.shell(
            "alice",
            &run("", "cat ~/.pi/agent/AGENTS.md; find ~/.pi/agent -type f | wc -l"),
        );
        (text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(read().0, "good\n1\n", "{}", read().1);
    let bobs = system.project("bob", "/home/bob/work");
    let line = "cd ~/.pi/agent && ln -s /etc/shadow shadow && ln -s /home/bob/work bobs && ln -s /proc/1/environ environ && \
                mkfifo pipe && ln -s /dev/zero zero && ln -s / root && ln -s ../../../bob bob";
    assert!(system.shell("alice", line).status.success());
    let (said, errors) = read();
    assert_eq!(said, "good\n1\n", "{errors}");
    assert!(errors.contains("left out: bob (a link), bobs (a link)"), "{errors}");
    fs::set_permissions(bobs.join("a.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    for (line, reason) in [
        ("echo worse > AGENTS.md; truncate -s 1G large", "has more than 2000 files, 16 MiB"),
        ("rm large; mkdir many; seq 30000 | (cd many; xargs touch)", "has more than 2000 files"),
        (
            "cd ..; mv agent other; ln -s other agent",
            "is no directory, or is reached through a link",
        ),
        (
            "cd ..; rm agent; ln -s /home/bob/work agent",
            "is no directory, or is reached through a link",
        ),
        ("cd ..; rm agent; mkfifo agent", "is no directory, or is reached through a link"),
    ] {
        let line = format!("cd ~/.pi/agent 2>/dev/null || cd ~/.pi; {line}");
        let output = system.shell("alice", &line.replace("cd ..", "cd ~/.pi"));
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        let (said, errors) = read();
        assert_eq!(said, "good\n1\n", "{line}: {errors}");
        assert!(errors.contains(reason), "{line}: {errors}");
    }
    nothing_is_left(&system);
}

#[test]
fn each_host_user_has_a_directory_of_the_service_users_that_no_other_sees() {
    let Some(system) = system("each_host_user_has_a_directory") else { return };
    system.project("bob", "/home/bob/work/proj");
    let state = || system.live_path("/var/lib/pi-agent/users");
    let line = "echo x >~/.cache/$(id -u)-made; ls ~/.cache; find / -name \"*-made\" 2>/dev/null; \
                cat ~/projects/*/a.txt; ls ~/projects";
    // A session that lives at the same time.
    let mut live = crate::waiting(&system, "");
    for user in ["alice", "bob", "alice"] {
        let output = system.shell(
            user,
            &run("", line)
                .replace("-made;", &format!("-made-{user};").replace(&format!("-{user}"), "")),
        );
        let said = text(&output.stdout);
        let id = if user == "alice" { 1000 } else { 1001 };
        assert!(
            said.starts_with(&format!("{id}-made\n/home/agent/.cache/{id}-made\nhello\nproj-")),
            "{said}{}",
            text(&output.stderr)
        );
        assert_eq!(said.lines().count(), 4, "{said}");
    }
    // The child of this process only waits for it.
    let _ = system.shell("root", "pkill -KILL --full 'pinfold run'");
    live.wait().unwrap();
    for (path, owner, mode) in [
        ("", 0, 0o700),
        ("alice", 990, 0o700),
        ("bob", 991, 0o700),
        ("alice/configuration", 990, 0o600),
    ] {
        let found = fs::metadata(state().join(path)).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (owner, mode), "{path}");
    }
    // What the agent does to its caches keeps nobody from the next session.
    let output = system
        .shell("alice", &run("", "chmod 777 ~/.cache; rm -r ~/.cache/*; ln -s /etc ~/.cache/link"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = system.shell("alice", &run("", "ls ~/.cache"));
    assert_eq!(text(&output.stdout), "link\n", "{}", text(&output.stderr));
    // Somebody else's directory in its place is nobody's.
    for change in [
        "chmod 755 /var/lib/pi-agent/users/alice",
        "chown bob /var/lib/pi-agent/users/alice",
        "rm -r /var/lib/pi-agent/users/alice; ln -s bob /var/lib/pi-agent/users/alice",
        "rm /var/lib/pi-agent/users/alice; touch /var/lib/pi-agent/users/alice",
    ] {
        assert!(system.shell("root", change).status.success());
        let said = failure(&system.shell("alice", &run("", "true")));
        assert!(said.contains("pinfold-runner: /var/lib/pi-agent/users/alice"), "{change}: {said}");
        assert!(said.contains("install -d -m 700 -o pi-agent"), "{change}: {said}");
    }
    nothing_is_left(&system);
}

#[test]
fn limits_of_the_policy_hold_a_session_that_asks_for_more() {
    let Some(system) = system("limits_of_the_policy_hold_a_session") else { return };
    system.set_policy(&policy(r#""memoryMax": 134217728, "tasksMax": 60"#));
    let line = "grep MemTotal /proc/meminfo; grep \"Max processes\" /proc/self/limits | tr -s \" \" | cut -d\" \" -f3";
    for (options, expected) in
        [("--memory 8G --pids 5000", "131072 kB\n28"), ("--memory 64M --pids 20", "65536 kB\n20")]
    {
        let output = system.shell("alice", &run(options, line));
        let said = text(&output.stdout);
        assert!(said.trim_end().ends_with(expected), "{options}: {said}{}", text(&output.stderr));
    }
    nothing_is_left(&system);
}

#[test]
fn homes_behind_an_administrators_link_are_found_and_behind_a_users_are_not() {
    let Some(system) = system("homes_behind_an_administrators_link") else { return };
    let moved = system.shell("root", "mkdir /srv/homes; mv /home/alice /srv/homes/; rmdir /home/bob /home/carol /home; \
                                      ln -s srv/homes /home; mkdir -p /home/bob/work; chown -R bob: /home/bob");
    assert!(moved.status.success(), "{}", text(&moved.stderr));
    configure(&system, "AGENTS.md", "good\n");
    let output = system.shell("alice", &run("", "cat a.txt ~/.pi/agent/AGENTS.md"));
    assert_eq!(text(&output.stdout), "hello\ngood\n", "{}", text(&output.stderr));
    // A link of the user's own leads to no project.
    let line = format!(
        "mv ~/work ~/real; ln -s /home/bob/work ~/work; ln -s ~/real ~/other; {}",
        run("", "true").replace("work/proj", "work")
    );
    let said = failure(&system.shell("alice", &line));
    assert!(said.contains("is in no project of alice") || said.contains("symbolic link"), "{said}");
    nothing_is_left(&system);
}

#[test]
fn files_with_variables_that_others_could_have_written_are_refused() {
    let Some(system) = system("files_with_variables_that_others_could_have_written") else {
        return;
    };
    system.set_policy(&policy(r#""environmentFiles": ["/etc/pinfold/x.env"]"#));
    let said = |change: &str| {
        assert!(system.shell("root", change).status.success(), "{change}");
        failure(&system.shell("alice", &run("", "true")))
    };
    let file = "/etc/pinfold/x.env";
    assert!(said("true").contains("x.env: No such file"));
    assert!(said(&format!("echo A=1 >{file}; chmod 666 {file}")).contains("written to by others"));
    assert!(
        said(&format!("chmod 600 {file}; chown alice {file}")).contains("does not belong to root")
    );
    let link = format!("rm {file}; ln -s /home/alice/x.env {file}; echo A=1 >/home/alice/x.env");
    assert!(said(&link).contains("does not belong to root"));
    let wrong = said(&format!("rm {file}; printf 'A=1\\nSECRET\\n' >{file}; chmod 600 {file}"));
    assert!(wrong.contains("x.env, line 2") && !wrong.contains("SECRET"), "{wrong}");
    nothing_is_left(&system);
}

/// Keys and passwords have all kinds of characters.
#[test]
fn files_with_variables_are_read_as_systemd_reads_them() {
    let Some(system) = system("files_with_variables_are_read_as_systemd") else { return };
    let path = system.path("/etc/pinfold/odd.env");
    fs::write(&path, include_str!("configured/odd.env")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let line =
        "systemd-run --quiet --pipe --wait --property=EnvironmentFile=/etc/pinfold/odd.env env -0";
    let of_systemd = system.shell("root", line);
    assert!(of_systemd.status.success(), "{}", text(&of_systemd.stderr));
    system.set_policy(&policy(r#""environmentFiles": ["/etc/pinfold/odd.env"]"#));
    let of_session = system.shell("alice", &run("", "env -0"));
    assert!(of_session.status.success(), "{}", text(&of_session.stderr));
    let variables = |output: &[u8]| -> Vec<String> {
        let all = text(output);
        let mut all: Vec<String> =
            all.split('\0').filter(|it| it.starts_with("ODD_")).map(str::to_owned).collect();
        all.sort();
        all
    };
    let expected = variables(&of_systemd.stdout);
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(variables(&of_session.stdout), expected);
    nothing_is_left(&system);
}
