//! A sandbox in a machine, for tests whose program is init in the guest.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;

use pinfold_boundary::namespace::{self, inside_ids};
use pinfold_boundary::{
    Entry, Identity, Inside, Landlock, LaunchError, LaunchPlan, Place, Program, ResourceLimits,
};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_virtiofs::FileServer;
use pinfold_vm::{Maker, Qemu, QemuMachine, Spec};
use pinfold_wire::{Ended, Report};

use crate::support::{Failed, guests};

/// A private directory with a file of pinfold's.
pub(crate) const HOME: &str = "/home/user";

/// A sandbox in a machine, before it is sealed.
pub(crate) fn launch(
    qemu: &Qemu,
    spec: &Spec,
    templates: Option<&Path>,
    plan: LaunchPlan,
) -> Result<Inside, LaunchError> {
    let own = guests::init().ok().and_then(|path| HostPath::new(path).ok());
    let init = &own.ok_or(LaunchError::Silent)?;
    let maker = Maker::<QemuMachine> { program: qemu, otherwise: None, init, server, templates };
    pinfold_vm::launch(&maker, spec, plan, None)
}

fn server(listener: OwnedFd) -> Box<dyn namespace::FileServer> {
    Box::new(FileServer::new(listener))
}

/// This process has no child, and no thread more than it began with.
pub(crate) fn nothing_of_ours_is_left() -> Result<(), Failed> {
    let threads = fs::read_dir("/proc/self/task")?.count();
    assert_eq!((children()?, threads), (Vec::new(), 1));
    Ok(())
}

/// The processes that this one has started.
pub(crate) fn children() -> Result<Vec<String>, Failed> {
    let text = fs::read_to_string("/proc/thread-self/children")?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

pub(crate) fn pipe() -> Result<(File, File), Failed> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((read.into(), write.into()))
}

pub(crate) fn program(script: &str, workspace: &Path) -> Result<Program, Failed> {
    Ok(Program {
        argv: ["/bin/sh", "-c", script].map(Into::into).into(),
        env: vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), HOME.into()),
        ],
        cwd: InsidePath::new(workspace)?,
        ignored: 0,
    })
}

/// Waits for the command's end.
pub(crate) fn ended(inside: &Inside) -> Result<Option<Ended>, Failed> {
    while let Some(received) = inside.channel.receive::<Report>()? {
        match received.message {
            Report::Ended(ended) => return Ok(Some(ended)),
            Report::Failed { .. } => return Err(format!("{:?}", received.message).into()),
            _ => {}
        }
    }
    Ok(None)
}

pub(crate) fn plan(workspace: &Path) -> Result<LaunchPlan, Failed> {
    let mut tree = Vec::new();
    let mut add = |path: &Path, place| -> Result<(), Failed> {
        tree.push(Entry { path: InsidePath::new(path)?, place });
        Ok(())
    };
    let system = guests::foreign_system().unwrap_or_else(|| "/".into());
    for path in ["/usr", "/bin", "/sbin", "/lib", "/lib64"].map(Path::new) {
        let source = system.join(path.strip_prefix("/")?);
        match fs::read_link(&source) {
            Ok(target) => add(path, Place::Symlink(target.into()))?,
            Err(_) if source.exists() => add(path, Place::ReadOnly(HostPath::new(&source)?))?,
            // Only some processors have it.
            Err(_) => {}
        }
    }
    for path in ["/tmp", "/run", HOME].map(Path::new) {
        add(path, Place::Private)?;
    }
    add(workspace, Place::Writable(HostPath::new(workspace)?))?;
    let (uid, gid) = inside_ids();
    let content = format!("user:x:{uid}:{gid}::{HOME}:/bin/sh\n").into_bytes();
    add("/etc/passwd".as_ref(), Place::File { content, mode: 0o644, keep: false })?;
    let content = b"made\n".to_vec();
    add(&Path::new(HOME).join(".made"), Place::File { content, mode: 0o600, keep: false })?;
    Ok(LaunchPlan {
        tree,
        identity: Identity { uid, gid, home: InsidePath::new(HOME)? },
        hostname: "machine".to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    })
}
