# shellcheck shell=bash disable=SC2034,SC2154 # variables that these files share
# User-mode Linux. It mounts this machine's files by hostfs, read-only, as the lower layer of an overlay. On hostfs
# itself an ordinary user cannot write, and mounts cannot be idmapped.

# Seconds: the tests take one to two minutes.
limit=600

# Prints why the machine cannot be used.
obstacle() {
    command -v gcc >/dev/null 2>&1 || echo "gcc is not installed"
}

# program, package
machine_programs() {
    cat <<'LIST'
ip           iproute2
modprobe     kmod
mkfs.ext4    e2fsprogs
LIST
}

kernel() {
    local version
    version=$(apt-cache show --no-all-versions user-mode-linux 2>/dev/null | sed -n 's/^Version: //p')
    [ -n "$version" ] || return 1
    # modprobe(8) looks for lib/modules.
    unpacked user-mode-linux "user-mode-linux-$version" "ln -s usr/lib/uml lib"
}

# Prints the directory for the file that backs the machine's memory. It must allow execution. In a container /dev/shm
# often does not, and is small.
memory_directory() {
    local megabytes=$1 free
    free=$(df --output=avail -B1M /dev/shm 2>/dev/null | tail -n 1)
    if [ "${free:-0}" -gt "$megabytes" ] && ! findmnt -n -o OPTIONS --target /dev/shm | grep -qw noexec; then
        echo /dev/shm
    else
        echo "$work"
    fi
}

start_machine() {
    local megabytes=2048
    mkdir -p "$work"/root "$work"/upper "$work"/state
    cp scripts/kernel/uml-init "$work/init"
    ln -sfn "$kernel" "$work/kernel"
    gcc -shared -fPIC -O2 -o "$work/xstate.so" scripts/kernel/xstate.c
    make_scratch_disk
    LD_PRELOAD=$work/xstate.so TMPDIR=$(memory_directory $megabytes) watch_machine \
        "$kernel/usr/bin/linux.uml" mem=${megabytes}M "uml_dir=$work/state" "ubd0=$work/scratch" \
        root=/dev/root rootfstype=hostfs rootflags=/ ro "init=$work/init" \
        con=null con0=null,fd:1 quiet loglevel=3 panic=-1
}
