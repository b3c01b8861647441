//! `pinfold import-objects`: brings the host's repository and the private one of a session in step.
//!
//! Git that reads what a session wrote runs in a scratch sandbox without network. One packs what is
//! new in the private directory, which it sees read-only. A second one checks the pack
//! (`unpack-objects --strict` or `index-pack --strict`) and that nothing is missing from it; it sees
//! the host's repository read-only and writes to a directory of its own. A third one, in which the
//! private directory can be written, brings in what the host moved. A program of its own runs them,
//! because a boundary starts from a process with one thread.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pinfold_host::Refusal;
use pinfold_rootfs::scratch::{Access, Scratch};
use rustix::fs::{Mode, OFlags};

/// What one import is about; all on the host.
#[derive(Debug, Clone)]
pub struct Import {
    /// The host's git directory.
    pub host: PathBuf,
    /// The sandbox's copy.
    pub copy: PathBuf,
    /// Where the copy expects the host's objects, inside.
    pub base: PathBuf,
    /// A directory with three others, so that no scratch sandbox can change what another one or the
    /// host goes by. In `asked` the host writes `tips`: what its references name; `shallow`: where its
    /// history begins; `worktrees`: lines of `number head index` for the working trees; for [`check`] `new`: objects that must be whole,
    /// `updates`: lines of `old new reference`, `stash`: commits, and `most`: how many checks divide what git refuses, of a small pack and of a large one; for [`bring`] `bring-refs`:
    /// commands of git-update-ref(1), and `bring-heads`: lines of `number head index old new`. In
    /// `said` [`export`] writes its results, and in `checked` [`check`].
    pub out: PathBuf,
}

/// Directories in [`Import::out`].
pub(crate) const ASKED: &str = "asked";
pub(crate) const SAID: &str = "said";
pub(crate) const CHECKED: &str = "checked";

const COPY: &str = "/q/copy";
const HOST: &str = "/q/host";
const OUT: &str = "/q/out";
const IN_ASKED: &str = "/q/asked";
const IN_SAID: &str = "/q/said";

const EXPORT: &str = include_str!("../../data/export.sh");

const CHECK: &str = include_str!("../../data/check.sh");

const BRING: &str = include_str!("../../data/bring.sh");

/// Packs what is new in the copy.
///
/// # Errors
/// Returns what went wrong, in words.
pub fn export(import: &Import) -> Result<(), Refusal> {
    let said = import.out.join(SAID);
    over_copy(import, EXPORT, Access::Read).place(OUT, &said, Access::Write).run()
}

/// Brings what the host moved into the copy.
///
/// # Errors
/// Returns what went wrong, in words; the next attempt may succeed.
pub fn bring(import: &Import) -> Result<(), Refusal> {
    over_copy(import, BRING, Access::Write).run()
}

fn over_copy(import: &Import, script: &str, access: Access) -> Scratch {
    Scratch::new(script, "")
        .without_programs()
        .place_itself(COPY, &import.copy, access)
        .place(&import.base.to_string_lossy(), &import.host.join("objects"), Access::Read)
        .place(IN_ASKED, &import.out.join(ASKED), Access::Read)
        .env("GIT_DIR", COPY)
        // A submodule's configuration names one, which is not there.
        .env("GIT_WORK_TREE", "/tmp")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_GRAFT_FILE", "/dev/null")
        // An empty name: history is whole.
        .env("GIT_SHALLOW_FILE", "")
}

/// Checks the pack against the host's repository.
///
/// # Errors
/// Returns what went wrong, in words.
pub fn check(import: &Import) -> Result<(), Refusal> {
    /// As many objects are stored one by one.
    const FEW: u32 = 100;
    let said = import.out.join(SAID);
    let objects = objects_in(&said.join("pack"))?;
    let how = match objects {
        0 => "",
        1..FEW => "few",
        _ => "many",
    };
    Scratch::new(CHECK, how)
        .without_programs()
        .place(HOST, &import.host, Access::Read)
        .place(IN_ASKED, &import.out.join(ASKED), Access::Read)
        .place(IN_SAID, &said, Access::Read)
        .place(OUT, &import.out.join(CHECKED), Access::Write)
        .env("GIT_DIR", HOST)
        .env("GIT_WORK_TREE", "/tmp")
        .env("GIT_NO_LAZY_FETCH", "1")
        .run()
}

const READ: &str = include_str!("../../data/read.sh");

/// Reads the foreign repository at `copy` into the directory `out`. `borrowed` are directories of
/// objects, each with the path that the repository may know it by.
///
/// # Errors
/// Returns what git said.
pub fn read_repository(
    copy: &Path,
    out: &Path,
    borrowed: &[(PathBuf, PathBuf)],
) -> Result<(), Refusal> {
    let scratch = Scratch::new(READ, "")
        .place_itself(COPY, copy, Access::Read)
        .place(OUT, out, Access::Write)
        .env("GIT_DIR", COPY)
        .env("GIT_WORK_TREE", "/tmp")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_OPTIONAL_LOCKS", "0");
    let lend = |scratch: Scratch, (host, inside): &(PathBuf, PathBuf)| {
        scratch.place(&inside.to_string_lossy(), host, Access::Read)
    };
    borrowed.iter().fold(scratch, lend).run()
}

/// Reads the number of objects from a pack's header (gitformat-pack(5)). What a scratch sandbox left
/// may be a link or a FIFO.
fn objects_in(pack: &Path) -> io::Result<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(pack, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("the scratch sandbox left no pack"));
    }
    let mut header = [0_u8; 12];
    file.read_exact(&mut header)?;
    let [.., a, b, c, d] = header;
    Ok(u32::from_be_bytes([a, b, c, d]))
}
