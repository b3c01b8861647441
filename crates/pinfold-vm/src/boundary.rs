//! The boundary `vm`: where QEMU, the kernel and what the guest boots come from, and how large a machine is.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_boundary::namespace::OLDEST_LANDLOCK;
use pinfold_boundary::{
    Boundary, Capabilities, CpuShare, Feature, Finding, Inside, LaunchError, LaunchPlan, Probe,
    ResourceLimits, Session,
};
use pinfold_policy::path::HostPath;
use pinfold_policy::settings::AcceleratorName;

use crate::architecture::Architecture;
use crate::kept;
use crate::kernel::Kernel;
use crate::kvm::{Kvm, KvmError};
use crate::machine::Server;
use crate::prepared::{Prepared, PreparedError};
use crate::qemu::{Qemu, QemuMachine};
use crate::sandbox::{self, Maker, SLOW, no_machine, trial_of};
use crate::spec::{MIB, Spec};

/// The least memory of a guest: kernel, initramfs and some programs.
const LEAST: u64 = 384 * MIB;
/// The memory of a guest of which the policy says nothing: half of what the host has, within these.
const USUAL: (u64, u64) = (512 * MIB, 4096 * MIB);
/// How long a guest may take to come up with KVM, where it may be emulated instead. With KVM it takes a second, and less than ten
/// if it is emulated.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same where it may not: as long as one that is emulated.
const LONG_PATIENCE: Duration = Duration::from_secs(120);
/// Processors of a guest at most: each is a thread of QEMU's, which has some more.
const MOST_CPUS: u32 = 64;
/// Below the cache: a kernel that was fetched, and what was made of kernels.
const KERNEL: &str = "kernel";
const IMAGES: &str = "images";
/// Below the cache: machines that were booted once.
const TEMPLATES: &str = "templates";

/// What the user has chosen for machines.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Where packages of QEMU were unpacked; the system's if absent.
    pub qemu: Option<PathBuf>,
    /// Where a package of a kernel was unpacked; the one in the cache, or else the host's, if absent.
    pub kernel: Option<PathBuf>,
    /// What executes instructions; what works if absent.
    pub accelerator: Option<AcceleratorName>,
    /// A directory of pinfold's own for what can be made again.
    pub cache: PathBuf,
}

/// A machine for each sandbox.
#[derive(Debug, Clone)]
pub struct Vm {
    choice: Choice,
    init: HostPath,
    server: Server,
}

impl Choice {
    /// Returns the directories of what is made for machines, and made again where it is missing.
    #[must_use]
    pub fn made(&self) -> [PathBuf; 2] {
        [self.cache.join(IMAGES), self.cache.join(TEMPLATES)]
    }

    /// Returns where a kernel is that was taken out of packages ([`crate::Fetched`]).
    #[must_use]
    pub fn fetched(&self) -> PathBuf {
        self.cache.join(KERNEL)
    }

    /// Finds QEMU.
    ///
    /// # Errors
    /// Returns an error if it is missing or too old.
    pub fn qemu(&self) -> Result<Qemu, LaunchError> {
        let root = self.qemu.as_deref().unwrap_or(Path::new("/"));
        Qemu::find(root, Architecture::HOST).map_err(no_machine)
    }

    /// Returns QEMU with what it executes instructions by, and what makes machines where no guest comes up so.
    ///
    /// # Errors
    /// Returns an error if KVM alone is chosen, and cannot be used.
    fn accelerated(&self, qemu: Qemu) -> Result<Accelerated, LaunchError> {
        let accelerator = self.accelerator.unwrap_or(AcceleratorName::Auto);
        Ok(match accelerator {
            AcceleratorName::Tcg => Accelerated { qemu, otherwise: None, why_not: None },
            AcceleratorName::Kvm => {
                let qemu = qemu.with_kvm(Kvm::open().map_err(no_kvm)?, LONG_PATIENCE);
                Accelerated { qemu, otherwise: None, why_not: None }
            }
            AcceleratorName::Auto => match Kvm::open() {
                Ok(kvm) => {
                    let by_kvm = qemu.with_kvm(kvm, PATIENCE);
                    Accelerated { qemu: by_kvm, otherwise: Some(qemu), why_not: None }
                }
                Err(error) => Accelerated { qemu, otherwise: None, why_not: Some(error) },
            },
        })
    }

