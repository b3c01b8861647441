//! Sandboxes in a sandbox: programs that make them work, and who is root in one of them gets nothing that was kept from the first.

use std::process::{Output, Stdio};

use pinfold_testkit::{Stage, behind_vm, call_number, engine, has_engine, installed, people, skip};
use serde_json::Value;

const SECRET: &str = "hunter2-under-the-mask";

pub(super) fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Returns whether the boundary under test has no nested sandboxes, and prints that the test is skipped if so.
fn is_elsewhere(test: &str) -> bool {
    let is_elsewhere = engine().is_some() && !behind_vm();
    if is_elsewhere {
        skip(test, "only the boundaries namespace and vm have nested sandboxes");
    }
    is_elsewhere
}

/// Returns whether the boundary under test is not the namespaces of the host's kernel, and prints that the test is skipped if so.
fn has_other_kernel(test: &str) -> bool {
    if engine().is_some() {
        skip(test, "it is about nested sandboxes with the host's kernel");
    }
    engine().is_some()
}

/// Attempts of who is root of a user namespace with a mount and a process namespace. Each prints `BREACH` and its number if it
/// succeeds, and `granted` where it shows that the others prove something.
const ATTEMPTS: &str = r#"
ws=$PWD
try() { number=$1; shift; if sh -c "$*" >/tmp/said 2>&1; then echo "BREACH $number: $*"; cat /tmp/said; fi; }
has() { number=$1; shift; if sh -c "$*" 2>&1 | grep -q hunter2; then echo "BREACH $number: $*"; fi; }
mount -t tmpfs none /var/tmp && mount --bind /var/tmp /var/tmp && umount /var/tmp && mount -t proc none /proc && echo granted mounts
mkdir -p /tmp/a /tmp/b /tmp/c /tmp/d /tmp/e /tmp/f
has 1 cat .env
has 2 "umount .env; cat .env"
has 3 "umount -l .env; cat .env"
has 4 "mount --bind $ws /tmp/a; cat /tmp/a/.env"
has 5 "mount --rbind $ws /tmp/b && umount -l /tmp/b/.env; cat /tmp/b/.env"
has 6 "mount -t overlay -o lowerdir=$ws:/tmp/c,userxattr none /tmp/d; cat /tmp/d/.env"
has 7 "touch /tmp/e/x; mount --move .env /tmp/e/x; cat .env"
has 8 "cat /run/pinfold/nested/proc/1/root$ws/.env"
has 9 "nsenter --mount=/run/pinfold/nested/proc/1/ns/mnt cat $ws/.env"
has 10 "cd /; umount -l $ws; cat $ws/.env"
has 11 "mount --bind .env .env; umount .env; umount .env; cat .env"
has 12 "mount --make-rprivate /; umount -R $ws; cat $ws/.env"
has 13 "ln .env copy; mv .env gone; cat copy gone"
has 14 "umount -l /proc; umount -l /proc/sys; umount -l /; cat .env"
has 15 "unshare -Urm sh -c 'umount .env; cat .env'"
try 20 "mount -o remount,rw,bind /usr && touch /usr/x"
try 21 "mount -o remount,rw,bind /etc/passwd && echo x >>/etc/passwd"
try 22 "mount -o remount,rw,bind / && mkdir /new"
try 23 "mount -o remount,suid,bind /tmp"
try 24 "mount -o remount,dev,bind /tmp"
try 25 "umount -l /usr && ls /usr/bin/sh"
try 26 "umount /sys/fs/cgroup"
try 27 "umount /proc/sys"
try 30 "echo x >/proc/sys/kernel/core_pattern"
try 31 "echo b >/proc/sysrq-trigger"
try 32 "mount -t proc none /tmp/f && echo x >/tmp/f/sys/kernel/core_pattern"
try 33 "cat /tmp/f/kcore | head -c 1 | grep -q ."
try 34 "mknod /tmp/device b 8 0 && head -c 1 /tmp/device"
try 35 "mknod /tmp/device c 1 1 && head -c 1 /tmp/device"
try 36 "mount -t ext4 /dev/vda /tmp/c"
try 37 "mount -t cgroup2 none /tmp/c"
try 38 "mount -t cgroup -o memory none /tmp/c"
try 39 "unshare --cgroup true"
try 40 "mount -t securityfs none /tmp/c"
try 41 "mount -t debugfs none /tmp/c"
try 42 "mount -t bpf none /tmp/c && mount -t tracefs none /tmp/c"
try 43 "mount -t nfs 127.0.0.1:/ /tmp/c"
try 51 "hostname x"
try 52 "date -s 2000-01-01"
try 53 "swapoff -a && false || swapon /tmp/said"
try 60 "python3 -c 'import socket; s = socket.socket(); s.setsockopt(0, 64, bytes(128))'"
try 61 "python3 -c 'import socket; s = socket.socket(socket.AF_INET6); s.setsockopt(41, 64, bytes(128))'"
try 62 "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)'"
try 63 "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'"
try 64 "python3 -c 'import socket; socket.socket(38, socket.SOCK_SEQPACKET)'"
call() { number=$1; shift; try "$number" "python3 -c 'import ctypes, sys; c = ctypes.CDLL(None, use_errno=True); NUMBERS; sys.exit(c.syscall($*) == -1)'"; }
call 70 "keyctl, 1, 0"
call 71 "io_uring_setup, 1, ctypes.create_string_buffer(120)"
call 72 "bpf, 0, ctypes.create_string_buffer(128), 128"
call 73 "perf_event_open, ctypes.create_string_buffer(128), 0, -1, -1, 0"
call 74 "open_by_handle_at, -100, ctypes.create_string_buffer(128), 0"
call 75 "userfaultfd, 0"
call 76 "fanotify_init, 0, 0"
echo tried all
"#;

