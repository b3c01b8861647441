//! A machine on a tree that the file server serves, attacked by root of its guest. The guest is this very program, and
//! runs scripts of the host's by the host's own shell, which the tree has.
//!
//! One test has all attacks, because a machine takes seconds of processor time to boot.

#[path = "../../pinfold-vm/tests/support/greeting.rs"]
mod greeting;
#[path = "../../pinfold-vm/tests/support/mod.rs"]
mod support;

use std::fs;
use std::io::{BufRead as _, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_boundary::namespace::{inside_ids, serve};
use pinfold_boundary::{
    Entry, Identity, Inside, Landlock, LaunchPlan, Mask, MaskKind, Place, ResourceLimits,
};
use pinfold_mux::{Local, Multiplexer, Notice};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_virtiofs::FileServer;
use pinfold_vm::{Machine as _, Qemu, QemuMachine, Spec, guest};
use pinfold_wire::Report;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit};

use support::Failed;

/// Where the workspace is, on both sides; in the guest also another grant, which is read-only.
const GRANT: &str = "/opt/grant";
/// How many files the server may have open, which is fewer than a guest looks at.
const OPEN_FILES: u64 = 4096;
const MANY_FILES: u64 = 3 * OPEN_FILES;
/// A file that is made for the session beneath a private directory.
const MADE: &str = "/tmp/made";

fn main() -> Result<(), Failed> {
    if std::process::id() == 1 {
        return be_guest();
    }
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "--hold") {
        return hold(&arguments[2..]);
    }
    support::run("root_of_a_guest_breaks_nothing_of_its_tree", root_of_a_guest_breaks_nothing)
}

/// Runs each script that comes as a stream, and answers with what it says.
fn be_guest() -> Result<(), Failed> {
    let mut multiplexer = Multiplexer::guest(guest::open_channel()?)?;
    loop {
        for notice in multiplexer.turn(&[], None)?.1 {
            if let Notice::Opened { id, label } = notice {
                let (near, far) = UnixStream::pair()?;
                multiplexer.attach(id, Local::socket(far.into())?);
                if label == b"script" {
                    std::thread::spawn(move || run_script(near));
                } else if label == b"attributes" {
                    std::thread::spawn(move || set_attributes(near));
                } else {
                    enter_tree(Path::new(std::ffi::OsStr::from_bytes(&label)))?;
                }
            }
        }
    }
}

/// Makes the tree with this workspace the root.
fn enter_tree(workspace: &Path) -> Result<(), Failed> {
    let (path, kind) = (workspace.to_owned(), guest::Beneath::Granted);
    let made = guest::Place { path: MADE.into(), kind: guest::Beneath::Made };
    let tree = guest::Tree {
        ids: (1000, 1000),
        private: vec!["/tmp".into(), "/run".into()],
        beneath: vec![guest::Place { path, kind }, made],
        ..guest::Tree::default()
    };
    tree.enter()?;
    Ok(guest::keep_inodes_below(OPEN_FILES)?)
}

#[expect(clippy::disallowed_methods, reason = "what runs is a guest's")]
fn run_script(mut stream: UnixStream) -> std::io::Result<()> {
    let mut script = String::new();
    stream.read_to_string(&mut script)?;
    let output =
        || stream.try_clone().map(|stream| std::process::Stdio::from(OwnedFd::from(stream)));
    let mut shell = std::process::Command::new("/bin/sh");
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    shell.args(["-c", &script]).env_clear().env("PATH", path).env("LC_ALL", "C");
    let status = shell.stdout(output()?).stderr(output()?).status()?;
    write!(stream, "status {}", status.code().unwrap_or(-1))
}

