//! What an approval is for.

use std::path::PathBuf;

/// What a session's approval and a kept rule are for: the same bytes in the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Same {
    pub(crate) name: String,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) cwd: PathBuf,
    pub(crate) remote: Option<String>,
    pub(crate) references: Vec<String>,
}

impl Same {
    /// Returns whether approving this approves the other: it moves no other reference.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let is_known = |reference: &String| self.references.contains(reference);
        let references = self.references.clone();
        other.references.iter().all(is_known) && *self == Self { references, ..other.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(args: &[&str], references: &[&str]) -> Same {
        Same {
            name: "git".to_owned(),
            args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
            cwd: "/work".into(),
            remote: Some("https://github.com/a/b".to_owned()),
            references: references.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn approval_is_for_the_same_command_and_no_further_reference() {
        let approved = push(&["push"], &["refs/heads/a", "refs/heads/b"]);
        assert!(approved.covers(&approved));
        assert!(approved.covers(&push(&["push"], &["refs/heads/b"])));
        assert!(!approved.covers(&push(&["push"], &["refs/heads/c"])));
        assert!(!push(&["push"], &["refs/heads/b"]).covers(&approved));
    }

    #[test]
    fn approval_is_for_no_other_words_place_or_remote() {
        let approved = push(&["push", "origin"], &["refs/heads/a"]);
        let asked = || push(&["push", "origin"], &["refs/heads/a"]);
        for other in [
            push(&["push", "-f", "origin"], &["refs/heads/a"]),
            push(&["push", "origin", ""], &["refs/heads/a"]),
            Same { name: "gh".to_owned(), ..asked() },
            Same { cwd: "/work/sub".into(), ..asked() },
            Same { remote: Some("https://github.com/a/c".to_owned()), ..asked() },
            Same { remote: None, ..asked() },
        ] {
            assert!(!approved.covers(&other), "{other:?}");
        }
    }
}
