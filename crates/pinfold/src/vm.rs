//! `pinfold vm`: what machines are made of.

mod fetch;

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use pinfold_boundary::LaunchError;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::path::Escaped;
use pinfold_session::OwnPrograms;
use pinfold_terminal::notify;
use pinfold_vm::{Architecture, Choice, Fetched, Kernel, PackageError};

use crate::exit::Failure;
use crate::policy;

#[derive(Debug, Subcommand)]
pub(crate) enum VmCommand {
    /// Show the kernel and the QEMU of machines, or take a kernel out of a distribution's packages
    Kernel(KernelArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KernelArgs {
    /// Take the kernel out of this .deb; several where the modules have their own
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Download the distribution's small kernel by apt, which verifies it, and take that
    #[arg(long, conflicts_with = "from")]
    download: bool,
    /// Remove the kernel that was taken
    #[arg(long, conflicts_with_all = ["from", "download"])]
    remove: bool,
}

pub(crate) fn vm(command: VmCommand, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let VmCommand::Kernel(args) = command;
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let own = OwnPrograms::of(&policy::own().map_err(Failure::plain)?, &places);
    let machine = own.machine();
    if args.remove {
        return remove(&machine.fetched());
    }
    if args.download {
        let downloaded = fetch::download(launcher).map_err(Failure::new)?;
        return take(launcher, machine, &downloaded.packages);
    }
    if args.from.is_empty() { show(machine) } else { take(launcher, machine, &args.from) }
}

fn remove(place: &Path) -> Result<ExitCode, Failure> {
    match fs::remove_dir_all(place) {
        Ok(()) => notify!("pinfold: removed {}", Escaped(place)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            notify!("pinfold: no kernel was taken out of packages");
        }
        Err(error) => {
            return Err(Failure::new(format!("cannot remove {}: {error}", Escaped(place))));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes the kernel out of packages.
///
/// # Errors
/// Returns an error if they have none that a machine can boot. The one before it stays then.
fn take(launcher: &Launcher, machine: &Choice, packages: &[PathBuf]) -> Result<ExitCode, Failure> {
    let failed = |error: PackageError| {
        let is_part = matches!(error, PackageError::None(_) | PackageError::Modules(_));
        let hint =
            "a kernel of Ubuntu's is in two packages, linux-image-… and linux-modules-…: give both";
        Failure::new(error).hint(is_part.then(|| hint.to_owned()))
    };
    let mut fetched = Fetched::begin(&machine.fetched()).map_err(failed)?;
    for package in packages {
        fetch::unpack(launcher, package, &mut fetched).map_err(Failure::new)?;
    }
    let kernel = fetched.finish().map_err(failed)?;
    notify!("pinfold: machines have the kernel {} now", kernel.release());
    if let Some(chosen) = &machine.kernel {
        notify!("pinfold: note: `kernel` in config.toml says {} and wins", Escaped(chosen));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what machines are made of.
///
/// # Errors
/// Returns an error for the first that is missing, with what to do. What there is has been printed then.
fn show(machine: &Choice) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    let found = [("kernel", kernel(machine)), ("qemu  ", qemu(machine))];
    for (name, found) in found.iter().filter_map(|(name, found)| Some((name, found.as_ref().ok()?)))
    {
        writeln!(out, "{name}  {found}").map_err(Failure::new)?;
    }
    for (_, found) in found {
        found?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns which kernel machines boot, and from where it is.
fn kernel(machine: &Choice) -> Result<String, Failure> {
    let kernel = machine.kernel().map_err(missing)?;
    check(&kernel)?;
    let origin = match &machine.kernel {
        Some(chosen) => format!("config.toml names {}", Escaped(chosen)),
        None if machine.has_fetched().map_err(missing)? => {
            format!("in {}", Escaped(&machine.fetched()))
        }
        None => "this machine's own".to_owned(),
    };
    Ok(format!("{}  {origin}", kernel.release()))
}

/// Returns which QEMU runs machines, and from where it is.
fn qemu(machine: &Choice) -> Result<String, Failure> {
    let qemu = machine.qemu().map_err(missing)?;
    let version = qemu.version().map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })?;
    let origin = match &machine.qemu {
        Some(chosen) => format!("config.toml names {}", Escaped(chosen)),
        None => "the system's".to_owned(),
    };
    Ok(format!("{version}  {origin}"))
}

fn missing(error: LaunchError) -> Failure {
    let hint = error.hint().map(str::to_owned);
    Failure::new(error).hint(hint)
}

fn check(kernel: &Kernel) -> Result<(), Failure> {
    kernel.vmlinux(Architecture::HOST).map_err(Failure::new)?;
    let modules = kernel.modules().and_then(|modules| modules.in_order(&pinfold_vm::WANTED));
    modules.map(drop).map_err(Failure::new)
}
