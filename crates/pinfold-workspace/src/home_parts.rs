//! Where the names of the user's homes lie: in them, and where a variable of the caller's says.

use std::path::PathBuf;

use pinfold_git::pointer::normal;
use pinfold_host::directories::{absolute_variable, resolved};
use pinfold_names::HomePart;
use pinfold_protect::restrict::follow;

/// Returns the homes, and what the caller's environment has elsewhere than in them, without links.
pub(crate) fn home_parts(homes: &[PathBuf]) -> Vec<HomePart> {
    let homes = homes.iter().cloned().map(HomePart::home);
    let real = |part: HomePart| HomePart { path: normal(&resolved(&part.path)), ..part };
    homes.chain(moved().map(real)).collect()
}

/// Returns the links on the ways that the caller's environment names.
pub(crate) fn links_to_parts() -> impl Iterator<Item = PathBuf> {
    moved().filter_map(|part| follow(&part.path)).flat_map(|followed| followed.links)
}

fn moved() -> impl Iterator<Item = HomePart> {
    pinfold_names::moved()
        .iter()
        .filter_map(|moved| Some(moved.to(&absolute_variable(moved.variable)?)))
}