/// Sets attributes of a file, and answers which were set.
fn set_attributes(mut stream: UnixStream) -> std::io::Result<()> {
    let mut path = String::new();
    stream.read_to_string(&mut path)?;
    // A capability to administer the system, for programs that execute it (capabilities(7), version 2).
    let capability = [1, 0, 0, 2, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let names =
        ["user.mine", "security.capability", "trusted.overlay.opaque", "system.posix_acl_access"];
    for name in names {
        let flags = rustix::fs::XattrFlags::empty();
        let set = rustix::fs::setxattr(&path, name, &capability, flags);
        writeln!(stream, "{name}: {}", if set.is_ok() { "set" } else { "refused" })?;
    }
    Ok(())
}

/// A running machine with its file server.
struct Running {
    multiplexer: Multiplexer,
    machine: Option<QemuMachine>,
    files: Inside,
}

impl Running {
    /// Runs a script as root of the guest. Returns what it says, and last its status.
    fn run(&mut self, script: &str) -> Result<String, Failed> {
        self.ask(b"script", script)
    }

    fn ask(&mut self, label: &[u8], question: &str) -> Result<String, Failed> {
        let (mut near, far) = UnixStream::pair()?;
        let id = self.multiplexer.open(label, Local::socket(far.into())?)?;
        near.write_all(question.as_bytes())?;
        near.shutdown(std::net::Shutdown::Write)?;
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let turned = self.multiplexer.turn(&[], Some(left));
            let (_, notices) = match turned {
                Ok(turned) => turned,
                Err(error) => {
                    let machine = self.machine.take().map(|machine| machine.end());
                    return Err(format!("{error}\n{}", machine.unwrap_or_default()).into());
                }
            };
            if notices.contains(&Notice::Closed(id)) {
                break;
            }
            if left.is_zero() {
                return Err(format!("no end of: {question}").into());
            }
        }
        let mut said = String::new();
        near.read_to_string(&mut said)?;
        Ok(said)
    }

    /// Expects that each script fails with a message, and that none succeeds.
    fn refuses(&mut self, attempts: &[(String, &str)]) -> Result<(), Failed> {
        let mut unexpected = String::new();
        for (script, message) in attempts {
            let said = self.run(script)?;
            if !said.contains(message) || said.ends_with("status 0") {
                unexpected.push_str(&format!("{script}\n{said}\nexpected: {message}\n\n"));
            }
        }
        if unexpected.is_empty() { Ok(()) } else { Err(unexpected.into()) }
    }
}

fn root_of_a_guest_breaks_nothing() -> Result<(), Failed> {
    // The server has the limit of its supervisor.
    let files = Rlimit { current: Some(OPEN_FILES), maximum: Some(OPEN_FILES) };
    rustix::process::setrlimit(Resource::Nofile, files)?;
    let directory = tempfile::tempdir()?;
    let Some((qemu, spec)) = support::prepare(directory.path(), true)? else { return Ok(()) };
    let workspace = tempfile::tempdir()?;
    let workspace = workspace.path().canonicalize()?;
    let grant = tempfile::tempdir()?;
    fill(&workspace, grant.path())?;
    let mut running = start(&qemu, &spec, &workspace, grant.path())?;
    works(&mut running, &workspace)?;
    changes_of_the_host_are_seen_in_a_grant(&mut running, grant.path())?;
    attacks_fail(&mut running, &workspace)?;
    many_files_are_seen(&mut running, &workspace)?;
    let Running { machine, files, .. } = running;
    drop(machine);
    has_ended(files.ended(), "the file server")?;
    dies_with_its_supervisor(&spec, &workspace, grant.path())
}

fn start(qemu: &Qemu, spec: &Spec, workspace: &Path, grant: &Path) -> Result<Running, Failed> {
    let mut machine = QemuMachine::boot(qemu, spec)?;
    let channel = machine.channel()?;
    let listener = machine.files().ok_or("no door for files")?;
    let server = Box::new(FileServer::new(listener));
    let mut files = serve(plan(workspace, grant)?, server, None, machine.process().group())?;
    files.seal(masks(workspace))?;
    let born = files.channel.receive::<Report>()?.map(|received| received.message);
    assert_eq!(born, Some(Report::Born));
    let (machine, multiplexer) = greeting::greet(Multiplexer::host(channel)?, machine)?;
    let mut running = Running { multiplexer, machine: Some(machine), files };
    let (_near, far) = UnixStream::pair()?;
    running.multiplexer.open(workspace.as_os_str().as_bytes(), Local::socket(far.into())?)?;
    Ok(running)
}

