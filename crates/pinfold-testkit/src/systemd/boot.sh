#!/bin/sh
# boot.sh TREE NAME SYSTEM: systemd as process 1 of namespaces of its own, with TREE as its root and the programs of SYSTEM.
#
# Its control groups lie in groups called NAME, so that it sees itself at the top. The first run makes namespaces; the second, in
# them, joins these groups; the third mounts what systemd expects and becomes it.
set -e
tree=$1 name=$2 system=$3 phase=${4:-outside}
groups=/sys/fs/cgroup
# Hierarchies of version 1; those that are not there are left out.
hierarchies="systemd memory pids cpu cpuacct devices freezer unified"

mount_groups() {
    if [ -e "$groups/cgroup.controllers" ]; then
        mount -t cgroup2 none "$tree$groups"
        return
    fi
    mount -t tmpfs -o mode=755 none "$tree$groups"
    for one in $hierarchies; do
        [ -d "$groups/$one" ] || continue
        mkdir "$tree$groups/$one"
        case $one in
        systemd) mount -t cgroup -o none,name=systemd none "$tree$groups/$one" ;;
        unified) mount -t cgroup2 none "$tree$groups/$one" ;;
        *) mount -t cgroup -o "$one" none "$tree$groups/$one" ;;
        esac
    done
}

case $phase in
outside)
    exec unshare --mount --pid --uts --ipc --net --fork --kill-child=KILL sh "$0" "$tree" "$name" "$system" joining
    ;;
joining)
    # Not the process outside: version 2 gives no controllers to groups below one with processes.
    if [ -e "$groups/cgroup.controllers" ]; then
        mkdir "$groups/$name"
        echo 0 > "$groups/$name/cgroup.procs"
    else
        for one in $hierarchies; do
            [ -d "$groups/$one" ] || continue
            mkdir "$groups/$one/$name"
            echo 0 > "$groups/$one/$name/cgroup.procs"
        done
    fi
    exec unshare --cgroup sh "$0" "$tree" "$name" "$system" inside
    ;;
esac

mount --make-rprivate /
mount --bind "$tree" "$tree"
mount --bind "$system/usr" "$tree/usr"
mount -o remount,bind,ro "$tree/usr"
mount -t proc none "$tree/proc"
mount -t sysfs none "$tree/sys"
mount_groups
mount -t tmpfs -o mode=755 none "$tree/run"
mount -t tmpfs none "$tree/tmp"
mount -t tmpfs -o mode=755 none "$tree/var"
mount -t tmpfs -o mode=755 none "$tree/dev"
for device in null zero full random urandom tty; do
    : > "$tree/dev/$device"
    mount --bind "/dev/$device" "$tree/dev/$device"
done
mkdir "$tree/dev/pts" "$tree/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 none "$tree/dev/pts"
mount -t tmpfs none "$tree/dev/shm"
ln -s pts/ptmx "$tree/dev/ptmx"
ln -s /proc/self/fd "$tree/dev/fd"
for number in 0:stdin 1:stdout 2:stderr; do
    ln -s "/proc/self/fd/${number%:*}" "$tree/dev/${number#*:}"
done
ip link set lo up
# Not chroot(1): a process whose root is not that of its mount namespace may make no user namespace
# (current_chrooted() in fs/fs_struct.c).
cd "$tree"
pivot_root . .
umount -l .
cd /
exec env -i container=pinfold-test PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --system --unit=basic.target \
    --log-target=console
