//! A machine that is restored, next to bare QEMU with the same memory, and what a session in one takes.
//!
//! `PINFOLD_TEST_QEMU` and `PINFOLD_TEST_KERNEL` are directories with packages, as for tests of machines, and
//! `PINFOLD_TEST_ACCELERATOR` is `tcg` unless it says `kvm`.

mod bare;

use std::fs::{self, File};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_mux::{Multiplexer, Notice};
use pinfold_vm::{Architecture, Kernel, Kvm, Machine as _, Qemu, QemuMachine, Snapshot, Spec};
use rustix::fs::{MemfdFlags, SeekFrom};
use rustix::io::Errno;

use super::sample::{Contender, print};
use super::start::base;
use super::{Effort, Outcome, command};
use bare::Bare;

/// How long a guest may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// What is copied at once.
const CHUNK: usize = 1 << 20;

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    let rounds = effort.rounds.max(3);
    println!("\na machine of 512 MiB ({rounds} rounds, in turns)");
    let root = directory_of("PINFOLD_TEST_QEMU");
    let qemu = match usable(&root) {
        Ok(qemu) => qemu,
        Err(error) => {
            println!("  {error}: skipped");
            return Ok(());
        }
    };
    let has_kvm = pinfold_testkit::machine_settings().contains("\"kvm\"");
    let qemu = if has_kvm { qemu.with_kvm(Kvm::open()?, PATIENCE) } else { qemu };
    let directory = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let session = Session::prepare(pinfold, directory.path())?;
    let spec = session.spec()?;
    let snapshot = QemuMachine::snapshot(&qemu, &spec, |_| unreachable!("it has no tree"))?;
    let devices = directory.path().join("devices");
    fs::write(&devices, &snapshot.devices)?;

    let contender = |name: &str| Contender::of(name, || Ok(()));
    let names = ["bare QEMU", "restored", "booted", "run -- true", "run -- true, cold"];
    let mut all = names.map(contender);
    for round in 0..=rounds {
        let mut times = [Duration::ZERO; 5];
        times[0] = bare(&qemu, &root, &spec, &snapshot, directory.path())?;
        times[1] = restored(&qemu, &spec, &snapshot)?;
        times[2] = booted(&qemu, &spec)?;
        times[3] = session.run()?;
        if round > 0 {
            all.iter_mut().zip(times).take(4).for_each(|(one, time)| one.times.push(time));
        }
    }
    fs::remove_dir_all(directory.path().join("cache/pinfold/machines/templates"))?;
    all[4].times.push(session.run()?);
    println!("  to the guest's first answer (three lines), and from nothing to `true` and gone");
    print(&all, names[0]);
    Ok(())
}

fn directory_of(variable: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| "/".into(), PathBuf::from)
}

/// Finds QEMU, and looks whether it is recent enough and whether there is a kernel.
fn usable(root: &Path) -> Result<Qemu, Box<dyn std::error::Error>> {
    let qemu = Qemu::find(root, Architecture::HOST)?;
    qemu.version()?;
    let packages = directory_of("PINFOLD_TEST_KERNEL");
    if packages == Path::new("/") {
        Kernel::of_host()?
    } else {
        Kernel::below(&packages)?
    };
    Ok(qemu)
}

/// Returns a memory that is large enough for a machine.
fn memory_of(spec: &Spec) -> Result<OwnedFd, Errno> {
    let memory = rustix::fs::memfd_create("bench", MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&memory, u64::from(spec.memory) << 20)?;
    Ok(memory)
}

/// Copies what is not empty of one memory to another.
fn copy(from: &OwnedFd, to: &OwnedFd) -> Outcome {
    let (from, to) = (File::from(from.try_clone()?), File::from(to.try_clone()?));
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    loop {
        at = match rustix::fs::seek(&from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(&from, SeekFrom::Hole(at))?;
        while at < end {
            let bytes = &mut buffer[..CHUNK.min((end - at) as usize)];
            from.read_exact_at(bytes, at)?;
            to.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
    }
}

/// Waits until a guest has answered.
fn greet(channel: OwnedFd) -> Outcome {
    let mut multiplexer = Multiplexer::host(channel)?;
    loop {
        let (_, notices) = multiplexer.turn(&[], Some(PATIENCE))?;
        if notices.contains(&Notice::Ready) {
            return Ok(());
        }
    }
}

type Took = Result<Duration, Box<dyn std::error::Error>>;

fn bare(qemu: &Qemu, root: &Path, spec: &Spec, snapshot: &Snapshot, directory: &Path) -> Took {
    let memory = memory_of(spec)?;
    let start = Instant::now();
    let mut bare = Bare::start(qemu, root, spec, &memory, directory)?;
    copy(&snapshot.memory, &memory)?;
    bare.wake()?;
    greet(bare.channel()?)?;
    Ok(start.elapsed())
}

fn restored(qemu: &Qemu, spec: &Spec, snapshot: &Snapshot) -> Took {
    let memory = memory_of(spec)?;
    let start = Instant::now();
    let mut machine = QemuMachine::restore(qemu, spec, memory.as_fd().try_clone_to_owned()?)?;
    copy(&snapshot.memory, &memory)?;
    let channel = machine.channel()?;
    machine.wake(&snapshot.devices)?;
    greet(channel)?;
    Ok(start.elapsed())
}

fn booted(qemu: &Qemu, spec: &Spec) -> Took {
    let start = Instant::now();
    let mut machine = QemuMachine::boot(qemu, spec)?;
    greet(machine.channel()?)?;
    Ok(start.elapsed())
}

/// A workspace and a home of their own.
struct Session {
    pinfold: PathBuf,
    directory: PathBuf,
}

impl Session {
    /// Makes a template.
    fn prepare(pinfold: &Path, directory: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let session = Self { pinfold: pinfold.into(), directory: directory.into() };
        for path in ["config/pinfold", "workspace"] {
            fs::create_dir_all(directory.join(path))?;
        }
        let settings = pinfold_testkit::machine_settings();
        fs::write(directory.join("config/pinfold/config.toml"), settings)?;
        session.run()?;
        Ok(session)
    }

    /// Returns the time of a session that does nothing.
    fn run(&self) -> Took {
        let mut run = command(&self.pinfold);
        run.args(["run", "--boundary", "vm", "--memory", "512M", "--cpus", "1", "--", "true"]);
        run.current_dir(self.directory.join("workspace"));
        for (name, path) in [("CONFIG", "config"), ("CACHE", "cache"), ("STATE", "state")] {
            run.env(format!("XDG_{name}_HOME"), self.directory.join(path));
        }
        let start = Instant::now();
        if run.status()?.success() { Ok(start.elapsed()) } else { Err("a session failed".into()) }
    }

    /// Returns a machine of what the session booted, without a tree.
    fn spec(&self) -> Result<Spec, Box<dyn std::error::Error>> {
        let images = self.directory.join("cache/pinfold/machines/images");
        let image = fs::read_dir(images)?.next().ok_or("nothing was booted")??.path();
        let (kernel, initramfs) = (image.join("vmlinux"), image.join("initramfs"));
        Ok(Spec {
            kernel,
            initramfs,
            memory: 512,
            cpus: 1,
            share: None,
            changes: 0,
            has_tree: false,
        })
    }
}
