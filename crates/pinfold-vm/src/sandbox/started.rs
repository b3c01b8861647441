//! How a sandbox gets its machine: restored from a template, which is made where it is missing, or booted.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::kept;
use crate::machine::{Machine, MachineError, Snapshot};
use crate::spec::Spec;
use crate::template::{FileId, FillError, Template, new_memory};

use super::Maker;

/// A machine that sleeps, or boots.
pub(super) struct Started<M> {
    pub(super) machine: M,
    pub(super) channel: OwnedFd,
    /// What one that sleeps wakes with.
    pub(super) asleep: Option<Asleep>,
    /// What the user should know.
    pub(super) note: Option<String>,
}

/// What a machine that sleeps wakes with.
#[derive(Debug)]
pub(super) struct Asleep {
    pub(super) devices: Vec<u8>,
    pub(super) template: Used,
}

/// The template of a machine.
#[derive(Debug)]
pub(super) struct Used {
    template: Template,
    /// The file that it was restored from, unless it was just made.
    restored: Option<FileId>,
}

impl<M: Machine> Started<M> {
    /// Starts a machine.
    ///
    /// # Errors
    /// Returns why none could be booted.
    pub(super) fn of(maker: &Maker<'_, M>, spec: &Spec) -> Result<Self, MachineError> {
        let note = match maker.templates {
            None => None,
            Some(directory) => match restored(maker, spec, directory) {
                Ok(started) => return Ok(started),
                Err(why) => Some(format!("the machine boots, which takes seconds: {why}")),
            },
        };
        let mut machine = M::boot(maker.program, spec)?;
        let channel = machine.channel()?;
        Ok(Self { machine, channel, asleep: None, note })
    }

    /// Returns a machine that sleeps.
    fn asleep(mut machine: M, asleep: Asleep, note: Option<String>) -> Result<Self, String> {
        let channel = machine.channel().map_err(|error| error.to_string())?;
        Ok(Self { machine, channel, asleep: Some(asleep), note })
    }
}

/// Starts a machine that sleeps.
///
/// # Errors
/// Returns why none could be made, in words.
fn restored<M: Machine>(
    maker: &Maker<'_, M>,
    spec: &Spec,
    directory: &Path,
) -> Result<Started<M>, String> {
    let failed = |error: MachineError| error.to_string();
    // Before anything is read, written or removed there.
    kept::make_directory(directory).map_err(|error| unkept(directory, &error))?;
    let template = Template::of(directory, &M::origin(maker.program, spec));
    let template = template.map_err(|error| format!("no template can be named: {error}"))?;
    if template.is_given_up() {
        return Err("its template could not be restored today (`pinfold clean` has it made again)"
            .to_owned());
    }
    if let Some(opened) = template.open(spec.memory_bytes()) {
        let memory = new_memory(spec.memory_bytes()).map_err(|error| error.to_string())?;
        // Its program starts while its memory is filled.
        let shared = memory.try_clone().map_err(|error| error.to_string())?;
        let machine = M::restore(maker.program, spec, shared).map_err(failed)?;
        match opened.fill(&memory) {
            Ok(devices) => {
                let template = Used { template, restored: Some(opened.id()) };
                return Started::asleep(machine, Asleep { devices, template }, None);
            }
            Err(FillError::Damaged) => template.remove(opened.id()),
            Err(error @ FillError::Memory(_)) => return Err(error.to_string()),
        }
    }
    let snapshot = M::snapshot(maker.program, spec, maker.server).map_err(failed)?;
    let note = template.keep(&snapshot).err().map(|error| unkept(directory, &error));
    let Snapshot { memory, devices } = snapshot;
    let machine = M::restore(maker.program, spec, memory).map_err(failed)?;
    Started::asleep(machine, Asleep { devices, template: Used { template, restored: None } }, note)
}

fn unkept(directory: &Path, error: &io::Error) -> String {
    format!("cannot keep a template of the machine in {}: {error}", directory.display())
}

impl Used {
    /// Has the next start do without what could not be restored. Returns what a user can do.
    pub(super) fn give_up(self) -> String {
        if let Some(restored) = self.restored {
            self.template.remove(restored);
            return "run it again: the template of the machine is made again".to_owned();
        }
        self.template.give_up();
        "run it again: without a template, the machine boots".to_owned()
    }
}
