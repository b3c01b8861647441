//! Links at the top of a sandbox's root, such as `/bin`, which no grant has.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use pinfold_policy::access::Access;
use pinfold_policy::authority::{Authority, Explanation, Tree};
use pinfold_policy::path::{Escaped, InsidePath, PathError};

/// Links of a sandbox's root, each with where it leads.
pub type Links = [(InsidePath, OsString)];

/// How many links one path may lead through (`MAXSYMLINKS` in Linux, path_resolution(7)).
const MOST: usize = 40;

/// Decides an access to a path in a sandbox that has these links, and says why.
///
/// # Errors
/// Returns an error when the path is relative or contains a NUL byte.
pub fn explain(
    authority: &Authority,
    tree: &dyn Tree,
    links: &Links,
    access: Access,
    path: &Path,
) -> Result<Explanation, PathError> {
    let mut explanation = authority.explain(tree, access, path)?;
    let mut at = path.to_owned();
    let mut followed = 0;
    while explanation.grant.is_none() && followed < MOST {
        // What follows `..` is known of the path alone, not of where it ended.
        let inside = explanation.inside.as_path();
        let found = links.iter().find_map(|link| Some((link, rest_of(&at, inside, link)?)));
        let Some(((link, target), rest)) = found else { break };
        at = led(link.as_path(), Path::new(target));
        at.extend(rest.components());
        let mut hops = std::mem::take(&mut explanation.links);
        hops.push(format!("{link} -> {}", Escaped(Path::new(target))));
        explanation = authority.explain(tree, access, &at)?;
        hops.append(&mut explanation.links);
        explanation.links = hops;
        followed += 1;
    }
    explanation.asked = Escaped(path).to_string();
    Ok(explanation)
}

/// Returns what comes after a link in a path, or in where the path ended.
fn rest_of(path: &Path, inside: &Path, (link, _): &(InsidePath, OsString)) -> Option<PathBuf> {
    let link = link.as_path();
    let rest = path.strip_prefix(link).or_else(|_| inside.strip_prefix(link)).ok()?;
    Some(rest.to_owned())
}

/// Returns where a link leads. The directories above it are no links.
fn led(link: &Path, target: &Path) -> PathBuf {
    let mut led = link.parent().unwrap_or(Path::new("/")).to_owned();
    for component in target.components() {
        match component {
            Component::RootDir => led = PathBuf::from("/"),
            Component::ParentDir => drop(led.pop()),
            Component::Normal(name) => led.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    led
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_leads_from_the_directory_that_it_is_in() {
        for (link, target, expected) in [
            ("/bin", "usr/bin", "/usr/bin"),
            ("/etc/os-release", "../usr/lib/os-release", "/usr/lib/os-release"),
            ("/lib", "/usr/./lib", "/usr/lib"),
            ("/sbin", "../../usr/sbin", "/usr/sbin"),
        ] {
            assert_eq!(led(Path::new(link), Path::new(target)), Path::new(expected), "{link}");
        }
    }
}
