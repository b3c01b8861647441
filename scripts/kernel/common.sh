# shellcheck shell=bash disable=SC2034,SC2154 # variables that these files share
# What both machines have in common. A machine's own file defines `obstacle`, `machine_programs`, `kernel`,
# `start_machine` and `limit` (seconds), and `target` and `runner` if its processor is another.

skip() {
    echo "skipped under another kernel: $1"
    exit 0
}

# Prints the packages of programs that are not installed.
missing_packages() {
    machine_programs | while read -r program package; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null 2>&1 || echo "$package"
    done
}

install_missing() {
    local missing
    missing=$(missing_packages | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || skip "these packages are not installed: $missing"
    # shellcheck disable=SC2086 # a list of words
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        $missing; } >/dev/null </dev/null || skip "apt-get could not install all of: $missing"
}

# Prints the directory of the kernel, with package lists that may be updated first.
find_kernel() {
    kernel || { [ "$(id -u)" = 0 ] && apt-get update -qq >/dev/null && kernel; }
}

# Prints the directory of an unpacked package, in the user's cache. The third argument is a command that completes
# it there.
unpacked() {
    local package=$1 name=$2 complete=${3:-true} directory work
    directory=${XDG_CACHE_HOME:-$HOME/.cache}/pinfold-peers/$name
    if [ ! -d "$directory" ]; then
        mkdir -p "${directory%/*}"
        # One rename puts it in place, so what is there is complete.
        work=$(mktemp -d "$directory.XXXXXX")
        # shellcheck disable=SC2064 # expanded now: at the end the variable is gone
        trap "rm -rf '$work'" EXIT
        if ! (cd "$work" && apt-get download -qq "$package" && dpkg -x ./*.deb . && rm ./*.deb && $complete) >&2; then
            return 1
        fi
        # Another process may have been faster.
        mv -T "$work" "$directory" 2>/dev/null || true
    fi
    echo "$directory"
}

# Makes the directory for a machine's files. It is removed, and the machine ended, when this script ends.
make_work_directory() {
    work=$(mktemp -d /var/tmp/pinfold-kernel.XXXXXX)
    machine=
    trap clean_up EXIT
    # Without these traps a signal would end bash before the machine.
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

clean_up() {
    if [ -n "$machine" ]; then
        kill "$machine" 2>/dev/null || true
        wait "$machine" 2>/dev/null || true
    fi
    rm -rf "$work"
}

# Builds the test executables and writes a line for each, with its filters, for the machine.
build_tests() {
    local binary binaries artifacts executable filter filters name units='' options=()
    binaries=$(awk '{ print $1 }' <<<"$1" | sort -u)
    for binary in $binaries; do
        case $binary in
            pinfold_*) units=--lib ;;
            *) options+=(--test "$binary") ;;
        esac
    done
    [ -z "$units" ] || options+=("$units")
    [ -z "${target:-}" ] || options+=(--target "$target")
    # All packages, as `scripts/test` builds them: with fewer, dependencies have other features.
    artifacts=$(cargo test --quiet --all-features --workspace "${options[@]}" --no-run --message-format=json)
    for binary in $binaries; do
        executable=$(sed -n 's|.*"executable":"\([^"]*/'"$binary"'-[0-9a-f]*\)".*|\1|p' <<<"$artifacts")
        filters=$(awk -v binary="$binary" '$1 == binary { print $2 }' <<<"$1" | sort -u | tr '\n' ' ')
        for filter in $filters; do
            if [ -z "$(${runner[@]+"${runner[@]}"} "$executable" --list --format terse "$filter")" ]; then
                echo "no test of $binary matches $filter" >&2
                return 1
            fi
        done
        echo "$executable $filters"
    done >"$work/tests"
    # The boundary `systemd` has a program of its own.
    grep -q '^systemd ' <<<"$1" && cargo build --quiet --all-features --workspace --bin pinfold-runner
    echo "$PWD/crates/pinfold" >"$work/directory"
    # What tests of machines need, and the executable that the others start.
    for name in PINFOLD_TEST_{QEMU,KERNEL,ACCELERATOR}; do
        [ -z "${!name:-}" ] || printf "export %s='%s'\n" "$name" "${!name}"
    done >"$work/environment"
    [ -z "${PINFOLD:-}" ] ||
        printf "export NEXTEST_BIN_EXE_pinfold='%s'\n" "$(realpath "$PINFOLD")" >>"$work/environment"
    cp scripts/kernel/guest "$work/guest"
}

# Makes an empty file system for the machine's /tmp, as a sparse file.
make_scratch_disk() {
    rm -f "$work/scratch"
    truncate -s 4G "$work/scratch"
    PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F "$work/scratch"
}

# Runs a machine's command until it ends or its time is over, and shows what it prints. The machine ends even if
# this script is killed by a signal that it cannot catch.
watch_machine() {
    : >"$work/log"
    setpriv --pdeathsig TERM timeout --kill-after 5 "$limit" "$@" </dev/null >"$work/log" 2>&1 &
    machine=$!
    tail --lines=+1 --sleep-interval=0.2 --follow --pid="$machine" "$work/log" | tr -d "\r" &
    wait "$machine" || echo "the machine ended with $? (124 means: after $limit seconds)"
    machine=
    wait
}

has_passed() {
    grep -q '^tests ended with 0.\?$' "$work/log"
}
