//! What tests that boot machines share.
//!
//! `PINFOLD_TEST_QEMU` and `PINFOLD_TEST_KERNEL` are directories into which packages of QEMU and of a kernel were
//! unpacked. Without them, those of the system are used.
//!
//! With `PINFOLD_TEST_AARCH64`, guests have that processor, on a host with another. It is a directory with a system for it,
//! in which `init` is this program or another that does the same first.

pub(crate) mod guests;
mod single;

use std::path::{Path, PathBuf};
use std::time::Instant;

use pinfold_vm::{Architecture, Kernel, Qemu, Spec, WANTED, initramfs};

pub(crate) use single::{Failed, run};

fn directory(variable: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| "/".into(), PathBuf::from)
}

/// Finds QEMU.
pub(crate) fn qemu() -> Result<Qemu, Failed> {
    Ok(Qemu::find(&directory("PINFOLD_TEST_QEMU"), architecture())?)
}

fn architecture() -> &'static Architecture {
    if guests::foreign_system().is_some() { &Architecture::AARCH64 } else { Architecture::HOST }
}

/// Finds QEMU, and writes a kernel and an initramfs with this very program as init to a directory. Returns nothing if
/// one of them is missing, which is said.
pub(crate) fn prepare(directory: &Path, has_tree: bool) -> Result<Option<(Qemu, Spec)>, Failed> {
    let found = qemu().and_then(|qemu| Ok((qemu.version()?, qemu)));
    let (version, qemu) = match found {
        Ok(found) => found,
        Err(error) => return skip(&*error),
    };
    let root = self::directory("PINFOLD_TEST_KERNEL");
    let found = if root == Path::new("/") { Kernel::of_host() } else { Kernel::below(&root) };
    let kernel = match found {
        Ok(kernel) => kernel,
        Err(error) => return skip(&error),
    };
    let start = Instant::now();
    let vmlinux = kernel.vmlinux(architecture())?;
    let modules = kernel.modules()?.in_order(&WANTED)?;
    let archive = initramfs(&std::fs::read(guests::init()?)?, &modules);
    println!("QEMU {version}, Linux {}", kernel.release());
    println!("{} modules, {} bytes, {:?}", modules.len(), archive.len(), start.elapsed());
    let (kernel, initramfs) = (directory.join("vmlinux"), directory.join("initramfs"));
    std::fs::write(&kernel, vmlinux)?;
    std::fs::write(&initramfs, archive)?;
    Ok(Some((
        qemu,
        Spec { kernel, initramfs, memory: 512, cpus: 1, share: None, changes: 0, has_tree },
    )))
}

fn skip<T>(reason: &(impl std::fmt::Display + ?Sized)) -> Result<Option<T>, Failed> {
    println!("SKIPPED: {reason}");
    Ok(None)
}

/// The directories in `/proc` of this user's machines.
pub(crate) fn processes() -> Result<Vec<PathBuf>, Failed> {
    let entries = std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let kernel = b"-kernel\0/run/pinfold/kernel";
        name.starts_with("qemu-system") && words.windows(kernel.len()).any(|part| part == kernel)
    };
    Ok(entries.filter(is_ours).collect())
}
