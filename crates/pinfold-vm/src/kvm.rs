//! KVM: the kernel's part of a machine whose instructions the processor executes itself.
//!
//! That the device answers says little: on a host that is a machine itself, KVM may make machines whose guests never come
//! up. So it is only asked for what costs nothing, and the rest is seen by a guest ([`crate::Maker::otherwise`]).

use std::ffi::{OsStr, OsString, c_int, c_void};
use std::fs;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use thiserror::Error;

/// The device (Documentation/virt/kvm/api.rst of Linux).
const DEVICE: &str = "/dev/kvm";
/// `KVM_GET_API_VERSION` and `KVM_CREATE_VM` (include/uapi/linux/kvm.h).
const GET_API_VERSION: Opcode = opcode::none(0xae, 0x00);
const CREATE_VM: Opcode = opcode::none(0xae, 0x01);
/// The only version that there will be.
const API_VERSION: c_int = 12;
/// What differs between two readings on one machine.
const CHANGING: [&str; 3] = ["cpu MHz", "bogomips", "BogoMIPS"];

/// Why KVM cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KvmError {
    /// The kernel has no such device.
    #[error("{DEVICE} does not exist")]
    Absent {
        /// The module that makes it; nothing if the processor shows no virtualisation.
        module: Option<&'static str>,
    },
    /// The user may not use it.
    #[error("{DEVICE} cannot be opened for reading and writing: Permission denied")]
    Denied {
        /// The group that may; nothing if root alone may.
        group: Option<String>,
    },
    /// It cannot be opened.
    #[error("{DEVICE} cannot be opened: {0}")]
    Open(Errno),
    /// Something else is there, or a kernel before Linux 2.6.22.
    #[error("{DEVICE} does not answer as KVM does")]
    Strange,
    /// It makes no machine.
    #[error("{DEVICE} makes no machine: {0}")]
    Refused(Errno),
}

impl KvmError {
    /// Returns what a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        const FIRMWARE: &str = "switch virtualisation on in the firmware's settings (Intel VT-x, AMD-V); if this host is a \
                                virtual machine, its own host has to allow nested virtualisation";
        match self {
            Self::Absent { module: Some(module) } => Some(format!(
                "load its module: `sudo modprobe {module}`; where that fails, {FIRMWARE}"
            )),
            Self::Absent { module: None } => Some(FIRMWARE.to_owned()),
            Self::Denied { group: Some(group) } => Some(format!(
                "`sudo usermod --append --groups {group} \"$USER\"`, then log in again"
            )),
            Self::Denied { group: None } => Some(
                "give it to the group that distributions do: `sudo chown root:kvm /dev/kvm && sudo chmod 660 /dev/kvm`, \
                 then `sudo usermod --append --groups kvm \"$USER\"`, and log in again"
                    .to_owned(),
            ),
            Self::Refused(Errno::BUSY) => {
                Some("end what else uses the processor's virtualisation, such as VirtualBox".to_owned())
            }
            Self::Open(_) | Self::Strange | Self::Refused(_) => None,
        }
    }
}

/// The device, open for QEMU.
#[derive(Debug, Clone)]
pub struct Kvm(Arc<OwnedFd>);

impl Kvm {
    /// Opens the device, and asks it for its version and for a machine, which is gone at once.
    ///
    /// # Errors
    /// Returns why KVM cannot be used.
    pub fn open() -> Result<Self, KvmError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        let device = rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(not_opened)?;
        // SAFETY: the call takes no argument, and returns a number.
        let version = unsafe { rustix::ioctl::ioctl(&device, Call::<GET_API_VERSION>) };
        if version != Ok(API_VERSION) {
            return Err(KvmError::Strange);
        }
        // SAFETY: its argument is the number of a kind of machine, 0 for the usual one. It returns a new descriptor.
        let machine = unsafe { rustix::ioctl::ioctl(&device, Call::<CREATE_VM>) };
        let machine = machine.map_err(KvmError::Refused)?;
        // SAFETY: the descriptor is new, and nobody else's.
        drop(unsafe { OwnedFd::from_raw_fd(machine) });
        Ok(Self(Arc::new(device)))
    }

    /// Returns a copy for a program that is started.
    ///
    /// # Errors
    /// Returns the error of fcntl(2).
    pub(crate) fn device(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(self.0.as_fd(), 0)
    }
}

/// A call whose argument is 0, and that returns a number.
struct Call<const OPCODE: Opcode>;

// SAFETY: the opcode is one whose argument is no pointer, and the number that comes back is all that is read.
unsafe impl<const OPCODE: Opcode> Ioctl for Call<OPCODE> {
    type Output = c_int;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<c_int> {
        Ok(output)
    }
}

fn not_opened(errno: Errno) -> KvmError {
    match errno {
        // A node that a package has made, and no module behind it.
        Errno::NOENT | Errno::NODEV | Errno::NXIO => KvmError::Absent { module: module() },
        Errno::ACCESS | Errno::PERM => KvmError::Denied { group: group_of_device() },
        errno => KvmError::Open(errno),
    }
}

/// Returns the module for this processor, if that has virtualisation. On aarch64 it is part of the kernel.
fn module() -> Option<&'static str> {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| about.split_ascii_whitespace().any(|word| word == flag);
    let all = [("svm", "kvm_amd"), ("vmx", "kvm_intel")];
    all.into_iter().find(|(flag, _)| has(flag)).map(|(_, module)| module)
}

/// Returns the group that may use the device, unless that is root's.
fn group_of_device() -> Option<String> {
    let about = fs::metadata(DEVICE).ok().filter(|about| about.mode() & 0o060 == 0o060)?;
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    group_named(&groups, about.gid())
}

/// Returns the name of a group by group(5), or its number, unless it is root's.
fn group_named(groups: &str, gid: u32) -> Option<String> {
    let number = gid.to_string();
    let mut all = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = all.find(|fields| fields.get(2) == Some(&&*number));
    (gid != 0).then(|| found.map_or(number.clone(), |fields| fields[0].to_owned()))
}

/// Returns what a guest sees of this host by KVM: its processor with microcode and features, and the kernel's release.
pub(crate) fn host() -> Vec<OsString> {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let release = rustix::system::uname();
    let release = OsStr::new(&*release.release().to_string_lossy()).to_owned();
    vec![first_processor(&about).into(), release]
}

/// Returns what /proc/cpuinfo says of the first processor and does not change by itself.
fn first_processor(about: &str) -> String {
    let lines = about.lines().take_while(|line| !line.trim().is_empty());
    let stays = |line: &&str| !CHANGING.iter().any(|name| line.starts_with(name));
    lines.filter(stays).collect::<Vec<_>>().join("\n")
}

/// Returns what is another after each start of this host's kernel.
pub(crate) fn this_boot() -> OsString {
    fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default().into()
}

#[cfg(test)]
mod tests;
