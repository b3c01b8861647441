//! The trait of machines, with a machine that no program emulates: its channel is a socket pair, and its guest a thread of
//! this test. What is tested is all that lies above the trait.

#[path = "support/single.rs"]
mod single;

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use pinfold_boundary::namespace::{FileServer, Namespace, inside_ids};
use pinfold_boundary::{
    CpuShare, Entry, Identity, Inside, Landlock, LaunchError, LaunchPlan, Place, Program,
    ResourceLimits, Stdio, StdioEnd,
};
use pinfold_mux::{GuestFerry, Multiplexer};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_vm::{Machine, MachineError, Maker, Origin, Server, Snapshot, Spec, launch};
use pinfold_wire::{Channel, Ended, LaunchOrder, Order, Report};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use single::Failed;

const MEMORY: u32 = 1;
const HINT: &str = "install it";

fn main() -> Result<(), Failed> {
    single::run("any_machine_holds_a_session", any_machine_holds_a_session)
}

/// The program of such machines.
#[derive(Debug, Default)]
struct Imitation {
    directory: PathBuf,
    name: &'static str,
    fails: bool,
    has_no_guest: bool,
    refuses_state: bool,
    /// The guest's end of the channel of the machine that was started last.
    guest: RefCell<Option<OwnedFd>>,
    /// What was done.
    calls: RefCell<Vec<&'static str>>,
}

impl Imitation {
    fn note(&self, call: &'static str) {
        self.calls.borrow_mut().push(call);
    }

    fn start(&self) -> Result<ImitatedMachine, Failed> {
        let cpus = Some(CpuShare { thousandths: 500, required: false });
        let limits =
            ResourceLimits { memory: Some(256 << 20), pids: Some(64), cpus, ..Default::default() };
        let mut process = Namespace.start(LaunchPlan { limits, ..plan()? })?;
        let argv = ["/usr/bin/sleep", "1000"].map(Into::into).into();
        let program = Program { argv, env: Vec::new(), cwd: InsidePath::root(), ignored: 0 };
        process.command(&program, null()?)?;
        process.seal(Vec::new())?;
        process.order(&Order::Start(Vec::new()))?;
        let (near, far) = UnixStream::pair()?;
        *self.guest.borrow_mut() = Some(far.into());
        let path = self.directory.join("files");
        let _ = fs::remove_file(&path);
        let files = Some(UnixListener::bind(path)?.into());
        let refuses_state = self.refuses_state;
        Ok(ImitatedMachine { process, channel: Some(near.into()), files, refuses_state })
    }
}

#[derive(Debug)]
struct ImitatedMachine {
    process: Inside,
    channel: Option<OwnedFd>,
    files: Option<OwnedFd>,
    refuses_state: bool,
}

fn failed(what: impl ToString) -> MachineError {
    MachineError::Failed { what: what.to_string(), hint: Some(HINT.to_owned()) }
}

impl Machine for ImitatedMachine {
    type Program = Imitation;

    fn origin(program: &Imitation, spec: &Spec) -> Origin {
        let words = vec![program.name.into(), OsString::from(spec.memory.to_string())];
        Origin { words, files: Vec::new() }
    }

    fn boot(program: &Imitation, _: &Spec) -> Result<Self, MachineError> {
        program.note("boot");
        if program.fails { Err(failed("it is broken")) } else { program.start().map_err(failed) }
    }

    fn snapshot(program: &Imitation, spec: &Spec, _: Server) -> Result<Snapshot, MachineError> {
        program.note("snapshot");
        if program.has_no_guest {
            return Err(failed("no guest"));
        }
        let memory = rustix::fs::memfd_create("snapshot", MemfdFlags::CLOEXEC).map_err(failed)?;
        rustix::fs::ftruncate(&memory, u64::from(spec.memory) << 20).map_err(failed)?;
        Ok(Snapshot { memory, devices: b"devices".into() })
    }

    fn restore(program: &Imitation, _: &Spec, _: OwnedFd) -> Result<Self, MachineError> {
        program.note("restore");
        program.start().map_err(failed)
    }

    fn wake(&mut self, devices: &[u8]) -> Result<(), MachineError> {
        assert_eq!(devices, b"devices");
        if self.refuses_state {
            return Err(MachineError::State("these are no devices".to_owned()));
        }
        Ok(())
    }

    fn channel(&mut self) -> Result<OwnedFd, MachineError> {
        self.channel.take().ok_or_else(|| failed("asked twice"))
    }

    fn files(&mut self) -> Option<OwnedFd> {
        self.files.take()
    }

    fn process(&self) -> &Inside {
        &self.process
    }

    fn end(&self) -> String {
        self.process.kill();
        "the console\n".to_owned()
    }
}

