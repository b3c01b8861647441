//! Where the names of the user's homes lie: in them, and where a variable of the caller's says.

use std::env::split_paths;
use std::path::{Component, Path, PathBuf, absolute};

use crate::own::Own;
use crate::restrict::{follow, left_by_dots};
use crate::trusted::variable;
use pinfold_git::pointer::normal;
use pinfold_host::directories::resolved;
use pinfold_names::{HomePart, Moved, Site};

/// Returns the homes, and what the caller's environment has elsewhere than in them, without links.
pub fn home_parts(homes: &[PathBuf]) -> Vec<HomePart> {
    let homes = homes.iter().cloned().map(HomePart::home);
    let real = |part: HomePart| {
        let path = if part.path.is_absolute() { normal(&resolved(&part.path)) } else { part.path };
        HomePart { path, ..part }
    };
    homes.chain(moved().map(real)).collect()
}

/// Returns where a granted root really lies.
#[must_use]
pub fn site_of(path: &Path, homes: &[HomePart], own: &Own) -> Site {
    let site = Site::new(path, homes);
    match own.place_of(path) {
        Some(place) => site.also_at(&place),
        None => site,
    }
}

/// Returns the links on the ways that the caller's environment names.
pub fn links_to_parts() -> impl Iterator<Item = PathBuf> {
    moved()
        .filter(|part| part.path.is_absolute())
        .filter_map(|part| follow(&part.path))
        .flat_map(|followed| followed.links)
}

/// Returns the directories that these ways leave by `..`.
pub fn left_by_parts() -> impl Iterator<Item = PathBuf> {
    moved().filter(|part| part.path.is_absolute()).flat_map(|part| left_by_dots(&part.path))
}

fn moved() -> impl Iterator<Item = HomePart> {
    let named = |moved: &'static Moved| paths(moved).into_iter().map(|path| moved.to(&path));
    pinfold_names::moved().iter().flat_map(named)
}

/// Returns the paths in a variable. Programs take a relative one from the directory in which they start: the current one, or
/// the top of a project.
fn paths(moved: &Moved) -> Vec<PathBuf> {
    let Some(value) = variable(moved.variable) else { return Vec::new() };
    let named = if moved.is_list { split_paths(&value).collect() } else { vec![value.into()] };
    let is_below = |path: &PathBuf| {
        path.is_relative() && !path.components().any(|it| it == Component::ParentDir)
    };
    // An empty one is no path.
    let is_path = |path: &&PathBuf| !path.as_os_str().is_empty();
    let named = named.iter().filter(is_path);
    named
        .flat_map(|path| absolute(path).into_iter().chain(Some(path.clone()).filter(is_below)))
        .collect()
}
