//! QEMU as a user starts it: no sandbox around it, and as few lines as restoring takes.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use pinfold_vm::{Machine as _, Qemu, QemuMachine, Spec};
use serde_json::{Value, json};

use super::super::{Outcome, command};

type Failed = Box<dyn std::error::Error>;

pub(super) struct Bare {
    qemu: Child,
    channel: UnixListener,
    monitor: UnixListener,
    devices: PathBuf,
}

impl Bare {
    /// Starts it with the words that pinfold's has, apart from where they lead.
    pub(super) fn start(
        qemu: &Qemu,
        root: &Path,
        spec: &Spec,
        memory: &OwnedFd,
        directory: &Path,
    ) -> Result<Self, Failed> {
        let at = |name: &str| directory.join(name);
        for name in ["channel", "monitor"] {
            let _ = std::fs::remove_file(at(name));
        }
        let (channel, monitor) =
            (UnixListener::bind(at("channel"))?, UnixListener::bind(at("monitor"))?);
        let socket = |id: &str| OsString::from(format!("socket,id={id},path={}", at(id).display()));
        let words = QemuMachine::origin(qemu, spec).words.into_iter().flat_map(|word| {
            match word.to_str().unwrap_or_default() {
                "null,id=channel" => vec![socket("channel")],
                "socket,id=monitor,path=/run/pinfold/monitor" => vec![socket("monitor")],
                "/run/pinfold/kernel" => vec![spec.kernel.clone().into()],
                "/run/pinfold/initramfs" => vec![spec.initramfs.clone().into()],
                // It opens the device itself.
                word if word == "-add-fd" || word.starts_with("fd=") => Vec::new(),
                word if word.starts_with("kvm,") => vec!["kvm".into()],
                "-S" => vec!["-incoming".into(), "defer".into()],
                _ => vec![word],
            }
        });
        let mut words: Vec<_> = words.collect();
        // What a template depends on besides.
        words.truncate(
            words.iter().position(|word| word == "defer").map_or(words.len(), |at| at + 1),
        );
        let mut bare = command(&words[0]);
        if root != Path::new("/") {
            let library = root.join("usr/lib/x86_64-linux-gnu");
            bare.env("QEMU_MODULE_DIR", library.join("qemu"));
            let libraries = std::env::join_paths([library, root.join("lib/x86_64-linux-gnu")])?;
            bare.env("LD_LIBRARY_PATH", libraries);
        }
        bare.args(&words[1..]).stdin(memory.as_fd().try_clone_to_owned()?).stdout(Stdio::null());
        Ok(Self { qemu: bare.spawn()?, channel, monitor, devices: at("devices") })
    }

    /// Gives the devices their state, and has the guest run.
    pub(super) fn wake(&mut self) -> Outcome {
        let mut monitor = BufReader::new(self.monitor.accept()?.0);
        let on = |name: &str| json!({ "capability": name, "state": true });
        let capabilities = json!({ "capabilities": [on("x-ignore-shared"), on("events")] });
        let uri = json!({ "uri": format!("file:{}", self.devices.display()) });
        for (name, arguments) in [
            ("qmp_capabilities", json!({})),
            ("migrate-set-capabilities", capabilities),
            ("migrate-incoming", uri),
        ] {
            let line = json!({ "execute": name, "arguments": arguments });
            writeln!(monitor.get_mut(), "{line}")?;
        }
        loop {
            let mut line = String::new();
            if monitor.read_line(&mut line)? == 0 {
                return Err("bare QEMU has ended".into());
            }
            let message: Value = serde_json::from_str(&line)?;
            if message.get("error").is_some() || message["data"]["status"] == "failed" {
                return Err(format!("bare QEMU: {message}").into());
            }
            if message["data"]["status"] == "completed" {
                return Ok(());
            }
        }
    }

    /// Returns the channel to its guest.
    pub(super) fn channel(&self) -> Result<OwnedFd, Failed> {
        Ok(self.channel.accept()?.0.into())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}
