//! `pinfold import-objects`: takes the objects that an inside made into the host's repository.
//!
//! Git that reads what an agent wrote runs in a throwaway boundary of its own, without network,
//! twice: once over the agent's copy, read-only, to pack what is new and to say where its
//! branches are; once over the host's repository, of which only the directory of objects can be
//! written, to check the pack (`index-pack --strict`) and that nothing is missing from it. A
//! program of its own does both, because a boundary starts from a process with one thread.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::pen::{Access, Pen};

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
    Pen::new(EXPORT, "")
        .place(COPY, &import.copy, Access::Read)
        .place(&import.base.to_string_lossy(), &import.host.join("objects"), Access::Read)
        .place(OUT, &import.out, Access::Write)
        .env("GIT_DIR", COPY)
        // A submodule's configuration names one, which is not there.
        .env("GIT_WORK_TREE", "/tmp")
        .run()
}

/// Runs the second half.
///
/// # Errors
/// What went wrong, in words.
pub fn check(import: &Import) -> Result<(), String> {
    let has_objects = pack_has_objects(&import.out.join("pack")).map_err(|e| e.to_string())?;
    Pen::new(CHECK, if has_objects { "objects" } else { "" })
        .place(HOST, &import.host, Access::Read)
        .place("/q/host/objects", &import.host.join("objects"), Access::Write)
        .place(OUT, &import.out, Access::Write)
        .env("GIT_DIR", HOST)
        .env("GIT_WORK_TREE", "/tmp")
        .run()
}

/// The number of objects stands in a pack's header (gitformat-pack(5)).
fn pack_has_objects(pack: &Path) -> io::Result<bool> {
    let mut header = [0_u8; 12];
    File::open(pack)?.read_exact(&mut header)?;
    Ok(header[8..] != [0, 0, 0, 0])
}
