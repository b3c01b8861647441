//! `pinfold import-objects`: takes the objects that an inside made into the host's repository.
//!
//! Git that reads what an agent wrote runs in a throwaway boundary of its own, without network,
//! twice: once over the agent's copy, read-only, to pack what is new and to say where its
//! branches are; once over the host's repository, of which only the directory of objects can be
//! written, to check the pack (`index-pack --strict`) and that nothing is missing from it. A
//! program of its own does both, because a boundary starts from a process with one thread.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pinfold_boundary::namespace::inside_ids;
use pinfold_boundary::{
    Entry, Identity, Landlock, LaunchPlan, Place, Program, ResourceLimits, Stdio, StdioEnd,
};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_wire::Ended;

use crate::provision::{Error, run_quietly};
use crate::userland::{self, Piece};

/// What one import is about; all on the host.
#[derive(Debug, Clone)]
pub struct Import {
    /// The host's git directory.
    pub host: PathBuf,
    /// The inside's copy.
    pub copy: PathBuf,
    /// Where the copy expects the host's objects, inside.
    pub base: PathBuf,
    /// Where results are written. There lie `tips`: what the host's references name; `worktrees`:
    /// lines of `number head` for the HEADs that are asked for; and for [`check`] `updates`: lines
    /// of `old new reference`, and `indexes`: lines of `number commit`.
    pub out: PathBuf,
}

const COPY: &str = "/q/copy";
const HOST: &str = "/q/host";
const OUT: &str = "/q/out";

/// What git may use of the machine on what an agent wrote: bytes, and processes and threads.
const MEMORY: u64 = 2 << 30;
const TASKS: u64 = 256;

/// Packs what the copy has and the host has not, and says where it is: `refs`, `heads` and `stash`.
const EXPORT: &str = "set -e
git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/tags refs/notes >/q/out/refs
while read -r number head; do
  commit=$(git rev-parse -q --verify \"$head^{commit}\") || commit=-
  branch=$(git symbolic-ref -q \"$head\") || branch=-
  echo \"$number $commit $branch\"
done </q/out/worktrees >/q/out/heads
if git rev-parse -q --verify refs/stash >/dev/null; then
  git log -g -s --no-show-signature --no-decorate --no-notes --format='%H %gs' refs/stash --
fi >/q/out/stash
{ cut -d' ' -f1 /q/out/refs; cut -d' ' -f1 /q/out/stash
  cut -d' ' -f2 /q/out/heads | sed '/^-$/d'; sed 's/^/^/' /q/out/tips; } |
git pack-objects -q --revs --stdout >/q/out/pack";

/// Checks and stores the pack, says which branches moved forward and which stashes are such, and
/// writes the indexes of the commits that are checked out.
const CHECK: &str = "set -e
if [ -n \"$1\" ]; then git index-pack --stdin --strict --fix-thin </q/out/pack >/dev/null; fi
{ cut -d' ' -f1 /q/out/refs; cut -d' ' -f1 /q/out/stash
  cut -d' ' -f2 /q/out/heads | sed '/^-$/d'; } |
git rev-list --objects --quiet --stdin --not --all
while read -r old new name; do
  if git merge-base --is-ancestor \"$old\" \"$new\"; then echo \"$name\"; fi
done </q/out/updates >/q/out/forward
while read -r commit message; do
  if git rev-parse -q --verify \"$commit^2^{commit}\" >/dev/null; then echo \"$commit\"; fi
done </q/out/stash >/q/out/stashes
while read -r number commit; do
  GIT_INDEX_FILE=/q/out/index-$number git read-tree \"$commit\"
done </q/out/indexes";

/// Runs the first half.
///
/// # Errors
/// What went wrong, in words.
pub fn export(import: &Import) -> Result<(), String> {
    let places = [
        (COPY, &import.copy, Access::Read),
        (&*import.base.to_string_lossy(), &import.host.join("objects"), Access::Read),
        (OUT, &import.out, Access::Write),
    ];
    run(EXPORT, COPY, &places, "")
}

/// Runs the second half.
///
/// # Errors
/// What went wrong, in words.
pub fn check(import: &Import) -> Result<(), String> {
    let has_objects = pack_has_objects(&import.out.join("pack")).map_err(|e| e.to_string())?;
    let places = [
        (HOST, &import.host, Access::Read),
        ("/q/host/objects", &import.host.join("objects"), Access::Write),
        (OUT, &import.out, Access::Write),
    ];
    run(CHECK, HOST, &places, if has_objects { "objects" } else { "" })
}

/// The number of objects stands in a pack's header (gitformat-pack(5)).
fn pack_has_objects(pack: &Path) -> io::Result<bool> {
    let mut header = [0_u8; 12];
    File::open(pack)?.read_exact(&mut header)?;
    Ok(header[8..] != [0, 0, 0, 0])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

fn run(
    script: &str,
    git: &str,
    places: &[(&str, &PathBuf, Access)],
    argument: &str,
) -> Result<(), String> {
    let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
    let (errors, writer) = pipe.map_err(|errno| errno.to_string())?;
    let argv = ["/bin/sh", "-c", script, "sh", argument].map(Into::into).into();
    let plan = plan(argv, git, places, writer).map_err(|error| error.to_string())?;
    match run_quietly(plan).map_err(|error| error.to_string())? {
        Ended::Code(0) => Ok(()),
        ended => {
            let mut said = String::new();
            // What it managed to say is what there is.
            let _ = File::from(errors).take(4096).read_to_string(&mut said);
            Err(format!("{} ({ended:?})", said.trim().escape_debug()))
        }
    }
}

fn plan(
    argv: Vec<std::ffi::OsString>,
    git: &str,
    places: &[(&str, &PathBuf, Access)],
    errors: std::os::fd::OwnedFd,
) -> Result<LaunchPlan, Error> {
    let null = || -> Result<StdioEnd, Error> {
        Ok(StdioEnd::Descriptor(File::options().read(true).write(true).open("/dev/null")?.into()))
    };
    let (uid, gid) = inside_ids();
    let mut tree = vec![Entry { path: InsidePath::new("/tmp")?, place: Place::Private }];
    for piece in userland::pieces()? {
        tree.push(match piece {
            Piece::Granted(host, path) => Entry { path, place: Place::ReadOnly(host) },
            Piece::Link(path, to) => Entry { path, place: Place::Symlink(to) },
        });
    }
    for (inside, host, access) in places {
        let host = HostPath::new(fs::canonicalize(host)?)?;
        let place = match access {
            Access::Read => Place::ReadOnly(host),
            Access::Write => Place::Writable(host),
        };
        tree.push(Entry { path: InsidePath::new(inside)?, place });
    }
    tree.extend(userland::generated(uid, gid, None)?);
    let env = [
        ("PATH", userland::PATH),
        ("HOME", "/tmp"),
        ("GIT_DIR", git),
        // A submodule's configuration names one, which is not there.
        ("GIT_WORK_TREE", "/tmp"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("LC_ALL", "C"),
    ];
    Ok(LaunchPlan {
        tree,
        program: Program {
            argv,
            env: env.map(|(name, value)| (name.into(), value.into())).into(),
            cwd: InsidePath::new("/tmp")?,
        },
        identity: Identity { uid, gid, home: InsidePath::new("/tmp")? },
        hostname: "pinfold".to_owned(),
        doors: Vec::new(),
        stdio: Stdio { ends: [null()?, null()?, StdioEnd::Descriptor(errors)], window: None },
        limits: ResourceLimits { memory: Some(MEMORY), pids: Some(TASKS), ..Default::default() },
        landlock: Landlock::BestEffort,
        nested: false,
    })
}
