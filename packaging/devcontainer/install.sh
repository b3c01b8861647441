#!/bin/sh
# Installs pinfold for all users of a development container, as root while its image is built.
#
#   FROM    the release, if it is not the one that this feature is part of
set -eu
cd "${0%/*}"

# What the installer needs, from the distribution if it is missing.
wants=
command -v curl >/dev/null 2>&1 || command -v wget >/dev/null 2>&1 || wants=curl
command -v ssh-keygen >/dev/null 2>&1 || wants="$wants openssh-client"
if [ -n "$wants" ]; then
    command -v apt-get >/dev/null 2>&1 || {
        echo "pinfold: error: curl and ssh-keygen are needed, and apt-get is not there to install them" >&2
        echo "hint: install them in the image" >&2
        exit 1
    }
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends ca-certificates $wants
    rm -rf /var/lib/apt/lists/*
fi

if [ -n "${FROM:-}" ]; then
    sh ./release.sh --to /usr/local --from "$FROM"
else
    sh ./release.sh --to /usr/local
fi
