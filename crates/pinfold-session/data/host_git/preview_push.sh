#!/bin/sh
# Pushes to the remote as this repository knows it, for show. Then packs what would go, and lists its
# commits from where their bytes are hashed again.
set -e
shift 2
git push --dry-run "$@" >/q/out/said 2>&1 || { cat /q/out/said >&2; exit 1; }
[ -f /q/out/moves ] || : >/q/out/moves
: >/q/out/forced
while read -r _ new to old; do
  case $new in *[!0]*) echo "$new";; esac
  case $old in *[!0]*) echo "^$old"
    case $new in *[!0]*)
      git merge-base --is-ancestor "$old" "$new" || echo "$to" >>/q/out/forced;; esac;; esac
done </q/out/moves >/tmp/tips
if ! grep -q '^^' /tmp/tips; then
  git for-each-ref --format='^%(objectname)' "refs/remotes/$REMOTE/" >>/tmp/tips
  : >/q/out/unproven
fi
git pack-objects -q --revs --stdout </tmp/tips >/tmp/pack
git init -q --bare --object-format="$(git rev-parse --show-object-format)" /tmp/new
: >/q/out/commits
: >/q/out/ids
if [ "$(wc -c </tmp/pack)" -gt 32 ]; then
  cd /tmp/new
  unset GIT_DIR
  git index-pack --stdin </tmp/pack >/dev/null
  git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' |
    sed -n 's/^commit //p' >/q/out/ids
  if [ -s /q/out/ids ]; then
    git log --no-walk --no-show-signature --no-decorate --no-notes --encoding=UTF-8 \
      --format='%h %s (%an)' --stdin </q/out/ids >/q/out/commits
  fi
fi
