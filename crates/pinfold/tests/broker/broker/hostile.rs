//! Clients inside that speak wrongly, too much, or not at all.

use pinfold_testkit::{executable, installed, people, processes_with, skip};

use super::{ALL, Scene, said};

/// Python that opens the door: `door()` connects, `frame(kind, data)` is a message, `ask(…)` the
/// messages of a request.
const PRELUDE: &str = r#"
import os, socket, struct, sys, time
def door():
    s = socket.socket(socket.AF_UNIX); s.connect('/run/pinfold/host-exec'); s.settimeout(30); return s
def b(x): return struct.pack('<I', len(x)) + x
def frame(kind, data=None):
    m = bytes([kind]) + (b'' if data is None else b(data))
    return b(m)
def ask(name, *args):
    m = b(name) + struct.pack('<I', len(args)) + b''.join(b(a) for a in args) + b(os.fsencode(os.getcwd()))
    return frame(2, m)
def heard(s):
    out = b''
    try:
        while True:
            d = s.recv(65536)
            if not d: return out
            out += d
    except OSError as e:
        return out
"#;

fn attack(test: &str, script: &str) -> Option<String> {
    if !installed("python3") {
        skip(test, "python3 is not installed");
        return None;
    }
    let scene = Scene::new(people()[0], ALL);
    scene.stage.write("ws/attack.py", format!("{PRELUDE}\n{script}"));
    // Whatever was done, others are served.
    let output =
        scene.run(&[], "python3 attack.py; until pinfold-host moltnet; do sleep 0.2; done");
    let said = said(&output);
    assert!(said.ends_with("moltnet ran\n") || said.contains("moltnet ran\n"), "{said}");
    assert!(!said.contains("Traceback") && !said.contains("panicked"), "{said}");
    Some(said)
}

#[test]
fn malformed_oversized_and_out_of_order_frames_end_their_connection_alone() {
    let script = r#"
for junk in [b'\xff' * 4, b'\xff' * 70000, b'\0\0\0\0', b(b'\x09'), frame(3, b'input first'), frame(4),
             frame(2, b'\xff' * 20), frame(2, b('moltnet'.encode()) + b'\xff\xff\xff\xff'),
             frame(1, b'x' * 40000), ask(b'moltnet') + b'\xff' * 9, ask(b'moltnet') + ask(b'moltnet'),
             ask(b'moltnet') + frame(1, b'x')]:
    s = door(); s.sendall(junk)
    if not junk.startswith(frame(1, b'x' * 40000)[:4]): heard(s)
    s.close()
s = door()
try:
    for _ in range(100): s.sendall(frame(1, b'x' * 32000))
    print('swallowed', len(heard(s)))
except OSError: print('cut')
"#;
    if let Some(said) = attack("malformed frames", script) {
        assert!(said.contains("cut") || said.contains("swallowed 0"), "{said}");
    }
}

#[test]
fn a_nul_in_an_argument_is_refused_and_odd_bytes_are_shown_escaped() {
    let script = r#"
s = door(); s.sendall(ask(b'moltnet', b'a\0--all')); print(heard(s))
s = door(); s.sendall(ask(b'molt\0net')); print(heard(s))
s = door()
try: s.sendall(ask(b'moltnet', *([b'x'] * 100000))); print(heard(s)[:60])
except OSError: print('cut')
"#;
    if let Some(said) = attack("odd bytes", script) {
        assert!(said.contains("holds a NUL byte"), "{said}");
        assert!(said.contains("is not the name of an executable"), "{said}");
    }
}

#[test]
fn clients_that_never_read_go_away_or_are_many_leave_room_for_others() {
    let script = r#"
deaf = []
for _ in range(20):
    s = door(); s.sendall(ask(b'moltnet', b'much') + frame(4)); deaf.append(s)
for _ in range(200):
    s = door(); s.sendall(ask(b'moltnet')[:7]); s.close()
for _ in range(200):
    s = door(); s.sendall(ask(b'moltnet')); s.close()
many = []
for _ in range(1000):
    s = socket.socket(socket.AF_UNIX); s.setblocking(False)
    try: s.connect('/run/pinfold/host-exec')
    except BlockingIOError: pass
    many.append(s)
print('many', len(many))
for s in many + deaf: s.close()
"#;
    if let Some(said) = attack("many clients", script) {
        assert!(said.contains("many 1000"), "{said}");
    }
}

#[test]
fn nothing_of_one_side_is_a_descriptor_on_the_other() {
    let script = r#"
import array
s = door(); r, w = os.pipe()
s.sendmsg([ask(b'moltnet') + frame(4)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [r, w]))])
fds = array.array('i'); data = True; got = 0
while data:
    data, anc, flags, _ = s.recvmsg(4096, socket.CMSG_LEN(64)); got += len(anc)
print('descriptors', got)
"#;
    if !installed("python3") {
        return skip("descriptors", "python3 is not installed");
    }
    let scene = Scene::new(people()[0], ALL);
    scene.program("moltnet", "#!/bin/sh\nls -l /proc/self/fd\n");
    scene.stage.write("ws/attack.py", format!("{PRELUDE}\n{script}"));
    assert!(scene.inside("python3 attack.py").contains("descriptors 0"));
    let listed = scene.inside("pinfold-host moltnet </dev/null");
    // What the test itself was given by who runs it is no descriptor of a session's.
    let of_a_session = ["socket:", "anon_inode", "/dev/p", "pinfold"];
    assert!(!of_a_session.iter().any(|kind| listed.contains(kind)), "{listed}");
}

#[test]
fn a_client_that_never_reads_holds_its_own_program_up_and_ends_it() {
    let script = r#"
deaf = []
for _ in range(5):
    s = door(); s.sendall(ask(b'moltnet', b'much') + frame(4)); deaf.append(s)
time.sleep(1)
print('deaf')
"#;
    if !installed("python3") {
        return skip("deaf clients", "python3 is not installed");
    }
    let scene = Scene::new(people()[0], ALL);
    let mark = format!("never-read-{}", std::process::id());
    scene.program(
        "moltnet",
        &format!("#!/bin/sh\n[ -z \"$1\" ] || exec yes {mark}\necho moltnet ran\n"),
    );
    scene.stage.write("ws/attack.py", format!("{PRELUDE}\n{script}"));
    let said = scene.inside("python3 attack.py; pinfold-host moltnet");
    assert!(said.contains("deaf") && said.contains("moltnet ran"), "{said}");
    assert_eq!(processes_with(&mark), [0; 0]);
}

#[test]
fn without_descriptors_clients_wait_and_are_served_later() {
    if !installed("python3") {
        return skip("few descriptors", "python3 is not installed");
    }
    let scene = Scene::new(people()[0], ALL);
    let script = "many = [door() for _ in range(40)]; print('open', len(many)); time.sleep(1)";
    scene.stage.write("ws/attack.py", format!("{PRELUDE}\n{script}"));
    let pinfold = executable();
    let many = "for i in 1 2 3 4 5; do python3 attack.py & done; wait; pinfold-host moltnet";
    let line = format!("ulimit -n 64; exec {pinfold} run -- sh -c '{many}'");
    let mut run = scene.stage.command("/bin/sh");
    let path = format!("{}:/usr/bin:/bin", scene.stage.path("bin").display());
    let output = run.args(["-c", &line]).env("PATH", path).output().unwrap();
    assert!(said(&output).matches("open 40").count() == 5, "{}", said(&output));
    assert!(said(&output).contains("moltnet ran"), "{}", said(&output));
}
