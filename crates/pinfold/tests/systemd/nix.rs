//! What the NixOS module makes, installed and used.
//!
//! The snapshot is what `packaging/nix/tests/check` compares with the module: this test needs no Nix.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use pinfold_testkit::systemd::{PINFOLD, Systemd, own};
use pinfold_testkit::{User, installed, skip};
use serde_json::Value;

use crate::{failure, nothing_is_left, system, text};

const MADE: &str = include_str!("../../../../packaging/nix/tests/snapshots/m3ta.json");
const PACKAGE: &str = "/nix/store/00000000000000000000000000000000-pinfold";
const AGENT: &str = "/nix/store/11111111111111111111111111111111-pi";
/// Where the commands of the module are on the PATH.
const COMMANDS: &str = "/opt/commands";
/// A program in the place of an agent.
const PI: &str = "#!/bin/sh\necho agent; exec \"$@\"\n";

/// Installs what the module makes for the options of m3ta's, and what a NixOS system has besides.
fn installed_by_the_module(test: &str) -> Option<Systemd> {
    let system = system(test)?;
    let made: Value = serde_json::from_str(MADE).unwrap();
    assert_eq!(made["failed"], Value::Array(Vec::new()));
    let write = |path: &str, content: &str, mode: u32| {
        let path = system.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    write("/etc/pinfold/runner.json", &word(&made["policy"]["text"]), 0o644);
    fs::remove_dir_all(system.path("/etc/systemd/system/pinfold-runner.service.d")).unwrap();
    for (name, unit) in made["units"].as_object().unwrap() {
        write(&format!("/etc/systemd/system/{name}"), &word(unit), 0o644);
    }
    for (name, command) in made["commands"].as_object().unwrap() {
        write(&format!("{COMMANDS}/{name}"), &word(command), 0o755);
    }
    write("/etc/sudoers", &word(&made["sudoers"]), 0o440);
    write(&format!("{AGENT}/bin/pi"), PI, 0o755);
    let store = system.path("/nix/store");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o1775)).unwrap();
    // As sops-nix lays secrets out.
    let secrets = "mkdir -m 751 /run/secrets.d /run/secrets.d/1 && ln -s secrets.d/1 /run/secrets && umask 077 && \
                   echo KEY=from-a-file >/run/secrets/pi.env";
    let place = |from: &str, to: &str| {
        let to = system.path(&format!("{PACKAGE}{to}"));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::hard_link(system.path(from), to).unwrap();
    };
    place(PINFOLD, "/bin/pinfold");
    place("/opt/pinfold-runner", "/libexec/pinfold/pinfold-runner");
    let line = format!(
        "{secrets}; chgrp carol /nix/store; systemctl daemon-reload; systemctl restart pinfold-runner.socket"
    );
    let output = system.shell("root", &line);
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(system)
}

/// Puts a file of alice's configuration where Home Manager puts it: a link to a link into the store.
fn home_manager(system: &Systemd, name: &str, content: &str) {
    let generation = "/nix/store/22222222222222222222222222222222-home-manager-files/.pi/agent";
    let file = format!("/nix/store/33333333333333333333333333333333-{name}");
    fs::write(system.path(&file), content).unwrap();
    fs::set_permissions(system.path(&file), fs::Permissions::from_mode(0o444)).unwrap();
    fs::create_dir_all(system.path(generation)).unwrap();
    symlink(&file, system.path(generation).join(name)).unwrap();
    let home = system.path("/home/alice/.pi/agent");
    fs::create_dir_all(&home).unwrap();
    own(&system.path("/home/alice/.pi"), "alice");
    own(&home, "alice");
    symlink(format!("{generation}/{name}"), home.join(name)).unwrap();
}

