# shellcheck shell=sh
# Packs what the copy has and the host has not, and says where it is: `refs`, `heads` and `stash`.
# What is staged becomes a tree among the objects of the scratch sandbox. What lacks objects, such as after
# `git fetch --depth`, is not packed; `missing` has it. Where history begins is up to the host (`shallow`).
set -e
mkdir -p /q/out/objects/info /q/out/objects/pack
: >/q/out/stash
[ ! -s /q/asked/shallow ] || GIT_SHALLOW_FILE=/q/asked/shallow
export GIT_SHALLOW_FILE
export GIT_OBJECT_DIRECTORY=/q/out/objects GIT_ALTERNATE_OBJECT_DIRECTORIES=/q/copy/objects
# Not what belongs to a remote, a working tree or a tool of one repository.
left_out='(remotes|bisect|replace|rewritten|worktree|original|prefetch|pinfold|jj)/|stash$'
git for-each-ref --format='%(objectname) %(refname)' |
  grep -vE "^[0-9a-f]+ refs/($left_out)" >/q/out/refs || :
# HEADs of other working trees, such as of those that the session made or all of a copy that is adopted, if no branch leads to
# them.
for head in /q/copy/HEAD /q/copy/worktrees/*/HEAD; do
  [ -e "$head" ] || continue
  head=${head#/q/copy/}
  ! cut -d' ' -f2 /q/asked/worktrees | grep -qxF "$head" || continue
  case $(git symbolic-ref -q "$head") in refs/heads/*) continue ;; esac
  commit=$(git rev-parse -q --verify "$head^{commit}") || continue
  new=$(git rev-list -n 1 "$commit" --not --branches --tags --remotes 2>/dev/null) || new=$commit
  [ -z "$new" ] || echo "$commit $head"
done >>/q/out/refs
while read -r number head index; do
  commit=$(git rev-parse -q --verify "$head^{commit}") || commit=-
  branch=$(git symbolic-ref -q "$head") || branch=-
  # Without an index nothing is staged: the empty tree.
  [ ! -f "/q/copy/$index" ] || cp "/q/copy/$index" /q/out/index
  tree=$(GIT_INDEX_FILE=/q/out/index git write-tree 2>/dev/null) || tree=-
  rm -f /q/out/index
  echo "$number $commit $tree $branch"
done </q/asked/worktrees >/q/out/heads
if stash=$(git rev-parse -q --verify refs/stash); then
  git log -g -s --no-show-signature --no-decorate --no-notes --format='%H %gs' refs/stash -- >/q/out/stash
  # What was put there without a list.
  grep -q "^$stash" /q/out/stash || echo "$stash refs/stash" >>/q/out/refs
fi
{ cut -d' ' -f1 /q/out/refs; cut -d' ' -f1 /q/out/stash
  cut -d' ' -f2,3 /q/out/heads | tr ' ' '\n' | sed '/^-$/d'; } >/q/out/new
pack() {
  { cat /q/out/new; sed 's/^/^/' /q/asked/tips; } | git pack-objects -q --revs --stdout >/q/out/pack
}
is_whole() {
  { echo "$1"; sed 's/^/^/' /q/asked/tips; } | git rev-list --objects --quiet --stdin
}
if ! pack 2>/dev/null; then
  sort -u /q/out/new >/q/out/all
  head -n 1000 /q/out/all | while read -r object; do
    is_whole "$object" 2>/dev/null || echo "$object"
  done >/q/out/missing
  tail -n +1001 /q/out/all >>/q/out/missing
  grep -vFxf /q/out/missing /q/out/all >/q/out/new || :
  pack
fi
