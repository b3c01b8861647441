//! systemd as process 1 in namespaces of a test's own, over the machine's own programs, or those of another system
//! (`scripts/test-systemd`).
//!
//! It takes about a second. The users in it are `alice` and `bob`, who may ask the runner, `carol`, who may not,
//! and `pi-agent` and `pi-bob`, whom sessions run as.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{User, executable, skip};

const BOOT: &str = include_str!("systemd/boot.sh");
/// The units as they are shipped.
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
/// Where the programs lie in there.
pub const PINFOLD: &str = "/opt/pinfold";
const RUNNER: &str = "/opt/pinfold-runner";
const NEEDED: [&str; 7] = [
    "usr/lib/systemd/systemd",
    "usr/bin/systemd-run",
    "usr/bin/dbus-daemon",
    "usr/bin/nsenter",
    "usr/bin/setpriv",
    "usr/bin/unshare",
    "usr/sbin/pivot_root",
];
/// What has the directory of another system, whose programs are used.
const OTHER: &str = "PINFOLD_TEST_SYSTEM";
/// Units that would change the machine itself, or take a while.
const MASKED: [&str; 10] = [
    "kmod-static-nodes.service",
    "modprobe@.service",
    "systemd-binfmt.service",
    "systemd-modules-load.service",
    "systemd-remount-fs.service",
    "systemd-sysctl.service",
    "systemd-sysusers.service",
    "systemd-tmpfiles-setup.service",
    "systemd-tmpfiles-setup-dev.service",
    "proc-sys-fs-binfmt_misc.automount",
];
/// Names with their ids; each has a group of the same name and number.
const USERS: [(&str, u32); 7] = [
    ("root", 0),
    ("messagebus", 81),
    ("pi-agent", 990),
    ("pi-bob", 991),
    ("alice", 1000),
    ("bob", 1001),
    ("carol", 1002),
];
/// The group of the runner's socket.
const SOCKET_GROUP: u32 = 989;
/// How long the boot may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running system.
#[derive(Debug)]
pub struct Systemd {
    boot: Child,
    /// systemd's id on this machine.
    pub process: u32,
    base: TempDir,
    name: String,
}

impl Systemd {
    /// Boots one with this policy for the runner; none, with the reason printed, where that is impossible.
    #[must_use]
    pub fn boot(test: &str, policy: &str) -> Option<Self> {
        Self::boot_programs(test, policy, Path::new(executable()))
    }

    /// Returns the same with this executable of pinfold's, and the runner next to it.
    #[must_use]
    pub fn boot_programs(test: &str, policy: &str, pinfold: &Path) -> Option<Self> {
        Self::start(test, Some(policy), pinfold)
    }

    /// Boots one that is not set up: without a policy, units, the group of the socket, and a service user.
    #[must_use]
    pub fn boot_bare(test: &str) -> Option<Self> {
        Self::start(test, None, Path::new(executable()))
    }

    fn start(test: &str, policy: Option<&str>, pinfold: &Path) -> Option<Self> {
        if let Some(reason) = obstacle(pinfold) {
            skip(test, &reason);
            return None;
        }
        let base = tempfile::Builder::new().prefix("pf-sd-").tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let name = base.path().file_name().unwrap().to_str().unwrap().to_owned();
        furnish(&base.path().join("tree"), policy, pinfold);
        let script = base.path().join("boot.sh");
        fs::write(&script, BOOT).unwrap();
        let log = fs::File::create(base.path().join("log")).unwrap();
        let mut boot = User::current().command("sh");
        boot.arg(script).arg(base.path().join("tree")).arg(&name).arg(programs());
        boot.stdin(Stdio::null());
        let boot = boot.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut system = Self { boot, process: 0, base, name };
        system.await_boot();
        if policy.is_some() {
            system.make_state();
        }
        Some(system)
    }

    /// Makes the directories of the service users, which a set-up makes otherwise.
    fn make_state(&self) {
        let state = self.live_path("/var/lib/pi-agent");
        for (path, owner) in
            [("", "root"), ("users", "root"), ("users/alice", "pi-agent"), ("users/bob", "pi-bob")]
        {
            let path = state.join(path);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            own(&path, owner);
        }
    }

