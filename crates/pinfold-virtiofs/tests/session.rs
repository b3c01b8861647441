//! Sandboxes in machines, as a supervisor has them: a command with its streams, programs next to it, and their ends. Init in
//! the guest is this very program.

#[path = "../../pinfold-vm/tests/support/mod.rs"]
mod support;

mod sandbox;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pinfold_boundary::namespace::inside_ids;
use pinfold_boundary::{
    Door, Doors, Inside, Landlock, LaunchError, LaunchPlan, Mask, MaskKind, Program, Stdio,
    StdioEnd,
};
use pinfold_policy::path::InsidePath;
use pinfold_vm::{Qemu, Spec, guest};
use pinfold_wire::{Bounds, Ended, Order, Report, StreamEnd, Streams};
use rustix::process::{Pid, Signal};

use sandbox::{children, ended, launch, nothing_of_ours_is_left, pipe, plan, program};
use support::Failed;

/// What the command does. Its user has no right in the guest, and does not reach its channel.
const SCRIPT: &str = r#"
read line; echo "$line"; echo error >&2; id -u; hostname; stat -c %U:%a $HOME; cat $HOME/.made secret; echo x >made
grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status
for file in /dev/vport0p1 /dev/mem /proc/sys/vm/drop_caches /proc/sysrq-trigger; do
    (: >$file) 2>/dev/null && echo opened $file
done
mount -t virtiofs root /tmp 2>/dev/null && echo mounted
unshare -r true 2>/dev/null && echo root
head -c 12 /proc/1/cmdline; echo
grep -c : /proc/net/dev
exit 7
"#;

fn main() -> Result<(), Failed> {
    guest::run_as_first();
    if pinfold_boundary::container::run_as_init() {
        return Ok(());
    }
    support::run("session_in_a_machine_is_like_any_other", session_in_a_machine_is_like_any_other)
}

fn session_in_a_machine_is_like_any_other() -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let Some((qemu, spec)) = support::prepare(directory.path(), true)? else { return Ok(()) };
    let workspace = tempfile::tempdir()?;
    let workspace = workspace.path().canonicalize()?;
    fs::write(workspace.join("secret"), "hidden")?;
    command_runs_to_its_end(&qemu, &spec, &workspace)?;
    terminal_is_the_hosts(&qemu, &spec, &workspace)?;
    session_ends_with_its_file_server(&qemu, &spec, &workspace)?;
    refuses_what_it_lacks(&qemu, &spec, &workspace)?;
    // What serves doors are threads, with which no other sandbox is started.
    doors_lead_to_the_host(&qemu, &spec, &workspace)
}

fn command_runs_to_its_end(qemu: &Qemu, spec: &Spec, workspace: &Path) -> Result<(), Failed> {
    let start = Instant::now();
    let mut inside = launch(qemu, spec, None, plan(workspace)?)?;
    let (input, mut to_input) = pipe()?;
    let (mut output, from_output) = pipe()?;
    let (mut errors, from_errors) = pipe()?;
    let ends = [input, from_output, from_errors].map(|end| StdioEnd::Descriptor(end.into()));
    inside.command(&program(SCRIPT, workspace)?, Stdio::plain(ends))?;
    let path = workspace.join("secret").as_os_str().as_encoded_bytes().to_vec();
    inside.seal(vec![Mask { path, kind: MaskKind::Hide }])?;
    println!("init after {:?}", start.elapsed());
    inside.order(&Order::Start(Vec::new()))?;
    runs_next_to_the_command(&inside, workspace)?;
    to_input.write_all(b"typed\n")?;
    drop(to_input);
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    let id = inside_ids().0;
    let expected = format!(
        "typed\n{id}\nmachine\nuser:700\nmade\nCapEff:\t{0}\nCapBnd:\t{0}\nNoNewPrivs:\t1\nSeccomp:\t2\n\
         pinfold-init\n1\n",
        "0".repeat(16)
    );
    assert_eq!(text, expected);
    text.clear();
    errors.read_to_string(&mut text)?;
    assert_eq!(text, "error\n");
    assert_eq!(ended(&inside)?, Some(Ended::Code(7)));
    inside.reap()?;
    println!("ended after {:?}", start.elapsed());
    assert_eq!(fs::read_to_string(workspace.join("made"))?, "x\n");
    drop(inside);
    nothing_is_left()
}

