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
# Whether the host asks for the HEAD of a working tree.
is_asked() {
  while read -r _ asked _; do [ "$asked" != "$1" ] || return 0; done </q/asked/worktrees
  return 1
}
# HEADs of other working trees, such as of those that the session made or all of a copy that is adopted, if no branch leads to
# them.
for head in /q/copy/HEAD /q/copy/worktrees/*/HEAD; do
  [ -e "$head" ] || continue
  head=${head#/q/copy/}
  ! is_asked "$head" || continue
  case $(git symbolic-ref -q "$head") in refs/heads/*) continue ;; esac
  commit=$(git rev-parse -q --verify "$head^{commit}") || continue
  new=$(git rev-list -n 1 "$commit" --not --branches --tags --remotes 2>/dev/null) || new=$commit
  [ -z "$new" ] || echo "$commit $head"
done >>/q/out/refs
while read -r number head index; do
  commit=$(git rev-parse -q --verify "$head^{commit}") || commit=-
  branch=$(git symbolic-ref -q "$head") || branch=-
  # Without an index nothing is staged: the empty tree.
  if [ -f "/q/copy/$index" ]; then cp "/q/copy/$index" /q/out/index; else rm -f /q/out/index; fi
  tree=$(GIT_INDEX_FILE=/q/out/index git write-tree 2>/dev/null) || tree=-
  for object in "$commit" "$tree"; do [ "$object" = - ] || echo "$object" >&3; done
  echo "$number $commit $tree $branch"
done </q/asked/worktrees >/q/out/heads 3>/q/out/new
if stash=$(git rev-parse -q --verify refs/stash); then
  git log -g -s --no-show-signature --no-decorate --no-notes --format='%H %gs' refs/stash -- >/q/out/stash
  # What was put there without a list.
  grep -q "^$stash" /q/out/stash || echo "$stash refs/stash" >>/q/out/refs
fi
cut -d' ' -f1 /q/out/refs >>/q/out/new
[ ! -s /q/out/stash ] || cut -d' ' -f1 /q/out/stash >>/q/out/new
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
