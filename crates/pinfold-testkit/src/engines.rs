//! Docker and Podman with all their state in a temporary directory.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::podman::{OWN_LOCKS, end_podman};
use crate::registry::digest_of;
use crate::{User, installed, people, processes_with, skip};

/// What works without a bridge, without CAP_SYS_RESOURCE and on a hybrid hierarchy of control groups.
const CONTAINERS: &str = r#"[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
"#;

/// An engine of a test's own, which is ended when the value is dropped.
pub struct Room {
    /// `docker` or `podman`.
    pub name: &'static str,
    dir: TempDir,
    env: Vec<(&'static str, String)>,
    /// Who runs its daemon without root, if somebody does.
    owner: Option<User>,
    daemon: Option<Child>,
}

impl Room {
    /// Returns one of each engine that works here, and prints which ones do not.
    pub fn all(test: &str) -> Vec<Self> {
        [Self::docker(test), Self::podman(test)].into_iter().flatten().collect()
    }

    /// Starts a Docker daemon that all of the tests' users may use.
    pub fn docker(test: &str) -> Option<Self> {
        let is_there = |name: &str| {
            ["/usr/sbin", "/usr/local/bin", "/usr/local/sbin"]
                .iter()
                .any(|directory| Path::new(directory).join(name).exists())
        };
        if !rustix::process::geteuid().is_root() {
            skip(test, "only root may start a dockerd");
            return None;
        }
        let lacks = ["docker", "dockerd", "busybox"];
        if let Some(lacks) = lacks.iter().find(|name| !(installed(name) || is_there(name))) {
            skip(test, &format!("{lacks} is not installed"));
            return None;
        }
        let dir = tempfile::Builder::new().prefix("pinfold-docker-").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let env = vec![
            ("DOCKER_HOST", format!("unix://{}", dir.path().join("socket").display())),
            ("DOCKER_BUILDKIT", "0".to_owned()),
        ];
        Self { name: "docker", dir, env, owner: None, daemon: None }.served(test)
    }

    /// Starts a Docker daemon in rootless mode, run by a user.
    pub fn users_docker(test: &str, user: User) -> Option<Self> {
        let dir = of_user(test, user, &["docker", "dockerd", "rootlesskit", "newuidmap"])?;
        let path = |name: &str| dir.path().join(name).display().to_string();
        let env = vec![
            ("DOCKER_HOST", format!("unix://{}", path("socket"))),
            ("XDG_RUNTIME_DIR", path("runtime")),
        ];
        Self { name: "docker", dir, env, owner: Some(user), daemon: None }.served(test)
    }

    /// Returns whether the engine runs without root.
    pub fn is_rootless(&self) -> bool {
        self.owner.is_some()
    }

    fn served(mut self, test: &str) -> Option<Self> {
        match self.serve() {
            Ok(()) => Some(self),
            Err(said) => {
                skip(test, &format!("dockerd ends at once: {said}"));
                None
            }
        }
    }

    /// Returns the command that starts the daemon.
    fn starter(&self) -> Command {
        // It takes the places of what it puts into /run for itself.
        const CLEAR: &str =
            "rm -f /run/docker /run/containerd /run/xtables.lock; exec dockerd \"$@\"";
        let Some(owner) = self.owner else { return User::current().command("dockerd") };
        let mut start = owner.command("rootlesskit");
        start.args(["--net=host", "--copy-up=/etc", "--copy-up=/run", "sh", "-c", CLEAR, "sh"]);
        start.arg("--storage-driver=vfs").env("HOME", self.dir.path());
        start.envs(self.env.iter().map(|(name, value)| (name, value)));
        start
    }

