//! What pinfold adds to each container engine.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::sample::{Contender, in_turns, print};
use super::start::base;
use super::{Effort, Outcome, command, memory, peers, work};

/// OCI runtimes.
const ENGINES: [&str; 3] = ["runc", "crun", "runsc"];
/// What manages containers by itself.
const MANAGERS: [&str; 2] = ["docker", "podman"];

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    println!("\nstart to exit of `true` in a container ({} starts each, in turns)", effort.starts);
    for engine in ENGINES {
        if !peers::exists(engine) {
            println!("  {engine} is not installed: skipped");
            continue;
        }
        let workspace = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
        let bundle = tempfile::tempdir()?;
        let bare = bare(engine, bundle.path())?;
        let mut own = command(pinfold);
        own.args(["run", "--engine", engine, "--", "/usr/bin/true"]);
        own.current_dir(workspace.path());
        let mut contenders = [Contender::new(engine, bare), Contender::new("pinfold", own)];
        in_turns(&mut contenders, (effort.starts / 4).max(3))?;
        print(&contenders, engine);
        let [bare, own] = contenders.map(|contender| contender.median());
        println!("  added: {:.1} ms", (own.as_secs_f64() - bare.as_secs_f64()) * 1e3);
    }
    let answers = |engine: &&str| {
        let info = command(engine).arg("info").output();
        let answers = info.is_ok_and(|output| output.status.success());
        if !answers {
            println!("  {engine} does not answer: skipped");
        }
        answers
    };
    let managers: Vec<&str> = MANAGERS.into_iter().filter(answers).collect();
    for engine in &managers {
        managed(pinfold, engine, effort)?;
    }
    for engine in ENGINES.into_iter().filter(|engine| peers::exists(engine)).chain(managers) {
        // gVisor takes ten times as long for a process, for instance.
        if engine == "crun" || effort.rounds > 2 {
            work::behind(pinfold, engine, effort)?;
        }
        memory_of(pinfold, engine)?;
    }
    Ok(())
}

/// Prints what a session holds that waits, with what its engine runs for it.
fn memory_of(pinfold: &Path, engine: &str) -> Outcome {
    let workspace = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let mut session = command(pinfold);
    session.args(["run", "--engine", engine]).args(memory::IDLE).current_dir(workspace.path());
    memory::of(&format!("container ({engine})"), session)
}

