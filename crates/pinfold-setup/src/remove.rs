//! Taking a set-up back.

use std::path::{Path, PathBuf};

use pinfold_runner::Refusal;

use crate::Plan;
use crate::machine::Machine;
use crate::record::{self, Made, Record};
use crate::step::{Step, parts};

/// Directories that a set-up may have made, and that are removed if nothing is in them.
const DIRECTORIES: [&str; 2] = ["/etc/pinfold", "/usr/libexec/pinfold"];

/// Returns what is left to do so that nothing of a set-up is there.
///
/// # Errors
/// Returns that there was no set-up, or that sessions still run.
pub fn remove(machine: &Machine) -> Result<Plan, Refusal> {
    let Some(record) = Record::read(machine)? else {
        return Err(Refusal::new(
            format!("no set-up has left a record in {}", record::PATH),
            "what a package installed is removed with the package",
        ));
    };
    let list =
        ["systemctl", "list-units", "--plain", "--no-legend", "pinfold-????????????.service"];
    let has_systemd = machine.has(Path::new("/run/systemd/system"));
    // What cannot be asked may have sessions.
    let live = if has_systemd { machine.run(&list)? } else { String::new() };
    let live: Vec<&str> = live.lines().filter_map(|line| line.split_whitespace().next()).collect();
    if !live.is_empty() {
        return Err(Refusal::new(
            format!("sessions still run: {}", live.join(", ")),
            "`pinfold stop`, by the users whose they are, or `systemctl stop 'pinfold-????????????.service'` ends them",
        ));
    }
    let mut steps = Vec::new();
    for made in record.made.iter().rev() {
        steps.extend(undo(made, machine)?);
        steps.extend(leftovers(made, machine));
    }
    let has_units = record.made.iter().any(|made| matches!(made, Made::Unit(_)));
    if has_units {
        steps.push(Step::run(&["systemctl", "daemon-reload"]));
    }
    // Last: until then a removal that was interrupted can go on.
    steps.push(Step::Remove(PathBuf::from(record::PATH)));
    let directories = DIRECTORIES.iter().filter(|path| machine.has(Path::new(path)));
    steps.extend(directories.map(|path| Step::RemoveEmpty(path.into())));
    Ok(Plan { steps, record: None })
}

/// Returns what a set-up that was interrupted left of a file or directory.
fn leftovers(made: &Made, machine: &Machine) -> Vec<Step> {
    let (Made::File(path) | Made::Directory(path)) = made else { return Vec::new() };
    let parts = parts(path).into_iter();
    parts.filter(|path| machine.has(path)).map(Step::Remove).collect()
}

/// Returns what is left to do to take one thing back.
fn undo(made: &Made, machine: &Machine) -> Result<Option<Step>, Refusal> {
    Ok(match made {
        Made::Group(name) => machine.has_group(name)?.then(|| Step::RemoveGroup(name.clone())),
        Made::User(name) => machine.has_user(name)?.then(|| Step::run(&["userdel", name])),
        Made::Member(user, group) => machine
            .is_member(user, group)?
            .then(|| Step::run(&["gpasswd", "--delete", user, group])),
        Made::Directory(path) | Made::File(path) => {
            machine.has(path).then(|| Step::Remove(path.clone()))
        }
        // systemctl fails for a unit that has no file.
        Made::Unit(name) => (machine.is_enabled(name) || machine.is_active(name))
            .then(|| Step::run(&["systemctl", "disable", "--now", name])),
    })
}