    /// Starts the daemon.
    fn serve(&mut self) -> Result<(), String> {
        let path = |name: &str| self.dir.path().join(name).display().to_string();
        let group = people().last().unwrap().gid.to_string();
        let ready = UnixDatagram::bind(path("ready")).unwrap();
        ready.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        if let Some(owner) = self.owner {
            give(path("ready").as_ref(), owner);
        }
        let log = fs::File::create(path("log")).unwrap();
        let mut start = self.starter();
        start
            .args(["--data-root", &path("data"), "--exec-root", &path("exec")])
            .args(["--pidfile", &path("pid"), "--host", &format!("unix://{}", path("socket"))])
            .args(["--bridge=none", "--iptables=false"])
            .args(self.owner.is_none().then(|| format!("--group={group}")))
            .env("NOTIFY_SOCKET", path("ready"))
            // A containerd that is slow to start or to end writes its stacks there.
            .env("TMPDIR", self.dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let mut daemon = start.spawn().unwrap();
        let mut said = [0; 256];
        // sd_notify(3): what comes before is no matter.
        while !ready.recv(&mut said).is_ok_and(|count| said[..count].starts_with(b"READY=1")) {
            if let Ok(Some(_)) = daemon.try_wait() {
                let log = fs::read_to_string(path("log")).unwrap_or_default();
                return Err(log.lines().last().unwrap_or("").to_owned());
            }
        }
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Kills the daemon and all its processes, and calls `also` between. State in memory is lost.
    pub fn lose_power(&mut self, also: impl FnOnce()) {
        let place = self.dir.path().display().to_string();
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        also();
        // containerd and what it has started for containers have the place in their arguments.
        for pid in processes_with(&place) {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        daemon.wait().unwrap();
        self.unmount();
        for name in ["exec", "pid", "socket", "ready"] {
            let path = self.dir.path().join(name);
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
    }

    /// Starts the daemon again with the state on disk.
    pub fn come_back(&mut self) {
        self.serve().unwrap();
    }

    /// Returns Podman with storage of its own.
    pub fn podman(test: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(test, "podman's layers need ranges of ids, which root has");
            return None;
        }
        let lacks = ["podman", "runc", "busybox"];
        let is_there = |name: &str| installed(name) || Path::new("/usr/sbin").join(name).exists();
        if let Some(lacks) = lacks.iter().find(|name| !is_there(name)) {
            skip(test, &format!("{lacks} is not installed"));
            return None;
        }
        let dir = tempfile::Builder::new().prefix("pinfold-podman-").tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
            path("graph"),
            path("run")
        );
        let registries = "unqualified-search-registries = []\n\
                          [[registry]]\nlocation = \"127.0.0.1\"\ninsecure = true\n";
        let mut env = Vec::new();
        for (name, file, text) in [
            ("CONTAINERS_CONF", "containers.conf", CONTAINERS),
            ("CONTAINERS_STORAGE_CONF", "storage.conf", storage.as_str()),
            ("CONTAINERS_REGISTRIES_CONF", "registries.conf", registries),
        ] {
            fs::write(path(file), text).unwrap();
            env.push((name, path(file)));
        }
        Some(Self { name: "podman", dir, env, owner: None, daemon: None })
    }

    /// Returns Podman without root, with storage of the user's own.
    pub fn rootless(test: &str, user: User) -> Option<Self> {
        let dir = of_user(test, user, &["podman", "runc", "newuidmap"])?;
        let path = |name: &str| dir.path().join(name).display().to_string();
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{}\"\nrunroot = \"{}\"\n",
            path("graph"),
            path("run")
        );
        fs::write(path("storage.conf"), storage).unwrap();
        fs::write(path("containers.conf"), OWN_LOCKS).unwrap();
        let env = vec![
            ("CONTAINERS_CONF", path("containers.conf")),
            ("CONTAINERS_STORAGE_CONF", path("storage.conf")),
            ("XDG_RUNTIME_DIR", path("runtime")),
        ];
        Some(Self { name: "podman", dir, env, owner: Some(user), daemon: None })
    }

    /// Sets the variables by which a command finds this engine.
    pub fn open<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.envs(self.env.iter().map(|(name, value)| (name, value)))
    }

