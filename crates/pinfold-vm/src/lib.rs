//! What a micro-VM boots: a kernel of a distribution's, and an initramfs with init and the modules that it needs.
//!
//! - [`Kernel`] finds an image and its modules: at a path of the user's choice, in an unpacked package, or in `/boot`.
//! - [`vmlinux`] cuts the uncompressed kernel out of the image, so that the guest need not unpack it.
//! - [`Modules`] orders modules by what each needs, read from the modules themselves.
//! - [`initramfs`] writes the archive that the kernel unpacks as its first root.
//!
//! The files are of the user's choice and are parsed here: every length is checked, everything that is unpacked has
//! a limit, and nothing of them is executed on the host.

mod elf;
mod initramfs;
mod kernel;
mod modules;
mod read;
mod unpack;
mod vmlinux;

pub use initramfs::initramfs;
pub use kernel::{Kernel, KernelError, NoKernel};
pub use modules::{Module, ModuleError, Modules, WANTED, needs};
pub use read::ReadError;
pub use unpack::{UnpackError, unpack};
pub use vmlinux::{ImageError, vmlinux};