/// Attempts that are granted in a machine: its groups are root's of its guest.
const OF_VM: [&str; 2] = ["BREACH 37: mount -t cgroup2", "BREACH 39: unshare --cgroup"];

#[test]
fn root_of_a_nested_sandbox_gets_nothing_that_was_hidden_or_sealed() {
    const TEST: &str = "root_of_a_nested_sandbox_gets_nothing_that_was_hidden_or_sealed";
    if !installed("python3") || is_elsewhere(TEST) {
        return skip(TEST, "it needs python3");
    }
    let calls = [
        "keyctl",
        "io_uring_setup",
        "bpf",
        "perf_event_open",
        "open_by_handle_at",
        "userfaultfd",
        "fanotify_init",
    ];
    let numbers = calls.map(|call| format!("{call} = {}", call_number(call))).join("; ");
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/.env", format!("PASSWORD={SECRET}\n"));
        stage.write("ws/attempts.sh", ATTEMPTS.replace("NUMBERS", &numbers));
        let script = "unshare --map-root-user --mount --pid --fork sh attempts.sh";
        let output = stage.run_shell(&["--nested", "--workspace", "overlay"], script);
        let said = text(&output);
        assert!(said.contains("tried all") && said.contains("granted mounts"), "{said}");
        let granted = if behind_vm() { &OF_VM[..] } else { &[] };
        let breaches = said.matches("BREACH").count();
        let granted = granted.iter().filter(|attempt| said.contains(*attempt)).count();
        assert!(breaches == granted && !said.contains(SECRET), "uid {}: {said}", user.uid);
    }
}

#[test]
fn name_that_is_hidden_in_a_live_directory_is_refused_with_nested_sandboxes() {
    if has_other_kernel("name_that_is_hidden_in_a_live_directory_is_refused_with_nested_sandboxes")
    {
        return;
    }
    let stage = Stage::new(people()[0]);
    stage.write("ws/.env", format!("PASSWORD={SECRET}\n"));
    let output = stage.run_shell(&["--nested"], "echo ran");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains(".env cannot be kept hidden") && said.contains("--workspace overlay"),
        "{said}"
    );
    assert!(!said.contains("ran\n"), "{said}");
}

