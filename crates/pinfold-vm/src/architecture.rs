//! What differs between the processors of machines: names of QEMU's, of the kernel's and of distributions'.

use crate::vmlinux::Form;

/// A kind of processor that a machine may have.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Its name in messages.
    pub name: &'static str,
    /// Where QEMU's packages have the program that runs such machines.
    pub(crate) program: &'static str,
    /// QEMU's type of machine.
    pub(crate) machine: &'static str,
    /// The same with KVM.
    pub(crate) machine_by_kvm: &'static str,
    /// QEMU's name for an emulated processor with all that it can emulate.
    pub(crate) processor: &'static str,
    /// The host's processor by KVM, without what makes machines in machines and what counts events: a guest that uses these
    /// reaches more of the host's kernel.
    pub(crate) processor_by_kvm: &'static str,
    /// The kernel's name for the machine's first serial port.
    pub(crate) console: &'static str,
    /// How kernels for it are packed.
    pub(crate) form: Form,
    /// The directory of libraries in Debian's packages.
    pub(crate) libraries: &'static str,
    /// Packages that have QEMU's program: those of Debian and Ubuntu, and those of Fedora.
    pub(crate) packages: [&'static str; 2],
    /// Packages that depend on the newest small kernel: Debian's and Ubuntu's.
    pub kernels: [&'static str; 2],
}

impl Architecture {
    /// The one of this program, which machines have outside of tests.
    pub const HOST: &Self =
        if cfg!(target_arch = "aarch64") { &Self::AARCH64 } else { &Self::X86_64 };

    /// With ACPI, PCI and a serial port of a PC's.
    pub const X86_64: Self = Self {
        name: "x86-64",
        program: "usr/bin/qemu-system-x86_64",
        // `microvm` does not boot reliably without KVM.
        machine: "q35",
        machine_by_kvm: "q35",
        processor: "max",
        processor_by_kvm: "host,svm=off,vmx=off,pmu=off",
        console: "ttyS0",
        form: Form::Compressed,
        libraries: "x86_64-linux-gnu",
        packages: ["qemu-system-x86", "qemu-system-x86-core"],
        kernels: ["linux-image-cloud-amd64", "linux-image-virtual"],
    };

    /// With a device tree, and no firmware.
    pub const AARCH64: Self = Self {
        name: "aarch64",
        program: "usr/bin/qemu-system-aarch64",
        // The older interrupt controller has eight processors at most.
        machine: "virt,gic-version=3",
        // The one that the host has.
        machine_by_kvm: "virt,gic-version=host",
        // Pointers are signed by a hash that is quick to emulate.
        processor: "max,pauth-impdef=on",
        processor_by_kvm: "host",
        console: "ttyAMA0",
        form: Form::Image,
        libraries: "aarch64-linux-gnu",
        packages: ["qemu-system-arm", "qemu-system-aarch64-core"],
        kernels: ["linux-image-cloud-arm64", "linux-image-virtual"],
    };
}
