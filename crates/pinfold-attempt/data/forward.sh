# shellcheck shell=sh
# Moves the branch that is checked out forward to a merge, with its files. Arguments: the reference, its commit, the merge,
# and "try" to change nothing. Ends with 10 if something of the user's is in the way, and with 11 if the branch moved.
set -e
branch=$1 tip=$2 merged=$3 mode=$4
# shellcheck disable=SC2032
git() { command git -c core.hooksPath=/dev/null "$@"; }

[ "$(git symbolic-ref -q HEAD)" = "$branch" ] && [ "$(git rev-parse HEAD)" = "$tip" ] || exit 11

# A filter may be a script of the repository, and so of the result: it must not run where the user works.
filters=$(git config --name-only --get-regexp '^filter\..*\.(smudge|process)$' | grep -v '^filter\.lfs\.' || :)
if [ -n "$filters" ]; then
    used=$(git diff --name-only --no-renames -z "$tip" "$merged" |
        git --attr-source="$merged" check-attr --stdin -z filter | sed -zn '0~3p' | sort -zu | tr '\0' '\n')
    for filter in $used; do
        case $filter in lfs | set | unset | unspecified) continue ;; esac
        if printf '%s\n' "$filters" | grep -Fq "filter.$filter."; then
            echo "error: files that change have the filter $filter, which is a program" >&2
            exit 10
        fi
    done
fi

# What is in the checkout as the merge has it is no obstacle: a landing that was killed may have written it.
work=$(mktemp -d)
index=$(git rev-parse --git-path index)
git diff-tree -r -z --no-renames --name-only --diff-filter=AMT "$tip" "$merged" | sort -z >"$work/changed"
GIT_INDEX_FILE=$work/merged git read-tree "$merged"
# shellcheck disable=SC2033 # no hook runs for a diff
GIT_INDEX_FILE=$work/merged GIT_LITERAL_PATHSPECS=1 xargs -0r git diff -z --no-ext-diff --name-only -- \
    <"$work/changed" | sort -zu >"$work/other"
comm -z -23 "$work/changed" "$work/other" >"$work/same"
cp -p "$index" "$work/index"
GIT_INDEX_FILE=$work/index git update-index -z --add --stdin <"$work/same"
GIT_INDEX_FILE=$work/index git read-tree -n -m -u "$tip" "$merged" || exit 10
[ "$mode" = move ] || exit 0

[ ! -s "$work/same" ] || cp -p "$work/index" "$index"
git merge --ff-only --no-autostash --no-overwrite-ignore --quiet "$merged" || exit 10
