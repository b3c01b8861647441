//! One whole attack of a host user on another one, which once worked: a set-user-ID file of the service user's.
//!
//! Each step is tried, and then given, so that the next one is tried as well.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use pinfold_boundary::{
    Door, Entry, Identity, Landlock, LaunchPlan, Place, Program, ResourceLimits, Stdio, StdioEnd,
};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_testkit::systemd::{PINFOLD, Systemd, own, programs};
use pinfold_testkit::{installed, skip};
use pinfold_wire::{Channel, DecodeError, LaunchOrder, Order, Report, Wire, Writer};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::requests::{Hostile, request};
use crate::{nothing_is_left, run, system, text, until};

const PROJECT: &str = "/home/alice/work/proj";
/// A directory of alice's that everybody may write to, in no project. The sandbox gets it as its standard input.
const LOOT: &str = "/home/alice/loot";
/// What runs in the sandbox: makes a shell there, and tries to give it, and files of the project, modes with set-id bits.
const INSIDE: &str = include_str!("set_id/inside.py");

/// python takes no directory for its input.
const START: &str = r#"exec 3<&0 </dev/null /usr/bin/python3 -I -c "$0" "$1""#;

/// What init's parent takes (`pinfold_boundary::managed::errand`), with the flag by which init's filter would let set-id
/// modes be made.
struct Errand {
    plan: LaunchPlan,
}

impl Wire for Errand {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let (owner_is_other, memory_is_bounded, configuration) = (0, 1, 0);
        writer.bytes(&self.plan.encode()).u8(owner_is_other);
        writer.u8(memory_is_bounded).u64(1024).u8(configuration);
        let usr = fs::metadata(programs().join("usr")).unwrap();
        writer.u32(1).bytes(b"/usr").u64(usr.dev()).u64(usr.ino());
        writer.finish()
    }

    fn decode(_: &[u8]) -> Result<Self, DecodeError> {
        Err(DecodeError::Unknown { what: "errand", value: 0 })
    }
}

fn plan(uid: u32) -> LaunchPlan {
    let entry = |path: &str, place: Place| Entry { path: InsidePath::new(path).unwrap(), place };
    let host = |path: &str| HostPath::new(path).unwrap();
    let mut tree = vec![entry("/usr", Place::ReadOnly(host("/usr")))];
    for name in ["bin", "lib", "lib64"] {
        let to = fs::read_link(programs().join(name)).unwrap().into_os_string();
        tree.push(entry(&format!("/{name}"), Place::Symlink(to)));
    }
    tree.push(entry("/home/agent", Place::Private));
    // The first one is that of caches.
    tree.push(entry(PROJECT, Place::Writable(host("/run/pinfold/handed/1"))));
    LaunchPlan {
        tree,
        identity: Identity { uid, gid: uid, home: InsidePath::new("/home/agent").unwrap() },
        hostname: "evil".to_owned(),
        doors: Vec::<Door>::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::AtMost(0),
        nested: false,
        leaves_nothing: false,
    }
}

/// Has a unit started by a hand-made request, and gives its init this plan.
fn begin(hostile: &Hostile<'_>, plan: LaunchPlan) -> (Channel, Channel) {
    // Its name is that of the one before.
    crate::nothing_is_left(hostile.system);
    let (program, project) = (hostile.open(PINFOLD), hostile.open(PROJECT));
    let message = pinfold_runner_client::encode(&request(&[PROJECT])).unwrap();
    let (socket, refusal) = hostile.begin(&message, &[program.as_fd(), project.as_fd()]);
    assert_eq!(refusal, None);
    let channel = Channel::from(socket);
    let (attendant, theirs) = Channel::pair().unwrap();
    channel.plan(&Errand { plan }, &[theirs.as_fd()]).unwrap();
    (channel, attendant)
}

