//! The uncompressed kernel inside an image for x86 (Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header").

use thiserror::Error;

use crate::elf::{Elf, X86_64};
use crate::unpack::{UnpackError, unpack};

/// The most that an uncompressed kernel has: with debugging options on, 100 MiB.
const LIMIT: u64 = 256 << 20;
/// The length of a boot sector and of the sectors of the set-up code.
const SECTOR: usize = 512;
/// `XEN_ELFNOTE_PHYS32_ENTRY` of owner `Xen`: where QEMU enters an uncompressed kernel
/// (include/xen/interface/elfnote.h).
const PVH: (&[u8], u32) = (b"Xen\0", 18);

/// Why an image has no kernel that can be booted.
#[derive(Debug, Error)]
pub enum ImageError {
    /// It does not begin as an image of a kernel for x86 does.
    #[error("not a kernel image for x86-64")]
    NotAnImage,
    /// It is older than Linux 2.6.26, or for 32 bits, or its header points outside of it.
    #[error("invalid header of a kernel image")]
    Header,
    /// What it holds cannot be unpacked.
    #[error("cannot unpack the kernel: {0}")]
    Unpack(#[from] UnpackError),
    /// What it holds is not a kernel.
    #[error("the image does not hold a kernel for x86-64")]
    NotAKernel,
    /// QEMU cannot enter it.
    #[error("the kernel was built without CONFIG_PVH")]
    NoEntry,
}

/// Returns the uncompressed kernel of an image: `vmlinuz` of a distribution, or an uncompressed kernel itself.
///
/// # Errors
/// Returns an error if the image is not a kernel for x86-64 that QEMU can enter.
pub fn vmlinux(image: Vec<u8>) -> Result<Vec<u8>, ImageError> {
    let kernel = if Elf::new(&image).is_some() { image } else { unpack(payload(&image)?, LIMIT)? };
    let elf = Elf::new(&kernel)
        .filter(|elf| elf.machine() == Some(X86_64))
        .ok_or(ImageError::NotAKernel)?;
    if !elf.has_note(PVH.0, PVH.1) {
        return Err(ImageError::NoEntry);
    }
    Ok(kernel)
}

/// Returns the compressed kernel.
fn payload(image: &[u8]) -> Result<Vec<u8>, ImageError> {
    let is_image =
        image.get(0x1fe..0x200) == Some(b"\x55\xaa") && image.get(0x202..0x206) == Some(b"HdrS");
    if !is_image {
        return Err(ImageError::NotAnImage);
    }
    let number = |at: usize| {
        let word = image.get(at..).and_then(|rest| rest.first_chunk());
        word.map(|word| u32::from_le_bytes(*word) as usize).ok_or(ImageError::Header)
    };
    // Fields of the payload are there since version 2.08.
    if number(0x206)? & 0xffff < 0x0208 {
        return Err(ImageError::Header);
    }
    let sectors = match image.get(0x1f1) {
        // For old boot loaders.
        Some(0) => 4,
        Some(count) => usize::from(*count),
        None => return Err(ImageError::Header),
    };
    let start = (sectors + 1) * SECTOR;
    let (offset, length) = (number(0x248)?, number(0x24c)?);
    let start = start.checked_add(offset).ok_or(ImageError::Header)?;
    let end = start.checked_add(length).ok_or(ImageError::Header)?;
    let payload = image.get(start..end).ok_or(ImageError::Header)?;
    // Four bytes with the unpacked length follow, which gzip has itself (scripts/Makefile.lib, size_append).
    let is_gzip = payload.starts_with(b"\x1f\x8b");
    let size = if is_gzip { 0 } else { 4 };
    let end = payload.len().checked_sub(size).ok_or(ImageError::Header)?;
    Ok(payload[..end].to_vec())
}

#[cfg(test)]
mod tests;
