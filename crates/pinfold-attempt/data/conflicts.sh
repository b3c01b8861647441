# shellcheck shell=sh
# Prints which commits conflict with the one that is checked out. Arguments: that one, and the others.
tip=$1
shift
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null
if git --attr-source="$tip" version >/dev/null 2>&1; then
    export GIT_ATTR_SOURCE="$tip"
fi
for commit; do
    git merge-tree --write-tree --no-messages --name-only "$tip" "$commit" >/dev/null 2>&1
    [ $? -ne 1 ] || echo "conflict: $commit"
done
