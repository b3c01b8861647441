//! By which arguments a container is started.

use std::path::Path;

use pinfold_boundary::managed::{Container, Mount};
use pinfold_policy::project::ImageEngine;
use rustix::process::{Resource, Rlimit, getrlimit};

use super::LABEL;
use super::known::{Daemon, Known};

/// Tasks that podman 4.3 can always give: it lowers its own limit to 32 768 on the way.
const PODMANS_TASKS: u64 = 30_000;

/// What an engine has to be given about the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    /// Whether systemd manages control groups.
    has_systemd: bool,
    /// Whether control groups of both versions are mounted, which crun before 1.9 refuses.
    is_hybrid: bool,
    /// Whether the caller is root.
    is_root: bool,
    /// Open files that a process of the caller's may have: now, and at most.
    files: Rlimit,
    /// Tasks of the caller's.
    tasks: Option<u64>,
    /// How many CPUs there are.
    cpus: u32,
}

impl Machine {
    pub(super) fn find() -> Self {
        Self {
            // sd_booted(3).
            has_systemd: Path::new("/run/systemd/system").is_dir(),
            is_hybrid: Path::new("/sys/fs/cgroup/unified").is_dir(),
            is_root: rustix::process::geteuid().is_root(),
            files: getrlimit(Resource::Nofile),
            tasks: getrlimit(Resource::Nproc).maximum,
            cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        }
    }
}

/// Runs a container in the background, of which nothing is left when it ends.
pub(super) fn run(
    engine: ImageEngine,
    container: &Container,
    known: &Known,
    machine: &Machine,
) -> Vec<String> {
    // Whose daemon it is, is root in its containers, and the others of the machine are nobody.
    let (uid, gid) = match known.daemon {
        Daemon::Roots => container.user,
        Daemon::Users => (0, 0),
    };
    let mut words = Vec::new();
    let mut say = |word: &str| words.push(word.to_owned());
    if engine == ImageEngine::Podman {
        // Its own defaults ask systemd, and take crun.
        if !machine.has_systemd {
            say("--cgroup-manager=cgroupfs");
        }
        if machine.is_hybrid {
            say("--runtime=runc");
        }
    }
    for word in ["run", "--detach", "--rm", "--read-only", "--network=none", "--cap-drop=ALL"] {
        say(word);
    }
    if known.daemon == Daemon::Users {
        // Init takes it to map the user in a namespace below (user_namespaces(7), since Linux 5.12), and
        // has none before anything else runs.
        say("--cap-add=SETFCAP");
    }
    say("--security-opt=no-new-privileges");
    say(&format!("--security-opt=seccomp={}", container.seccomp));
    // Init mounts a /proc of its own, which the kernel allows where nothing of the first is masked
    // (mount_too_revealing() in fs/namespace.c). Only init ever sees the container's.
    say(match engine {
        ImageEngine::Docker => "--security-opt=systempaths=unconfined",
        ImageEngine::Podman => "--security-opt=unmask=ALL",
    });
    // As its first process, init heeds no other.
    say("--stop-signal=KILL");
    say("--log-driver=none");
    say("--pull=never");
    say("--entrypoint=");
    match engine {
        // Whatever a daemon is set up to do with users: files keep their owners.
        ImageEngine::Docker => say("--userns=host"),
        ImageEngine::Podman if !machine.is_root => {
            say("--userns=keep-id");
            say("--read-only-tmpfs=false");
        }
        ImageEngine::Podman => say("--read-only-tmpfs=false"),
    }
    say(&format!("--user={uid}:{gid}"));
    say(&format!("--name={}", container.name));
    say(&format!("--label={LABEL}={}", container.session));
    // Their own defaults are more than who lacks CAP_SYS_RESOURCE can give.
    if let Some(most) = machine.files.maximum {
        let soft = machine.files.current.unwrap_or(most);
        say(&format!("--ulimit=nofile={soft}:{most}"));
    }
    if let (ImageEngine::Podman, Some(most)) = (engine, machine.tasks) {
        let most = most.min(PODMANS_TASKS);
        say(&format!("--ulimit=nproc={most}:{most}"));
    }
    if let Some(share) = container.cpus {
        // More than there are is no limit, and Docker refuses it.
        let share = share.min(machine.cpus.saturating_mul(1000));
        say(&format!("--cpus={}.{:03}", share / 1000, share % 1000));
    }
    if let Some(bytes) = container.memory {
        say(&format!("--memory={bytes}"));
        // Together with swap: without, it may use as much of that again.
        say(&format!("--memory-swap={bytes}"));
    }
    for mount in &container.mounts {
        say(&format!("--mount={}", bound(mount)));
    }
    say(&known.image);
    words.extend(container.argv.iter().cloned());
    words
}

/// Returns a mount as one record of comma-separated values (RFC 4180), which is how both read it.
fn bound(Mount { from, to, is_writable }: &Mount) -> String {
    let source = format!("source={}", from.as_path().display());
    let mut fields = vec!["type=bind".to_owned(), source, format!("target={to}")];
    if !is_writable {
        fields.push("readonly".to_owned());
    }
    let quoted = |field: String| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field
        }
    };
    fields.into_iter().map(quoted).collect::<Vec<_>>().join(",")
}
