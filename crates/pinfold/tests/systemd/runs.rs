//! Sessions that are allowed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use pinfold_testkit::systemd::own;

use crate::{failure, nothing_is_left, run, system, text, until, waiting};

#[test]
fn session_writes_the_users_own_files_and_has_its_status() {
    let Some(system) = system("session_writes_the_users_own_files_and_has_its_status") else {
        return;
    };
    let project = system.path("/home/alice/work/proj");
    // What an editor keeps to its owner is the sandbox's to use as well.
    fs::set_permissions(project.join("a.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    let line = "cat a.txt; echo $PINFOLD_HANDLED_BY; id -u; echo no >&2; mkdir d; echo x > d/made; \
                mv d/made a.txt; exit 7";
    let output = system.shell("alice", &run("", line));
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "hello\nsystemd\n1000\n");
    assert!(text(&output.stderr).contains("no\n"));
    for path in ["a.txt", "d"] {
        let made = fs::metadata(project.join(path)).unwrap();
        assert_eq!((made.uid(), made.gid()), (1000, 1000), "{path}");
    }
    assert_eq!(fs::metadata(project.join("a.txt")).unwrap().mode() & 0o777, 0o644);
    nothing_is_left(&system);
}

#[test]
fn two_host_users_share_no_service_user() {
    let Some(system) = system("two_host_users_share_no_service_user") else { return };
    system.set_policy(&crate::POLICY.replace("\"user\": \"pi-bob\",", ""));
    let said = failure(&system.shell("alice", &run("", "true")));
    assert!(said.contains("would both run as \"pi-agent\""), "{said}");
    // Another name of the same id is no other user.
    let line = "echo pi-alias:x:990:990::/:/bin/sh >>/etc/passwd";
    assert!(system.shell("root", line).status.success());
    system.set_policy(&crate::POLICY.replace("pi-bob", "pi-alias"));
    let said = failure(&system.shell("alice", &run("", "true")));
    assert!(said.contains("users pi-agent and pi-alias have the same id"), "{said}");
    system.set_policy(crate::POLICY);
    system.project("bob", "/home/bob/work/proj");
    let mut session = waiting(&system, "");
    assert!(system.shell("root", "rm -r /var/lib/pi-agent/users/bob").status.success());
    let said = failure(&system.shell("bob", &run("", "true")));
    assert!(said.contains("install -d -m 700 -o pi-bob /var/lib/pi-agent/users/bob"), "{said}");
    let made = system.shell("root", "install -d -m 700 -o pi-bob /var/lib/pi-agent/users/bob");
    assert!(made.status.success());
    let line = run("", "echo x >made; ps -e >/dev/null; sleep 1");
    let mut bob = system.as_user("bob").args(["sh", "-c", &line]).spawn().unwrap();
    let uids = || text(&system.shell("root", "pgrep --uid pi-bob --full unit-init").stdout);
    until("it is another user", || !uids().is_empty());
    assert!(bob.wait().unwrap().success());
    let made = fs::metadata(system.path("/home/bob/work/proj/made")).unwrap();
    assert_eq!((made.uid(), made.gid()), (1001, 1001));
    // The child of this process only waits for it.
    let _ = system.shell("root", "pkill -KILL --full 'pinfold run'");
    session.wait().unwrap();
    nothing_is_left(&system);
}

#[test]
fn programs_have_the_callers_limit_of_open_files() {
    let Some(system) = system("programs_have_the_callers_limit_of_open_files") else { return };
    let line = run("", "ulimit -Sn");
    for limit in ["300", "3000"] {
        let output = system.shell("alice", &format!("ulimit -Sn {limit}; {line}"));
        assert_eq!(text(&output.stdout).trim(), limit, "{}", text(&output.stderr));
    }
}

/// The caller may not join the sandbox's namespaces: what puts a mask back runs as the service user.
#[test]
fn hidden_file_that_the_host_saves_is_hidden_again() {
    let Some(system) = system("hidden_file_that_the_host_saves_is_hidden_again") else { return };
    let project = system.path("/home/alice/work/proj");
    let save = |content: &str| {
        fs::write(project.join("new"), content).unwrap();
        own(&project.join("new"), "alice");
        fs::rename(project.join("new"), project.join(".env")).unwrap();
    };
    save("SECRET=first\n");
    let session = waiting(&system, "--name live");
    let seen = || {
        let line = "/opt/pinfold exec live -- sh -c 'cat .env; echo read'";
        text(&system.shell("alice", line).stdout)
    };
    assert_eq!(seen(), "read\n");
    save("SECRET=second\n");
    until("it is hidden again", || seen() == "read\n");
    let _ = system.shell("alice", "/opt/pinfold stop live");
    let said = text(&session.wait_with_output().unwrap().stderr);
    // In the first moments, when nothing is watched yet, who has replaced it is not known.
    let is_named =
        said.contains(".env: saved on the host") || said.contains(".env: replaced while");
    assert!(is_named && said.contains("may have read it"), "{said}");
}

#[test]
fn processes_are_the_service_users_and_what_others_own_stays_theirs() {
    let Some(system) = system("processes_are_the_service_users") else { return };
    let foreign = system.path("/home/alice/work/proj/roots");
    fs::write(&foreign, "root's\n").unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o600)).unwrap();
    let mut session = waiting(&system, "");
    let agents = system.agents();
    assert!(agents.contains("sleep 1000"), "{agents}");
    let of_alice = system.shell("root", "pgrep --uid alice --full \"^sleep 1000\"");
    assert_eq!(text(&of_alice.stdout), "");
    // No user of the machine may send the sandbox a signal, or look into it.
    let line = "kill -9 $(pgrep --uid pi-agent) 2>/dev/null && echo killed; \
                cat /proc/$(pgrep --uid pi-agent --newest)/environ";
    assert!(failure(&system.shell("alice", line)).contains("Permission denied"));
    session.kill().unwrap();
    session.wait().unwrap();

    let output =
        system.shell("alice", &run("", "cat roots; chown 1000 roots; id -G; ls -ln roots"));
    assert!(!text(&output.stdout).contains("root's"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains(" 65534 65534 "), "{}", text(&output.stdout));
    assert_eq!(fs::metadata(&foreign).unwrap().uid(), 0);
}

