//! Rules that a user has answered `always` with: `approvals.json` next to the user's settings.
//!
//! One allows the same command in the same directory of the same repository and, where it goes to a
//! remote, to the same remote: what was shown, and nothing more.

use std::io;
use std::path::PathBuf;

use pinfold_ask::SavedList;
use pinfold_ask::display::command_line;
use pinfold_host::directories::Places;
use serde::{Deserialize, Serialize};

/// A command that runs without asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRule {
    /// The git directory of the repository, or the workspace without one.
    pub repository: PathBuf,
    pub executable: String,
    /// All of its arguments.
    pub args: Vec<String>,
    /// The working directory on the host.
    pub cwd: PathBuf,
    /// Where git goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// The references of the remote that a push with it may move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
}

impl SavedRule {
    /// Returns whether this allows what another would: the same, and no other reference.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let is_known = |reference: &String| self.references.contains(reference);
        let references = self.references.clone();
        other.references.iter().all(is_known) && *self == Self { references, ..other.clone() }
    }
}

impl std::fmt::Display for SavedRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = std::iter::once(self.executable.as_bytes());
        let line = command_line(words.chain(self.args.iter().map(String::as_bytes)));
        write!(f, "{line} in {}", pinfold_policy::path::Escaped(&self.cwd))?;
        if let Some(remote) = &self.remote {
            write!(f, " to {}", pinfold_ask::display::line(remote.as_bytes()))?;
        }
        let references = self.references.iter().map(String::as_bytes);
        if self.references.is_empty() {
            Ok(())
        } else {
            write!(f, ", {}", command_line(references))
        }
    }
}

/// The user's rules.
#[derive(Debug)]
pub struct SavedRules(SavedList<SavedRule>);

impl SavedRules {
    /// Returns the user's.
    #[must_use]
    pub fn new(places: &Places) -> Self {
        Self(SavedList::new(places, "approvals.json"))
    }

    /// Returns all of them.
    ///
    /// # Errors
    /// Returns the error of reading; a file that cannot be read is not taken for none.
    pub fn all(&self) -> io::Result<Vec<SavedRule>> {
        self.0.all()
    }

    /// Adds one.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub fn add(&self, rule: &SavedRule) -> io::Result<()> {
        self.0.add(rule)
    }

    /// Takes one away; whether it was there.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn remove(&self, rule: &SavedRule) -> io::Result<bool> {
        self.0.remove(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> SavedRule {
        SavedRule {
            repository: "/work/.git".into(),
            executable: "git".to_owned(),
            args: ["push", "origin", "a b"].map(str::to_owned).into(),
            cwd: "/work".into(),
            remote: Some("git@github.com:a/b".to_owned()),
            references: vec!["refs/heads/a".to_owned(), "refs/heads/b".to_owned()],
        }
    }

    #[test]
    fn rule_allows_fewer_references_and_nothing_else() {
        let fewer = SavedRule { references: vec!["refs/heads/a".to_owned()], ..rule() };
        assert!(rule().covers(&fewer) && rule().covers(&rule()) && !fewer.covers(&rule()));
        let none = SavedRule { references: Vec::new(), ..rule() };
        assert!(rule().covers(&none));
        for other in [
            SavedRule { repository: "/other/.git".into(), ..rule() },
            SavedRule { executable: "gh".to_owned(), ..rule() },
            SavedRule { args: vec!["push".to_owned()], ..rule() },
            SavedRule { cwd: "/work/sub".into(), ..rule() },
            SavedRule { remote: None, ..rule() },
        ] {
            assert!(!rule().covers(&other), "{other}");
        }
    }

    #[test]
    fn rule_is_shown_as_one_line_that_no_name_can_break() {
        let shown = rule().to_string();
        assert_eq!(
            shown,
            "git push origin 'a b' in /work to git@github.com:a/b, refs/heads/a refs/heads/b"
        );
        let hostile = SavedRule {
            args: vec!["x\n\u{1b}[2J".to_owned()],
            cwd: "/work\n/\u{202e}".into(),
            remote: Some("h\r\u{7}".to_owned()),
            ..rule()
        };
        let shown = hostile.to_string();
        assert!(
            !shown.chars().any(|letter| letter.is_control() || letter == '\u{202e}'),
            "{shown}"
        );
    }

    #[test]
    fn rule_with_a_word_of_a_later_version_is_refused() {
        let text = serde_json::to_string(&rule()).unwrap();
        assert_eq!(serde_json::from_str::<SavedRule>(&text).unwrap(), rule());
        let more = text.replacen('{', r#"{"anyRemote":true,"#, 1);
        assert!(serde_json::from_str::<SavedRule>(&more).is_err());
    }
}
