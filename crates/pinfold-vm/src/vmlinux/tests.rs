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
    assert_eq!(vmlinux(image(&gzip(&kernel))).unwrap(), kernel);
    assert_eq!(vmlinux(image(&lz4_with_size(&kernel))).unwrap(), kernel);
    assert_eq!(vmlinux(kernel.clone()).unwrap(), kernel);
}

#[test]
fn what_cannot_be_booted_is_refused_with_its_reason() {
    let whole = image(&gzip(&kernel(X86_64, true)));
    assert!(matches!(vmlinux(b"MZ".to_vec()), Err(ImageError::NotAnImage)));
    assert!(matches!(vmlinux(Vec::new()), Err(ImageError::NotAnImage)));
    assert!(matches!(vmlinux(whole[..0x206].to_vec()), Err(ImageError::Header)));
    assert!(matches!(vmlinux(whole[..3 * SECTOR].to_vec()), Err(ImageError::Header)));
    assert!(matches!(vmlinux(image(b"\x02\x21")), Err(ImageError::Header)));
    assert!(matches!(vmlinux(image(b"not a kernel")), Err(ImageError::NotAKernel)));
    let foreign = image(&gzip(&kernel(AARCH64, true)));
    assert!(matches!(vmlinux(foreign), Err(ImageError::NotAKernel)));
    let no_entry = image(&gzip(&kernel(X86_64, false)));
    assert!(matches!(vmlinux(no_entry), Err(ImageError::NoEntry)));
    let mut old = whole;
    old[0x206] = 7;
    old[0x207] = 2;
    assert!(matches!(vmlinux(old), Err(ImageError::Header)));
}

#[test]
fn header_that_points_outside_is_refused() {
    for field in [0x248, 0x24c] {
        let mut image = image(&gzip(&kernel(X86_64, true)));
        image[field..field + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(vmlinux(image), Err(ImageError::Header)));
    }
}
