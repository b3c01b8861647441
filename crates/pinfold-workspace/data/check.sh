# shellcheck shell=sh
# Checks the pack and says which branches moved forward and which stashes are such. A few objects
# are stored one by one, so that git does not pack again after every commit (`gc.autoPackLimit`). Argument: few, many, or
# nothing if the pack is empty. If git refuses an object, the rest is stored, `refused` has what leads to it, and `why` what git said.
set -e
tips=/q/asked/new
store() {
  [ ! -e /q/out/incoming ] || rm -rf /q/out/incoming
  mkdir -p /q/out/incoming/info /q/out/incoming/pack
  case $1 in
    few) git unpack-objects -q --strict ;;
    *) git index-pack --stdin --strict --fix-thin >/dev/null ;;
  esac
}
# Packs what some tips lead to, and what is in good does not.
pack() {
  { cat "$1"; cat /q/asked/tips /q/out/good | sed 's/^/^/'; } |
    GIT_OBJECT_DIRECTORY=/q/out/doubtful git pack-objects -q --revs --stdout >/q/out/part
}
# Packs them and checks that pack. What it leads to in others was checked before.
passes() {
  rm -rf /q/out/trial
  mkdir -p /q/out/trial/info /q/out/trial/pack &&
    pack "$1" &&
    GIT_OBJECT_DIRECTORY=/q/out/trial GIT_ALTERNATE_OBJECT_DIRECTORIES=/q/host/objects:/q/out/doubtful \
      git index-pack --stdin --strict --fix-thin </q/out/part >/dev/null
}
# Divides tips into those that pass and those that do not, the first ones first. Each check may read all of the pack: without
# a limit, a session with many of both kinds would keep its user waiting.
divide() {
  echo >>/q/out/checks
  count=$(wc -l <"$1")
  if [ "$(wc -l </q/out/checks)" -gt "$most" ]; then
    cat "$1" >>/q/out/refused
  elif passes "$1" 2>/q/out/last; then
    cat "$1" >>/q/out/good
  elif [ "$count" -le 1 ]; then
    cat "$1" >>/q/out/refused
    [ -s /q/out/why ] || cp /q/out/last /q/out/why
  else
    half=$(((count + 1) / 2))
    head -n "$half" "$1" >"$1.a"
    tail -n +"$((half + 1))" "$1" >"$1.b"
    divide "$1.a"
    divide "$1.b"
  fi
}
if [ -n "$1" ]; then
  export GIT_OBJECT_DIRECTORY=/q/out/incoming GIT_ALTERNATE_OBJECT_DIRECTORIES=/q/host/objects
  if ! store "$1" </q/said/pack 2>/q/out/first; then
    mkdir -p /q/out/doubtful/info /q/out/doubtful/pack
    # What is no pack is refused as a whole.
    GIT_OBJECT_DIRECTORY=/q/out/doubtful git index-pack --stdin --fix-thin </q/said/pack >/dev/null
    read -r most large </q/asked/most
    [ "$(wc -c </q/said/pack)" -lt 16777216 ] || most=$large
    # Each once, in their order.
    cat -n /q/asked/new | sort -k 2 -u | sort -n | cut -f 2 |
      grep -vFxf /q/asked/tips >/q/out/undecided || :
    : >/q/out/good
    divide /q/out/undecided
    [ -s /q/out/why ] || cp /q/out/first /q/out/why
    sort -u /q/out/good >/q/out/all
    : >/q/out/good
    pack /q/out/all
    how=few
    [ "$(wc -c </q/out/part)" -lt 65536 ] || how=many
    store "$how" </q/out/part
    tips=/q/out/all
  fi
fi
git rev-list --objects --quiet --stdin --not --all <"$tips"
while read -r old new name; do
  if git merge-base --is-ancestor "$old" "$new" 2>/dev/null; then echo "$name"; fi
done </q/asked/updates >/q/out/forward
while read -r commit; do
  if git rev-parse -q --verify "$commit^2^{commit}" >/dev/null; then echo "$commit"; fi
done </q/asked/stash >/q/out/stashes
