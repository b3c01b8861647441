# shellcheck shell=bash
# What the programs in scripts/suites.d share. Each is called in two ways:
#   prepare DIRECTORY CACHE    makes the directory in which the suite runs; the last line of a failure is the reason
#   run [COMMAND…]             runs the suite in the current directory, with these words before each of its commands,
#                              and prints lines of a result and a name

# needs PACKAGE…: installs packages of Debian's.
needs() {
    local missing=() package
    for package in "$@"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        echo "these packages are not installed: ${missing[*]}"
        return 1
    fi
    if ! apt-get update -qq || ! DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        "${missing[@]}"; then
        echo "apt-get cannot install ${missing[*]}"
        return 1
    fi
}

# source_of PACKAGE CACHE COMMAND…: unpacks the source of a package of Debian's into the cache, completes it there with
# a command, and sets `source` to its directory.
source_of() {
    local package=$1 cache=$2 work
    shift 2
    source=$cache/$package
    [ ! -d "$source" ] || return 0
    work=$(mktemp -d "$source.XXXXXX")
    if ! fetch_source "$package" "$work" || ! (cd "$work/tree" && "$@"); then
        rm -rf "$work"
        echo "the source of $package is not available or cannot be built"
        return 1
    fi
    chmod 755 "$work/tree"
    # One rename puts it in place, so what is there is complete.
    mv -T "$work/tree" "$source"
    rm -rf "$work"
}

# fetch_source PACKAGE DIRECTORY: makes DIRECTORY/tree.
fetch_source() {
    local package=$1 work=$2 from
    mkdir "$work/parts" "$work/lists" || return
    # Where the system's packages come from, sources come from.
    for from in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ ! -f "$from" ] ||
            sed -E 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' "$from" >"$work/parts/${from##*/}" || return
    done
    local apt=(-qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/parts"
        -o "Dir::State::Lists=$work/lists" -o APT::Sandbox::User=root)
    # A list that has no sources is no reason to have none of the others.
    (cd "$work" && { apt-get "${apt[@]}" update || true; } &&
        apt-get "${apt[@]}" source --download-only "$package" && dpkg-source --no-check -x ./*.dsc tree)
}