/// More files are looked at than the server may have open, and then used.
fn many_files_are_seen(running: &mut Running, workspace: &Path) -> Result<(), Failed> {
    let many = workspace.join("many");
    fs::create_dir(&many)?;
    for number in 0..MANY_FILES {
        fs::write(many.join(format!("{number}")), "x")?;
    }
    let start = Instant::now();
    let said = running.run(&format!(
        "cd {}; find . -type f -size +0 | wc -l; cat 0; /bin/true",
        many.display()
    ))?;
    assert_eq!(said, format!("{MANY_FILES}\nxstatus 0"));
    println!("{MANY_FILES} files in {:?}", start.elapsed());
    Ok(())
}

/// Starts a machine, says which process serves its files, and waits to be killed.
fn hold(words: &[String]) -> Result<(), Failed> {
    let [kernel, initramfs, workspace, grant] = words else { return Err("four paths".into()) };
    let (kernel, initramfs) = (kernel.into(), initramfs.into());
    let spec =
        Spec { kernel, initramfs, memory: 512, cpus: 1, share: None, changes: 0, has_tree: true };
    let running = start(&support::qemu()?, &spec, workspace.as_ref(), grant.as_ref())?;
    let number = running.files.ended().as_raw_fd();
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let process = about.lines().find_map(|line| line.strip_prefix("Pid:\t"));
    println!("{}", process.ok_or("no process")?);
    loop {
        std::thread::park();
    }
}

/// A kill of the supervisor leaves nothing.
#[expect(clippy::disallowed_methods, reason = "a test starts the supervisor that it kills")]
fn dies_with_its_supervisor(spec: &Spec, workspace: &Path, grant: &Path) -> Result<(), Failed> {
    let mut supervisor = std::process::Command::new("/proc/self/exe")
        .arg("--hold")
        .args([&spec.kernel, &spec.initramfs])
        .args([workspace, grant])
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let output = supervisor.stdout.take().ok_or("no output")?;
    let lines = std::io::BufReader::new(output).lines();
    let server = lines.map_while(Result::ok).find_map(|line| line.parse().ok());
    let mut processes = vec![server.ok_or("it did not start")?];
    for process in support::processes()? {
        let number = process.file_name().and_then(|name| name.to_str()?.parse().ok());
        processes.push(number.ok_or("not a process")?);
    }
    assert_eq!(processes.len(), 2, "{processes:?}");
    let held = processes.into_iter().map(|number| {
        let process = Pid::from_raw(number).ok_or(rustix::io::Errno::SRCH)?;
        rustix::process::pidfd_open(process, PidfdFlags::empty())
    });
    let held = held.collect::<Result<Vec<_>, _>>()?;
    supervisor.kill()?;
    supervisor.wait()?;
    held.iter().try_for_each(|process| has_ended(process.as_fd(), "a process of the machine"))
}

/// The guest keeps what it has read of a read-only grant, and yet sees what the host saves there in place, with the same
/// length, and what it adds and removes.
fn changes_of_the_host_are_seen_in_a_grant(
    running: &mut Running,
    grant: &Path,
) -> Result<(), Failed> {
    let names = format!("ls {GRANT}; cat {GRANT}/file");
    for _ in 0..2 {
        assert_eq!(running.run(&names)?, "file\ngranted\nstatus 0");
    }
    let seen = |what: &str| {
        format!(
            "for try in $(seq 100); do {what} && exit 0; sleep 0.1; done 2>/dev/null; {names}; exit 1"
        )
    };
    fs::write(grant.join("file"), "changed\n")?;
    let said = running.run(&seen(&format!("grep -q changed {GRANT}/file")))?;
    assert_eq!(said, "status 0", "a change is not seen");
    fs::write(grant.join("added"), "")?;
    let said = running.run(&seen(&format!("ls {GRANT} | grep -q added")))?;
    assert_eq!(said, "status 0", "a new file is not seen");
    fs::remove_file(grant.join("added"))?;
    let said = running.run(&seen(&format!("! ls {GRANT} | grep -q added")))?;
    assert_eq!(said, "status 0", "a removed file is seen");
    fs::write(grant.join("file"), "granted\n")?;
    let said = running.run(&seen(&format!("grep -q granted {GRANT}/file")))?;
    assert_eq!(said, "status 0", "a change back is not seen");
    Ok(())
}

/// Waits for the end of a process.
fn has_ended(process: BorrowedFd<'_>, what: &str) -> Result<(), Failed> {
    let mut ended = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    let count = rustix::event::poll(&mut ended, Some(&patience))?;
    if count == 1 { Ok(()) } else { Err(format!("{what} outlives it").into()) }
}