#[test]
fn chosen_memory_that_no_group_bounds_is_refused_with_nested_sandboxes() {
    if has_other_kernel("chosen_memory_that_no_group_bounds_is_refused_with_nested_sandboxes") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        // Without a process of its own that grows.
        let fill = "unshare --map-root-user --mount sh -c 'mount -t tmpfs none /var/tmp && \
            dd if=/dev/zero of=/var/tmp/file bs=1M count=200 && sleep 3 && echo survived'";
        let output = stage.run_shell(&["--nested", "--memory", "100M"], fill);
        let said = text(&output);
        assert!(!output.status.success() && !said.contains("survived"), "uid {}: {said}", user.uid);
        let is_bounded = !said.contains("no control group can be made");
        let weaker =
            stage.run_shell(&["--nested", "--memory", "100M", "--allow-weaker"], "echo ran");
        assert!(weaker.status.success(), "{}", text(&weaker));
        assert_eq!(text(&weaker).contains("do not count"), !is_bounded, "{}", text(&weaker));
    }
}

#[test]
fn nested_sandboxes_are_said_and_recorded_and_only_the_user_turns_them_on() {
    if has_other_kernel("nested_sandboxes_are_said_and_recorded_and_only_the_user_turns_them_on") {
        return;
    }
    let stage = Stage::new(people()[0]);
    let makes = "unshare --map-root-user --mount true";
    let output = stage.run_shell(&["--nested"], makes);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("sandboxes of their own (nested, by --nested)"), "{said}");
    let audit = stage.pinfold(&["audit", "--json"]).output().unwrap();
    let records = String::from_utf8(audit.stdout).unwrap();
    let is_session = |record: &Value| record["event"] == "session";
    let session = records.lines().map(|line| serde_json::from_str(line).unwrap()).find(is_session);
    assert_eq!(session.unwrap()["enforced"]["nested"], true, "{records}");

    let refused = stage.run_shell(&[], makes);
    assert!(!refused.status.success(), "{}", text(&refused));
    for engine in ["runc", "docker", "runsc"] {
        let output = stage.run_shell(&["--nested", "--engine", engine], "echo ran");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(
            said.contains("has no nested sandboxes") && said.contains("these have: namespace"),
            "{said}"
        );
    }
    stage.write("home/.config/pinfold/config.toml", "nested = true\n");
    let output = stage.run_shell(&[], makes);
    assert!(text(&output).contains("nested, by") && output.status.success(), "{}", text(&output));
    stage.write("home/.config/pinfold/config.toml", "");
    stage.write("ws/sandbox.json", r#"{"nested": true}"#);
    let output = stage.run_shell(&[], makes);
    assert!(!output.status.success() && text(&output).contains("nested"), "{}", text(&output));
}

