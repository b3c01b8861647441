//! Short names that may mean an object (gitrevisions(7)).

use std::collections::BTreeSet;

use crate::host_git::{GitError, HostGit};
use crate::refs::short_name;

/// Digits of an object's name that git shows at least (git-config(1), `core.abbrev`).
const LEAST_DIGITS: usize = 7;
/// Names that one git looks for.
const AT_ONCE: usize = 1000;

/// Returns the digits by which the short name of a branch or tag may mean an object: all of it, or what follows `-g`, as
/// git-describe(1) shows.
pub fn digits(short: &str) -> Option<&str> {
    let digits = short.rsplit_once("-g").map_or(short, |(_, digits)| digits);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (digits.len() >= LEAST_DIGITS && is_number).then_some(digits)
}

/// Returns the digits in these names of branches and tags that names of objects begin with. Thousands of names cost a few programs.
///
/// # Errors
/// Returns what git says.
pub fn that_objects_have<'d>(
    git: HostGit<'_>,
    names: impl Iterator<Item = &'d str>,
) -> Result<BTreeSet<&'d str>, GitError> {
    let all: BTreeSet<&str> = names.filter_map(short_name).filter_map(digits).collect();
    let mut found = BTreeSet::new();
    for some in all.iter().collect::<Vec<_>>().chunks(AT_ONCE) {
        let words: Vec<String> =
            some.iter().map(|digits| format!("--disambiguate={digits}")).collect();
        let words: Vec<&str> =
            ["rev-parse"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let listed = git.run(&words, None)?;
        let objects: BTreeSet<&str> = listed.lines().collect();
        let has_one = |digits: &str| {
            let digits = digits.to_ascii_lowercase();
            let next = objects.range(digits.as_str()..).next();
            next.is_some_and(|object| object.starts_with(&digits))
        };
        found.extend(some.iter().copied().copied().filter(|digits| has_one(digits)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_digits_of_objects_may_mean_one() {
        assert_eq!(digits("v1.2-3-g1234567"), Some("1234567"));
        assert_eq!(digits("abcdef0123"), Some("abcdef0123"));
        assert!(
            ["abcdef", "release-2024", "v1-g12345", "x-gz234567"]
                .map(digits)
                .iter()
                .all(Option::is_none)
        );
    }
}
