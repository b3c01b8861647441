//! What tasks change, so that two that change the same do not run at once.

use std::collections::BTreeMap;

use crate::spec::TaskSpec;

/// The characters that begin a pattern in a glob.
const PATTERN: [char; 4] = ['*', '?', '[', '{'];

/// Files of a repository that a task changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch {
    /// The repository's path.
    pub repository: String,
    /// What all the paths begin with. Two tasks may change the same file if one of their beginnings begins with the
    /// other.
    pub beginning: String,
}

/// How many tasks of a group are worked on at once. It is one where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits(BTreeMap<String, u32>);

impl GroupLimits {
    /// Returns these limits, by the names of groups.
    #[must_use]
    pub fn new(limits: BTreeMap<String, u32>) -> Self {
        Self(limits)
    }

    /// Returns what stands for each group with more than one among what tasks change, and how many.
    pub(crate) fn touched(&self) -> impl Iterator<Item = (String, u32)> {
        let several = self.0.iter().filter(|(_, limit)| **limit > 1);
        several.map(|(group, limit)| (of_group(group), *limit))
    }
}

/// Returns what stands for a group where a repository's path would be. No path of a repository begins so.
fn of_group(group: &str) -> String {
    format!("group:{group}")
}

impl Touch {
    /// Returns what a task says that it changes, and its group's directories.
    pub(crate) fn of(spec: &TaskSpec) -> Vec<Self> {
        let mut touches = Self::files(spec);
        let group = spec.group.iter().map(|group| of_group(group));
        touches.extend(group.map(|repository| Self { repository, beginning: String::new() }));
        touches
    }

    fn files(spec: &TaskSpec) -> Vec<Self> {
        let repository =
            spec.repository.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let mut touches: Vec<Self> = spec
            .touches
            .iter()
            .map(|glob| Self { repository: repository.clone(), beginning: beginning(glob) })
            .collect();
        touches.sort();
        touches.dedup();
        touches
    }
}

impl TaskSpec {
    /// Returns whether both tasks say what they change, and may change the same file.
    #[must_use]
    pub fn may_overlap(&self, other: &Self) -> bool {
        let (mine, others) = (Touch::files(self), Touch::files(other));
        mine.iter().any(|mine| {
            others.iter().any(|other| {
                let (one, two) = (&mine.beginning, &other.beginning);
                mine.repository == other.repository
                    && (one.starts_with(two.as_str()) || two.starts_with(one.as_str()))
            })
        })
    }
}

/// Returns what all paths begin with that a glob matches. A path without a pattern stands for the file or for all
/// files in the directory.
fn beginning(glob: &str) -> String {
    match glob.find(PATTERN) {
        Some(at) => glob[..at].to_owned(),
        None => format!("{}/", glob.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::beginning;
    use crate::spec::TaskSpec;

    #[test]
    fn tasks_overlap_if_both_name_what_may_be_one_file() {
        let task = |touches: &[&str]| TaskSpec {
            touches: touches.iter().map(ToString::to_string).collect(),
            ..TaskSpec::new("t", "b")
        };
        assert!(task(&["src/**"]).may_overlap(&task(&["docs", "src/main.rs"])));
        assert!(!task(&["src"]).may_overlap(&task(&["srcs"])));
        assert!(!task(&[]).may_overlap(&task(&["**"])));
    }

    #[test]
    fn glob_begins_with_what_is_before_its_pattern() {
        for (glob, expected) in [
            ("src/**", "src/"),
            ("src/parse*.rs", "src/parse"),
            ("**/*.rs", ""),
            ("docs", "docs/"),
            ("docs/", "docs/"),
            ("src/{a,b}.rs", "src/"),
        ] {
            assert_eq!(beginning(glob), expected, "{glob}");
        }
    }
}
