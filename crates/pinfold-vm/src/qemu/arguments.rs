//! The command line of QEMU.

use std::ffi::OsString;

use crate::architecture::Architecture;
use crate::guest::{TAG, WORD};
use pinfold_wire::FURTHER;

use super::monitor::PORT;
use super::sandbox::{self, libraries_below};
use super::{Qemu, TRANSLATED};
use crate::spec::Spec;

/// QEMU's number for a set of descriptors, in which KVM is alone.
const KVM_SET: u32 = 1;

/// How a machine begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// It boots.
    Boot,
    /// It boots when its monitor says so, and its port leads nowhere.
    Template,
    /// It waits for its devices' state. Its memory is there.
    Restored,
}

impl Beginning {
    pub(super) fn has_channel(self) -> bool {
        self != Self::Template
    }

    pub(super) fn has_monitor(self) -> bool {
        self != Self::Boot
    }
}

/// Returns the words that make a machine, which are the same however it begins, apart from where its port and its monitor
/// lead.
pub(super) fn arguments(qemu: &Qemu, spec: &Spec, beginning: Beginning) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![qemu.program().into()];
    for directory in libraries_below(&qemu.root).firmware {
        words.extend(["-L".into(), directory.into()]);
    }
    let memory = format!(
        "memory-backend-file,id=memory,size={}M,share=on,mem-path={}",
        spec.memory,
        sandbox::MEMORY
    );
    let Architecture { machine, machine_by_kvm, processor, processor_by_kvm, console, .. } =
        qemu.architecture;
    let translator = format!("tcg,thread=multi,tb-size={TRANSLATED}");
    let device = format!("fd={FURTHER},set={KVM_SET}");
    let kvm = format!("kvm,device=/dev/fdset/{KVM_SET}");
    let (machine, execution): (_, &[&str]) = match &qemu.kvm {
        None => (machine, &["-accel", &translator, "-cpu", processor]),
        Some(_) => {
            (machine_by_kvm, &["-add-fd", &device, "-accel", &kvm, "-cpu", processor_by_kvm])
        }
    };
    let options: [&[&str]; 6] = [
        &["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"],
        // A new process, other ids and other limits are nothing that a machine needs.
        &["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"],
        &["-machine", &format!("{machine},memory-backend=memory"), "-object", &memory],
        execution,
        &["-m", &spec.memory.to_string(), "-smp", &spec.cpus.to_string()],
        &["-kernel", sandbox::KERNEL, "-initrd", sandbox::INITRAMFS],
    ];
    words.extend(options.concat().into_iter().map(OsString::from));
    // What follows the two dashes is for init. A panic reboots, which ends QEMU.
    let append = format!("console={console} quiet panic=-1 -- {WORD}");
    // A port that leads to no socket is one whose host has not come.
    let channel = if beginning.has_channel() {
        format!("socket,id=channel,path={}", sandbox::CHANNEL)
    } else {
        "null,id=channel".to_owned()
    };
    let port = format!("virtserialport,nr=1,chardev=channel,name=pinfold,id={PORT}");
    let devices: [&[&str]; 4] = [
        &["-append", &append],
        &["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"],
        &["-device", "virtio-serial-pci,max_ports=2", "-chardev", &channel],
        &["-device", &port],
    ];
    words.extend(devices.concat().into_iter().map(OsString::from));
    if spec.has_tree {
        let files = format!("socket,id=files,path={}", sandbox::FILES);
        let device = format!("vhost-user-fs-pci,chardev=files,tag={TAG}");
        words.extend(["-chardev", &files, "-device", &device].map(OsString::from));
    }
    if beginning.has_monitor() {
        let monitor = format!("socket,id=monitor,path={}", sandbox::MONITOR);
        let control = "chardev=monitor,mode=control";
        words.extend(["-chardev", &monitor, "-mon", control].map(OsString::from));
    }
    match beginning {
        Beginning::Boot => {}
        Beginning::Template => words.push("-S".into()),
        Beginning::Restored => words.extend(["-incoming", "defer"].map(OsString::from)),
    }
    words
}