#[test]
fn bubblewrap_makes_a_sandbox_in_a_sandbox() {
    const TEST: &str = "bubblewrap_makes_a_sandbox_in_a_sandbox";
    if is_elsewhere(TEST) {
        return;
    }
    if !installed("bwrap") {
        return skip(TEST, "bubblewrap is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let script = "bwrap --unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --ro-bind / / --dev /dev \
            --proc /proc --tmpfs /tmp sh -c 'echo pid $$; test ! -w /tmp/said; touch /tmp/new && echo works'";
        let output = stage.run_shell(&["--nested"], script);
        assert!(text(&output).contains("works"), "{}", text(&output));
    }
}

#[test]
fn browser_has_its_own_sandbox_in_a_sandbox() {
    const TEST: &str = "browser_has_its_own_sandbox_in_a_sandbox";
    if is_elsewhere(TEST) {
        return;
    }
    if !installed("chromium") {
        return skip(TEST, "chromium is not installed");
    }
    // Root's is refused by the browser, who takes the sandbox's user for an ordinary one.
    let stage = Stage::new(people()[0]);
    stage.write("ws/page.html", "<script>document.write('<p>' + 6 * 7)</script>");
    let script = "chromium --headless --disable-gpu --dump-dom file://$PWD/page.html & wait $!; \
        chromium --headless --disable-gpu --remote-debugging-port=9222 about:blank & \
        for _ in $(seq 100); do for pid in $(pgrep -f type=renderer); do \
        [ \"$(readlink /proc/$pid/ns/user)\" = \"$(readlink /proc/self/ns/user)\" ] || { echo own namespace; break 2; }; \
        done; sleep 0.1; done; kill $!";
    let output = stage.run_shell(&["--nested"], script);
    let said = text(&output);
    assert!(said.contains("<p>42") && said.contains("own namespace"), "{said}");
}

#[test]
fn podman_works_in_a_sandbox_and_serves_dockers_clients_there() {
    const TEST: &str = "podman_works_in_a_sandbox_and_serves_dockers_clients_there";
    if is_elsewhere(TEST) {
        return;
    }
    if !has_engine("podman") || !installed("busybox") || !installed("curl") {
        return skip(TEST, "podman, busybox or curl is not installed");
    }
    // Files of an image have set-user-ID bits, owners and whiteouts.
    let script = r#"set -e
        mkdir -p /tmp/image/bin /tmp/image/etc; cp "$(command -v busybox)" /tmp/image/bin/busybox
        chmod 4755 /tmp/image/bin/busybox; ln -s busybox /tmp/image/bin/sh; echo x >/tmp/image/etc/gone
        tar -C /tmp/image -c --owner=5 --group=60 . | podman import - example:1
        podman run --rm example:1 sh -c '[ "$(busybox id -u)" = 0 ] && echo runs as root'
        podman run -d --name sleeper example:1 busybox sleep 60
        podman exec sleeper busybox echo exec works
        printf 'FROM example:1\nRUN busybox rm /etc/gone\nCMD ["sh", "-c", "busybox test ! -e /etc/gone && echo saved and loaded"]\n' >/tmp/Containerfile
        podman build -q -t built -f /tmp/Containerfile /tmp/image
        podman save -q -o /tmp/saved built; podman rmi -f built >/dev/null; podman load -q -i /tmp/saved
        podman run --rm built
        if [ -x /usr/bin/buildah ]; then
            container=$(buildah from example:1)
            buildah run "$container" -- busybox echo buildah runs
            buildah commit -q "$container" committed; podman image exists committed
        fi
        podman system service --time 60 unix:///tmp/docker.sock &
        for _ in $(seq 100); do [ ! -S /tmp/docker.sock ] || break; sleep 0.1; done
        curl -s --unix-socket /tmp/docker.sock http://d/v1.40/containers/json | grep -o '"/sleeper"'
        podman rm -f -t 0 sleeper >/dev/null; echo removed
        answers() {
            for _ in $(seq 100); do curl -sf "http://127.0.0.1:$1/passwd" -o /dev/null && break; sleep 0.1; done
            curl -sf "http://127.0.0.1:$1/passwd"
        }
        echo port is mapped >/tmp/image/etc/passwd; tar -C /tmp/image -c . | podman import -q - served:1
        podman run -d --network bridge -p 8081:80 served:1 busybox httpd -f -p 80 -h /etc >/dev/null
        [ "$(answers 8081)" = "port is mapped" ] && echo by podman
        if [ -x /usr/bin/docker ]; then
            export DOCKER_HOST=unix:///tmp/docker.sock
            docker run -d -p 8082:80 served:1 busybox httpd -f -p 80 -h /etc >/dev/null
            [ "$(answers 8082)" = "port is mapped" ] && echo by docker
        else
            echo by docker
        fi
        podman run --rm --network slirp4netns served:1 true || echo says what to use"#;
    for user in people() {
        let stage = Stage::new(user);
        let mut run = stage.pinfold(&["run", "--nested", "--workspace", "scratch_mount"]);
        let output = run.args(["--", "sh", "-c", script]).stdin(Stdio::null()).output().unwrap();
        let said = text(&output);
        let mapped = ["by podman", "by docker", "use --network host, or --network bridge"];
        let wanted = ["runs as root", "exec works", "saved and loaded", "\"/sleeper\"", "removed"];
        for wanted in wanted.into_iter().chain(mapped) {
            assert!(said.contains(wanted), "uid {}: no {wanted}: {said}", user.uid);
        }
    }
}