/// A server to which nobody comes.
#[derive(Debug)]
struct Idle(OwnedFd);

impl FileServer for Idle {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.0.as_fd()]
    }

    fn serve(self: Box<Self>, _: OwnedFd, _: u64) -> Result<(), Errno> {
        rustix::net::accept(&self.0).map(drop)
    }
}

fn any_machine_holds_a_session() -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let program = || Imitation { directory: directory.path().into(), ..Imitation::default() };
    error_of_a_boot_is_the_sessions(&Imitation { fails: true, ..program() })?;
    guest_that_ends_early_ends_the_session(&program())?;
    let templates = directory.path().join("templates");
    for (templates, calls) in [
        (None, &["boot"][..]),
        (Some(&*templates), &["snapshot", "restore"]),
        (Some(&*templates), &["restore"]),
    ] {
        let program = program();
        session_runs(&program, None, templates)?;
        assert_eq!(*program.calls.borrow(), calls);
    }
    program_without_guests_is_tried_once(&program(), &directory.path().join("tried"))?;
    state_that_is_refused_costs_the_template(
        &Imitation { refuses_state: true, ..program() },
        &templates,
    )
}

fn error_of_a_boot_is_the_sessions(program: &Imitation) -> Result<(), Failed> {
    let Err(error) = start(program, None) else { return Err("it started".into()) };
    assert_eq!(error.to_string(), "it is broken");
    assert_eq!(error.hint(), Some(HINT));
    nothing_is_left()
}

/// The error has what the console said.
fn guest_that_ends_early_ends_the_session(program: &Imitation) -> Result<(), Failed> {
    let mut inside = start(program, None)?;
    drop(program.guest.borrow_mut().take());
    let Err(error) = inside.seal(Vec::new()) else { return Err("it was sealed".into()) };
    let error = error.to_string();
    assert!(error.contains("has not started init; the console"), "{error}");
    drop(inside);
    nothing_is_left()
}

/// Another one makes its machines.
fn program_without_guests_is_tried_once(other: &Imitation, templates: &Path) -> Result<(), Failed> {
    let first = || Imitation {
        directory: other.directory.clone(),
        name: "first",
        has_no_guest: true,
        ..Imitation::default()
    };
    for (calls, others) in [
        (&["snapshot"][..], &["snapshot", "restore"][..]),
        (&[], &["snapshot", "restore", "restore"]),
    ] {
        let first = first();
        session_runs(&first, Some(other), Some(templates))?;
        assert_eq!((&**first.calls.borrow(), &**other.calls.borrow()), (calls, others));
    }
    // One by which guests come up makes all.
    let good = Imitation { has_no_guest: false, name: "second", ..first() };
    session_runs(&good, Some(other), Some(templates))?;
    assert_eq!(*good.calls.borrow(), ["snapshot", "restore"]);
    // Without a place to keep what was found out, nothing is tried.
    let untried = first();
    session_runs(&untried, Some(other), None)?;
    assert_eq!(untried.calls.borrow().len(), 0);
    Ok(())
}

fn session_runs(
    program: &Imitation,
    otherwise: Option<&Imitation>,
    templates: Option<&Path>,
) -> Result<(), Failed> {
    let mut inside = start_or(program, otherwise, templates)?;
    let guest = [Some(program), otherwise].into_iter().flatten();
    let guest = guest.filter(|program| program.guest.borrow().is_some());
    let guest = guest.map(be_guest).next().ok_or("no guest")?;
    inside.seal(Vec::new())?;
    one_group_holds_all(&inside)?;
    inside.order(&Order::Start(Vec::new()))?;
    let ended = inside.channel.receive::<Report>()?.map(|received| received.message);
    assert_eq!(ended, Some(Report::Ended(Ended::Code(7))));
    inside.reap()?;
    drop(inside);
    guest.join().map_err(|_| "the guest panicked")??;
    nothing_is_left()
}

/// The machine's program, the file server and what that left behind are in the groups that bound the session.
fn one_group_holds_all(inside: &Inside) -> Result<(), Failed> {
    let Some(group) = inside.group() else {
        println!("SKIPPED: this user can make no control group");
        return Ok(());
    };
    assert!(group.bounds_memory());
    let mut processes = Vec::new();
    let mut parents = vec![std::process::id().to_string()];
    while let Some(parent) = parents.pop() {
        let path = format!("/proc/{parent}/task/{parent}/children");
        let children = fs::read_to_string(path)?;
        parents.extend(children.split_whitespace().map(str::to_owned));
        processes.extend(children.split_whitespace().map(str::to_owned));
    }
    let groups = |process: &String| -> Result<Vec<String>, Failed> {
        let text = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
        Ok(text.lines().filter(|line| line.contains("/pinfold-")).map(str::to_owned).collect())
    };
    let found = processes.iter().map(groups).collect::<Result<Vec<_>, _>>()?;
    // The machine's init, whose program may not have begun, one that serves, and two that it leaves behind.
    assert!(found.len() >= 4 && !found[0].is_empty(), "{found:?}");
    assert!(found.iter().all(|groups| *groups == found[0]), "{found:?}");
    println!("{} processes are in {:?}", found.len(), found[0]);
    Ok(())
}

