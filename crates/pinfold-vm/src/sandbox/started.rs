//! How a sandbox gets its machine: restored from a template, which is made where it is missing, or booted.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::kept;
use crate::kvm;
use crate::machine::{Machine, MachineError, Snapshot};
use crate::spec::Spec;
use crate::template::{FileId, FillError, Template, new_memory};

use super::Maker;

/// What a processor that is emulated costs.
pub(crate) const SLOW: &str = "programs take many times as long";

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
        let Some(otherwise) = maker.otherwise else {
            return restored_or_booted(maker, maker.program, spec);
        };
        let why = match tried(maker, spec)? {
            Tried::Started(started) => return Ok(started),
            Tried::Refused { why } => why,
        };
        let started = restored_or_booted(maker, otherwise, spec)?;
        let Some((trial, why)) = why else { return Ok(started) };
        // One that does not come up either is no reason to blame the program.
        let note = started.asleep.is_some().then(|| trial.refuse(&why).err()).flatten();
        let note = note.map(|error| format!("which is not kept: {error}"));
        let why =
            format!("no guest comes up with KVM, so the processor is emulated, and {SLOW}: {why}");
        let notes = [Some(why), note, started.note];
        Ok(Self {
            note: Some(notes.into_iter().flatten().collect::<Vec<_>>().join("; ")),
            ..started
        })
    }

    /// Returns a machine that sleeps.
    fn asleep(mut machine: M, asleep: Asleep, note: Option<String>) -> Result<Self, NotRestored> {
        let channel = machine.channel().map_err(|error| NotRestored::Other(error.to_string()))?;
        Ok(Self { machine, channel, asleep: Some(asleep), note })
    }
}

/// What became of a start by the first of two programs.
enum Tried<M> {
    Started(Started<M>),
    /// No guest comes up by it. Nothing is said where that is known, or is not found out.
    Refused {
        why: Option<(Template, String)>,
    },
}

/// Why there is no machine that sleeps.
enum NotRestored {
    /// None came so far that a template could be made.
    NoGuest(String),
    Other(String),
}

impl NotRestored {
    fn into_words(self) -> String {
        match self {
            Self::NoGuest(why) | Self::Other(why) => why,
        }
    }
}

/// Starts a machine by a program by which its guest may not come up.
fn tried<M: Machine>(maker: &Maker<'_, M>, spec: &Spec) -> Result<Tried<M>, MachineError> {
    let unknown = Ok(Tried::Refused { why: None });
    let Some(directory) = maker.templates else { return unknown };
    let Some(trial) = trial(maker, spec, directory) else { return unknown };
    if trial.refusal().is_some() {
        return unknown;
    }
    match restored(maker, maker.program, spec, directory) {
        Ok(started) => Ok(Tried::Started(started)),
        Err(NotRestored::NoGuest(why)) => Ok(Tried::Refused { why: Some((trial, why)) }),
        Err(NotRestored::Other(why)) => booted(maker.program, spec, Some(why)).map(Tried::Started),
    }
}

fn restored_or_booted<M: Machine>(
    maker: &Maker<'_, M>,
    program: &M::Program,
    spec: &Spec,
) -> Result<Started<M>, MachineError> {
    let why = match maker.templates.map(|directory| restored(maker, program, spec, directory)) {
        None => None,
        Some(Ok(started)) => return Ok(started),
        Some(Err(why)) => Some(why.into_words()),
    };
    booted(program, spec, why)
}

fn booted<M: Machine>(
    program: &M::Program,
    spec: &Spec,
    why: Option<String>,
) -> Result<Started<M>, MachineError> {
    let mut machine = M::boot(program, spec)?;
    let channel = machine.channel()?;
    let note = why.map(|why| format!("the machine boots, which takes seconds: {why}"));
    Ok(Started { machine, channel, asleep: None, note })
}

/// Returns what stands for the first of two programs as long as this host's kernel runs.
fn trial<M: Machine>(maker: &Maker<'_, M>, spec: &Spec, directory: &Path) -> Option<Template> {
    // Before anything is read, written or removed there.
    kept::make_directory(directory).ok()?;
    trial_of::<M>(directory, maker.program, spec).ok()
}

/// Returns the template in whose place is kept that no guest comes up by a program, however large it is.
///
/// # Errors
/// Returns the errors of [`Template::of`].
pub(crate) fn trial_of<M: Machine>(
    directory: &Path,
    program: &M::Program,
    spec: &Spec,
) -> io::Result<Template> {
    let mut origin = M::origin(program, &Spec { memory: 0, cpus: 1, ..spec.clone() });
    origin.words.push(kvm::this_boot());
    Template::of(directory, &origin)
}

/// Starts a machine that sleeps.
///
/// # Errors
/// Returns why none could be made, in words.
fn restored<M: Machine>(
    maker: &Maker<'_, M>,
    program: &M::Program,
    spec: &Spec,
    directory: &Path,
) -> Result<Started<M>, NotRestored> {
    let other = |why: String| NotRestored::Other(why);
    let failed = |error: MachineError| other(error.to_string());
    // Before anything is read, written or removed there.
    kept::make_directory(directory).map_err(|error| other(unkept(directory, &error)))?;
    let template = Template::of(directory, &M::origin(program, spec));
    let template = template.map_err(|error| other(format!("no template can be named: {error}")))?;
    if template.is_given_up() {
        let why = "its template could not be restored today (`pinfold clean` has it made again)";
        return Err(other(why.to_owned()));
    }
    if let Some(opened) = template.open(spec.memory_bytes()) {
        let memory = new_memory(spec.memory_bytes()).map_err(|error| other(error.to_string()))?;
        // Its program starts while its memory is filled.
        let shared = memory.try_clone().map_err(|error| other(error.to_string()))?;
        let machine = M::restore(program, spec, shared).map_err(failed)?;
        match opened.fill(&memory) {
            Ok(devices) => {
                let template = Used { template, restored: Some(opened.id()) };
                return Started::asleep(machine, Asleep { devices, template }, None);
            }
            Err(FillError::Damaged) => template.remove(opened.id()),
            Err(error @ FillError::Memory(_)) => return Err(other(error.to_string())),
        }
    }
    let snapshot = M::snapshot(program, spec, maker.server)
        .map_err(|error| NotRestored::NoGuest(error.to_string()))?;
    let note = template.keep(&snapshot).err().map(|error| unkept(directory, &error));
    let Snapshot { memory, devices } = snapshot;
    let machine = M::restore(program, spec, memory).map_err(failed)?;
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
