# shellcheck shell=bash disable=SC2034,SC2154 # variables that these files share
# Debian's usual kernel in a machine that QEMU emulates. It mounts this machine's files by 9p, read-only, as the lower
# layer of an overlay.

# Seconds: a start takes ten, and all tests four minutes.
limit=1500
emulator=(qemu-system-x86_64)
modules='virtio_pci virtio_blk 9pnet_virtio 9p overlay ext4 nft_tproxy'
# QEMU emulates what AMD's processors have for it.
[ -z "${PINFOLD_TEST_ACCELERATOR:-}" ] || modules+=' kvm_amd'
console=ttyS0

# Prints the directory that becomes the machine's root.
lower_layer() {
    echo /
}

# Prints the directories of this machine that the tests need, if the root is another's.
shown_directories() {
    :
}

# Prints the shell and the tools for the first file system, as one static program of the machine's kind.
first_program() {
    command -v busybox
}

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
    mkdir -p "$first"/{bin,modules,proc,sys,dev,lower,host,upper,root}
    cp "$(first_program)" "$first/bin/busybox"
    shown_directories >"$first/shown"
    for module in $modules; do
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
    local shared=security_model=none,readonly=on,multidevs=remap
    [ -e "$work/first.gz" ] || make_first_files
    make_scratch_disk
    # Mitigations of processor flaws cost time and protect nothing here.
    watch_machine "${emulator[@]}" -accel tcg,thread=multi,tb-size=1024 -cpu max -m 4096 -smp 2 \
        -display none -monitor none -serial stdio -no-reboot \
        -kernel "$kernel"/boot/vmlinuz-* -initrd "$work/first.gz" \
        -append "console=$console panic=-1 quiet mitigations=off init_on_alloc=0" \
        -drive "file=$work/scratch,if=virtio,format=raw,cache=unsafe" \
        -virtfs "local,path=$(lower_layer),mount_tag=lower,$shared" \
        -virtfs "local,path=/,mount_tag=host,$shared"
}
