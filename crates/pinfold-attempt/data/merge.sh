# shellcheck shell=sh
# Merges a result into what is checked out, and writes no file of it. Arguments: the commit that is checked out, the
# result, and the message. Ends with 10 if they conflict, and then prints where.
set -e
tip=$1 result=$2 message=$3
git() { command git -c core.hooksPath=/dev/null "$@"; }

# What lands are the commits themselves, not what git-replace(1) or a graft puts in their place.
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null
# Attributes of the result do not decide how it is merged. An older git reads those of the checkout, which is the base.
if git --attr-source="$tip" version >/dev/null 2>&1; then
    export GIT_ATTR_SOURCE="$tip"
fi

if ! git merge-base "$tip" "$result" >/dev/null; then
    echo "error: the result and its base have no commit in common" >&2
    exit 1
fi
status=0
tree=$(git merge-tree --write-tree --no-messages --name-only "$tip" "$result") || status=$?
case $status in
    0) ;;
    1)
        printf '%s\n' "$tree" | sed '1d;s/^/conflict: /'
        exit 10
        ;;
    129)
        echo "error: this git cannot merge without a checkout (2.38 can)" >&2
        exit 1
        ;;
    *) exit 1 ;;
esac
sign=
[ "$(git config --type=bool --default=false --get commit.gpgsign)" != true ] || sign=-S
merged=$(git commit-tree $sign -p "$tip" -p "$result" -m "$message" "$tree")
git update-ref HEAD "$merged" "$tip"
