//! Which boundary a session has.

use pinfold_boundary::container::{Container, Engine};
use pinfold_boundary::namespace::Namespace;
use pinfold_boundary::{Boundary, Feature};
use pinfold_policy::origin::Valued;
use pinfold_policy::path::HostPath;
use pinfold_policy::settings::{BoundaryName, EngineName, Settings};

use crate::outcome::RunError;
use crate::provision;

/// The boundary that the settings choose: `namespace` unless they say something else, or the
/// administrator something less.
///
/// # Errors
/// A choice that this version does not have, that is none, or that the administrator forbids: it is
/// refused, never replaced.
pub(crate) fn choose(settings: &Settings) -> Result<Box<dyn Boundary>, RunError> {
    let allows = |name| settings.ceiling.allows_boundary(name);
    let engine = settings.engine.as_ref();
    let name = match &settings.boundary {
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
    match name {
        BoundaryName::Namespace => match engine {
            None => Ok(Box::new(Namespace)),
            Some(engine) => Err(RunError::refused(
                format!(
                    "engine {} (by {}) is for --boundary container, and namespace was chosen",
                    engine.value.word(),
                    engine.origin
                ),
                Some("leave one of the two out".to_owned()),
            )),
        },
        BoundaryName::Container => Ok(Box::new(container(engine)?)),
        BoundaryName::Systemd
        | BoundaryName::Vm
        | BoundaryName::Cluster
        | BoundaryName::External => {
            let by = settings.boundary.as_ref().map(|chosen| format!(" (by {})", chosen.origin));
            let what = format!(
                "boundary {}{} is not in this version: it has namespace and container",
                name.word(),
                by.unwrap_or_default()
            );
            Err(RunError::refused(what, Some("leave --boundary out".to_owned())))
        }
    }
}

/// Refuses what this boundary cannot give, and says which can.
///
/// # Errors
/// It lacks that.
pub(crate) fn insist(boundary: &dyn Boundary, on: Feature) -> Result<(), RunError> {
    if !boundary.lacks().contains(&on) {
        return Ok(());
    }
    let has = all()?.into_iter().filter(|other| !other.lacks().contains(&on));
    let has: Vec<&str> = has.map(|other| other.name()).collect();
    let what = format!("the boundary {} has no {}", boundary.name(), on.words());
    Err(RunError::refused(what, Some(format!("these have: {}", has.join(", ")))))
}

/// Every boundary of this version, for `doctor`.
///
/// # Errors
/// The path of this program.
pub fn all() -> Result<Vec<Box<dyn Boundary>>, RunError> {
    let mut all: Vec<Box<dyn Boundary>> = vec![Box::new(Namespace)];
    for engine in Engine::ALL {
        all.push(Box::new(Container::new(engine, init()?)));
    }
    Ok(all)
}

fn container(engine: Option<&Valued<EngineName>>) -> Result<Container, RunError> {
    let installed = || Engine::ALL.into_iter().find(|engine| engine.is_installed());
    let engine = match engine {
        // The error of the first says what to install.
        None => installed().unwrap_or(Engine::ALL[0]),
        Some(Valued { value: EngineName::Runc, .. }) => Engine::Runc,
        Some(Valued { value: EngineName::Crun, .. }) => Engine::Crun,
        Some(Valued { value: EngineName::Youki, .. }) => Engine::Youki,
        Some(Valued { value: EngineName::Runsc, .. }) => Engine::Runsc,
        Some(Valued { value, origin }) => {
            let what = format!(
                "engine {} (by {origin}) is not in this version: it has runc, crun, youki and runsc",
                value.word()
            );
            return Err(RunError::refused(what, Some("choose one of these".to_owned())));
        }
    };
    Ok(Container::new(engine, init()?))
}

/// The program that an engine starts inside: this one.
fn init() -> Result<HostPath, RunError> {
    let own = provision::own_program().map_err(|error| RunError::refused(error, None))?;
    let own = std::fs::canonicalize(own).map_err(RunError::System)?;
    HostPath::new(own).map_err(RunError::path)
}

#[cfg(test)]
mod tests;