#[test]
fn unit_keeps_the_service_user_from_everything_but_the_grants() {
    let Some(system) = system("unit_keeps_the_service_user_from_everything") else { return };
    let line = "ls -d /home/bob /root /var/lib /run/dbus /run/systemd 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1; \
                grep -E \"^(NoNewPrivs|CapBnd|CapEff)\" /proc/self/status; touch /usr/x /x /etc/x 2>/dev/null && echo written";
    let output = system.shell("alice", &run("", line));
    let said = text(&output.stdout);
    let expected = "    lo\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\n";
    assert_eq!(said, expected, "{}", text(&output.stderr));
}

/// nosuid holds on the mount of the sandbox alone: a mode that got to the disk would count on the host.
#[test]
fn no_call_makes_a_set_id_file_of_the_users() {
    let Some(system) = system("no_call_makes_a_set_id_file_of_the_users") else { return };
    if !pinfold_testkit::installed("python3") {
        return pinfold_testkit::skip("no_call_makes_a_set_id_file_of_the_users", "needs python3");
    }
    let script = "
import ctypes, os, stat
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    if libc.syscall(*words) >= 0: print(name, oct(words[-2] if name == \"fchmodat2\" else words[-1]), \"passed\")
open(\"f\", \"w\").write(\"x\"); fd = os.open(\"f\", os.O_RDWR)
for mode in (0o4755, 0o2755, 0o6755):
    call(\"chmod\", 90, b\"f\", mode)
    call(\"fchmod\", 91, fd, mode)
    call(\"fchmodat\", 268, -100, b\"f\", mode)
    call(\"fchmodat2\", 452, -100, b\"f\", mode, 0)
    call(\"open\", 2, b\"o%o\" % mode, os.O_CREAT | os.O_WRONLY, mode)
    call(\"openat\", 257, -100, b\"p%o\" % mode, os.O_CREAT | os.O_WRONLY, mode)
    call(\"creat\", 85, b\"c%o\" % mode, mode)
    call(\"mknod\", 133, b\"m%o\" % mode, stat.S_IFREG | mode)
    call(\"mknodat\", 259, -100, b\"n%o\" % mode, stat.S_IFREG | mode)
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0)
    if libc.syscall(437, -100, b\"q%o\" % mode, ctypes.byref(how), 24) >= 0: print(\"openat2 passed\")
print(\"tried\")
";
    let file = system.path("/home/alice/work/proj/try.py");
    fs::write(&file, script).unwrap();
    own(&file, "alice");
    let output = system.shell("alice", &run("", "python3 try.py"));
    assert_eq!(text(&output.stdout), "tried\n", "{}", text(&output.stderr));
    for entry in fs::read_dir(system.path("/home/alice/work/proj")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().mode() & 0o6000, 0, "{:?}", entry.path());
    }
}

#[test]
fn view_terminal_and_exec_work_as_in_other_boundaries() {
    let Some(system) = system("view_terminal_and_exec_work") else { return };
    let project = system.path("/home/alice/work/proj");
    let output = system.shell(
        "alice",
        &run("--workspace overlay", "echo y > a.txt; echo z > b.txt; cat a.txt b.txt"),
    );
    assert_eq!(text(&output.stdout), "y\nz\n", "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(project.join("a.txt")).unwrap(), "hello\n");

    let line = run("", "tty; test -t 0 && stty size").replace('\'', "'\\''");
    let line = format!("script -qec '{line}' /dev/null");
    let output = system.shell("alice", &line);
    assert!(text(&output.stdout).contains("/dev/pts/"), "{}", text(&output.stdout));

    let mut session = waiting(&system, "--name live");
    let output = system.shell("alice", "/opt/pinfold exec live -- sh -c 'id -u; cat a.txt'");
    assert_eq!(text(&output.stdout), "1000\nhello\n", "{}", text(&output.stderr));
    let output = system.shell("alice", "/opt/pinfold stop live");
    assert!(output.status.success(), "{}", text(&output.stderr));
    session.wait().unwrap();
    nothing_is_left(&system);
}

#[test]
fn doctor_says_what_is_missing_for_whom() {
    let Some(system) = system("doctor_says_what_is_missing_for_whom") else { return };
    let doctor = |user: &str| {
        let said = text(&system.shell(user, "/opt/pinfold doctor").stdout);
        said.lines().find(|line| line.starts_with("systemd: ")).unwrap().to_owned()
    };
    assert!(doctor("alice").starts_with("systemd: works: "), "{}", doctor("alice"));
    assert!(
        doctor("carol").contains("/etc/pinfold/runner.json has no user carol"),
        "{}",
        doctor("carol")
    );
    system.set_policy(&crate::POLICY.replace("\"bob\"", "\"carol\""));
    assert!(
        doctor("carol").contains("/run/pinfold/runner.sock is not for this user"),
        "{}",
        doctor("carol")
    );
    assert!(doctor("bob").contains("has no user bob"));
    let _ = system.shell("root", "systemctl stop pinfold-runner.socket");
    assert!(
        doctor("alice").contains("/run/pinfold/runner.sock is not started"),
        "{}",
        doctor("alice")
    );
}