fn fill(workspace: &Path, grant: &Path) -> Result<(), Failed> {
    for directory in ["secret", "fixed", ".git"] {
        fs::create_dir(workspace.join(directory))?;
    }
    for (file, content) in [
        ("secret/key", "hidden"),
        ("token", "hidden"),
        ("fixed/file", "fixed"),
        (".git/config", "git"),
        ("file", "of the host\n"),
    ] {
        fs::write(workspace.join(file), content)?;
    }
    fs::write(grant.join("file"), "granted\n")?;
    fs::set_permissions(grant, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn plan(workspace: &Path, grant: &Path) -> Result<LaunchPlan, Failed> {
    let mut tree = Vec::new();
    for path in ["/usr", "/bin", "/sbin", "/lib", "/lib64"].map(Path::new) {
        let place = match fs::read_link(path) {
            Ok(target) => Place::Symlink(target.into()),
            Err(_) => Place::ReadOnly(HostPath::new(path)?),
        };
        tree.push(Entry { path: InsidePath::new(path)?, place });
    }
    let mut add = |path: &Path, place| -> Result<(), Failed> {
        tree.push(Entry { path: InsidePath::new(path)?, place });
        Ok(())
    };
    add("/tmp".as_ref(), Place::Private)?;
    add("/run".as_ref(), Place::Private)?;
    add(GRANT.as_ref(), Place::ReadOnly(HostPath::new(grant)?))?;
    add(workspace, Place::Writable(HostPath::new(workspace)?))?;
    let passwd = b"user:x:1000:1000::/:/bin/sh\n".to_vec();
    add("/etc/passwd".as_ref(), Place::File { content: passwd, mode: 0o644, keep: false })?;
    let content = b"made\n".to_vec();
    add(MADE.as_ref(), Place::File { content, mode: 0o600, keep: false })?;
    let (uid, gid) = inside_ids();
    Ok(LaunchPlan {
        tree,
        identity: Identity { uid, gid, home: InsidePath::root() },
        hostname: "tree".to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    })
}

fn masks(workspace: &Path) -> Vec<Mask> {
    [
        ("secret", MaskKind::Hide),
        ("token", MaskKind::Hide),
        ("fixed", MaskKind::ReadOnly),
        (".git", MaskKind::Pin),
    ]
    .map(|(name, kind)| Mask {
        path: workspace.join(name).as_os_str().as_encoded_bytes().to_vec(),
        kind,
    })
    .into()
}

/// What a file system is for works, and what is made belongs to the caller.
fn works(running: &mut Running, workspace: &Path) -> Result<(), Failed> {
    let said = running.run(&format!(
        "set -e; cd {0}; cat file; cat {GRANT}/file; echo made >made; chmod 640 made; mkdir -p a/b; \
         ln made a/b/hard; ln -s ../made a/soft; cat a/soft; mv a/b/hard a/renamed; cp /bin/true program; \
         ./program; stat -c %a made; ls -A secret; wc -c <token; cat /tmp/made; rm /tmp/made; stat -f -c %T /tmp .; id -u; ls /proc/self/exe /dev/null",
        workspace.display()
    ))?;
    let expected = "of the host\ngranted\nmade\n640\n0\nmade\ntmpfs\nfuseblk\n0\n/dev/null\n/proc/self/exe\nstatus 0";
    assert_eq!(said, expected);
    let made = fs::metadata(workspace.join("made"))?;
    assert_eq!((made.mode() & 0o7777, made.nlink()), (0o640, 2));
    assert_eq!(made.uid(), rustix::process::geteuid().as_raw());
    // What the host changes is seen within the time that is believed.
    fs::write(workspace.join("file"), "changed\n")?;
    let said = running.run(&format!("sleep 1.1; cat {}/file", workspace.display()))?;
    assert_eq!(said, "changed\nstatus 0");
    Ok(())
}

/// What root of the guest would do to read what is hidden, or to change what is not its own.
fn attacks_fail(running: &mut Running, workspace: &Path) -> Result<(), Failed> {
    let at = workspace.display();
    let script = |text: &str| text.replace('@', &at.to_string());
    const READ_ONLY: &str = "Read-only file system";
    const BUSY: &str = "Device or resource busy";
    const REFUSED: &str = "Operation not permitted";
    const MISSING: &str = "No such file or directory";
    running.refuses(
        [
            ("echo x >/opt/grant/file", READ_ONLY),
            ("echo x >>/usr/bin/true", "Permission denied"),
            ("echo x >@/fixed/file", READ_ONLY),
            ("rm @/fixed/file", READ_ONLY),
            ("mkdir /new", READ_ONLY),
            ("echo x >@/token", READ_ONLY),
            ("umount /run; touch /run/pinfold/x", READ_ONLY),
            // Another kernel's mount flags are its own.
            ("mount -o remount,rw / && echo x >/opt/grant/file", READ_ONLY),
            ("mount -o remount,rw,bind /opt/grant && echo x >/opt/grant/file", READ_ONLY),
            ("mount -o remount,suid,dev /; chmod u+s @/program", REFUSED),
            // A submount of the guest's is taken off there, and nowhere else.
            ("umount @/secret; cat @/secret/key", MISSING),
            ("umount -l @/fixed; echo x >@/fixed/file", READ_ONLY),
            (
                "mkdir /tmp/again; mount -t virtiofs root /tmp/again || exit 0; cat /tmp/again@/secret/key",
                MISSING,
            ),
            ("mkdir -p /tmp/one; mount --bind / /tmp/one || exit 0; cat /tmp/one@/secret/key", MISSING),
            ("mv @/secret @/away", BUSY),
            ("mv @/.git @/away", BUSY),
            ("mv @/fixed @/away", BUSY),
            ("rmdir @/secret", BUSY),
            ("rm -f @/token", BUSY),
            ("mv @/file @/token", BUSY),
            // The guest's kernel refuses these for its own submounts, until they are taken off.
            ("umount -l @/secret; mv @/secret @/away", BUSY),
            ("umount -l @/fixed; mv @/fixed @/away", BUSY),
            ("umount -l @/secret; rmdir @/secret", BUSY),
            ("ln @/fixed/file @/linked", "Invalid cross-device link"),
            ("ln @/token @/linked", "Invalid cross-device link"),
            ("ln -s /etc/shadow @/shadow; cat @/shadow", MISSING),
            ("ln -s ../../../../../../../../etc/shadow @/above; cat @/above", MISSING),
            ("cat @/../../../../../../../../root/.bashrc", MISSING),
            ("mknod @/disk b 8 0", REFUSED),
            ("mknod @/memory c 1 1", REFUSED),
            ("chown 0 @/file", ""),
            ("chown 4242 @/file", ""),
            ("chmod u+s @/program", REFUSED),
            // No /proc, /dev or socket of the host's lies below those of the guest.
            ("mkdir -p /tmp/two; mount -t virtiofs root /tmp/two || exit 0; test -e /tmp/two/proc/self", ""),
            ("umount -l /dev || exit 0; test -e /dev/null", ""),
            ("umount -l /proc || exit 0; test -e /proc/self", ""),
        ]
        .map(|(text, message)| (script(text), message))
        .as_slice(),
    )?;
    let said = running.ask(b"attributes", &format!("{at}/file"))?;
    let others = "security.capability: refused\ntrusted.overlay.opaque: refused\nsystem.posix_acl_access: refused\n";
    assert_eq!(said, format!("user.mine: set\n{others}"));
    is_unharmed(workspace)
}

/// The host's files are as they were.
fn is_unharmed(workspace: &Path) -> Result<(), Failed> {
    for (file, content) in [("secret/key", "hidden"), ("token", "hidden"), ("fixed/file", "fixed")]
    {
        assert_eq!(fs::read_to_string(workspace.join(file))?, content, "{file}");
    }
    for gone in ["away", "linked", "disk", "memory"] {
        assert!(fs::symlink_metadata(workspace.join(gone)).is_err(), "{gone}");
    }
    let program = fs::metadata(workspace.join("program"))?;
    assert_eq!(program.mode() & 0o6000, 0);
    let owner = rustix::process::geteuid().as_raw();
    assert_eq!(fs::metadata(workspace.join("file"))?.uid(), owner);
    Ok(())
}
