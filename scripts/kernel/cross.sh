# shellcheck shell=bash disable=SC2034 # a variable that its users read
# How cargo builds for aarch64 on another machine.

readonly target=aarch64-unknown-linux-gnu
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64-static

# Whether the compiler has libraries for the target.
has_target() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]
}

add_target() {
    command -v rustup >/dev/null && rustup target add "$target" >/dev/null 2>&1
}
