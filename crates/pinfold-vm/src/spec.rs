//! What a machine is.

use std::path::PathBuf;

use pinfold_boundary::CpuShare;

pub(crate) const MIB: u64 = 1 << 20;

/// What a machine is made of.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The uncompressed kernel.
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
    /// Memory of the guest in MiB.
    pub memory: u32,
    /// Processors of the guest.
    pub cpus: u32,
    /// How much of the host's processors it may use, if that is bounded.
    pub share: Option<CpuShare>,
    /// What the session may change in a system, in bytes, which is memory of the host's.
    pub changes: u64,
    /// Whether a file server serves its tree.
    pub has_tree: bool,
}

impl Spec {
    /// Returns whether its processors alone bound what it may use.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.share.is_some_and(|share| share.thousandths == self.cpus * 1000)
    }

    /// Returns how much memory its guest has in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.memory) * MIB
    }
}