/// Runs the program inside with the directory as its input, and returns what it says.
fn ran(hostile: &Hostile<'_>, input: OwnedFd) -> String {
    let (channel, attendant) = begin(hostile, plan(1000));
    let made = attendant.receive::<LaunchOrder>().unwrap();
    assert!(made.is_some(), "{:?}", channel.receive::<Report>());
    let (said, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let program = Program {
        argv: ["/bin/sh", "-c", START, INSIDE, PROJECT].map(Into::into).into(),
        env: Vec::new(),
        cwd: InsidePath::root(),
        ignored: 0,
    };
    let ends = [StdioEnd::Descriptor(input), StdioEnd::Descriptor(output), StdioEnd::Same(1)];
    let stdio = Stdio::plain(ends);
    let (streams, descriptors): (_, Vec<BorrowedFd<'_>>) = stdio.to_wire();
    channel.command(&program.to_wire(), streams, &descriptors).unwrap();
    channel.seal(Vec::new()).unwrap();
    channel.send(&Order::Start(Vec::new()), &[]).unwrap();
    drop(stdio);
    let mut all = String::new();
    File::from(said).read_to_string(&mut all).unwrap();
    all
}

/// Files of alice's that have a set-id bit.
fn set_id_files(system: &Systemd) -> String {
    text(&system.shell("root", "find /home/alice /var/lib/pi-agent -perm /6000").stdout)
}

#[test]
fn set_user_id_file_of_a_session_gives_another_host_user_nothing_at_any_step() {
    let test = "set_user_id_file_of_a_session_gives_nothing";
    if !installed("python3") {
        return skip(test, "the attempts need python3");
    }
    let Some(system) = system(test) else { return };
    let hostile = Hostile::new(&system);
    let bobs = system.project("bob", "/home/bob/work/proj");
    fs::write(bobs.join("secret"), "bob's\n").unwrap();
    own(&bobs.join("secret"), "bob");
    fs::set_permissions(bobs.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let loot = system.path(LOOT);
    fs::create_dir(&loot).unwrap();
    fs::set_permissions(&loot, fs::Permissions::from_mode(0o1777)).unwrap();
    own(&loot, "alice");

    // A sandbox that is root by name could set any mode.
    let (channel, attendant) = begin(&hostile, plan(0));
    assert!(attendant.receive::<LaunchOrder>().unwrap().is_none());
    let said = format!("{:?}", channel.receive::<Report>().unwrap().unwrap().message);
    assert!(said.contains("Identity") || said.contains("Container"), "{said}");
    drop((channel, attendant));

    // One that is not, without Landlock, with a directory of the host's in its hands.
    let input = rustix::fs::open(
        &loot,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY,
        rustix::fs::Mode::empty(),
    );
    let said = ran(&hostile, input.unwrap());
    assert!(said.starts_with("made a shell\n") && said.ends_with("tried\n"), "{said}");
    let shell = fs::metadata(loot.join("shell")).unwrap();
    // So far the attack is real: the file is the service user's, outside.
    assert_eq!((shell.uid(), shell.mode() & 0o7777), (990, 0o755), "{said}");
    assert_eq!(set_id_files(&system), "", "{said}");
    nothing_is_left(&system);

    // Given the file, alice is the service user outside any unit, next to sessions of both.
    let _ = system.shell("root", &format!("chmod 6755 {LOOT}/shell"));
    let became = |line: &str| system.shell("alice", &format!("exec {LOOT}/shell -p -c '{line}'"));
    assert_eq!(text(&became("id --user").stdout), "990\n");
    let mut own_session = crate::waiting(&system, "");
    let line = run("", "touch runs; exec sleep 1000");
    let mut session = system.as_user("bob").args(["sh", "-c", &line]).spawn().unwrap();
    until("bob's session runs", || bobs.join("runs").exists());
    let processes = |user: &str| {
        let found = system.shell("root", &format!("pgrep --uid {user}"));
        let found: Vec<String> = text(&found.stdout).lines().map(str::to_owned).collect();
        assert!(!found.is_empty(), "no process of {user}");
        found
    };
    // One's own sessions are within reach, so that each attempt would do something.
    let join = |process: &str, line: &str| {
        became(&format!("nsenter --preserve-credentials --user --mount --target={process} {line}"))
    };
    let reaches = |process: &String| join(process, "/usr/bin/true").status.success();
    assert!(processes("pi-agent").iter().any(reaches), "the attempts try nothing");
    for process in processes("pi-bob") {
        assert!(!reaches(&process), "{process}");
        for attempt in [
            format!("cat /proc/{process}/root/home/bob/work/proj/secret"),
            format!("ls /proc/{process}/root/"),
            format!("ls /proc/{process}/cwd/"),
            format!("cat /proc/{process}/environ"),
            format!("head -c 1 /proc/{process}/mem"),
            format!("ls /proc/{process}/fd"),
            format!("kill -0 {process}"),
            format!("nsenter --preserve-credentials --user --target={process} /usr/bin/true"),
        ] {
            let tried = became(&attempt);
            assert!(!tried.status.success(), "{attempt}: {}", text(&tried.stdout));
        }
    }
    for attempt in ["cat /home/bob/work/proj/secret", "ls /var/lib/pi-agent/users/bob"] {
        let tried = became(attempt);
        assert!(!tried.status.success(), "{attempt}: {}", text(&tried.stdout));
    }
    assert!(session.try_wait().unwrap().is_none() && own_session.try_wait().unwrap().is_none());
    let _ = system.shell("root", "pkill -KILL --full 'pinfold run'");
    session.wait().unwrap();
    own_session.wait().unwrap();
    nothing_is_left(&system);
}
