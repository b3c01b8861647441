//! Machines under QEMU whose guest is this very program. The test program has one thread, because a sandbox is started
//! from no other, and starts as `/init` in the guest, which has nothing else.
//!
//! One test has all machines, because each takes seconds of processor time to boot.

#[path = "support/greeting.rs"]
mod greeting;
mod support;

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_mux::{Local, Multiplexer, MuxError, Notice};
use pinfold_vm::{Machine as _, Qemu, QemuMachine, Spec, guest};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use support::{Failed, processes};

fn main() -> Result<(), Failed> {
    if std::process::id() == 1 {
        // The end of process 1 is a panic of the kernel, which ends the machine.
        return be_guest();
    }
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, kernel, initramfs] = arguments.as_slice()
        && word == "--hold"
    {
        return hold(kernel, initramfs);
    }
    support::run("machine_boots_speaks_and_leaves_nothing", machine_boots_speaks_and_leaves_nothing)
}

/// Echoes each stream that the host opens.
fn be_guest() -> Result<(), Failed> {
    let mut multiplexer = Multiplexer::guest(guest::open_channel()?)?;
    loop {
        for notice in multiplexer.turn(&[], None)?.1 {
            if let Notice::Opened { id, label } = notice {
                if label == b"panic" {
                    return Err("asked to".into());
                }
                let (mut near, far) = UnixStream::pair()?;
                multiplexer.attach(id, Local::socket(far.into())?);
                std::thread::spawn(move || {
                    let mut reader = near.try_clone()?;
                    std::io::copy(&mut reader, &mut near)?;
                    near.shutdown(std::net::Shutdown::Write)
                });
            }
        }
    }
}

fn machine_boots_speaks_and_leaves_nothing() -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let Some((qemu, spec)) = support::prepare(directory.path(), false)? else { return Ok(()) };
    refuses(&qemu, &spec)?;
    speaks(&qemu, &spec)?;
    panics(&qemu, &spec)?;
    dies_with_its_supervisor(&spec)
}

/// Boots a machine, and waits until its init has answered.
fn boot(qemu: &Qemu, spec: &Spec) -> Result<(QemuMachine, Multiplexer), Failed> {
    let mut machine = QemuMachine::boot(qemu, spec)?;
    greeting::greet(Multiplexer::host(machine.channel()?)?, machine)
}

/// What QEMU says of a kernel that it cannot enter is among the last words.
fn refuses(qemu: &Qemu, spec: &Spec) -> Result<(), Failed> {
    let no_kernel = Spec { kernel: spec.initramfs.clone(), ..spec.clone() };
    let mut machine = QemuMachine::boot(qemu, &no_kernel)?;
    assert_eq!(end_of(&mut Multiplexer::host(machine.channel()?)?), Some(MuxError::Closed));
    let said = machine.end();
    assert!(said.starts_with("qemu: "), "{said}");
    Ok(())
}

/// Waits a minute for the end of a channel.
fn end_of(multiplexer: &mut Multiplexer) -> Option<MuxError> {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match multiplexer.turn(&[], Some(left)) {
            Err(error) => return Some(error),
            Ok(_) if left.is_zero() => return None,
            Ok(_) => {}
        }
    }
}

/// Moves bytes until the peer's end of a local socket has something to read.
fn turn_until_readable(multiplexer: &mut Multiplexer, socket: &UnixStream) -> Result<(), Failed> {
    while !multiplexer.turn(&[socket.as_fd()], Some(Duration::from_secs(60)))?.0[0] {}
    Ok(())
}