/// A terminal of the host's stands for one in the guest: its size and keys get there.
fn terminal_is_the_hosts(qemu: &Qemu, spec: &Spec, workspace: &Path) -> Result<(), Failed> {
    let mut inside = launch(qemu, spec, None, plan(workspace)?)?;
    // The signal may come before the shell waits for a line, and ends no `read` then.
    let script = "stty size; trap 'hit=1; echo interrupted' INT; echo ready; while [ -z \"$hit\" ]; do sleep 0.1; done; \
                  read line; echo got $line; tty; exit 5";
    let mut stdio = Stdio::plain([const { StdioEnd::Terminal }; 3]);
    stdio.window = Some((33, 99));
    inside.command(&program(script, workspace)?, stdio)?;
    inside.seal(Vec::new())?;
    inside.order(&Order::Start(Vec::new()))?;
    let received = inside.channel.receive::<Report>()?.ok_or("init is gone")?;
    assert_eq!(received.message, Report::Terminal);
    let controller = received.descriptors.into_iter().next().ok_or("no terminal")?;
    let mut controller = File::from(controller);
    let mut text = String::new();
    let mut say = [Some(("ready", "\u{3}")), Some(("interrupted", "typed\n"))]
        .into_iter()
        .flatten()
        .peekable();
    let mut buffer = [0; 4096];
    // The end of a terminal is an error (EIO).
    while let Ok(count @ 1..) = controller.read(&mut buffer) {
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        if let Some((_, typed)) = say.next_if(|(word, _)| text.contains(word)) {
            controller.write_all(typed.as_bytes())?;
        }
    }
    for part in ["33 99\r\n", "interrupted\r\n", "got typed\r\n", "/dev/pts/0\r\n"] {
        assert!(text.contains(part), "{text:?}");
    }
    assert_eq!(ended(&inside)?, Some(Ended::Code(5)));
    drop(inside);
    nothing_is_left()
}

/// Connects to each door, to addresses outside, and to what is no door. Each server says who it is.
const CONNECTS: &str = r#"
import socket
def ask(kind, to, text=b'question'):
    try:
        s = socket.socket(kind[0], kind[1])
        s.settimeout(20)
        s.connect(to)
        s.sendall(text)
        if kind[1] == socket.SOCK_STREAM: s.shutdown(socket.SHUT_WR)
        answer = b''
        while True:
            part = s.recv(65536)
            answer += part
            if not part or kind[1] != socket.SOCK_STREAM: break
        s.close()
        return answer.decode() if len(answer) < 100 else str(len(answer))
    except OSError as error:
        return type(error).__name__
stream, datagram = (socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM)
print(ask((socket.AF_UNIX, socket.SOCK_STREAM), '/run/pinfold/door'))
print(ask(stream, ('127.0.0.1', 80)))
print(ask(datagram, ('127.0.0.1', 53)), ask(datagram, ('192.0.2.9', 53)))
print(ask(stream, ('127.0.0.1', 881)))
print(ask(stream, ('198.18.1.5', 443)))
print(ask((socket.AF_INET6, socket.SOCK_STREAM), ('2001:db8::1', 443)))
print(ask(stream, ('127.0.0.1', 9)))
print(ask(stream, ('198.18.1.5', 443), bytes(3 << 20)))
print(sum(ask(stream, ('198.18.1.5', 443)).endswith('question') for _ in range(200)))
"#;

