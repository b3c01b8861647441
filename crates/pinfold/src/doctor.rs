//! `pinfold doctor`: does it work here, and what to do if not.

mod report;

use std::process::ExitCode;

use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_provision::{Cache, Registry};
use pinfold_secrets::Store;
use pinfold_session::{OwnPrograms, prepare};
use pinfold_snapshot::disk::Disk;

use crate::cli::Output;
use crate::exit::Failure;
use crate::policy;
use crate::print::{self, say};
use crate::run;

use report::{Key, Report, Room, Verdict};

pub(crate) fn doctor(output: Output, launcher: &Launcher) -> Result<ExitCode, Failure> {
    run::check_outside().map_err(Failure::plain)?;
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let report = examine(&places, launcher)?;
    if output.json {
        print::json_line(&report.as_json())?;
    } else {
        say!("{report}");
    }
    let works = !matches!(report.verdict(), Verdict::DoesNotWork { .. });
    Ok(ExitCode::from(u8::from(!works)))
}

/// Returns why a run does not work here by default; none if it does.
///
/// # Errors
/// Returns the errors of [`examine`].
pub(crate) fn obstacle(places: &Places, launcher: &Launcher) -> Result<Option<String>, Failure> {
    let report = examine(places, launcher)?;
    Ok(match report.verdict() {
        Verdict::Works | Verdict::WorksWithLimits(_) => None,
        Verdict::DoesNotWork { finding, .. } => {
            let unknown = || "no boundary is known here".to_owned();
            Some(finding.map_or_else(unknown, |finding| finding.what.to_string()))
        }
    })
}

/// Looks at everything that a run needs.
///
/// # Errors
/// Returns an error for settings, secrets or agents that cannot be read.
fn examine(places: &Places, launcher: &Launcher) -> Result<Report, Failure> {
    let not_in = prepare::left_out(Some(places));
    let own = OwnPrograms::of(&policy::own().map_err(Failure::plain)?, places);
    let boundaries = pinfold_session::boundaries(own, &not_in, launcher)
        .map_err(Failure::from)
        .map_err(Failure::plain)?;
    let keys = Store::new(places.secrets()).list().map_err(Failure::new)?;
    let key = |report: pinfold_secrets::Report| Key {
        id: report.id.to_string(),
        place: report.found.map(|found| found.place.to_string()),
    };
    let cache = Cache::new(places.cache.join("agents"), Registry::default());
    Ok(Report {
        boundaries: boundaries.iter().map(|it| (it.name().to_owned(), it.probe())).collect(),
        keys: keys.into_iter().map(key).collect(),
        agents: prepare::agents(places)?,
        unpacked: cache.agents().map_err(Failure::new)?,
        room: room(places),
    })
}

/// Returns the room on the disk of pinfold's state; none if the disk says nothing.
fn room(places: &Places) -> Option<Room> {
    let there = places.state.ancestors().find(|path| path.exists())?;
    let disk = Disk::of(there).ok()?;
    Some(Room { free: disk.free, is_short: disk.is_short() })
}
