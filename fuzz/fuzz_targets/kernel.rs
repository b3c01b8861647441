//! Images of kernels and modules, which are files of the user's choice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_fuzz::assert_printable;
use pinfold_vm::Architecture;

const LIMIT: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    match pinfold_vm::unpack(bytes.to_vec(), LIMIT) {
        Ok(unpacked) => assert!(unpacked.len() as u64 <= LIMIT),
        Err(error) => assert_printable(error),
    }
    for (architecture, magic) in [(&Architecture::X86_64, b"\x7fELF"), (&Architecture::AARCH64, b"ARM\x64")] {
        match pinfold_vm::vmlinux(bytes.to_vec(), architecture) {
            Ok(kernel) => assert!(kernel.starts_with(magic) || kernel[56..].starts_with(magic)),
            Err(error) => assert_printable(error),
        }
    }
    let _ = pinfold_vm::needs(bytes);
});
