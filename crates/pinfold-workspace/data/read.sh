# shellcheck shell=sh
# Reads a foreign repository: packs the objects that its branches, tags and remotes reach, checked,
# and lists what names them.
set -e
format=$(git rev-parse --show-object-format)
echo "$format" >/q/out/format
(unset GIT_DIR GIT_WORK_TREE
  git init -q --bare --template= --object-format="$format" /q/out/scratch) 2>/dev/null
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
git config --no-includes --null --get-regexp '^(remote|branch)\..' >/q/out/settings || :
{ git config --no-includes --name-only --list |
    grep -vE '^(remote|branch|core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)|extensions\.objectformat|submodule\.active)(\.|$)' || :
  find /q/copy/hooks -mindepth 1 ! -name '*.sample' 2>/dev/null | head -3 | sed 's|^/q/copy/||' || :
  for name in rebase-merge rebase-apply sequencer MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD BISECT_LOG modules worktrees; do
    [ ! -e /q/copy/$name ] || echo $name
  done
  if git rev-parse -q --verify refs/stash >/dev/null; then echo 'the stash'; fi
} >/q/out/left-out