fn state_that_is_refused_costs_the_template(
    program: &Imitation,
    templates: &Path,
) -> Result<(), Failed> {
    let mut inside = start(program, Some(templates))?;
    let Err(error) = inside.seal(Vec::new()) else { return Err("it was sealed".into()) };
    assert_eq!(error.to_string(), "these are no devices");
    assert!(error.hint().is_some_and(|hint| hint.starts_with("run it again")), "{error:?}");
    assert_eq!(fs::read_dir(templates)?.count(), 0);
    drop(inside);
    nothing_is_left()
}

fn start(program: &Imitation, templates: Option<&Path>) -> Result<Inside, LaunchError> {
    start_or(program, None, templates)
}

fn start_or(
    program: &Imitation,
    otherwise: Option<&Imitation>,
    templates: Option<&Path>,
) -> Result<Inside, LaunchError> {
    let own = fs::read_link("/proc/self/exe").ok().and_then(|path| HostPath::new(path).ok());
    let init = &own.ok_or(LaunchError::Silent)?;
    let spec = Spec {
        kernel: PathBuf::new(),
        initramfs: PathBuf::new(),
        memory: MEMORY,
        cpus: 1,
        share: None,
        changes: 0,
        has_tree: true,
    };
    let server = |listener| -> Box<dyn FileServer> { Box::new(Idle(listener)) };
    let maker = Maker::<ImitatedMachine> { program, otherwise, init, server, templates };
    let mut inside = launch(&maker, &spec, plan().map_err(|_| LaunchError::Silent)?, None)?;
    let command = ["/bin/true"].map(Into::into).into();
    let command = Program { argv: command, env: Vec::new(), cwd: InsidePath::root(), ignored: 0 };
    inside.command(&command, null().map_err(|_| LaunchError::Silent)?)?;
    Ok(inside)
}

/// Does what init in a guest does, for a command that ends at once.
fn be_guest(program: &Imitation) -> JoinHandle<Result<(), Failed>> {
    let channel = program.guest.borrow_mut().take();
    std::thread::spawn(move || {
        let (ours, theirs) = Channel::pair()?;
        let peer = ours.as_fd().try_clone_to_owned()?;
        drop(ours);
        let mut ferry = GuestFerry::new(Multiplexer::guest(channel.ok_or("no channel")?)?, peer);
        theirs.send(&Report::Born, &[])?;
        let mut has_command = false;
        loop {
            while !ferry.turn(&[theirs.as_fd()], None)?[0] {}
            if has_command {
                theirs.receive::<Order>()?.ok_or("no order")?;
                break;
            }
            let order = theirs.receive::<LaunchOrder>()?.ok_or("no steps")?.message;
            has_command = matches!(order, LaunchOrder::Command { .. });
        }
        theirs.send(&Report::Ended(Ended::Code(7)), &[])?;
        drop(theirs);
        // The host ends the channel.
        let _ = ferry.finish();
        Ok(())
    })
}

fn null() -> Result<Stdio, Failed> {
    let null = || fs::File::open("/dev/null").map(|file| StdioEnd::Descriptor(file.into()));
    Ok(Stdio::plain([null()?, null()?, null()?]))
}

fn plan() -> Result<LaunchPlan, Failed> {
    let mut tree = Vec::new();
    for path in ["/usr", "/bin", "/lib", "/lib64"].map(Path::new) {
        let place = match fs::read_link(path) {
            Ok(target) => Place::Symlink(target.into()),
            Err(_) if path.exists() => Place::ReadOnly(HostPath::new(path)?),
            Err(_) => continue,
        };
        tree.push(Entry { path: InsidePath::new(path)?, place });
    }
    tree.push(Entry { path: InsidePath::new("/run")?, place: Place::Private });
    let (uid, gid) = inside_ids();
    Ok(LaunchPlan {
        tree,
        identity: Identity { uid, gid, home: InsidePath::root() },
        hostname: "machine".to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    })
}

fn nothing_is_left() -> Result<(), Failed> {
    let children = fs::read_to_string("/proc/thread-self/children")?;
    let threads = fs::read_dir("/proc/self/task")?.count();
    assert_eq!((children.as_str(), threads), ("", 1));
    Ok(())
}
