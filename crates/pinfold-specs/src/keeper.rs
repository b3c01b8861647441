//! Takes back what a sandbox made of a specification.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pinfold_host::Refusal;
use pinfold_host::directories::Places;
use pinfold_policy::path::Escaped;
use pinfold_tasks::{SpecStatus, body_of};

use crate::document::Document;
use crate::home::Home;

/// The heading of what is written down for later iterations.
const NOTES: &str = "## Notes";

/// A specification that a loop works on.
pub struct Keeper<'a> {
    home: &'a mut dyn Home,
    known: Document,
    /// Where versions are kept that have no other place.
    directory: PathBuf,
}

/// What became of a specification that came back.
#[derive(Debug, Default)]
pub struct TakenBack {
    /// What the user has to know.
    pub notices: Vec<String>,
    /// What is wrong if the agent and somebody else changed it at once. Both versions are kept.
    pub conflict: Option<String>,
}

impl<'a> Keeper<'a> {
    /// Returns a keeper of what a home holds now.
    ///
    /// # Errors
    /// Returns the refusal of reading it.
    pub fn new(home: &'a mut dyn Home, directory: &Path) -> Result<Self, Refusal> {
        let known = home.read()?;
        Ok(Self { home, known, directory: directory.to_owned() })
    }

    /// Returns the specification as it was read or written last.
    #[must_use]
    pub fn known(&self) -> &Document {
        &self.known
    }

    /// Returns where it is kept.
    #[must_use]
    pub fn home(&self) -> &dyn Home {
        &*self.home
    }

    /// Reads what somebody may have changed since. Returns whether somebody has.
    ///
    /// # Errors
    /// Returns the refusal of reading it.
    pub fn refresh(&mut self) -> Result<bool, Refusal> {
        let now = self.home.read()?;
        let is_changed = now.text() != self.known.text();
        self.known = now;
        Ok(is_changed)
    }

    /// Says at home how far the specification is.
    ///
    /// # Errors
    /// Returns the refusal of the home.
    pub fn set_status(&mut self, status: SpecStatus) -> Result<(), Refusal> {
        self.known = self.home.set_status(&self.known, status)?;
        Ok(())
    }

    /// Keeps the specification as it is now, under a name that says what it is.
    ///
    /// # Errors
    /// Returns a refusal if it cannot be written.
    pub fn keep(&self, name: &str) -> Result<PathBuf, Refusal> {
        self.save(name, self.known.text())
    }

    /// Takes back what a sandbox made of the specification: its body, if it is one. `notes` are added to it.
    ///
    /// # Errors
    /// Returns a refusal if the home cannot be read or written. What came back is kept then.
    pub fn take_back(
        &mut self,
        returned: Result<&str, &str>,
        notes: &[String],
        iteration: u32,
    ) -> Result<TakenBack, Refusal> {
        let mut taken = TakenBack::default();
        let accepted = returned.map_err(Refusal::new).and_then(|text| self.accept(text));
        let new = match accepted {
            Ok(new) => {
                if returned.is_ok_and(|text| !text.starts_with(self.known.front())) {
                    let notice = "the sandbox changed the front matter, which is ignored";
                    taken.notices.push(notice.to_owned());
                }
                new
            }
            Err(why) => {
                let notice =
                    format!("what the sandbox made of the specification is ignored: it {why}");
                taken.notices.push(notice);
                self.known.clone()
            }
        };
        let new = self.with_notes(new, notes);
        let name = format!("conflict-{iteration}.md");
        match self.put(&new) {
            Ok(true) => return Ok(taken),
            Ok(false) => {}
            Err(refusal) => return Err(self.kept_despite(&refusal, &name, &new)),
        }
        let kept = self.save(&name, new.text())?;
        taken.conflict = Some(format!(
            "{} was edited while the agent changed it, too. It stays as it is there; the agent's version is kept in {}",
            self.home.name(),
            Escaped(&kept)
        ));
        let theirs =
            self.home.read().map_err(|refusal| self.kept_despite(&refusal, &name, &new))?;
        self.known = theirs;
        Ok(taken)
    }

    /// Adds a note for later iterations.
    ///
    /// # Errors
    /// Returns the errors of [`Self::take_back`].
    pub fn note(&mut self, note: &str, iteration: u32) -> Result<TakenBack, Refusal> {
        let known = self.known.text().to_owned();
        self.take_back(Ok(&known), &[note.to_owned()], iteration)
    }

    /// Puts a new version in its place. Returns false for a conflict.
    fn put(&mut self, new: &Document) -> Result<bool, Refusal> {
        // Each turn somebody else has changed it in between.
        for _ in 0..3 {
            let now = self.home.read()?;
            let merged = if now.text() == self.known.text() {
                new.clone()
            } else if new.body() == self.known.body() {
                now.clone()
            } else if now.body() == self.known.body() {
                now.with_body(new.body())?
            } else {
                return Ok(false);
            };
            if merged.text() == now.text() || self.home.write(&now, &merged)? {
                self.known = merged;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a new version with the body of what came back.
    ///
    /// # Errors
    /// Returns what is wrong with it, in words that follow "it".
    fn accept(&self, text: &str) -> Result<Document, Refusal> {
        if text.len() > self.home.most() {
            return Err(Refusal::new(format!("has more than {} KiB", self.home.most() >> 10)));
        }
        let body = body_of(text).ok_or("has front matter that does not end")?;
        let new = self.known.with_body(body).map_err(Refusal::about("is no specification"))?;
        if new.text().len() > self.home.most() {
            Err(Refusal::new(format!("has more than {} KiB", self.home.most() >> 10)))
        } else {
            Ok(new)
        }
    }

    /// Adds notes for later iterations. A specification that has no room for them goes without.
    fn with_notes(&self, new: Document, notes: &[String]) -> Document {
        if notes.is_empty() {
            return new;
        }
        let mut body = new.body().trim_end().to_owned();
        let has_heading = body.lines().any(|line| line.trim().eq_ignore_ascii_case(NOTES));
        let is_last = has_heading && !after_notes(&body).contains("\n#");
        if !is_last {
            let _ = write!(body, "\n\n{NOTES}\n");
        }
        for note in notes {
            let _ = write!(body, "\n- {note}");
        }
        body.push('\n');
        match new.with_body(&body) {
            Ok(noted) if noted.text().len() <= self.home.most() => noted,
            _ => new,
        }
    }

    /// Returns a refusal that names where a version is kept that has no other place.
    fn kept_despite(&self, refusal: &Refusal, name: &str, new: &Document) -> Refusal {
        let hint = refusal.hint().map(str::to_owned);
        let kept = match self.save(name, new.text()) {
            Ok(kept) => format!("the agent's version is kept in {}", Escaped(&kept)),
            Err(error) => error.to_string(),
        };
        Refusal::new(format!("{refusal}; {kept}")).with_hint(hint)
    }

    fn save(&self, name: &str, text: &str) -> Result<PathBuf, Refusal> {
        let path = self.directory.join(name);
        let failed =
            |error| Refusal::new("cannot keep a version of the specification").because(error);
        Places::write_private(&path, text.as_bytes()).map_err(failed)?;
        Ok(path)
    }
}

/// Returns what follows the last heading of notes.
fn after_notes(body: &str) -> &str {
    let at = body.to_ascii_lowercase().rfind(&NOTES.to_ascii_lowercase());
    at.map_or("", |at| &body[at + NOTES.len()..])
}

#[cfg(test)]
mod tests;
