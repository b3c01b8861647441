//! What is pinfold's own is never granted: a grant of it is refused, and in a grant above it is hidden.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_host::directories::{Places, resolved};
use pinfold_names::{HomePart, Protection};
use pinfold_policy::authority::{Authority, Effect, Grant, Reason, RootKind, Why};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::Settings;
use pinfold_protect::home_parts::home_parts;
use pinfold_protect::own::Own;
use pinfold_protect::restrict::Protect;

use super::state::Guard;
use crate::GuardError;
use crate::grant_words::in_words;

/// Refuses a grant that is, or lies in, what no session gets: pinfold's own files, and places of
/// secrets whose names are known.
///
/// # Errors
/// Returns an error if there is such a grant, or an opt-in that is unknown.
pub fn refuse(
    authority: &Authority,
    own: &Own,
    settings: &Settings,
    places: &Places,
) -> Result<(), GuardError> {
    let protection = super::state::protection(&settings.files)?;
    let parts = home_parts(&places.homes());
    let kept = resolved(&places.state.join("agents"));
    // What comes with the system or an agent is chosen by pinfold, not named by anybody.
    let is_named = |grant: &&Grant| match grant.root.kind {
        RootKind::System => false,
        RootKind::AgentState => !grant.root.host.as_path().starts_with(&kept),
        _ => true,
    };
    authority.grants().filter(is_named).try_for_each(|grant| check(grant, own, &parts, &protection))
}

fn check(
    grant: &Grant,
    own: &Own,
    parts: &[HomePart],
    protection: &Protection,
) -> Result<(), GuardError> {
    let host = grant.root.host.as_path();
    let (what, elsewhere) = in_words(grant);
    if let Some(place) = own.holding(host) {
        let what = format!(
            "{what} is among pinfold's own files ({}), with which a session could change its own \
             rules",
            Escaped(&place)
        );
        let hint = format!("{elsewhere}; no session gets any of these files");
        return Err(GuardError::refused(what, Some(hint)));
    }
    let in_file_system = own.place_of(host);
    let refused = || in_file_system.as_deref().and_then(|place| protection.refuses(place));
    // What a variable has elsewhere is judged by the name that it has in a home.
    let in_home = |part: &HomePart| {
        let rest = host.strip_prefix(&part.path).ok()?;
        let (_, class) = protection.refuses(&Path::new("/").join(&part.name).join(rest))?;
        Some((host.to_owned(), class))
    };
    let moved = || parts.iter().find_map(in_home);
    if let Some((place, class)) = protection.refuses(host).or_else(refused).or_else(moved) {
        let Reason { text, opt_in, .. } = class.reason();
        let what = format!("{what} would show {}: {text}", Escaped(&place));
        let hint =
            format!("{elsewhere}, or say --opt-in {}", opt_in.as_deref().unwrap_or_default());
        return Err(GuardError::refused(what, Some(hint)));
    }
    Ok(())
}

impl Guard {
    /// Hides pinfold's own directories and files, except what of them is granted. What is missing of
    /// them is hidden as well: what a session made there, pinfold would take for its user's word. For
    /// the same reason nothing can be made next to what is granted, a part that may be written to is
    /// refused there, and links on the way stay as they are.
    pub(super) fn own(&mut self, authority: &Authority) {
        let granted: Vec<PathBuf> =
            authority.grants().map(|grant| grant.root.host.as_path().to_owned()).collect();
        for link in self.own.links() {
            if self.protect.writable_root(link).is_some() {
                self.protect.restrict(link.clone(), Effect::ReadOnly, belongs());
            }
        }
        for place in self.own.places() {
            // What its name says is less.
            self.protect.forget(place);
            if fs::symlink_metadata(place).is_err() {
                let content: Option<&[u8]> = self.own.is_file(place).then_some(b"");
                if self.protect.place_missing(place, content) {
                    self.protect.restrict(place.clone(), Effect::Hide, belongs());
                }
                continue;
            }
            hide_but(&mut self.protect, place, &granted);
            let is_part = |root: &PathBuf| root.starts_with(place) && root != place;
            if granted.iter().any(is_part) && self.protect.writable_root(place).is_some() {
                self.protect.restrict(place.clone(), Effect::ReadOnly, belongs());
            }
        }
    }
}

fn hide_but(protect: &mut Protect, place: &Path, granted: &[PathBuf]) {
    if granted.iter().any(|root| root == place) {
        return;
    }
    if !granted.iter().any(|root| root.starts_with(place)) {
        let in_a_root = granted.iter().any(|root| place.starts_with(root));
        if in_a_root {
            protect.restrict(place.to_owned(), Effect::Hide, belongs());
        }
        return;
    }
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        hide_but(protect, &entry.path(), granted);
    }
}

/// Returns why pinfold's own files are hidden.
pub(super) fn belongs() -> Reason {
    Reason { why: Why::Own, text: "it belongs to pinfold".into(), opt_in: None }
}
