# shellcheck shell=sh
# Moves references, HEADs and indexes of the copy to where the host has them, each only if it is
# where it was when both sides were last in step.
set -e
git update-ref -m 'from the host' --stdin </q/asked/bring-refs
while read -r number head index old new; do
  now=$(git symbolic-ref -q "$head") || now=$(git rev-parse -q --verify "$head") || now=-
  [ "$now" = "$old" ] || exit 1
  lock=/q/copy/$index.lock
  (set -C; : >"$lock") || exit 1
  if [ "$old" != "$new" ]; then
    case $new in
      refs/*) git symbolic-ref -m 'from the host' "$head" "$new" ;;
      *) git update-ref -m 'from the host' --no-deref "$head" "$new" ;;
    esac
  fi
  if [ -f "/q/asked/bring-index-$number" ]; then
    cat "/q/asked/bring-index-$number" >"$lock"
    touch -r "/q/asked/bring-index-$number" "$lock"
    mv "$lock" "/q/copy/$index"
  else
    rm -f "$lock"
  fi
done </q/asked/bring-heads