/// A sandbox's doors are served on the host, and what serves them sees the address that was asked for.
fn doors_lead_to_the_host(qemu: &Qemu, spec: &Spec, workspace: &Path) -> Result<(), Failed> {
    let doors = vec![
        Door::Unix(InsidePath::from_static("/run/pinfold/door")),
        Door::Listener("127.0.0.1:80".parse()?),
        Door::Datagrams(53),
        Door::Outward(881),
    ];
    let mut inside = launch(qemu, spec, None, LaunchPlan { doors, ..plan(workspace)? })?;
    let Doors { sockets, handed_over, .. } = inside.doors()?;
    assert!(handed_over, "this kernel has no nft_tproxy");
    let mut sockets = sockets.into_iter();
    let unix = UnixListener::from(sockets.next().ok_or("no door")?);
    let local = TcpListener::from(sockets.next().ok_or("no door")?);
    let names = UdpSocket::from(sockets.next().ok_or("no door")?);
    let outward = sockets.map(TcpListener::from).chain([local]).collect::<Vec<_>>();
    let (mut output, theirs) = pipe()?;
    let null = || File::open("/dev/null").map(|file| StdioEnd::Descriptor(file.into()));
    let ends = [null()?, StdioEnd::Descriptor(theirs.into()), StdioEnd::Same(1)];
    inside.command(&python(CONNECTS, workspace)?, Stdio::plain(ends))?;
    inside.seal(Vec::new())?;
    for listener in outward {
        listener.set_nonblocking(false)?;
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let to = stream.local_addr().map(|to| to.to_string()).unwrap_or_default();
                let _ = answer(stream, &to);
            }
        });
    }
    unix.set_nonblocking(false)?;
    std::thread::spawn(move || {
        while let Ok((stream, _)) = unix.accept() {
            let _ = answer(stream, "unix");
        }
    });
    names.set_nonblocking(false)?;
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = names.recv_from(&mut buffer) {
            let _ = names.send_to(&[b"name ", &buffer[..length]].concat(), from);
        }
    });
    let start = Instant::now();
    inside.order(&Order::Start(Vec::new()))?;
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    println!("doors: {:?}", start.elapsed());
    let expected = "unix question\n127.0.0.1:80 question\nname question name question\n\
                    127.0.0.1:881 question\n198.18.1.5:443 question\n[2001:db8::1]:443 question\n\
                    ConnectionRefusedError\n3145743\n200\n";
    assert_eq!(text, expected);
    assert_eq!(ended(&inside)?, Some(Ended::Code(0)));
    Ok(())
}

/// Says who is asked, and what was asked.
fn answer(mut stream: impl Read + Write, who: &str) -> std::io::Result<()> {
    let mut question = Vec::new();
    stream.read_to_end(&mut question)?;
    stream.write_all(&[who.as_bytes(), b" ", &question].concat())
}

fn python(script: &str, workspace: &Path) -> Result<Program, Failed> {
    let argv = ["/usr/bin/python3", "-c", script].map(Into::into).into();
    Ok(Program { argv, ..program("", workspace)? })
}

fn nothing_is_left() -> Result<(), Failed> {
    nothing_of_ours_is_left()?;
    if support::processes()?.is_empty() { Ok(()) } else { Err("QEMU outlived its machine".into()) }
}

/// The processes that have started the machines of this user.
fn starters() -> Result<Vec<String>, Failed> {
    let parent = |path: PathBuf| {
        let status = fs::read_to_string(path.join("status")).ok()?;
        status.lines().find_map(|line| Some(line.strip_prefix("PPid:")?.trim().to_owned()))
    };
    Ok(support::processes()?.into_iter().filter_map(parent).collect())
}

/// A guest that ends its file server, by what a hostile driver says, ends itself.
fn session_ends_with_its_file_server(
    qemu: &Qemu,
    spec: &Spec,
    workspace: &Path,
) -> Result<(), Failed> {
    let mut inside = launch(qemu, spec, None, plan(workspace)?)?;
    // The other process has QEMU below it.
    let starters = starters()?;
    let server = children()?.into_iter().find(|process| !starters.contains(process));
    let null = || File::open("/dev/null").map(|file| StdioEnd::Descriptor(file.into()));
    let ends = [null()?, null()?, null()?];
    inside.command(&program("sleep 1000", workspace)?, Stdio::plain(ends))?;
    inside.seal(Vec::new())?;
    inside.order(&Order::Start(Vec::new()))?;
    let server = server.ok_or("no server")?;
    one_group_holds_all(&inside, &server)?;
    let server = Pid::from_raw(server.parse()?).ok_or("no process")?;
    rustix::process::kill_process(server, Signal::KILL)?;
    assert_eq!(ended(&inside)?, None);
    let gone = inside.engine_gone().unwrap_or_default();
    assert!(gone.starts_with("the machine ended before the command did"), "{gone}");
    drop(inside);
    nothing_is_left()
}

