use std::io::Write as _;

use super::*;
use crate::elf::AARCH64;
use crate::elf::tests::Builder;

fn kernel(machine: u16, has_entry: bool) -> Vec<u8> {
    let notes: &[u8] = if has_entry {
        b"\x04\0\0\0\x03\0\0\0\x01\0\0\0GNU\0abc\0\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0\0\0\0\x01\0\0\0\0"
    } else {
        b"\x04\0\0\0\x03\0\0\0\x12\0\0\0GNU\0abc\0"
    };
    Builder { machine, notes, modinfo: b"" }.build()
}

/// Returns an image with a payload, as the kernel's build makes it: two sectors of set-up code, then the
/// unpacker.
fn image(payload: &[u8]) -> Vec<u8> {
    const START: usize = 3 * SECTOR;
    const OFFSET: usize = 700;
    let mut image = vec![0; START + OFFSET];
    image[0x1f1] = 2;
    image[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x020f_u16.to_le_bytes());
    image[0x248..0x24c].copy_from_slice(&(OFFSET as u32).to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image.extend_from_slice(payload);
    image.extend_from_slice(b"what follows the payload");
    image
}

/// The kernel of an image for x86.
fn of_x86(image: Vec<u8>) -> Result<Vec<u8>, ImageError> {
    vmlinux(image, &Architecture::X86_64)
}

fn of_aarch64(image: Vec<u8>) -> Result<Vec<u8>, ImageError> {
    vmlinux(image, &Architecture::AARCH64)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4_with_size(bytes: &[u8]) -> Vec<u8> {
    let block = lz4_flex::block::compress(bytes);
    let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
    [b"\x02\x21\x4c\x18", &length(&block)[..], &block[..], &length(bytes)[..]].concat()
}

#[test]
fn kernel_is_cut_out_of_an_image() {
    let kernel = kernel(X86_64, true);
    assert_eq!(of_x86(image(&gzip(&kernel))).unwrap(), kernel);
    assert_eq!(of_x86(image(&lz4_with_size(&kernel))).unwrap(), kernel);
    assert_eq!(of_x86(kernel.clone()).unwrap(), kernel);
}

#[test]
fn what_cannot_be_booted_is_refused_with_its_reason() {
    let whole = image(&gzip(&kernel(X86_64, true)));
    assert!(matches!(of_x86(b"MZ".to_vec()), Err(ImageError::NotAnImage(_))));
    assert!(matches!(of_x86(Vec::new()), Err(ImageError::NotAnImage(_))));
    assert!(matches!(of_x86(whole[..0x206].to_vec()), Err(ImageError::Header)));
    assert!(matches!(of_x86(whole[..3 * SECTOR].to_vec()), Err(ImageError::Header)));
    assert!(matches!(of_x86(image(b"\x02\x21")), Err(ImageError::Header)));
    assert!(matches!(of_x86(image(b"not a kernel")), Err(ImageError::NotAKernel(_))));
    let foreign = image(&gzip(&kernel(AARCH64, true)));
    assert!(matches!(of_x86(foreign), Err(ImageError::NotAKernel(_))));
    let no_entry = image(&gzip(&kernel(X86_64, false)));
    assert!(matches!(of_x86(no_entry), Err(ImageError::NoEntry)));
    let mut old = whole;
    old[0x206] = 7;
    old[0x207] = 2;
    assert!(matches!(of_x86(old), Err(ImageError::Header)));
}

#[test]
fn header_that_points_outside_is_refused() {
    for field in [0x248, 0x24c] {
        let mut image = image(&gzip(&kernel(X86_64, true)));
        image[field..field + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(of_x86(image), Err(ImageError::Header)));
    }
}

/// Returns an uncompressed kernel for aarch64.
fn kernel_of_aarch64() -> Vec<u8> {
    let mut kernel = vec![0x1f; 5000];
    kernel[..8].copy_from_slice(b"MZ\0\x91\xff\xbf\x0a\x14");
    kernel[56..60].copy_from_slice(b"ARM\x64");
    kernel
}

/// Returns a program of UEFI's with a compressed kernel.
fn program(payload: &[u8]) -> Vec<u8> {
    const OFFSET: usize = 400;
    let mut program = vec![0; OFFSET];
    program[..8].copy_from_slice(b"MZ\0\0zimg");
    program[8..12].copy_from_slice(&(OFFSET as u32).to_le_bytes());
    program[12..16].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    [&program, payload, b"what follows the payload"].concat()
}

#[test]
fn kernel_for_aarch64_is_cut_out_of_an_image() {
    let kernel = kernel_of_aarch64();
    for image in [kernel.clone(), gzip(&kernel), program(&gzip(&kernel))] {
        assert_eq!(of_aarch64(image).unwrap(), kernel);
    }
}

#[test]
fn image_for_another_processor_is_refused() {
    let refused = |kernel: Result<Vec<u8>, ImageError>| kernel.unwrap_err().to_string();
    let expected = "not a kernel image for x86-64";
    assert_eq!(refused(of_x86(kernel_of_aarch64())), expected);
    for foreign in [Vec::new(), image(&gzip(&kernel(X86_64, true))), program(&gzip(b"other"))] {
        assert_eq!(refused(of_aarch64(foreign)), "not a kernel image for aarch64");
    }
    let whole = program(&gzip(&kernel_of_aarch64()));
    for (damaged, at) in [(whole[..14].to_vec(), 0), (whole.clone(), 8), (whole, 12)] {
        let mut damaged = damaged;
        if at > 0 {
            damaged[at..at + 4].fill(0xff);
        }
        assert!(matches!(of_aarch64(damaged), Err(ImageError::Header)), "{at}");
    }
}