/// Measures the same of Docker and Podman, and a program next to a command in a container that is there.
fn managed(pinfold: &Path, engine: &str, effort: Effort) -> Outcome {
    let workspace = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let own = |words: &[&str]| {
        let mut own = command(pinfold);
        own.args(words).current_dir(workspace.path());
        own
    };
    let turns = (effort.starts / 8).max(3);
    let name = format!("bench-{}", std::process::id());
    // It makes the image that both use.
    let start = own(&["run", "--engine", engine, "--", "/usr/bin/true"]);
    let mut start = Contender::new("pinfold", start);
    start.take(false)?;
    let bare = by_itself(engine, &["--rm"], &["/usr/bin/true"]);
    let mut contenders = [Contender::new(engine, bare), start];
    in_turns(&mut contenders, turns)?;
    print(&contenders, engine);
    let [bare, start] = contenders.map(|contender| contender.median());
    println!("  added: {:.1} ms", (start.as_secs_f64() - bare.as_secs_f64()) * 1e3);

    let waits = ["--detach", "--rm", "--name", &name];
    by_itself(engine, &waits, &["/usr/bin/sleep", "1000"]).output()?;
    let mut session = own(&["run", "--engine", engine, "--name", &name, "--idle"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut inside_exec = own(&["exec", &name, "--", "/usr/bin/true"]);
    while !inside_exec.output()?.status.success() {
        if session.try_wait()?.is_some() {
            return Err(format!("the session behind {engine} has ended").into());
        }
    }
    let mut bare = command(engine);
    bare.args(["exec", &name, "/usr/bin/true"]);
    let mut contenders = [
        Contender::new(format!("{engine} exec"), bare),
        Contender::new("pinfold exec", inside_exec),
    ];
    let compared = in_turns(&mut contenders, turns);
    session.kill()?;
    session.wait()?;
    command(engine).args(["rm", "--force", &name]).output()?;
    compared?;
    print(&contenders, &format!("{engine} exec"));
    Ok(())
}

/// Returns a container of the engine's with the host's programs, as bare as pinfold asks for one.
fn by_itself(engine: &str, options: &[&str], words: &[&str]) -> Command {
    let mut run = command(engine);
    // As pinfold says it where nothing else manages control groups.
    if engine == "podman" && !Path::new("/run/systemd/system").is_dir() {
        run.args(["--cgroup-manager=cgroupfs", "--runtime=runc"]);
    }
    run.args(["run", "--read-only", "--network=none", "--cap-drop=ALL", "--pull=never"]);
    run.args(["--security-opt=no-new-privileges", "--log-driver=none", "--entrypoint="]);
    run.args(["--ulimit=nofile=1024:4096"]);
    if engine == "podman" {
        run.arg("--ulimit=nproc=4096:4096");
    }
    for (from, to) in [("/usr", "/usr"), ("/usr/lib", "/lib"), ("/usr/lib64", "/lib64")] {
        run.arg(format!("--mount=type=bind,source={from},target={to},readonly"));
    }
    run.args(options).arg("pinfold-empty:1").args(words);
    run
}

/// Returns the engine by itself, on a bundle with the host's programs and the usual namespaces. crun 1.8 runs with
/// control groups of version 1 only where it sees none, in a mount namespace of its own.
fn bare(engine: &str, bundle: &Path) -> Result<Command, Box<dyn std::error::Error>> {
    let root = bundle.join("rootfs");
    for name in ["usr", "proc", "dev", "tmp"] {
        fs::create_dir_all(root.join(name))?;
    }
    for name in ["bin", "lib", "lib64", "sbin"] {
        symlink(format!("usr/{name}"), root.join(name))?;
    }
    let mount = |to: &str, kind: &str, from: &str, options: &[&str]| json!({ "destination": to, "type": kind, "source": from, "options": options });
    let kinds = ["pid", "mount", "ipc", "uts", "network", "cgroup", "user"];
    let own = |id: u32| json!([{ "containerID": 0, "hostID": id, "size": 1 }]);
    let caller = fs::metadata(bundle)?;
    let (uid, gid) = (caller.uid(), caller.gid());
    let config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": ["/usr/bin/true"],
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/",
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs", "readonly": true },
        "mounts": [
            mount("/proc", "proc", "proc", &[]),
            mount("/dev", "tmpfs", "tmpfs", &["nosuid", "mode=755"]),
            mount("/usr", "bind", "/usr", &["rbind", "ro"]),
            mount("/tmp", "tmpfs", "tmpfs", &["nosuid", "nodev"]),
        ],
        "linux": {
            "namespaces": kinds.map(|kind| json!({ "type": kind })),
            "uidMappings": own(uid),
            "gidMappings": own(gid),
        },
    });
    fs::write(bundle.join("config.json"), config.to_string())?;
    let state = bundle.join("state");
    let mut bare = match engine {
        "crun" => {
            let mut bare = command("unshare");
            // A user who is not root makes mounts only as root of a namespace.
            if uid != 0 {
                bare.args(["--user", "--map-root-user"]);
            }
            let script = "mount -t tmpfs none /sys/fs/cgroup; exec \"$@\"";
            bare.args(["--mount", "sh", "-c", script, "sh", engine, "--cgroup-manager=disabled"]);
            bare
        }
        // What works of Debian's, without a right that a container might lack.
        "runsc" => {
            let mut bare = command(engine);
            bare.args(["--platform=ptrace", "--network=none", "--ignore-cgroups"]);
            bare
        }
        _ => command(engine),
    };
    bare.arg("--root").arg(state).args(["run", "--bundle"]).arg(bundle).arg("bench");
    Ok(bare)
}