/// QEMU and the file server are in the groups that bound the session.
fn one_group_holds_all(inside: &Inside, server: &str) -> Result<(), Failed> {
    let Some(group) = inside.group() else {
        println!("this user can make no control group");
        return Ok(());
    };
    assert!(group.bounds_memory());
    let groups = |process: &Path| -> Result<Vec<String>, Failed> {
        let text = fs::read_to_string(process.join("cgroup"))?;
        Ok(text.lines().filter(|line| line.contains("/pinfold-")).map(str::to_owned).collect())
    };
    let machine = support::processes()?;
    let [qemu] = machine.as_slice() else { return Err(format!("{machine:?}").into()) };
    let expected = groups(qemu)?;
    assert!(!expected.is_empty());
    assert_eq!(groups(&Path::new("/proc").join(server))?, expected);
    Ok(())
}

/// A plan that asks for more is refused before anything starts.
fn refuses_what_it_lacks(qemu: &Qemu, spec: &Spec, workspace: &Path) -> Result<(), Failed> {
    let mut root = plan(workspace)?;
    root.identity.uid = 0;
    let nested = LaunchPlan { nested: true, landlock: Landlock::Required, ..plan(workspace)? };
    for (plan, word) in [(root, "root"), (nested, "nested sandboxes do without")] {
        match launch(qemu, spec, None, plan) {
            Err(LaunchError::Wall { what }) if what.contains(word) => {}
            other => return Err(format!("{other:?}").into()),
        }
    }
    nothing_is_left()
}

/// Runs a program next to the command, with its error output in its output. Returns its status and what it says.
fn run(inside: &Inside, script: &str, workspace: &Path) -> Result<(Ended, Vec<u8>), Failed> {
    let (mut output, theirs) = pipe()?;
    let theirs = OwnedFd::from(theirs);
    let program = program(script, workspace)?.to_wire();
    // Open both ways, as a terminal of the user's is.
    let null = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
    let streams =
        Streams::plain([StreamEnd::Descriptor, StreamEnd::Descriptor, StreamEnd::Same(1)]);
    inside.run(1, Bounds::default(), &program, streams, &[null.as_fd(), theirs.as_fd()])?;
    let flags = rustix::fs::fcntl_getfl(&theirs)?;
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "a caller's pipe was changed");
    drop((null, theirs));
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    loop {
        let received = inside.channel.receive::<Report>()?.ok_or("init is gone")?;
        if let Report::TaskEnded { id: 1, ended } = received.message {
            return Ok((ended, bytes));
        }
    }
}

/// More output than a pipe holds, short programs one after the other, and a program with many files.
fn runs_next_to_the_command(inside: &Inside, workspace: &Path) -> Result<(), Failed> {
    let start = Instant::now();
    let (ended, bytes) = run(inside, "head -c 1000000 /dev/zero; exit 3", workspace)?;
    assert_eq!((ended, bytes.len()), (Ended::Code(3), 1_000_000));
    println!("1 MB of output: {:?}", start.elapsed());
    let mut times = Vec::new();
    for _ in 0..9 {
        let start = Instant::now();
        run(inside, ":", workspace)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    println!("a shell that does nothing: {:?}", times[times.len() / 2]);
    let start = Instant::now();
    let script = "git init -q . && for n in $(seq 20); do echo $n >$n; done && git add [0-9]* && \
                  git -c user.name=a -c user.email=b commit -qm all && git mv 1 one && git status --short && \
                  git fsck && rm -rf .git [0-9]* one";
    let (ended, bytes) = run(inside, script, workspace)?;
    let said = String::from_utf8_lossy(&bytes);
    assert!(said.contains("R  1 -> one\n"), "{said}");
    assert_eq!(ended, Ended::Code(0), "{said}");
    println!("git, 20 files: {:?}", start.elapsed());
    Ok(())
}
