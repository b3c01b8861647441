//! An agent's layer: downloaded and verified here, unpacked inside a boundary of its own.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use pinfold_boundary::namespace::{Namespace, explain, inside_ids};
use pinfold_boundary::{
    Entry, Identity, Landlock, LaunchPlan, Place, Program, ResourceLimits, Stdio, StdioEnd,
    step_failed,
};
use pinfold_egress::{Download, Downloader, Integrity, Progress, WayOut};
use pinfold_host::launcher::own_program;
use pinfold_policy::path::{Escaped, HostPath, InsidePath};
use pinfold_provision::{Fetch, Fetched, Job, StepError, Unpack};
use pinfold_wire::{Ended, Order, Report};

use crate::userland;

/// The largest tarball of a recipe that does not say: native agents come near 200 MB.
const LARGEST: u64 = 512 << 20;
/// The most memory for unpacking, in bytes. It streams; what it remembers are names, and a hostile
/// archive has long ones.
const MOST_MEMORY: u64 = 1 << 30;
/// The file in which the unpacker of systems finds an image that an engine has saved.
pub const SAVED: &str = "saved";
/// What the unpacker answers when there is no space left.
pub const DISK_FULL: u8 = 28;

/// Downloads tarballs from the registry.
pub struct Registry;

impl Fetch for Registry {
    fn fetch_all(&self, jobs: &[Job], progress: &dyn Fn(Fetched)) -> Result<(), StepError> {
        let mut downloads = Vec::with_capacity(jobs.len());
        for job in jobs {
            downloads.push(Download {
                url: job.url.clone(),
                expect: Integrity::parse(&job.integrity.to_string()).map_err(StepError::failed)?,
                max_size: job.size.unwrap_or(LARGEST),
                into: File::create_new(&job.file)?,
                authorization: None,
            });
        }
        let report = RefCell::new(progress);
        let mut forward = |Progress { done, bytes, .. }: Progress| {
            report.borrow()(Fetched { packages: done, bytes });
        };
        let downloader = Downloader::new(WayOut::from_environment().map_err(StepError::failed)?);
        downloader.fetch_all(&mut downloads, &mut forward).map_err(StepError::failed)
    }
}

/// Unpacks in a boundary that holds the tarballs, the output directory and this program, and
/// has no network.
pub struct ScratchUnpacker;

const TARBALLS: &str = "/tmp/tarballs";
const TREE: &str = "/tmp/tree";
const OWN: &str = "/run/pinfold/pinfold";

impl Unpack for ScratchUnpacker {
    fn unpack(&self, tarballs: &Path, tree: &Path) -> Result<(), StepError> {
        unpack_in_scratch(&["unpack"], tarballs, tree)
    }
}

/// Runs a subcommand of this program that unpacks what lies in one directory into another, in a
/// boundary that holds these two and this program, and has no network.
///
/// # Errors
/// Returns an error for a boundary that does not start, or what the unpacker says.
pub(crate) fn unpack_in_scratch(
    subcommand: &[&str],
    from: &Path,
    tree: &Path,
) -> Result<(), StepError> {
    let (errors, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| StepError::from(std::io::Error::from(errno)))?;
    let plan = plan(from, tree).map_err(StepError::failed)?;
    let argv = [&[OWN], subcommand, &[TARBALLS, TREE]];
    let program = Program {
        argv: argv.into_iter().flatten().map(Into::into).collect(),
        env: Vec::new(),
        cwd: InsidePath::root(),
        ignored: 0,
    };
    let stdio = errors_only(writer).map_err(StepError::failed)?;
    match run_quietly(plan, &program, stdio).map_err(StepError::failed)? {
        Ended::Code(0) => Ok(()),
        Ended::Code(DISK_FULL) => Err(StepError::DiskFull),
        ended => {
            let said = read_errors(errors);
            Err(StepError::failed(format!("{} ({ended:?})", Escaped(said.trim().as_ref()))))
        }
    }
}

fn plan(tarballs: &Path, tree: &Path) -> Result<LaunchPlan, Error> {
    let entry = |path: &str, place: Place| -> Result<Entry, Error> {
        Ok(Entry { path: InsidePath::new(path)?, place })
    };
    let host =
        |path: &Path| -> Result<HostPath, Error> { Ok(HostPath::new(fs::canonicalize(path)?)?) };
    let (uid, gid) = inside_ids();
    Ok(LaunchPlan {
        tree: vec![
            entry("/tmp", Place::Private)?,
            entry(TARBALLS, Place::ReadOnly(host(tarballs)?))?,
            entry(TREE, Place::Writable(host(tree)?))?,
            entry(OWN, Place::ReadOnly(host(&own_program()?)?))?,
        ],
        identity: Identity { uid, gid, home: InsidePath::from_static(userland::HOME) },
        hostname: "pinfold".to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits { memory: Some(MOST_MEMORY), ..ResourceLimits::default() },
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    })
}

/// Why a scratch sandbox did not do what it was for.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Streams for what nobody reads except its errors.
///
/// # Errors
/// Returns the error of opening the null device.
pub(crate) fn errors_only(errors: OwnedFd) -> io::Result<Stdio> {
    let null = || -> io::Result<StdioEnd> {
        Ok(StdioEnd::Descriptor(File::options().read(true).write(true).open("/dev/null")?.into()))
    };
    Ok(Stdio::plain([null()?, null()?, StdioEnd::Descriptor(errors)]))
}

/// Reads the beginning of what a program wrote to its standard error. It may name files whose names are not
/// UTF-8.
pub(crate) fn read_errors(errors: OwnedFd) -> String {
    let mut bytes = Vec::new();
    // What could be read is what there is.
    let _ = File::from(errors).take(4096).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a program in a sandbox that needs no masks, terminal or door, to its end.
pub(crate) fn run_quietly(
    plan: LaunchPlan,
    program: &Program,
    stdio: Stdio,
) -> Result<Ended, Error> {
    let mut inside = Namespace.start(plan)?;
    inside.command(program, stdio).map_err(explain)?;
    // An init that fails before that has said why, which is read below.
    let _ = inside.seal(Vec::new());
    let _ = inside.channel.send(&Order::Start(Vec::new()), &[]);
    while let Some(received) = inside.channel.receive::<Report>()? {
        match received.message {
            Report::Ended(ended) => return Ok(ended),
            Report::Failed { step, errno, detail } => {
                return Err(explain(step_failed(step, errno, &detail)).into());
            }
            _ => {}
        }
    }
    Err("the boundary ended without a word".into())
}
