//! The uncompressed kernel inside an image: for x86 as Documentation/arch/x86/boot.rst has it ("The Real-Mode Kernel Header"), for
//! aarch64 as Documentation/arch/arm64/booting.rst does.

use thiserror::Error;

use crate::architecture::Architecture;
use crate::elf::{Elf, X86_64};
use crate::unpack::{UnpackError, unpack};

/// The most that an uncompressed kernel has: with debugging options on, 100 MiB.
const LIMIT: u64 = 256 << 20;
/// The length of a boot sector and of the sectors of the set-up code.
const SECTOR: usize = 512;
/// `XEN_ELFNOTE_PHYS32_ENTRY` of owner `Xen`: where QEMU enters an uncompressed kernel
/// (include/xen/interface/elfnote.h).
const PVH: (&[u8], u32) = (b"Xen\0", 18);

/// How an image holds its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For x86: an ELF file, which is compressed behind code that unpacks it.
    Compressed,
    /// For aarch64: with a header of its own, and compressed as a whole or behind a program of UEFI's.
    Image,
}

/// Why an image has no kernel that can be booted.
#[derive(Debug, Error)]
pub enum ImageError {
    /// It does not begin as an image of a kernel does.
    #[error("not a kernel image for {0}")]
    NotAnImage(&'static str),
    /// It is older than Linux 2.6.26, or for 32 bits, or its header points outside of it.
    #[error("invalid header of a kernel image")]
    Header,
    /// What it holds cannot be unpacked.
    #[error("cannot unpack the kernel: {0}")]
    Unpack(#[from] UnpackError),
    /// What it holds is not a kernel.
    #[error("the image does not hold a kernel for {0}")]
    NotAKernel(&'static str),
    /// QEMU cannot enter it.
    #[error("the kernel was built without CONFIG_PVH")]
    NoEntry,
}

/// Returns the uncompressed kernel of an image: `vmlinuz` of a distribution, or an uncompressed kernel itself.
///
/// # Errors
/// Returns an error if the image is not a kernel for this processor that QEMU can enter.
pub fn vmlinux(image: Vec<u8>, architecture: &Architecture) -> Result<Vec<u8>, ImageError> {
    let name = architecture.name;
    match architecture.form {
        Form::Compressed => {
            let is_unpacked = Elf::new(&image).is_some();
            let kernel = if is_unpacked { image } else { unpack(payload(&image, name)?, LIMIT)? };
            let elf = Elf::new(&kernel)
                .filter(|elf| elf.machine() == Some(X86_64))
                .ok_or(ImageError::NotAKernel(name))?;
            if elf.has_note(PVH.0, PVH.1) { Ok(kernel) } else { Err(ImageError::NoEntry) }
        }
        Form::Image => {
            let kernel = match payload_for_uefi(&image)? {
                Some(payload) => unpack(payload, LIMIT)?,
                None => unpack(image, LIMIT)?,
            };
            // `magic` of the header.
            let is_kernel = kernel.get(56..60) == Some(b"ARM\x64");
            if is_kernel { Ok(kernel) } else { Err(ImageError::NotAnImage(name)) }
        }
    }
}

/// Returns the compressed kernel of an image for x86. `name` is that of its processor.
fn payload(image: &[u8], name: &'static str) -> Result<Vec<u8>, ImageError> {
    let is_image =
        image.get(0x1fe..0x200) == Some(b"\x55\xaa") && image.get(0x202..0x206) == Some(b"HdrS");
    if !is_image {
        return Err(ImageError::NotAnImage(name));
    }
    // Fields of the payload are there since version 2.08.
    if number(image, 0x206)? & 0xffff < 0x0208 {
        return Err(ImageError::Header);
    }
    let sectors = match image.get(0x1f1) {
        // For old boot loaders.
        Some(0) => 4,
        Some(count) => usize::from(*count),
        None => return Err(ImageError::Header),
    };
    let start = (sectors + 1) * SECTOR;
    let offset = start.checked_add(number(image, 0x248)?).ok_or(ImageError::Header)?;
    let payload = part(image, offset, number(image, 0x24c)?)?;
    // Four bytes with the unpacked length follow, which gzip has itself (scripts/Makefile.lib, size_append).
    let is_gzip = payload.starts_with(b"\x1f\x8b");
    let size = if is_gzip { 0 } else { 4 };
    let end = payload.len().checked_sub(size).ok_or(ImageError::Header)?;
    Ok(payload[..end].to_vec())
}

/// Returns the compressed kernel of a program of UEFI's that unpacks it, as Fedora has it
/// (drivers/firmware/efi/libstub/zboot-header.S), or `None` if it is another image.
fn payload_for_uefi(image: &[u8]) -> Result<Option<Vec<u8>>, ImageError> {
    if !image.starts_with(b"MZ\0\0zimg") {
        return Ok(None);
    }
    Ok(Some(part(image, number(image, 8)?, number(image, 12)?)?.to_vec()))
}

fn number(image: &[u8], at: usize) -> Result<usize, ImageError> {
    let word = image.get(at..).and_then(|rest| rest.first_chunk());
    word.map(|word| u32::from_le_bytes(*word) as usize).ok_or(ImageError::Header)
}

fn part(image: &[u8], start: usize, length: usize) -> Result<&[u8], ImageError> {
    let end = start.checked_add(length).ok_or(ImageError::Header)?;
    image.get(start..end).ok_or(ImageError::Header)
}

#[cfg(test)]
mod tests;
