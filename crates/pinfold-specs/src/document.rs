//! A specification's text, and what it asks for.

use std::path::{Path, PathBuf};

use pinfold_host::Refusal;
use pinfold_policy::document::SettingsFile;
use pinfold_tasks::{SpecFile, SpecStatus, body_of, read_spec, set_status};

/// A specification as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// What errors call it.
    name: PathBuf,
    text: String,
    spec: SpecFile,
}

impl Document {
    /// Reads a specification.
    ///
    /// # Errors
    /// Returns a refusal for what is not one, with line and key.
    pub fn read(name: &Path, bytes: &[u8]) -> Result<Self, Refusal> {
        let invalid = |error| Refusal::new("invalid specification").because(error);
        let spec = read_spec(SettingsFile { path: name, bytes }).map_err(invalid)?;
        // It has been read as text.
        let text = String::from_utf8_lossy(bytes).into_owned();
        Ok(Self { name: name.to_owned(), text, spec })
    }

    /// Returns all of it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns what is in front of the body.
    #[must_use]
    pub fn front(&self) -> &str {
        &self.text[..self.spec.body_at]
    }

    /// Returns what follows the front matter.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.text[self.spec.body_at..]
    }

    /// Returns what it asks for.
    #[must_use]
    pub fn spec(&self) -> &SpecFile {
        &self.spec
    }

    /// Refuses front matter that sets what is decided on this machine. `what` is what others wrote.
    ///
    /// # Errors
    /// Returns a refusal with the key.
    pub(crate) fn refuse_words_of_host(&self, what: &str) -> Result<(), Refusal> {
        let task = &self.spec.task;
        let keys = [
            ("repository", task.repository.is_some()),
            ("sealed", task.sealed.is_some()),
            ("identity", task.identity.is_some()),
            ("group", task.group.is_some()),
            ("workspace", task.workspace.is_some()),
        ];
        match keys.iter().find(|(_, is_set)| *is_set) {
            None => Ok(()),
            Some((key, _)) => {
                let what = format!("{what} sets `{key}`, which is decided on this machine");
                let hint = "remove it from the front matter, and say it with an option".to_owned();
                Err(Refusal::new(what).with_hint(hint))
            }
        }
    }

    /// Gives it a title and, if it names none, a branch.
    #[must_use]
    pub(crate) fn titled(mut self, title: &str, branch: Option<&str>) -> Self {
        title.clone_into(&mut self.spec.task.title);
        let named = branch.and_then(|branch| branch.parse().ok());
        self.spec.task.branch = self.spec.task.branch.take().or(named);
        self
    }

    /// Returns it with another body.
    ///
    /// # Errors
    /// Returns a refusal for a body that is empty, too long or not plain Markdown.
    pub fn with_body(&self, body: &str) -> Result<Self, Refusal> {
        if body.trim().is_empty() {
            return Err(Refusal::new("the specification is empty"));
        }
        let text = format!("{}{body}", self.front());
        let read = Self::read(&self.name, text.as_bytes())?;
        // A body must not become front matter, nor lie in wait for that.
        let has_front = |body: &str| body_of(body) != Some(body);
        if read.front() != self.front() || has_front(body) && !has_front(self.body()) {
            return Err(Refusal::new("the specification begins with front matter of its own"));
        }
        let title = self.spec.task.title.clone();
        let branch = self.spec.task.branch.as_ref().map(ToString::to_string);
        Ok(read.titled(&title, branch.as_deref()))
    }

    /// Returns it with another status in its front matter.
    ///
    /// # Errors
    /// Returns a refusal if no line of the front matter can be set.
    pub fn with_status(&self, status: SpecStatus) -> Result<Self, Refusal> {
        let invalid = |error| Refusal::new("cannot set the status").because(error);
        let text = set_status(&self.name, &self.text, status).map_err(invalid)?;
        Self::read(&self.name, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pinfold_tasks::SpecStatus;

    use super::Document;

    fn read(text: &str) -> Document {
        Document::read(Path::new("spec.md"), text.as_bytes()).unwrap()
    }

    #[test]
    fn body_is_replaced_and_front_matter_stays() {
        let spec = read("---\nbranch: b\n---\n# Title\n");
        assert_eq!(spec.with_body("# Other\n").unwrap().text(), "---\nbranch: b\n---\n# Other\n");
        for body in ["", " \n", "a\u{1b}[2Jb"] {
            assert!(spec.with_body(body).is_err(), "{body:?}");
        }
        let bare = read("# Title\n");
        assert!(bare.with_body("---\nverify: []\n---\nx\n").is_err());
        assert!(bare.with_body("---\nno end\n").is_err());
    }

    #[test]
    fn status_is_set_on_one_line() {
        for (text, expected) in [
            ("Work\n", "---\nstatus: done\n---\nWork\n"),
            ("---\nbranch: b\n---\nWork\n", "---\nstatus: done\nbranch: b\n---\nWork\n"),
            ("---\nstatus: ready\nbase: m\n---\nW\n", "---\nstatus: done\nbase: m\n---\nW\n"),
            (
                "+++\nbase = \"m\"\n[limits]\npids = 9\n+++\nW\n",
                "+++\nstatus = \"done\"\nbase = \"m\"\n[limits]\npids = 9\n+++\nW\n",
            ),
            ("---\n---\nW\n", "---\nstatus: done\n---\nW\n"),
        ] {
            let spec = read(text).with_status(SpecStatus::Done).unwrap();
            assert_eq!(spec.text(), expected);
            assert_eq!(spec.spec().status, Some(SpecStatus::Done));
        }
        assert!(read("---\n{title: x}\n---\nW\n").with_status(SpecStatus::Done).is_err());
    }
}
