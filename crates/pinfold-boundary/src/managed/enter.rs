//! What init does where a manager has started it.

use std::fs;
use std::path::Path;

use pinfold_init::Failure;
use pinfold_wire::{Channel, Order, Step, Wire as _};
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions};

use super::errand::Errand;
use super::{INIT, SUBCOMMAND, meeting};
use crate::{namespace, sys};

/// The number of `CAP_SETFCAP` (linux/capability.h).
const SETFCAP: u32 = 31;

/// Makes the inside if a manager has started this process in a container, and returns when everything
/// in it has ended; whether it was so. The caller ends then, and the container with it. Call it first of
/// all in `main`.
pub fn run_as_init() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let is_init = fs::read_link("/proc/self/exe").is_ok_and(|exe| exe == Path::new(INIT));
    if !is_init || arguments.next().is_none_or(|word| word != SUBCOMMAND) {
        return false;
    }
    // Who had it started waits there, or is gone.
    if let Ok(channel) = meeting::come()
        && let Err((failure, channel)) = make(channel)
    {
        let _ = channel.send(&failure.report(), &[]);
    }
    true
}

fn make(channel: Channel) -> Result<(), (Failure, Channel)> {
    // The image's, if there is one.
    sys::wipe_environment();
    let errand = match receive(&channel).and_then(|errand| errand.map(look).transpose()) {
        Ok(Some(errand)) => errand,
        Ok(None) => return Ok(()),
        Err(failure) => return Err((failure, channel)),
    };
    let child = namespace::below(errand.plan, errand.caller_is_root, channel)?;
    // Its end is everybody's: as the container's first process this one takes along what is left.
    let _ = rustix::io::retry_on_intr(|| {
        rustix::process::waitid(
            WaitId::PidFd(std::os::fd::AsFd::as_fd(&child)),
            WaitIdOptions::EXITED,
        )
    });
    Ok(())
}

/// None when whoever had it started is gone.
fn receive(channel: &Channel) -> Result<Option<Errand>, Failure> {
    let failed = Failure::at(Step::Engine);
    let mut part = Vec::new();
    loop {
        let received = match channel.receive::<Order>() {
            Ok(Some(received)) => received,
            Ok(None) | Err(_) => return Ok(None),
        };
        match received.message {
            Order::Part(more) => part.extend(more),
            Order::Plan(rest) => {
                part.extend(rest);
                return Errand::decode(&part).map(Some).map_err(|_| failed(Errno::INVAL));
            }
            _ => return Err(failed(Errno::PROTO)),
        }
    }
}

/// Sees that the container is what was asked for.
fn look(errand: Errand) -> Result<Errand, Failure> {
    let refuse = |what: &str| Err(Failure::about(Step::Container, what.as_bytes())(Errno::PERM));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).unwrap_or_default()
    };
    // Who maps the root of a namespace into one below needs this right over it (Linux 5.12,
    // user_namespaces(7)).
    let most = if rustix::process::geteuid().is_root() { 1 << SETFCAP } else { 0 };
    let is_allowed =
        |name: &str| u64::from_str_radix(value(name), 16).is_ok_and(|has| has & !most == 0);
    if !["CapEff", "CapPrm", "CapAmb"].into_iter().all(is_allowed) {
        return refuse("its first process has capabilities");
    }
    if value("NoNewPrivs") != "1" {
        return refuse("its first process can gain privileges");
    }
    if namespace::inside_owner().is_some() {
        return refuse("its first process is root");
    }
    let Ok(network) = fs::read_to_string("/proc/self/net/dev") else {
        return refuse("its network cannot be looked at");
    };
    let mut devices = network.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    if let Some(device) = devices.find(|device| *device != "lo") {
        return refuse(&format!("it has the network {device}"));
    }
    match errand.looks.iter().find(|look| !look.is_true()) {
        Some(look) => {
            refuse(&format!("what lies at {} in it is something else", look.path.display()))
        }
        None => Ok(errand),
    }
}
