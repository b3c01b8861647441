# shellcheck shell=bash disable=SC2034,SC2154 # variables that these files share
# Debian's usual kernel in a machine that QEMU emulates. It mounts this machine's files by 9p, read-only, as the lower
# layer of an overlay.

# Seconds: a start takes ten, and all tests four minutes.
limit=1500

# Prints why the machine cannot be used. QEMU reads the files as the user that started it.
obstacle() {
    [ "$(id -u)" = 0 ] || echo "only root can show all of this machine's files to another"
}

# program, package
machine_programs() {
    cat <<'LIST'
busybox                busybox-static
cpio                   cpio
depmod                 kmod
ip                     iproute2
mkfs.ext4              e2fsprogs
qemu-system-x86_64     qemu-system-x86
LIST
}

kernel() {
    local name
    name=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')
    [ -n "$name" ] || return 1
    unpacked "$name" "$name" "depmod -b . ${name#linux-image-}"
}

# Makes the first file system: kernel modules, and a program that mounts the root of the tests.
make_first_files() {
    local module file name first=$work/first
    mkdir -p "$first"/{bin,modules,proc,sys,dev,lower,upper,root}
    cp "$(command -v busybox)" "$first/bin/busybox"
    for module in virtio_pci virtio_blk 9pnet_virtio 9p overlay ext4 nft_tproxy; do
        modprobe -d "$kernel" -S "$(ls "$kernel/lib/modules")" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
        name=${file##*/}
        case $name in
            *.xz) name=${name%.xz} && xz -dc "$file" >"$first/modules/$name" ;;
            *) cp "$file" "$first/modules/" ;;
        esac
        echo "$name" >>"$first/order"
    done
    sed "s|@work@|$work|" scripts/kernel/qemu-init >"$first/init"
    chmod +x "$first/init"
    (cd "$first" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/first.gz"
}

start_machine() {
    [ -e "$work/first.gz" ] || make_first_files
    make_scratch_disk
    # Mitigations of processor flaws cost time and protect nothing here.
    watch_machine qemu-system-x86_64 -accel tcg,thread=multi,tb-size=1024 -cpu max -m 4096 -smp 2 \
        -display none -monitor none -serial stdio -no-reboot \
        -kernel "$kernel"/boot/vmlinuz-* -initrd "$work/first.gz" \
        -append 'console=ttyS0 panic=-1 quiet mitigations=off init_on_alloc=0' \
        -drive "file=$work/scratch,if=virtio,format=raw,cache=unsafe" \
        -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap
}
