//! Names that are protected inside a granted directory: secrets, and what the host would execute.
//!
//! The defaults are data (`data/protect.toml`). [`Protection::classify`] says what a name found in
//! a granted directory is; [`Protection::missing`] names what must be protected although it does
//! not exist. Both give the effect and the reason of a [`pinfold_policy::authority::Restriction`].
//! [`Protection::refuses`] names what may not be granted at all, and [`on_build`] what is neither
//! hidden nor read-only, but listed when a session changed it.
//!
//! A name is judged by where it really lies: see [`Site`]. Case is folded: see [`fold()`].
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod built;
mod fold;
pub mod misleading;
mod site;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::authority::{Effect, Reason, Restriction, Why};
use pinfold_policy::glob::Glob;
use pinfold_policy::origin::Origin;
use pinfold_policy::path::HostPath;

pub use built::{may_be_on_build, on_build};
pub use fold::{Folded, fold};
pub use site::{HomePart, Moved, Site};

/// What kind of thing stands for a protected name that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// An empty directory.
    Directory,
    /// An empty file.
    File,
}

/// What a protected name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    rule: &'static Rule,
    /// What it is if its content is no secret.
    executed: Option<&'static Rule>,
}

impl Class {
    /// Returns what happens to it.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.rule.effect
    }

    /// Returns what the name is apart from its content: something that the host executes.
    #[must_use]
    pub fn executed(&self) -> Option<Self> {
        self.executed.map(|rule| Self { rule, executed: self.executed })
    }

    /// Returns whether a directory of this name is not meant.
    #[must_use]
    pub fn is_only_of_files(&self) -> bool {
        self.rule.only_files
    }

    /// Returns whether files that hold public certificates of the system are not meant.
    #[must_use]
    pub fn spares_certificates(&self) -> bool {
        self.rule.unless_certificates
    }

    /// Returns why, with the name that lifts it.
    #[must_use]
    pub fn reason(&self) -> Reason {
        let why = match self.rule.effect {
            Effect::Hide if self.executed.is_none() => Why::Secret,
            // Nobody may put something else in its place.
            Effect::Hide | Effect::ReadOnly | Effect::Private => Why::HostExecutes,
        };
        let (text, opt_in) = (self.rule.reason.into(), Some(self.rule.opt_in.into()));
        Reason { why, text, opt_in }
    }

    /// Returns the restriction of a path on the host that has this class.
    #[must_use]
    pub fn restriction(&self, host: HostPath) -> Restriction {
        let (effect, reason) = (self.effect(), self.reason());
        Restriction { host, effect, reason, source: Origin::Default }
    }
}

/// A protected name that need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The path relative to the granted root.
    pub relative: PathBuf,
    /// What stands for it while the session lasts.
    pub placeholder: Placeholder,
    /// Whether it is meant in the user's home alone, which every shell and agent reads.
    pub is_of_home: bool,
    /// What it is.
    pub class: Class,
}

/// One entry of the data.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    effect: Effect,
    names: &'static [Glob],
    except: &'static [Glob],
    only_home: bool,
    only_files: bool,
    unless_certificates: bool,
    refuse: bool,
    missing: Option<Placeholder>,
    reason: &'static str,
    opt_in: &'static str,
}

/// The data as static tables: the rules; for each literal last component, sorted, the rules with
/// a name that ends in it; and rule and name of each name whose last component has a wildcard,
/// with what that component begins and ends with.
mod tables {
    use super::{Effect, Glob, Moved, Placeholder, Rule};

    include!(concat!(env!("OUT_DIR"), "/protect.rs"));
}

/// For each first byte, the lengths of the literal names that begin with it, as bits. These two
/// rule out most names of a workspace.
static LENGTHS: [u64; 256] = {
    let mut lengths = [0; 256];
    let mut at = 0;
    while at < tables::LITERAL.len() {
        let name = tables::LITERAL[at].0.as_bytes();
        lengths[name[0] as usize] |= length_bit(name.len());
        at += 1;
    }
    lengths
};

