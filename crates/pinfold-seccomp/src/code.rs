//! Instructions of classic BPF, and what they see of a system call (seccomp(2)).

pub const LOAD: u16 = 0x20;
pub const AND: u16 = 0x54;
pub const JUMP_EQUAL: u16 = 0x15;
pub const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`; the low halves, as both architectures are little-endian.
pub const NUMBER: u32 = 0;
pub const fn argument(index: u32) -> u32 {
    16 + 8 * index
}
