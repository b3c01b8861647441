# shellcheck shell=sh
# Arguments: the base, a directory with sealed files or nothing, the commit that is verified, the command, and the paths to
# restore from the base.
set -e
base=$1 sealed=$2 commit=$3 command=$4
shift 4

# No program of the result decides what is restored.
# shellcheck disable=SC2123 # nothing is looked up
given=$PATH PATH=
IFS=:
for directory in $given; do
    case $directory in
        "$PWD" | "$PWD"/* | [!/]* | '') ;;
        *) PATH=$PATH${PATH:+:}$directory ;;
    esac
done
unset IFS

# Another session may have moved the branch that this is a checkout of.
if [ "$(git rev-parse HEAD)" != "$commit" ]; then
    echo "error: what is checked out is not the commit that is verified" >&2
    exit 1
fi

# Nor do attributes of the result change what is written. An older git reads them from the checkout alone.
if git --attr-source="$base" version >/dev/null 2>&1; then
    export GIT_ATTR_SOURCE="$base"
elif [ $# -gt 0 ] && ! git diff --quiet "$base" HEAD -- ':(top,glob)**/.gitattributes'; then
    echo "error: the result changes .gitattributes, and this git cannot restore files without that (2.43 can)" >&2
    exit 1
fi
for path in "$@"; do
    # A link of the result above the path would lead to other files.
    above=$path
    while [ "$above" != "${above%/*}" ]; do
        above=${above%/*}
        [ ! -L "$above" ] || rm -f -- "$above"
    done
    git rm -rfq --ignore-unmatch -- ":(top,literal)$path"
    git clean -fdxq -- ":(top,literal)$path"
    if git cat-file -e "$base:$path" 2>/dev/null; then
        git checkout -q "$base" -- ":(top,literal)$path"
    fi
done
unset GIT_ATTR_SOURCE || true
if [ -n "$sealed" ]; then
    # A link or another kind of file of the result where sealed files come would lead them elsewhere.
    top=$PWD
    # shellcheck disable=SC2016 # for the inner shell
    (cd "$sealed" && find . -exec /bin/sh -c '
        top=$1
        shift
        for path; do
            [ ! -L "$path" ] && [ -d "$path" ] && [ ! -L "$top/$path" ] && [ -d "$top/$path" ] ||
                rm -rf "$top/$path"
        done' clear "$top" {} +)
    cp -R "$sealed/." .
fi
PATH=$given
exec /bin/sh -c "$command"