/// For each byte, the names with a wildcard that may begin with it, as bits, and those that may end
/// with it.
static WILD: ([u64; 256], [u64; 256]) = {
    const { assert!(tables::WILD.len() <= 64, "more names with a wildcard than bits") };
    let mut bits = ([0; 256], [0; 256]);
    let mut at = 0;
    while at < tables::WILD.len() {
        let (_, _, start, end) = tables::WILD[at];
        let mut byte = 0;
        while byte < 256 {
            if start.is_empty() || start.as_bytes()[0] as usize == byte {
                bits.0[byte] |= 1 << at;
            }
            if end.is_empty() || end.as_bytes()[end.len() - 1] as usize == byte {
                bits.1[byte] |= 1 << at;
            }
            byte += 1;
        }
        at += 1;
    }
    bits
};

const fn length_bit(length: usize) -> u64 {
    1 << if length < 63 { length } else { 63 }
}

/// The protected names of a session: the built-in ones without those that were opted in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    lifted: Vec<&'static str>,
}

/// An opt-in that lifts nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "opt_in \"{}\" lifts nothing; known: {}", .name.escape_debug(), opt_ins().join(", ")
)]
pub struct UnknownOptIn {
    pub name: String,
}

/// Lets the sandbox change the hooks of repositories that exist at the start.
pub const GIT_HOOKS: &str = "git-hooks";
/// Lets the sandbox change the configuration of repositories that exist at the start.
pub const GIT_CONFIG: &str = "git-config";
/// Lets the sandbox change bare repositories that lie in a granted directory.
pub const BARE_REPOSITORIES: &str = "bare-repositories";

/// Lets the sandbox change what the shell's directory hook loads.
pub const DIRECTORY_ENVIRONMENT: &str = "directory-environment";

/// Lets the sandbox make programs on the caller's `PATH` that take the place of the system's.
pub const COMMANDS: &str = "commands";

/// Protections that depend on more than a name.
const BY_STRUCTURE: [&str; 8] = [
    GIT_HOOKS,
    GIT_CONFIG,
    BARE_REPOSITORIES,
    COMMANDS,
    misleading::OUTWARD_LINKS,
    misleading::ODD_NAMES,
    misleading::SPARSE_FILES,
    misleading::DEVICES,
];

/// Returns what variables of the caller's have elsewhere than in the home.
#[must_use]
pub fn moved() -> &'static [Moved] {
    tables::MOVED
}

/// Returns the names that lift a protection, sorted.
#[must_use]
pub fn opt_ins() -> Vec<&'static str> {
    let by_name = tables::RULES.iter().map(|rule| rule.opt_in);
    let mut known: Vec<_> = by_name.chain(BY_STRUCTURE).collect();
    known.sort_unstable();
    known.dedup();
    known
}

