//! How a sandbox gets its machine: restored from a template, which is made where it is missing, or booted.

use std::io;
use std::path::Path;

use crate::kept;
use crate::qemu::{Ends, Machine, QemuError, Spec, duplicate};
use crate::template::{FileId, FillError, Snapshot, Template, new_memory};

use super::Maker;

/// A machine that sleeps, or boots.
pub(super) struct Started {
    pub(super) machine: Machine,
    pub(super) ends: Ends,
    pub(super) template: Option<Used>,
    /// What the user should know.
    pub(super) note: Option<String>,
}

/// The template of a machine.
#[derive(Debug)]
pub(super) struct Used {
    template: Template,
    /// The file that it was restored from, unless it was just made.
    restored: Option<FileId>,
}

impl Started {
    /// Starts a machine.
    ///
    /// # Errors
    /// Returns why none could be booted.
    pub(super) fn of(maker: &Maker<'_>, spec: &Spec) -> Result<Self, QemuError> {
        let note = match maker.templates {
            None => None,
            Some(directory) => match restored(maker, spec, directory) {
                Ok(started) => return Ok(started),
                Err(why) => Some(format!("the machine boots, which takes seconds: {why}")),
            },
        };
        maker.qemu.version()?;
        let (machine, ends) = maker.qemu.boot(spec)?;
        Ok(Self { machine, ends, template: None, note })
    }
}

/// Starts a machine that sleeps.
///
/// # Errors
/// Returns why none could be made, in words.
fn restored(maker: &Maker<'_>, spec: &Spec, directory: &Path) -> Result<Started, String> {
    let failed = |error: QemuError| error.to_string();
    // Before anything is read, written or removed there.
    kept::make_directory(directory).map_err(|error| unkept(directory, &error))?;
    let template = maker.qemu.template(spec, directory);
    let template = template.map_err(|error| format!("no template can be named: {error}"))?;
    if template.is_given_up() {
        return Err("its template could not be restored today (`pinfold clean` has it made again)"
            .to_owned());
    }
    if let Some(opened) = template.open(spec.memory_bytes()) {
        let memory = new_memory(spec.memory_bytes()).map_err(|error| error.to_string())?;
        // QEMU starts while its memory is filled.
        let restoring = duplicate(&memory).and_then(|memory| maker.qemu.restore(spec, memory));
        let restoring = restoring.map_err(failed)?;
        match opened.fill(&memory) {
            Ok(devices) => {
                let (machine, ends) = restoring.with(devices).map_err(failed)?;
                let template = Some(Used { template, restored: Some(opened.id()) });
                return Ok(Started { machine, ends, template, note: None });
            }
            Err(FillError::Damaged) => template.remove(opened.id()),
            Err(error @ FillError::Memory(_)) => return Err(error.to_string()),
        }
    }
    // One of which there is a template was asked before.
    maker.qemu.version().map_err(failed)?;
    let snapshot = maker.qemu.snapshot(spec, maker.server).map_err(failed)?;
    let note = template.keep(&snapshot).err().map(|error| unkept(directory, &error));
    let Snapshot { memory, devices } = snapshot;
    let restoring = maker.qemu.restore(spec, memory).map_err(failed)?;
    let (machine, ends) = restoring.with(devices).map_err(failed)?;
    Ok(Started { machine, ends, template: Some(Used { template, restored: None }), note })
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
