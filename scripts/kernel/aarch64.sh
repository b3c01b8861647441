# shellcheck shell=bash disable=SC2034,SC2154 # variables that these files share
# Debian's kernel and programs for aarch64, in a machine that QEMU emulates. Its root is a tree of packages for aarch64;
# the sources, the tests and what they need are this machine's.

# shellcheck source=scripts/kernel/qemu.sh
source scripts/kernel/qemu.sh
# shellcheck source=scripts/kernel/cross.sh
source scripts/kernel/cross.sh
limit=3000
runner=(qemu-aarch64-static)
emulator=(qemu-system-aarch64 -M virt)
console=ttyAMA0

# What the tests start inside and outside of sandboxes.
readonly packages=base-files,base-passwd,bash,busybox-static,ca-certificates,coreutils,dash,debianutils,diffutils,\
findutils,gcc,git,grep,gzip,hostname,iproute2,libc-bin,libc6-dev,linux-image-arm64,login,mawk,mount,openssh-client,\
passwd,perl,procps,python3,sed,strace,tar,util-linux

obstacle() {
    if [ "$(id -u)" != 0 ]; then
        echo "only root can make a tree of packages for it"
    elif ! has_target && ! add_target; then
        echo "the compiler has no $target, and rustup could not add it"
    fi
}

machine_programs() {
    cat <<'LIST'
aarch64-linux-gnu-gcc  gcc-aarch64-linux-gnu
cpio                   cpio
depmod                 kmod
mkfs.ext4              e2fsprogs
mmdebstrap             mmdebstrap
qemu-aarch64-static    qemu-user-static
qemu-system-aarch64    qemu-system-arm
LIST
}

kernel() {
    local tree
    tree=${XDG_CACHE_HOME:-$HOME/.cache}/pinfold-peers/aarch64-$(md5sum <<<"$packages" | cut -c 1-8)
    [ -d "$tree" ] || make_tree "$tree" || return 1
    echo "$tree"
}

# Makes the machine's root. Nothing of another processor's runs here, so packages are only unpacked; what their own
# scripts would have made, and the tests need, is made by hand.
make_tree() {
    local tree=$1 work outcome=0
    mkdir -p "${tree%/*}"
    work=$(mktemp -d "$tree.XXXXXX")
    # One rename puts it in place, so what is there is complete. Another process may have been faster.
    if fill_tree "$work/root"; then
        mv -T "$work/root" "$tree" 2>/dev/null || [ -d "$tree" ] || outcome=1
    else
        outcome=1
    fi
    rm -rf "$work"
    return $outcome
}

fill_tree() {
    local root=$1
    mmdebstrap --quiet --architecture=arm64 --variant=extract --include="$packages" "$(codename)" "$root" >&2 &&
        cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd" &&
        cp "$root/usr/share/base-passwd/group.master" "$root/etc/group" &&
        ln -sf mawk "$root/usr/bin/awk" &&
        depmod -b "$root" "$(ls "$root/lib/modules")"
}

codename() {
    sed -n 's/^VERSION_CODENAME=//p' /etc/os-release
}

lower_layer() {
    echo "$kernel"
}

shown_directories() {
    printf '%s\n' "$PWD" "$work" "${CARGO_TARGET_DIR:-$PWD/target}"
}

first_program() {
    echo "$kernel/bin/busybox"
}