fn speaks(qemu: &Qemu, spec: &Spec) -> Result<(), Failed> {
    let (machine, mut multiplexer) = boot(qemu, spec)?;
    is_confined()?;
    let (mut near, far) = UnixStream::pair()?;
    multiplexer.open(b"echo", Local::socket(far.into())?)?;
    let mut times = Vec::new();
    for _ in 0..300 {
        let start = Instant::now();
        near.write_all(b"x")?;
        turn_until_readable(&mut multiplexer, &near)?;
        near.read_exact(&mut [0])?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    println!("round trip: {:?}", times[times.len() / 2]);
    echo_much(&mut multiplexer, &mut near)?;
    drop(multiplexer);
    drop(machine);
    if processes()?.is_empty() { Ok(()) } else { Err("QEMU outlived its machine".into()) }
}

/// Sends megabytes both ways at the same time.
fn echo_much(multiplexer: &mut Multiplexer, near: &mut UnixStream) -> Result<(), Failed> {
    const LENGTH: usize = 8 << 20;
    near.set_nonblocking(true)?;
    let start = Instant::now();
    let (mut sent, mut got) = (0, 0);
    let mut buffer = vec![0; 64 << 10];
    while got < LENGTH {
        let bytes: Vec<u8> =
            (sent..LENGTH.min(sent + buffer.len())).map(|at| (at / 7) as u8).collect();
        sent += near.write(&bytes).unwrap_or(0);
        if let Ok(count) = near.read(&mut buffer) {
            assert!(buffer[..count].iter().zip(got..).all(|(byte, at)| *byte == (at / 7) as u8));
            got += count;
        }
        multiplexer.turn(&[], Some(Duration::from_millis(1)))?;
    }
    println!("echo: {:.1} MB/s each way", LENGTH as f64 / 1e6 / start.elapsed().as_secs_f64());
    Ok(())
}

/// A guest whose init ends takes its machine with it, and what its console said is there.
fn panics(qemu: &Qemu, spec: &Spec) -> Result<(), Failed> {
    let (machine, mut multiplexer) = boot(qemu, spec)?;
    let (_near, far) = UnixStream::pair()?;
    multiplexer.open(b"panic", Local::socket(far.into())?)?;
    assert_eq!(end_of(&mut multiplexer), Some(MuxError::Closed));
    let said = machine.end();
    assert!(said.contains("Kernel panic - not syncing: Attempted to kill init!"), "{said}");
    if processes()?.is_empty() { Ok(()) } else { Err("QEMU outlived its machine".into()) }
}

/// Starts a machine, says so, and waits to be killed.
fn hold(kernel: &str, initramfs: &str) -> Result<(), Failed> {
    let (kernel, initramfs) = (kernel.into(), initramfs.into());
    let qemu = support::qemu()?;
    let spec =
        Spec { kernel, initramfs, memory: 512, cpus: 1, share: None, changes: 0, has_tree: false };
    let mut machine = QemuMachine::boot(&qemu, &spec)?;
    let _channel = machine.channel()?;
    std::io::stdout().write_all(b"started")?;
    std::io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}

/// A kill of the supervisor leaves nothing.
#[expect(clippy::disallowed_methods, reason = "a test starts the supervisor that it kills")]
fn dies_with_its_supervisor(spec: &Spec) -> Result<(), Failed> {
    let mut supervisor = std::process::Command::new("/proc/self/exe")
        .arg("--hold")
        .args([&spec.kernel, &spec.initramfs])
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let output = supervisor.stdout.as_mut().ok_or("no output")?;
    output.read_exact(&mut [0; b"started".len()])?;
    let processes = processes()?;
    let [process] = processes.as_slice() else { return Err(format!("{processes:?}").into()) };
    let number = process.file_name().and_then(|name| name.to_str()?.parse().ok());
    let number = number.and_then(Pid::from_raw).ok_or("not a process")?;
    let held = rustix::process::pidfd_open(number, PidfdFlags::empty())?;
    supervisor.kill()?;
    supervisor.wait()?;
    let mut ended = [PollFd::new(&held, PollFlags::IN)];
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut ended, Some(&patience))?, 1, "QEMU outlives it");
    Ok(())
}

/// QEMU has no capability, no network, no file of the user's, and a filter.
fn is_confined() -> Result<(), Failed> {
    let processes = processes()?;
    let [process] = processes.as_slice() else { return Err(format!("{processes:?}").into()) };
    let status = std::fs::read_to_string(process.join("status"))?;
    for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{status}");
    }
    let devices = std::fs::read_to_string(process.join("net/dev"))?;
    assert_eq!(devices.lines().filter(|line| line.contains(':')).count(), 1, "{devices}");
    let root = process.join("root");
    let unpacked = std::env::var_os("PINFOLD_TEST_QEMU").map(PathBuf::from).unwrap_or_default();
    for path in ["home", "root", "var", "etc/passwd", "run/user", "tmp"] {
        // Where QEMU was unpacked it has to see itself.
        let is_above_qemu = unpacked.starts_with(Path::new("/").join(path));
        assert!(is_above_qemu || !root.join(path).exists(), "{path}");
    }
    Ok(())
}
