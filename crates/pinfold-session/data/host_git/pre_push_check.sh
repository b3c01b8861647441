#!/bin/sh
# Lets a push pass that does what was shown, and nothing else (githooks(5), "pre-push"). Where only new
# references are made, what the remote has already is what this repository says, so the remote is asked.
refuse() {
  echo 'pinfold: the remote is not where this repository has it, so this is not what was shown:' >&2
  echo "pinfold: $1" >&2
  echo 'hint: fetch first, then push again' >&2
  exit 1
}
while read -r line; do
  grep -qxF -e "$line" /q/approved || refuse "$line"
  new=${line#* }
  echo "${new%% *}" >>/tmp/new
done
if [ -e /q/unproven ] && [ -s /tmp/new ]; then
  git ls-remote "$2" >/tmp/there || exit 1
  sed 's/[^0-9a-f].*//' /tmp/there | git cat-file --batch-check='%(objectname)' |
    sed -n 's/^[0-9a-f]*$/^&/p' >/tmp/known
  cat /tmp/new /tmp/known | git rev-list --stdin >/tmp/sent || exit 1
  while read -r commit; do
    grep -qxF -e "$commit" /q/ids || refuse "it lacks commit $commit"
  done </tmp/sent
fi