    fn await_boot(&mut self) {
        let begun = Instant::now();
        let children = format!("/proc/{0}/task/{0}/children", self.boot.id());
        loop {
            let children = fs::read_to_string(&children).unwrap_or_default();
            if let Ok(process) = children.trim().parse() {
                self.process = process;
                let is_active = self
                    .as_user("root")
                    .args(["systemctl", "is-active", "--quiet", "basic.target"])
                    .status();
                if is_active.unwrap().success() {
                    return;
                }
            }
            let log = || fs::read_to_string(self.base.path().join("log")).unwrap_or_default();
            assert!(self.boot.try_wait().unwrap().is_none(), "systemd has ended: {}", log());
            assert!(begun.elapsed() < PATIENCE, "systemd does not get ready: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns a command, to which the program and its arguments are added, that runs in there as a user.
    #[must_use]
    pub fn as_user(&self, user: &str) -> Command {
        let mut command = User::current().command("nsenter");
        command.arg(format!("--target={}", self.process));
        command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--", "setpriv"]);
        command.arg(format!("--reuid={user}")).arg(format!("--regid={user}")).arg("--init-groups");
        let home = home_of(user);
        command.args(["env", "-i", &format!("--chdir={home}"), &format!("HOME={home}")]);
        command.arg("PATH=/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null());
        command
    }

    /// Runs a shell line as a user until it ends.
    #[must_use]
    pub fn shell(&self, user: &str, line: &str) -> Output {
        self.as_user(user).args(["sh", "-c", line]).output().unwrap()
    }

    /// Returns a file of the system as this machine sees it.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.base.path().join("tree").join(path.trim_start_matches('/'))
    }

    /// Returns a file that only the running system has, as in its `/run`.
    #[must_use]
    pub fn live_path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.process))
    }

    /// Writes the policy of the runner.
    pub fn set_policy(&self, policy: &str) {
        fs::write(self.path("/etc/pinfold/runner.json"), policy).unwrap();
    }

    /// Makes a project of a user's: a directory with a file `a.txt` that holds `hello`.
    pub fn project(&self, user: &str, path: &str) -> PathBuf {
        let mut so_far = self.path("/");
        for name in path.trim_start_matches('/').split('/') {
            so_far.push(name);
            if !so_far.exists() {
                fs::create_dir(&so_far).unwrap();
                own(&so_far, user);
            }
        }
        let file = self.path(path).join("a.txt");
        fs::write(&file, "hello\n").unwrap();
        own(&file, user);
        self.path(path)
    }

    /// Returns the ids, on this machine, of the system's processes whose command line contains a text.
    #[must_use]
    pub fn processes_with(&self, text: &str) -> Vec<u32> {
        let namespace = |process: u32| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
        let all = crate::processes_with(text).into_iter();
        all.filter(|process| namespace(*process) == namespace(self.process)).collect()
    }

