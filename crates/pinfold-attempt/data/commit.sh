# shellcheck shell=sh
# Commits what the agent left without a commit. Argument: the message.
set -e
git add -A
git diff --cached --quiet || git commit -q --no-verify -m "$1"