    /// Finds the kernel, and where that is: below the chosen directory, or else of packages, or else this machine's.
    ///
    /// # Errors
    /// Returns an error that says which places were tried.
    pub fn kernel(&self) -> Result<Kernel, LaunchError> {
        let found = match &self.kernel {
            Some(chosen) => Kernel::below(chosen),
            None if self.has_fetched()? => Kernel::below(&self.fetched()),
            None => Kernel::of_host(),
        };
        found.map_err(|error| no_kernel(error.to_string()))
    }

    /// Returns whether there is a kernel that was taken out of packages.
    ///
    /// # Errors
    /// Returns an error if others could have changed it.
    pub fn has_fetched(&self) -> Result<bool, LaunchError> {
        match kept::check(&self.fetched()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => {
                let hint = "`pinfold vm kernel --remove` removes it".to_owned();
                Err(LaunchError::Machine { what: error.to_string(), hint: Some(hint) })
            }
        }
    }
}

impl Vm {
    /// Returns the boundary. `init` is the static executable that runs in guests ([`crate::launch`]), and `server` serves
    /// trees to them.
    #[must_use]
    pub fn new(choice: Choice, init: HostPath, server: Server) -> Self {
        Self { choice, init, server }
    }

    /// Returns what a machine is made of, for a sandbox that may use up so much.
    ///
    /// # Errors
    /// Refuses less memory than a guest needs, and returns the errors of [`Self::prepared`].
    fn spec(&self, limits: &ResourceLimits) -> Result<Spec, LaunchError> {
        let size = Size::of(limits)?;
        let prepared = self.prepared()?;
        Ok(Spec {
            kernel: prepared.kernel,
            initramfs: prepared.initramfs,
            memory: size.memory,
            cpus: size.cpus,
            share: limits.cpus,
            changes: limits.changes.unwrap_or_default(),
            has_tree: true,
        })
    }

    /// Returns by what machines of this kind execute instructions.
    fn execution(&self, accelerated: &Accelerated, spec: &Spec) -> Finding {
        let Accelerated { qemu, otherwise, why_not } = accelerated;
        let [_, templates] = self.choice.made();
        let tried = otherwise
            .as_ref()
            .and_then(|_| trial_of::<QemuMachine>(&templates, qemu, spec).ok()?.refusal());
        let emulated =
            format!("the processor is emulated: the first start takes seconds, and {SLOW}");
        let (what, hint) = match (tried, why_not) {
            (Some(why), _) => {
                let again =
                    "`pinfold clean machines`, or the next boot of this host, has it tried again";
                (format!("{emulated} (no guest comes up with KVM: {why})"), Some(again.to_owned()))
            }
            (None, Some(error)) => (format!("{emulated} ({error})"), error.hint()),
            (None, None) if otherwise.is_some() => (
                "KVM executes programs if guests come up with it, which the first start tries"
                    .to_owned(),
                None,
            ),
            (None, None) if qemu.has_kvm() => ("KVM executes programs".to_owned(), None),
            (None, None) => (format!("{emulated} (`accelerator` in config.toml says so)"), None),
        };
        Finding { what, hint, fatal: false }
    }

    /// Finds the kernel, and makes of it what a guest boots unless that is there.
    fn prepared(&self) -> Result<Prepared, LaunchError> {
        let kernel = self.choice.kernel()?;
        let [images, _] = self.choice.made();
        let prepared = Prepared::find(&images, &kernel, self.init.as_path());
        prepared.map_err(|error| match error {
            PreparedError::Cache { .. } => {
                LaunchError::Machine { what: error.to_string(), hint: None }
            }
            error => no_kernel(error.to_string()),
        })
    }
}

