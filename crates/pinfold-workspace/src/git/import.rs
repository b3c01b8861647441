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
    /// `updates`: lines of `old new reference`, and `stash`: commits; for [`bring`] `bring-refs`:
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

/// Packs what the copy has and the host has not, and says where it is: `refs`, `heads` and `stash`.
/// What is staged becomes a tree among the objects of the scratch sandbox. If objects are missing, such as after
/// `git fetch --depth`, `lost` has the references that stay out. Where history begins is up to the host (`shallow`).
const EXPORT: &str = "set -e
mkdir -p /q/out/objects/info /q/out/objects/pack
[ ! -s /q/asked/shallow ] || GIT_SHALLOW_FILE=/q/asked/shallow
export GIT_SHALLOW_FILE
export GIT_OBJECT_DIRECTORY=/q/out/objects GIT_ALTERNATE_OBJECT_DIRECTORIES=/q/copy/objects
git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/tags >/q/out/refs
while read -r number head index; do
  commit=$(git rev-parse -q --verify \"$head^{commit}\") || commit=-
  branch=$(git symbolic-ref -q \"$head\") || branch=-
  # Without an index nothing is staged: the empty tree.
  [ ! -f \"/q/copy/$index\" ] || cp \"/q/copy/$index\" /q/out/index
  tree=$(GIT_INDEX_FILE=/q/out/index git write-tree 2>/dev/null) || tree=-
  rm -f /q/out/index
  echo \"$number $commit $tree $branch\"
done </q/asked/worktrees >/q/out/heads
if git rev-parse -q --verify refs/stash >/dev/null; then
  git log -g -s --no-show-signature --no-decorate --no-notes --format='%H %gs' refs/stash --
fi >/q/out/stash
{ cut -d' ' -f1 /q/out/refs; cut -d' ' -f1 /q/out/stash
  cut -d' ' -f2,3 /q/out/heads | tr ' ' '\\n' | sed '/^-$/d'; } >/q/out/new
pack() {
  { cat /q/out/new; sed 's/^/^/' /q/asked/tips; } | git pack-objects -q --revs --stdout >/q/out/pack
}
is_whole() {
  { echo \"$1\"; sed 's/^/^/' /q/asked/tips; } | git rev-list --objects --quiet --stdin
}
if ! pack 2>/dev/null; then
  sort -u /q/out/new >/q/out/all
  head -n 1000 /q/out/all | while read -r object; do
    is_whole \"$object\" 2>/dev/null || echo \"$object\"
  done >/q/out/missing
  tail -n +1001 /q/out/all >>/q/out/missing
  grep -Ff /q/out/missing /q/out/refs | cut -d' ' -f2 >/q/out/lost || :
  for list in refs heads stash new; do
    grep -vFf /q/out/missing /q/out/$list >/q/out/whole || :
    mv /q/out/whole /q/out/$list
  done
  pack
fi";

/// Checks the pack and says which branches moved forward and which stashes are such. A few objects
/// are stored one by one, so that git does not pack again after every commit (`gc.autoPackLimit`).
const CHECK: &str = "set -e
if [ -n \"$1\" ]; then
  mkdir -p /q/out/incoming/info /q/out/incoming/pack
  export GIT_OBJECT_DIRECTORY=/q/out/incoming GIT_ALTERNATE_OBJECT_DIRECTORIES=/q/host/objects
  case $1 in
    few) git unpack-objects -q --strict </q/said/pack ;;
    *) git index-pack --stdin --strict --fix-thin </q/said/pack >/dev/null ;;
  esac
fi
git rev-list --objects --quiet --stdin --not --all </q/asked/new
while read -r old new name; do
  if git merge-base --is-ancestor \"$old\" \"$new\"; then echo \"$name\"; fi
done </q/asked/updates >/q/out/forward
while read -r commit; do
  if git rev-parse -q --verify \"$commit^2^{commit}\" >/dev/null; then echo \"$commit\"; fi
done </q/asked/stash >/q/out/stashes";

/// Moves references, HEADs and indexes of the copy to where the host has them, each only if it is
/// where it was when both sides were last in step.
const BRING: &str = "set -e
git update-ref -m 'from the host' --stdin </q/asked/bring-refs
while read -r number head index old new; do
  now=$(git symbolic-ref -q \"$head\") || now=$(git rev-parse -q --verify \"$head\") || now=-
  [ \"$now\" = \"$old\" ] || exit 1
  lock=/q/copy/$index.lock
  (set -C; : >\"$lock\") || exit 1
  if [ \"$old\" != \"$new\" ]; then
    case $new in
      refs/*) git symbolic-ref -m 'from the host' \"$head\" \"$new\" ;;
      *) git update-ref -m 'from the host' --no-deref \"$head\" \"$new\" ;;
    esac
  fi
  if [ -f /q/asked/bring-index-$number ]; then
    cat /q/asked/bring-index-$number >\"$lock\"
    touch -r /q/asked/bring-index-$number \"$lock\"
    mv \"$lock\" \"/q/copy/$index\"
  else
    rm -f \"$lock\"
  fi
done </q/asked/bring-heads";

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

/// Reads a foreign repository: packs the objects that its branches, tags and remotes reach, checked,
/// and lists what names them.
const READ: &str = "set -e
format=$(git rev-parse --show-object-format)
echo \"$format\" >/q/out/format
(unset GIT_DIR GIT_WORK_TREE
  git init -q --bare --template= --object-format=\"$format\" /q/out/scratch) 2>/dev/null
if [ -f /q/copy/shallow ]; then
  grep -xE '[0-9a-f]{40}|[0-9a-f]{64}' /q/copy/shallow >/q/out/shallow || :
  cp /q/out/shallow /q/out/scratch/shallow
fi
git for-each-ref --format='%(symref)%(objectname) %(refname)' \
  refs/heads refs/tags refs/remotes refs/notes >/q/out/refs
git symbolic-ref -q HEAD >/q/out/head || git rev-parse -q --verify 'HEAD^{commit}' >/q/out/head || :
{ cut -d' ' -f1 /q/out/refs; git rev-parse -q --verify 'HEAD^{commit}' || :; } | grep -v ^refs/ >/q/out/tips || :
if [ -s /q/out/tips ]; then
  git pack-objects -q --revs --stdout </q/out/tips >/q/out/foreign.pack
  cd /q/out/scratch
  GIT_DIR=. git index-pack --strict --stdin </q/out/foreign.pack | cut -f2 >/q/out/pack-name
  GIT_DIR=. git rev-list --objects --quiet --stdin </q/out/tips
  mv objects/pack/pack-*.pack /q/out/pack.pack
  mv objects/pack/pack-*.idx /q/out/pack.idx
fi
git config --no-includes --null --get-regexp '^(remote|branch)\\..' >/q/out/settings || :
{ git config --no-includes --name-only --list |
    grep -vE '^(remote|branch|core\\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)|extensions\\.objectformat|submodule\\.active)(\\.|$)' || :
  find /q/copy/hooks -mindepth 1 ! -name '*.sample' 2>/dev/null | head -3 | sed 's|^/q/copy/||' || :
  for name in rebase-merge rebase-apply sequencer MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD BISECT_LOG modules worktrees; do
    [ ! -e /q/copy/$name ] || echo $name
  done
  if git rev-parse -q --verify refs/stash >/dev/null; then echo 'the stash'; fi
} >/q/out/left-out";

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