impl Protection {
    /// Returns the built-in names without those that `opt_in` lifts.
    ///
    /// # Errors
    /// Returns an error when a name in `opt_in` lifts nothing.
    pub fn defaults<'a>(opt_in: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownOptIn> {
        let mut lifted = Vec::new();
        for name in opt_in {
            match opt_ins().into_iter().find(|known| *known == name) {
                Some(known) => lifted.push(known),
                None => return Err(UnknownOptIn { name: name.to_owned() }),
            }
        }
        Ok(Self { lifted })
    }

    /// Returns whether this opt-in was given.
    #[must_use]
    pub fn is_lifted(&self, opt_in: &str) -> bool {
        self.lifted.contains(&opt_in)
    }

    /// Returns whether a path that ends in `name` may be protected: a cheap question that most names
    /// answer with no, to be asked before a path is put together for [`Self::classify`].
    #[must_use]
    pub fn may_match(name: &Folded<'_>) -> bool {
        let name = &*name.0;
        let (Some(first), Some(last)) = (name.first(), name.last()) else { return false };
        let is_literal = LENGTHS[usize::from(*first)] & length_bit(name.len()) != 0
            && tables::LITERAL.binary_search_by(|(known, _)| known.as_bytes().cmp(name)).is_ok();
        if is_literal {
            return true;
        }
        let mut candidates = WILD.0[usize::from(*first)] & WILD.1[usize::from(*last)];
        while candidates != 0 {
            let (_, _, start, end) = tables::WILD[candidates.trailing_zeros() as usize];
            if name.starts_with(start.as_bytes()) && name.ends_with(end.as_bytes()) {
                return true;
            }
            candidates &= candidates - 1;
        }
        false
    }

    /// Returns what the name at `relative` below a granted root is, if it is protected. Hiding
    /// wins.
    #[must_use]
    pub fn classify(&self, site: &Site, relative: &Path) -> Option<Class> {
        let names = site.names(relative);
        let mut rules: Vec<&'static Rule> = names
            .last()
            .into_iter()
            .flat_map(|name| rules_ending_in(name.as_bytes()))
            .filter(|rule| !self.lifts(rule) && rule.matches(&names))
            .collect();
        rules.sort_by_key(|rule| rule.effect);
        let executed = rules.iter().rfind(|rule| rule.effect != Effect::Hide).copied();
        rules.last().map(|rule| Class { rule, executed })
    }

    /// Returns what a directory at `relative` below a granted root would hold that the host executes, by paths below it; a path
    /// is empty where a wildcard stands for names. A link of that name leads to it, and what lies there has another name.
    #[must_use]
    pub fn leads_to(&self, site: &Site, relative: &Path) -> Vec<(&'static Path, Class)> {
        let names = site.names(relative);
        let last = names.last();
        let is_meant = |rule: &&Rule| rule.effect != Effect::Hide && !self.lifts(rule);
        let mut found = Vec::new();
        for rule in tables::RULES.iter().filter(is_meant) {
            let above = |name: &OsStr| {
                let all = rule.names.iter().flat_map(|glob| glob.above(name.as_bytes()));
                all.collect::<Vec<_>>()
            };
            for (above, rest) in last.iter().flat_map(|name| above(name)) {
                if names.match_one(rule.only_home, &above) {
                    let rest = if rest.contains(['*', '?']) { "" } else { rest };
                    found.push((Path::new(rest), Class { rule, executed: Some(rule) }));
                }
            }
        }
        found
    }

    /// Returns the first part of an absolute host path that may not be granted, nor anything in
    /// it, with the reason.
    #[must_use]
    pub fn refuses(&self, host: &Path) -> Option<(PathBuf, Class)> {
        let mut parts: Vec<&Path> = host.ancestors().collect();
        parts.reverse();
        parts.into_iter().find_map(|part| {
            let site = Site::of_names(part.parent()?);
            let names = site.names(Path::new(part.file_name()?));
            let mut rules = tables::RULES.iter().filter(|rule| rule.refuse && !self.lifts(rule));
            let rule = rules.find(|rule| rule.matches(&names))?;
            Some((part.to_owned(), Class { rule, executed: None }))
        })
    }

    /// Returns the names below a granted root that are protected although they may not exist.
    pub fn missing(&self, site: &Site) -> impl Iterator<Item = Missing> {
        tables::RULES
            .iter()
            .filter(|rule| !self.lifts(rule))
            .filter_map(|rule| Some((rule, rule.missing?)))
            .flat_map(move |(rule, placeholder)| {
                let class = Class { rule, executed: Some(rule) };
                let paths = rule.names.iter().filter_map(Glob::literal_path);
                let is_of_home = rule.only_home;
                let below = paths.flat_map(move |path| {
                    let here = (!is_of_home).then(|| path.to_owned());
                    let in_home = is_of_home.then(|| site.below_home(path));
                    here.into_iter().chain(in_home.into_iter().flatten())
                });
                below.map(move |relative| Missing { relative, placeholder, is_of_home, class })
            })
    }

    fn lifts(&self, rule: &Rule) -> bool {
        self.is_lifted(rule.opt_in)
    }
}

/// Returns the rules with a name that may match a path that ends in this one, folded.
fn rules_ending_in(name: &[u8]) -> impl Iterator<Item = &'static Rule> {
    let found = tables::LITERAL.binary_search_by(|(known, _)| known.as_bytes().cmp(name));
    let literal = found.ok().and_then(|at| tables::LITERAL.get(at)).map_or(&[][..], |(_, r)| r);
    let wild = tables::WILD.iter().filter_map(move |(rule, number, _, _)| {
        let glob = tables::RULES.get(*rule)?.names.get(*number)?;
        glob.may_end_in(name).then_some(rule)
    });
    literal.iter().chain(wild).filter_map(|rule| tables::RULES.get(*rule))
}

impl Rule {
    fn matches(&self, names: &site::Names) -> bool {
        let is_one = |glob: &Glob| names.match_one(self.only_home, glob);
        self.names.iter().any(is_one) && !self.except.iter().any(is_one)
    }
}

#[cfg(test)]
mod tests;