    /// Runs the engine's command line until it ends.
    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = User::current().command(self.name);
        self.open(&mut command).args(args).env("HOME", self.dir.path());
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Runs the engine's command line, which has to succeed, and returns its trimmed output.
    pub fn good(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{} {args:?}: {said}", self.name);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns a path below the engine's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes an archive of an image that has a shell and a mark. `created` is a time of RFC 3339.
    pub fn write(&self, name: &str, created: &str, mark: &str) -> PathBuf {
        let archive = self.path("image.tar");
        fs::write(&archive, image(name, created, mark)).unwrap();
        archive
    }

    /// Loads an image as [`Self::write`] makes it.
    pub fn load(&self, name: &str, created: &str, mark: &str) {
        let archive = self.write(name, created, mark);
        self.good(&["load", "--input", &archive.display().to_string()]);
    }

    /// Loads an archive of an image.
    pub fn load_archive(&self, bytes: &[u8]) {
        let archive = self.path("image.tar");
        fs::write(&archive, bytes).unwrap();
        self.good(&["load", "--input", &archive.display().to_string()]);
    }

    /// Returns the reference by which pinfold takes an image of this engine as a base.
    pub fn base(&self, name: &str) -> String {
        let transport = if self.name == "docker" { "docker-daemon" } else { "containers-storage" };
        format!("{transport}:{name}")
    }

    /// Closes the socket to everybody except root, and returns its address.
    pub fn closed_socket(&self) -> String {
        let socket = self.dir.path().join("socket");
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(self.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        format!("unix://{}", socket.display())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let pid = rustix::process::Pid::from_child(daemon);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            daemon.wait().unwrap();
        }
        if self.name == "podman" {
            end_podman(self.dir.path());
        }
        self.unmount();
    }
}

impl Room {
    /// Layers are mounted where a build is killed.
    fn unmount(&self) {
        let tree = self.dir.path().display().to_string();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let below = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for mount in below.filter(|mount| mount.starts_with(&tree)).collect::<Vec<_>>().iter().rev()
        {
            let _ = rustix::mount::unmount(*mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// Returns a directory for an engine of this user's own, where that user can have one with these
/// programs.
fn of_user(test: &str, user: User, programs: &[&str]) -> Option<TempDir> {
    let is_there = |name: &str| installed(name) || Path::new("/usr/sbin").join(name).exists();
    if let Some(lacks) = programs.iter().find(|name| !is_there(name)) {
        skip(test, &format!("{lacks} is not installed"));
        return None;
    }
    let users = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let own = user.command("id").arg("-un").output().unwrap();
    let own = format!("{}:", String::from_utf8_lossy(&own.stdout).trim());
    if !users.lines().any(|line| line.starts_with(&own)) {
        skip(test, "the user has no range in /etc/subuid");
        return None;
    }
    let dir = tempfile::Builder::new().prefix("pinfold-rootless-").tempdir().unwrap();
    give(dir.path(), user);
    let runtime = dir.path().join("runtime");
    fs::create_dir(&runtime).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    give(&runtime, user);
    Some(dir)
}

fn give(path: &Path, user: User) {
    std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).unwrap();
}

/// Returns a layer with busybox and a mark.
pub fn layer(mark: &str) -> tar::Builder<Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    let busybox = fs::read("/bin/busybox").unwrap();
    add(&mut layer, "bin/busybox", 0o755, &busybox);
    for applet in ["sh", "cat", "env", "id", "ls", "stat", "test", "find", "sleep", "sort"] {
        add_link(&mut layer, &format!("bin/{applet}"), "busybox");
    }
    for name in ["mark", "srv/mark"] {
        add(&mut layer, name, 0o644, format!("{mark}\n").as_bytes());
    }
    layer
}

/// Returns an archive as `docker save` writes it: one layer with busybox.
fn image(name: &str, created: &str, mark: &str) -> Vec<u8> {
    pack(name, created, r#"{"Env": ["PATH=/bin"]}"#, vec![layer(mark)])
}

/// Packs layers, the lowest first, into an archive as `docker save` writes it.
pub fn pack(
    name: &str,
    created: &str,
    config: &str,
    layers: Vec<tar::Builder<Vec<u8>>>,
) -> Vec<u8> {
    let layers: Vec<Vec<u8>> = layers.into_iter().map(|one| one.into_inner().unwrap()).collect();
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    let digests: Vec<_> = layers.iter().map(|one| format!("\"{}\"", digest_of(one))).collect();
    let history = format!(r#"{{"created": "{created}", "created_by": "a test"}}"#);
    let history = vec![history; layers.len()].join(", ");
    let config = format!(
        r#"{{"architecture": "{architecture}", "os": "linux", "created": "{created}",
            "config": {config}, "history": [{history}],
            "rootfs": {{"type": "layers", "diff_ids": [{}]}}}}"#,
        digests.join(", ")
    );
    let file = format!("{}.json", digest_of(config.as_bytes()).replace("sha256:", ""));
    let names: Vec<_> = (0..layers.len()).map(|index| format!("\"{index}/layer.tar\"")).collect();
    let manifest = format!(
        r#"[{{"Config": "{file}", "RepoTags": ["{name}"], "Layers": [{}]}}]"#,
        names.join(", ")
    );
    let mut archive = tar::Builder::new(Vec::new());
    for (index, layer) in layers.iter().enumerate() {
        add(&mut archive, &format!("{index}/layer.tar"), 0o644, layer);
    }
    add(&mut archive, &file, 0o644, config.as_bytes());
    add(&mut archive, "manifest.json", 0o644, manifest.as_bytes());
    archive.into_inner().unwrap()
}

/// Adds a symbolic link to an archive.
pub fn add_link(archive: &mut tar::Builder<Vec<u8>>, name: &str, to: &str) {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_mode(0o777);
    header.set_size(0);
    archive.append_link(&mut header, name, to).unwrap();
}

/// Adds a file to an archive.
pub fn add(archive: &mut tar::Builder<Vec<u8>>, name: &str, mode: u32, bytes: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_mode(mode);
    header.set_size(bytes.len() as u64);
    archive.append_data(&mut header, name, bytes).unwrap();
}