    /// Returns the ids, in there, of processes that run as a service user.
    #[must_use]
    pub fn agents(&self) -> String {
        let output = self.shell("root", "pgrep --uid pi-agent,pi-bob --list-full");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the units of sessions that are there.
    #[must_use]
    pub fn units(&self) -> String {
        let line = "systemctl list-units --all --plain --no-legend 'pinfold-????????????.service'";
        String::from_utf8(self.shell("root", line).stdout).unwrap()
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // With the first process of their namespace all others end.
        let _ = self.boot.kill();
        let _ = self.boot.wait();
        let groups = Path::new("/sys/fs/cgroup");
        let begun = Instant::now();
        while !remove_groups(groups, &self.name) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns why there can be no such system here.
fn obstacle(pinfold: &Path) -> Option<String> {
    if !User::current().is_root() {
        return Some("needs root".to_owned());
    }
    let programs = programs();
    if let Some(missing) = NEEDED.iter().find(|program| !programs.join(program).exists()) {
        return Some(format!("needs {}", programs.join(missing).display()));
    }
    if !fs::symlink_metadata(programs.join("lib")).unwrap().is_symlink() {
        return Some("needs a system whose programs all lie in /usr".to_owned());
    }
    let is_roots = |program: &Path| fs::metadata(program).is_ok_and(|file| file.uid() == 0);
    let runner = runner(pinfold);
    (!is_roots(pinfold) || !is_roots(&runner)).then(|| {
        format!(
            "needs {} (`cargo build --package pinfold-runner`), built by root",
            runner.display()
        )
    })
}

/// Returns the system whose programs are used.
#[must_use]
pub fn programs() -> PathBuf {
    std::env::var_os(OTHER).map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

fn runner(pinfold: &Path) -> PathBuf {
    pinfold.with_file_name("pinfold-runner")
}

fn furnish(tree: &Path, policy: Option<&str>, pinfold: &Path) {
    for directory in [
        "usr",
        "proc",
        "sys",
        "run",
        "tmp",
        "var",
        "dev",
        "root",
        "srv",
        "opt",
        "home",
        "etc/systemd/system",
    ] {
        fs::create_dir_all(tree.join(directory)).unwrap();
    }
    for link in ["bin", "sbin", "lib", "lib64"] {
        if let Ok(to) = fs::read_link(programs().join(link)) {
            symlink(to, tree.join(link)).unwrap();
        }
    }
    let etc = |name: &str, content: &str| fs::write(tree.join("etc").join(name), content).unwrap();
    let user: fn((&str, u32)) -> String =
        |(name, id)| format!("{name}:x:{id}:{id}::{}:/bin/sh\n", home_of(name));
    let group: fn((&str, u32)) -> String = |(name, id)| format!("{name}:x:{id}:\n");
    let users: Vec<(&str, u32)> = USERS
        .into_iter()
        .filter(|(name, _)| policy.is_some() || !name.starts_with("pi-"))
        .collect();
    let lines =
        |line: fn((&str, u32)) -> String| users.iter().copied().map(line).collect::<String>();
    etc("passwd", &lines(user));
    etc("group", &format!("{}tty:x:5:\n", lines(group)));
    etc("nsswitch.conf", "passwd: files\ngroup: files\n");
    etc("machine-id", "0123456789abcdef0123456789abcdef\n");
    fs::copy(programs().join("etc/ld.so.cache"), tree.join("etc/ld.so.cache")).unwrap();
    let units = tree.join("etc/systemd/system");
    if let Some(policy) = policy {
        set_up(tree, policy);
    }
    for unit in MASKED {
        symlink("/dev/null", units.join(unit)).unwrap();
    }
    for (program, to) in [(pinfold, PINFOLD), (&runner(pinfold), RUNNER)] {
        let to = tree.join(to.trim_start_matches('/'));
        // On another file system it is copied.
        fs::hard_link(program, &to).or_else(|_| fs::copy(program, &to).map(drop)).unwrap();
    }
    for name in ["alice", "bob", "carol"] {
        let home = tree.join("home").join(name);
        fs::create_dir(&home).unwrap();
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
        own(&home, name);
    }
}

/// Sets the tree up by hand, with the runner where it was built.
fn set_up(tree: &Path, policy: &str) {
    let units = tree.join("etc/systemd/system");
    let own = ["pinfold-runner.service.d", "sockets.target.wants"].map(|name| units.join(name));
    own.iter().chain([&tree.join("etc/pinfold")]).for_each(|path| fs::create_dir(path).unwrap());
    fs::write(tree.join("etc/pinfold/runner.json"), policy).unwrap();
    let own = format!("[Service]\nExecStart=\nExecStart={RUNNER}\n");
    fs::write(units.join("pinfold-runner.service.d/test.conf"), own).unwrap();
    let group = format!("pinfold:x:{SOCKET_GROUP}:alice,bob\n");
    let groups = fs::read_to_string(tree.join("etc/group")).unwrap() + &group;
    fs::write(tree.join("etc/group"), groups).unwrap();
    for entry in fs::read_dir(UNITS).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), units.join(entry.file_name())).unwrap();
    }
    symlink("../pinfold-runner.socket", units.join("sockets.target.wants/pinfold-runner.socket"))
        .unwrap();
}

fn home_of(user: &str) -> String {
    match user {
        "root" => "/root".to_owned(),
        "alice" | "bob" | "carol" => format!("/home/{user}"),
        _ => "/".to_owned(),
    }
}

fn id_of(user: &str) -> u32 {
    USERS.iter().find(|(name, _)| *name == user).unwrap().1
}

/// Makes a user of the system the owner of a file.
pub fn own(path: &Path, user: &str) {
    let id = id_of(user);
    chown(path, Some(id), Some(id)).unwrap();
}

/// Removes the control groups of a system in every hierarchy; whether none is left.
fn remove_groups(groups: &Path, name: &str) -> bool {
    let hierarchies = fs::read_dir(groups).into_iter().flatten().flatten();
    let tops = hierarchies.map(|entry| entry.path().join(name)).chain([groups.join(name)]);
    let mut is_clean = true;
    for top in tops.filter(|top| top.is_dir()) {
        remove_group(&top);
        is_clean &= !top.exists();
    }
    is_clean
}

fn remove_group(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}