#[test]
fn what_the_module_makes_passes_the_verification_of_its_model() {
    let Some(system) = installed_by_the_module("what_the_module_makes_passes") else { return };
    home_manager(&system, "settings.json", r#"{"theme": "own", "model": "m"}"#);
    home_manager(&system, "AGENTS.md", "from the store\n");
    let pi = |user: &str, place: &str, line: &str| {
        let line =
            format!("PATH={COMMANDS}:$PATH; cd {place} && FROM=shell exec pi sh -c '{line}'");
        system.shell(user, &line)
    };
    // An authorised user in an authorised root; synced, managed and environment values arrive.
    let line = "cat ~/.pi/agent/AGENTS.md; tr -d \" \\n\" <~/.pi/agent/settings.json; echo; echo $FROM $KEY; echo x >made";
    let output = pi("alice", "~/work/proj", line);
    let expected =
        "agent\nfrom the store\n{\"model\":\"m\",\"theme\":\"managed\"}\npolicy from-a-file\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    let made = fs::metadata(system.path("/home/alice/work/proj/made")).unwrap();
    assert_eq!(made.uid(), 1000);

    // Outside is denied, and so are those whom the policy does not have, whatever the group is.
    system.project("alice", "/home/alice/elsewhere");
    let said = failure(&pi("alice", "~/elsewhere", "true"));
    assert!(said.contains("/home/alice/elsewhere is in no project of alice"), "{said}");
    system.project("bob", "/home/bob/work/proj");
    let said = failure(&pi("bob", "~/work/proj", "true"));
    assert!(said.contains("has no user bob"), "{said}");

    // The identity is the service user's, and nothing but the state, the project and private directories is written to.
    let mut session = system.as_user("alice");
    let line = format!(
        "PATH={COMMANDS}:$PATH; cd ~/work/proj && exec pi sh -c 'touch runs; exec sleep 1000'"
    );
    let mut session = session.args(["sh", "-c", &line]).spawn().unwrap();
    crate::until("it runs", || system.path("/home/alice/work/proj/runs").exists());
    assert!(system.agents().contains("sleep 1000"), "{}", system.agents());
    // The child of this process only waits for it.
    let _ = system.shell("root", "pkill -KILL --full 'pinfold run'");
    session.wait().unwrap();
    let line = "for d in / /etc /usr /opt /srv /var /run /nix /nix/store /home /home/alice ~ ~/.cache /tmp; do \
                touch $d/written 2>/dev/null && echo $d; done";
    let output = pi("alice", "~/work/proj", line);
    let written = "agent\n/home/agent\n/home/agent/.cache\n/tmp\n";
    assert_eq!(text(&output.stdout), written, "{}", text(&output.stderr));
    let found =
        system.shell("root", "find / -xdev -name written 2>/dev/null; find /var/lib -name written");
    assert_eq!(text(&found.stdout), "/var/lib/pi-agent/users/alice/cache/written\n");

    // The direct binary is on nobody's PATH.
    let found = system.shell(
        "alice",
        &format!("PATH={COMMANDS}:$PATH; command -v pi; find ${{PATH}} 2>/dev/null | grep -c /pi$"),
    );
    assert!(
        text(&found.stdout).starts_with(&format!("{COMMANDS}/pi\n")),
        "{}",
        text(&found.stdout)
    );
    nothing_is_left(&system);
}

/// A client that has sudo start the runner, as a program of a user's own would.
const CLIENT: &str = r#"
import array, os, socket, struct, subprocess, sys
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
put = lambda text: struct.pack("<H", len(text)) + text
project = os.getcwd().encode()
message = b"pinfold-runner 1\n" + put(b"0123456789ab") + bytes(24) + struct.pack("<I", 1) + b"\1" + put(project)
files = [os.open(path, os.O_PATH) for path in (sys.argv[1] + "/bin/pinfold", project)]
ours.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
runner = sys.argv[1] + "/libexec/pinfold/pinfold-runner"
done = subprocess.run(["sudo", "-n", *sys.argv[2:-1], *([runner] if sys.argv[-1] == "runner" else sys.argv[-1:])],
                      stdin=theirs, stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"], "LD_PRELOAD": "/nonexistent"})
theirs.close()
print(done.returncode, ours.recv(100) if done.returncode == 0 else done.stderr.decode().strip().splitlines()[-1])
"#;

#[test]
fn sudo_starts_the_runner_and_nothing_else_for_users_of_the_policy() {
    let test = "sudo_starts_the_runner_and_nothing_else";
    if !installed("sudo") || !installed("python3") {
        return skip(test, "needs sudo and python3");
    }
    let Some(system) = installed_by_the_module(test) else { return };
    let pam = "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n";
    fs::create_dir_all(system.path("/etc/pam.d")).unwrap();
    for name in ["sudo", "other"] {
        fs::write(system.path("/etc/pam.d").join(name), pam).unwrap();
    }
    let host = User::current().command("hostname").output();
    let host = host.map(|output| text(&output.stdout)).unwrap_or_default();
    fs::write(system.path("/etc/hosts"), format!("127.0.0.1 localhost {host}\n")).unwrap();
    fs::write(system.path("/opt/client.py"), CLIENT).unwrap();
    let ask = |user: &str, place: &str, words: &str| {
        let output =
            system.shell(user, &format!("cd {place} && python3 /opt/client.py {PACKAGE} {words}"));
        text(&output.stdout) + &text(&output.stderr)
    };
    assert_eq!(ask("alice", "~/work/proj", "runner").trim(), "0 b'H'");
    nothing_is_left(&system);
    system.project("bob", "/home/bob/work/proj");
    system.project("alice", "/home/alice/elsewhere");
    for (user, place, words) in [
        ("bob", "~/work/proj", "runner"),
        ("alice", "~/work/proj", "sh"),
        ("alice", "~/work/proj", "-E runner"),
        ("alice", "~/work/proj", "-u pi-agent runner"),
        ("alice", "~/work/proj", "LD_PRELOAD=/x runner"),
        ("alice", "~/elsewhere", "runner"),
    ] {
        let said = ask(user, place, words);
        assert!(said.starts_with("1 "), "{user} {place} {words}: {said}");
    }
    assert!(ask("alice", "~/elsewhere", "runner").contains("is in no project of alice"));
    nothing_is_left(&system);
}

#[test]
fn snapshots_are_what_the_module_makes() {
    if !installed("nix-instantiate") || !installed("python3") {
        return skip("snapshots_are_what_the_module_makes", "needs nix-instantiate and python3");
    }
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/nix/tests/check");
    let mut check: Command = User::current().command(check.to_str().unwrap());
    let output = check.output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(
        output.status.success(),
        "{said}\n`packaging/nix/tests/check --write` writes them again"
    );
}
