//! Which boundary a session has.

use std::env::consts::OS;
use std::path::{Path, PathBuf};

use pinfold_boundary::container::{Container, Engine};
use pinfold_boundary::landlock::LandlockAlone;
use pinfold_boundary::managed::Managed;
use pinfold_boundary::namespace::{FileServer, Namespace};
use pinfold_boundary::systemd::Systemd;
use pinfold_boundary::{Boundary, Feature};
use pinfold_engines::managed::{Apple, CommandLine, Plugin};
use pinfold_host::directories::Places;
use pinfold_host::launcher::{Launcher, own_program};
use pinfold_host::within::leads_within;
use pinfold_policy::origin::Valued;
use pinfold_policy::path::HostPath;
use pinfold_policy::project::ImageEngine;
use pinfold_policy::settings::{BoundaryName, EngineName, Settings};
use pinfold_virtiofs::FileServer as VirtioFs;
use pinfold_vm::{Choice as Machine, Vm};

use crate::outcome::RunError;

/// Returns the boundary that the settings choose: `namespace` unless they say something else, or the
/// administrator something less. No program of an engine's is taken from these directories.
///
/// # Errors
/// Returns an error for a choice that this version does not have, that is not a boundary, or that the
/// administrator forbids: it is refused, never replaced.
pub(crate) fn choose(
    settings: &Settings,
    places: &Places,
    not_in: &[PathBuf],
    launcher: &Launcher,
) -> Result<Box<dyn Boundary>, RunError> {
    let allows = |name| settings.ceiling.allows_boundary(name);
    let engine = settings.scalars.engine.as_ref();
    let name = match &settings.scalars.boundary {
        Some(chosen) => chosen.value,
        None if engine.is_some() => BoundaryName::Container,
        None if allows(BoundaryName::Namespace) => BoundaryName::Namespace,
        None => BoundaryName::Container,
    };
    if !allows(name) {
        let what =
            format!("the administrator's policy does not allow the boundary {}", name.word());
        return Err(RunError::refused(what, Some("choose another by --boundary".to_owned())));
    }
    let has_no_engine =
        !matches!(name, BoundaryName::Container | BoundaryName::External | BoundaryName::Cluster);
    if let Some(engine) = engine.filter(|_| has_no_engine) {
        return Err(RunError::refused(
            format!(
                "engine {} (by {}) is for --boundary container, and {} was chosen",
                engine.value.word(),
                engine.origin,
                name.word()
            ),
            Some("leave one of the two out".to_owned()),
        ));
    }
    match name {
        BoundaryName::Namespace => Ok(Box::new(Namespace)),
        BoundaryName::Container => container(engine, not_in, launcher),
        BoundaryName::External => match &settings.scalars.plugin {
            Some(plugin) => {
                let plugin = Plugin::new(launcher, plugin.value.clone(), not_in);
                Ok(Box::new(Managed::new(plugin, init()?)))
            }
            None => Err(RunError::refused(
                "boundary external is a program of yours, and none is set",
                Some("set `plugin` in pinfold's config.toml (docs/guides/plugins.md)".to_owned()),
            )),
        },
        BoundaryName::Systemd => Ok(Box::new(Systemd)),
        BoundaryName::Landlock => Ok(Box::new(LandlockAlone)),
        BoundaryName::Vm => vm(&Own::of(settings, places)),
        BoundaryName::Cluster => {
            let by =
                settings.scalars.boundary.as_ref().map(|chosen| format!(" (by {})", chosen.origin));
            let what = format!(
                "boundary {}{} is not in this version, which has {}",
                name.word(),
                by.unwrap_or_default(),
                BoundaryName::AVAILABLE.join(", ")
            );
            Err(RunError::refused(what, Some("leave --boundary out".to_owned())))
        }
    }
}

/// Returns where a sandbox of these settings may have written: nothing that lies there is executed
/// outside.
pub(crate) fn written(settings: &Settings, workspace: &Path) -> Vec<PathBuf> {
    let granted = settings.files.write.iter().map(|path| path.value.as_path());
    granted.chain([workspace]).map(Path::to_owned).collect()
}

/// Refuses what this boundary cannot give, and says which can.
///
/// # Errors
/// Returns an error if it lacks that.
pub(crate) fn insist(
    boundary: &dyn Boundary,
    on: Feature,
    launcher: &Launcher,
) -> Result<(), RunError> {
    if !boundary.lacks().contains(&on) {
        return Ok(());
    }
    let has: Vec<&str> = all(Own::default(), &[], launcher)?
        .into_iter()
        .filter(|other| !other.lacks().contains(&on))
        .map(|other| other.name())
        .collect();
    let what = format!("the boundary {} has no {}", boundary.name(), on.words());
    let instead = match on {
        Feature::Checkout => "work on a copy (--workspace overlay); ",
        _ => "",
    };
    Err(RunError::refused(what, Some(format!("{instead}these have: {}", has.join(", ")))))
}

/// What the user has set of boundaries' programs and files.
#[derive(Debug, Clone, Default)]
pub struct Own {
    /// The program that makes the boundary `external`.
    plugin: Option<HostPath>,
    /// What machines are made of.
    machine: Machine,
}

impl Own {
    /// Takes it from settings.
    #[must_use]
    pub fn of(settings: &Settings, places: &Places) -> Self {
        let path = |set: &Option<Valued<HostPath>>| set.as_ref().map(|set| set.value.clone());
        let owned = |path: HostPath| path.as_path().to_owned();
        let machine = Machine {
            qemu: path(&settings.scalars.qemu).map(owned),
            kernel: path(&settings.scalars.kernel).map(owned),
            accelerator: settings.scalars.accelerator.as_ref().map(|set| set.value),
            cache: machines(places),
        };
        Self { plugin: path(&settings.scalars.plugin), machine }
    }

