# Arguments: the base, a directory with sealed files or nothing, the command, and the paths to restore from the base.
set -e
base=$1 sealed=$2 command=$3
shift 3

# No program of the result decides what is restored.
given=$PATH PATH=
IFS=:
for directory in $given; do
    case $directory in
        "$PWD" | "$PWD"/* | [!/]* | '') ;;
        *) PATH=$PATH${PATH:+:}$directory ;;
    esac
done
unset IFS

for path in "$@"; do
    git rm -rfq --ignore-unmatch -- ":(top,literal)$path"
    git clean -fdxq -- ":(top,literal)$path"
    if git cat-file -e "$base:$path" 2>/dev/null; then
        git checkout -q "$base" -- ":(top,literal)$path"
    fi
done
[ -z "$sealed" ] || cp -R "$sealed/." .
PATH=$given
exec /bin/sh -c "$command"
