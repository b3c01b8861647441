//! What a layer is built for. The system is always Linux: that is what runs inside.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A processor family, in npm's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cpu {
    /// `x86_64`.
    X64,
    /// `aarch64`.
    Arm64,
}

/// The C library of the userland inside, in npm's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Libc {
    /// The GNU C library: Debian, Fedora, Arch and most others.
    Glibc,
    /// musl: Alpine.
    Musl,
}

/// Processor and C library of the userland a session runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Platform {
    pub cpu: Cpu,
    /// The C library of the root file system inside, not of pinfold itself.
    pub libc: Libc,
}

impl Platform {
    /// Every platform a recipe can name.
    pub const ALL: [Self; 4] = [
        Self { cpu: Cpu::X64, libc: Libc::Glibc },
        Self { cpu: Cpu::X64, libc: Libc::Musl },
        Self { cpu: Cpu::Arm64, libc: Libc::Glibc },
        Self { cpu: Cpu::Arm64, libc: Libc::Musl },
    ];

    /// Returns this processor with the given C library; `None` on a processor no recipe knows.
    #[must_use]
    pub fn this_machine(libc: Libc) -> Option<Self> {
        let cpu = match std::env::consts::ARCH {
            "x86_64" => Cpu::X64,
            "aarch64" => Cpu::Arm64,
            _ => return None,
        };
        Some(Self { cpu, libc })
    }

    /// Returns whether an entry with these conditions belongs to this platform.
    pub(crate) fn matches(self, cpu: Option<Cpu>, libc: Option<Libc>) -> bool {
        cpu.is_none_or(|wanted| wanted == self.cpu) && libc.is_none_or(|wanted| wanted == self.libc)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = match self.cpu {
            Cpu::X64 => "x64",
            Cpu::Arm64 => "arm64",
        };
        let libc = match self.libc {
            Libc::Glibc => "glibc",
            Libc::Musl => "musl",
        };
        write!(f, "linux {cpu} {libc}")
    }
}