    /// Returns what machines are made of.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

/// Returns the directories of what is made for machines, and made again where it is missing.
#[must_use]
pub fn made_for_machines(places: &Places) -> [PathBuf; 2] {
    Machine { cache: machines(places), ..Machine::default() }.made()
}

fn machines(places: &Places) -> PathBuf {
    places.cache.join("machines")
}

/// Returns every boundary of this version, with what the user has set. No program of an engine's is taken from
/// these directories.
///
/// # Errors
/// Returns an error for the path of this program.
pub fn all(
    own: Own,
    not_in: &[PathBuf],
    launcher: &Launcher,
) -> Result<Vec<Box<dyn Boundary>>, RunError> {
    let mut all: Vec<Box<dyn Boundary>> = vec![Box::new(Namespace)];
    for choice in choices(OS) {
        all.push(choice.boundary(not_in.to_vec(), launcher)?);
    }
    all.push(Box::new(Systemd));
    all.push(vm(&own)?);
    if let Some(plugin) = own.plugin {
        all.push(Box::new(Managed::new(Plugin::new(launcher, plugin, not_in), init()?)));
    }
    // The last one that is named where another does not work.
    all.push(Box::new(LandlockAlone));
    Ok(all)
}

/// What runs a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Apple,
    Managed(ImageEngine),
    Own(Engine),
}

/// Returns every one of a kind of system, as [`OS`] names it, in the order in which one is chosen where
/// nobody names one.
const fn choices(os: &str) -> &'static [Choice] {
    match os.as_bytes() {
        b"macos" => &[Choice::Apple, Choice::Managed(ImageEngine::Docker)],
        _ => &[
            Choice::Managed(ImageEngine::Docker),
            Choice::Managed(ImageEngine::Podman),
            Choice::Own(Engine::Runc),
            Choice::Own(Engine::Crun),
            Choice::Own(Engine::Youki),
            Choice::Own(Engine::Runsc),
        ],
    }
}

/// The engine that is named in the error where the machine has none.
const UNSAID: Choice = Choice::Own(Engine::Runc);

impl Choice {
    fn of(name: EngineName) -> Self {
        match name {
            EngineName::Docker => Self::Managed(ImageEngine::Docker),
            EngineName::Podman => Self::Managed(ImageEngine::Podman),
            EngineName::Runc => Self::Own(Engine::Runc),
            EngineName::Crun => Self::Own(Engine::Crun),
            EngineName::Youki => Self::Own(Engine::Youki),
            EngineName::Runsc => Self::Own(Engine::Runsc),
            EngineName::Apple => Self::Apple,
        }
    }

    /// Returns whether its program is on this machine, elsewhere than in these directories: a session could choose the
    /// engine of the next one by a program of its name.
    fn is_installed(self, not_in: &[PathBuf], launcher: &Launcher) -> bool {
        let of_session = not_in.to_vec();
        match self {
            Self::Apple => Apple::new(launcher.clone(), of_session).is_installed(),
            Self::Managed(engine) => {
                CommandLine::new(launcher.clone(), engine, of_session).is_installed()
            }
            Self::Own(engine) => {
                engine.is_installed(launcher.leaving_out(not_in).left_out().to_vec(), leads_within)
            }
        }
    }

    fn boundary(
        self,
        not_in: Vec<PathBuf>,
        launcher: &Launcher,
    ) -> Result<Box<dyn Boundary>, RunError> {
        let init = init()?;
        Ok(match self {
            Self::Apple => Box::new(Managed::new(Apple::new(launcher.clone(), not_in), init)),
            Self::Managed(engine) => {
                Box::new(Managed::new(CommandLine::new(launcher.clone(), engine, not_in), init))
            }
            Self::Own(engine) => {
                let all = launcher.leaving_out(&not_in).left_out().to_vec();
                Box::new(Container::new(engine, init).not_in(all, leads_within))
            }
        })
    }
}

fn container(
    engine: Option<&Valued<EngineName>>,
    not_in: &[PathBuf],
    launcher: &Launcher,
) -> Result<Box<dyn Boundary>, RunError> {
    let known = choices(OS);
    let choice = match engine {
        // The error of one says what to install.
        None => {
            let is_installed = |choice: &Choice| choice.is_installed(not_in, launcher);
            known.iter().copied().find(is_installed).unwrap_or(UNSAID)
        }
        Some(engine) => match Choice::of(engine.value) {
            choice if known.contains(&choice) => choice,
            choice => {
                let system = if choice == Choice::Apple { "macOS" } else { "Linux" };
                let what =
                    format!("engine {} (by {}) is for {system}", engine.value, engine.origin);
                return Err(RunError::refused(what, Some("choose another by --engine".to_owned())));
            }
        },
    };
    choice.boundary(not_in.to_vec(), launcher)
}

fn vm(own: &Own) -> Result<Box<dyn Boundary>, RunError> {
    let server = |listener| -> Box<dyn FileServer> { Box::new(VirtioFs::new(listener)) };
    Ok(Box::new(Vm::new(own.machine.clone(), init()?, server)))
}

/// Returns the program that an engine starts inside: this one.
fn init() -> Result<HostPath, RunError> {
    let own = own_program().map_err(|error| RunError::refused(error, None))?;
    let own = std::fs::canonicalize(own).map_err(RunError::System)?;
    HostPath::new(own).map_err(RunError::path)
}

#[cfg(test)]
mod tests;
