//! What is neither hidden nor read-only, but worth a look when a session has changed it: tools on the
//! host run it when their user builds, tests or starts an agent.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::site::Site;
use super::{Folded, length_bit, tables};
use pinfold_policy::glob::Glob;

/// As for the names that are protected: first byte and length rule out most names.
static LENGTHS: [u64; 256] = {
    let mut lengths = [0; 256];
    let mut at = 0;
    while at < tables::BUILT_NAMES.len() {
        let name = tables::BUILT_NAMES[at].as_bytes();
        lengths[name[0] as usize] |= length_bit(name.len());
        at += 1;
    }
    lengths
};

/// Returns whether a path that ends in `name` may be one that [`on_build`] knows: a cheap question that
/// most names answer with no.
#[must_use]
pub fn may_be_on_build(name: &Folded<'_>) -> bool {
    let name = &*name.0;
    let Some(first) = name.first() else { return false };
    LENGTHS[usize::from(*first)] & length_bit(name.len()) != 0
        && tables::BUILT_NAMES.binary_search_by(|known| known.as_bytes().cmp(name)).is_ok()
}

/// Returns why a change of what lies at `relative` is worth a look before the next build, if it
/// is: a tool on the host executes it, or an agent follows it.
#[must_use]
pub fn on_build(relative: &Path) -> Option<&'static str> {
    relative.file_name().filter(|name| may_be_on_build(&Folded::of(name.as_bytes())))?;
    let names = Site::of_names(Path::new("")).names(relative);
    let is_one = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&names.relative));
    tables::BUILT.iter().find(|(globs, _)| is_one(globs)).map(|(_, reason)| *reason)
}