/// What makes machines.
struct Accelerated {
    qemu: Qemu,
    /// The same without KVM, where no guest comes up with it.
    otherwise: Option<Qemu>,
    /// Why KVM is not even tried, unless the user has chosen that.
    why_not: Option<KvmError>,
}

fn no_kvm(error: KvmError) -> LaunchError {
    let choice = "or leave `accelerator` out of pinfold's config.toml";
    let hint = match error.hint() {
        Some(hint) => format!("{hint}; {choice}"),
        None => choice.to_owned(),
    };
    LaunchError::Machine { what: format!("KVM cannot be used: {error}"), hint: Some(hint) }
}

fn no_kernel(what: String) -> LaunchError {
    let hint = "`pinfold vm kernel --download` (Debian, Ubuntu), or unpack a kernel's package and set `kernel` to its \
                directory in pinfold's config.toml"
        .to_owned();
    LaunchError::Machine { what, hint: Some(hint) }
}

impl Boundary for Vm {
    fn name(&self) -> &'static str {
        "vm"
    }

    fn lacks(&self) -> &'static [Feature] {
        &[Feature::Root]
    }

    fn probe(&self) -> Probe {
        let found = self.choice.qemu().and_then(|qemu| {
            qemu.has_file_systems().map_err(no_machine)?;
            let accelerated = self.choice.accelerated(qemu)?;
            let spec = self.spec(&ResourceLimits::default())?;
            Ok(self.execution(&accelerated, &spec))
        });
        match found {
            Err(error) => {
                let hint = error.hint().map(str::to_owned);
                let finding = Finding { what: error.to_string(), hint, fatal: true };
                Probe { findings: vec![finding], ..Probe::default() }
            }
            Ok(finding) => Probe {
                capabilities: Capabilities {
                    memory: true,
                    cpus: true,
                    pids: true,
                    landlock: OLDEST_LANDLOCK,
                },
                hands_over: true,
                is_closed: false,
                is_machine: true,
                findings: vec![finding],
            },
        }
    }

    fn launch(&self, plan: LaunchPlan, session: Session<'_>) -> Result<Inside, LaunchError> {
        let Accelerated { qemu, otherwise, .. } = self.choice.accelerated(self.choice.qemu()?)?;
        let spec = self.spec(&plan.limits)?;
        let [_, templates] = self.choice.made();
        let maker = Maker::<QemuMachine> {
            program: &qemu,
            otherwise: otherwise.as_ref(),
            init: &self.init,
            server: self.server,
            templates: Some(&templates),
        };
        sandbox::launch(&maker, &spec, plan, session.own_interrupt()?)
    }
}

/// How large a machine is.
#[derive(Debug, PartialEq, Eq)]
struct Size {
    /// In MiB.
    memory: u32,
    cpus: u32,
}

impl Size {
    /// Returns the size for what a sandbox may use up.
    ///
    /// # Errors
    /// Refuses less memory than a guest needs.
    fn of(limits: &ResourceLimits) -> Result<Self, LaunchError> {
        let memory = match limits.memory {
            Some(bytes) if bytes < LEAST => {
                return Err(LaunchError::BoundaryLimit {
                    limit: "memory",
                    cause: format!("a machine needs {} MiB at least", LEAST / MIB),
                    hint: "raise it (`--memory 512M`), or choose a boundary without a kernel of its own",
                });
            }
            Some(bytes) => bytes,
            None => (memory_of_host() / 2).clamp(USUAL.0, USUAL.1),
        };
        let own = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let asked = limits.cpus.map(|CpuShare { thousandths, .. }| thousandths.div_ceil(1000));
        let cpus = asked.unwrap_or(own).min(own).clamp(1, MOST_CPUS);
        Ok(Self { memory: u32::try_from(memory / MIB).unwrap_or(u32::MAX), cpus })
    }
}

/// Returns how much memory the host has in bytes (`MemTotal`, proc_meminfo(5)), or 0 if it does not say so.
fn memory_of_host() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split(' ').rev().nth(1));
    total.and_then(|kibibytes| kibibytes.parse::<u64>().ok()).map_or(0, |kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests;
