//! A micro-VM: what it boots, the program that runs it, and what its guest does first.
//!
//! - [`Architecture`] is what differs between processors.
//! - [`Kernel`] finds an image and its modules: in an unpacked package, or those that run on this machine.
//! - [`vmlinux()`] cuts the uncompressed kernel out of the image, so that the guest need not unpack it.
//! - [`Modules`] orders modules by what each needs, read from the modules themselves.
//! - [`initramfs()`] writes the archive that the kernel unpacks as its first root.
//! - [`Machine`] is what a program that runs machines has to offer. [`Qemu`] runs one in a sandbox that holds these files.
//! - [`launch`] puts a sandbox into one: a tree that is served, and init in the guest. [`Vm`] is the boundary of that.
//! - [`guest`] is what runs in there.
//!
//! The files are of the user's choice and are parsed here: every length is checked, everything that is unpacked has
//! a limit, and nothing of them is executed on the host.

mod architecture;
mod boundary;
mod elf;
pub mod guest;
mod initramfs;
mod kept;
mod kernel;
mod kvm;
mod machine;
mod modules;
mod prepared;
mod qemu;
mod read;
mod said;
mod sandbox;
mod spec;
mod template;
mod unpack;
mod vmlinux;

pub use architecture::Architecture;
pub use boundary::{Choice, Vm};
pub use initramfs::initramfs;
pub use kernel::{Fetched, Kernel, KernelError, NoKernel, PackageError};
pub use kvm::{Kvm, KvmError};
pub use machine::{Machine, MachineError, Origin, Server, Snapshot};
pub use modules::{Module, ModuleError, Modules, Needs, WANTED, needs};
pub use prepared::PreparedError;
pub use qemu::{Qemu, QemuError, QemuMachine, Version};
pub use read::ReadError;
pub use sandbox::{Maker, launch};
pub use spec::Spec;
pub use template::MemoryError;
pub use unpack::{UnpackError, unpack};
pub use vmlinux::{ImageError, vmlinux};
