#!/bin/sh
# Installs pinfold for the user who runs this: one executable, its manual pages and completions.
#
#   install.sh [--to DIRECTORY] [--from URL]
#       --to      below which bin and share are (default: ~/.local)
#       --from    where the release is: a URL, or a directory of this machine
#
# The list of digests has to be signed by the key below, and the tarball has to have the digest that it lists.
set -eu

version='@VERSION@'
from='@URL@'
key='@KEY@'
to=${HOME:?}/.local
# A file that is half written.
new=

fail() {
    echo "pinfold: error: $1" >&2
    [ -z "${2:-}" ] || echo "hint: $2" >&2
    exit 1
}

# fetch NAME: puts a file of the release into the work directory.
fetch() {
    case $from in
        https://*)
            if command -v curl >/dev/null 2>&1; then
                curl --proto '=https' --tlsv1.2 --fail --silent --show-error --location --output "$work/$1" "$from/$1"
            elif command -v wget >/dev/null 2>&1; then
                wget --https-only --quiet --output-document="$work/$1" "$from/$1"
            else
                fail "neither curl nor wget is installed" "install one of them"
            fi ;;
        /*) cp "$from/$1" "$work/$1" ;;
        *) fail "releases come by https or from a directory, not from $from" ;;
    esac || fail "$from/$1 cannot be fetched"
}

# put FILE MODE: puts a file of the package where it belongs. One rename, so that a session that runs keeps its executable, nobody
# starts half of one, and a link that is there is replaced and not followed.
put() {
    [ ! -d "$to/$1" ] || fail "$to/$1 is a directory"
    new=$(mktemp "$to/${1%/*}/.pinfold.XXXXXX")
    cp "$work/$name/$1" "$new"
    chmod "$2" "$new"
    mv -f "$new" "$to/$1"
    new=
}

# All of it, so that a program whose end is missing does nothing.
main() {
    while [ $# -gt 0 ]; do
        case $1 in
            --to) to=${2:?--to needs a directory}; shift 2 ;;
            --from) from=${2:?--from needs a URL}; shift 2 ;;
            *) fail "unknown option $1" "install.sh [--to DIRECTORY] [--from URL]" ;;
        esac
    done

    [ "$(uname -s)" = Linux ] || fail "this release is for Linux, and this is $(uname -s)"
    machine=$(uname -m)
    case $machine in
        x86_64 | aarch64) ;;
        *) fail "this release has no executable for $machine" "build it from its source" ;;
    esac

    work=$(mktemp -d)
    trap 'rm -rf "$work" "$new"' EXIT
    trap 'exit 1' HUP INT TERM
    name=pinfold-$version-$machine-linux
    fetch SHA256SUMS
    fetch SHA256SUMS.sig
    fetch "$name.tar.gz"

    command -v ssh-keygen >/dev/null 2>&1 ||
        fail "ssh-keygen is not installed, which checks the signature" "install openssh-client (openssh-clients on Fedora)"
    echo "release $key" >"$work/signers"
    ssh-keygen -Y verify -q -f "$work/signers" -I release -n pinfold -s "$work/SHA256SUMS.sig" <"$work/SHA256SUMS" >/dev/null ||
        fail "SHA256SUMS is not signed by the key of the releases" "do not use what $from has"
    line=$(grep " $name.tar.gz\$" "$work/SHA256SUMS") || fail "SHA256SUMS does not list $name.tar.gz"
    (cd "$work" && echo "$line" | sha256sum -c - >/dev/null) ||
        fail "$name.tar.gz does not have the digest that SHA256SUMS lists" "fetch it again"

    tar -xzf "$work/$name.tar.gz" -C "$work"
    "$work/$name/bin/pinfold" --version >/dev/null || fail "the executable does not start on this machine"
    mkdir -p "$to/bin"
    (cd "$work/$name" && find share -type f) | while read -r file; do
        mkdir -p "$to/${file%/*}"
        put "$file" 644
    done
    put bin/pinfold 755
    echo "pinfold $version is installed as $to/bin/pinfold"
    case :$PATH: in
        *":$to/bin:"*) ;;
        *) echo "hint: $to/bin is not in PATH" ;;
    esac
}

{ main "$@"; }
