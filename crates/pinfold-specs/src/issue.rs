//! A specification in an issue on GitHub.
//!
//! Anybody can write issues and comments. The body is its author's. Comments count if they are by the author, by somebody
//! who may write to the repository, or by somebody whom the user trusts.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

use pinfold_host::Refusal;
use pinfold_tasks::{SpecStatus, TaskSpec};

use crate::document::Document;
use crate::gh::{Authorship, Gh, Viewed, ViewedComment, is_login, plain};
use crate::home::{Comment, Home};

/// The longest body of an issue, in characters of UTF-16 (GitHub's API says so when it is longer).
const LONGEST: usize = 65_536;
/// The label of an issue that is a specification.
pub(crate) const SPEC: &str = "spec";
/// What begins the labels that say how far it is.
const STATUS: &str = "status:";
/// Who a repository belongs to, and those who may be able to write to it (CommentAuthorAssociation of GitHub's API).
const OWNER: &str = "OWNER";
const MEMBERS: [&str; 2] = ["MEMBER", "COLLABORATOR"];
/// The most of the comments that an agent is given, in bytes.
const MOST_COMMENTS: usize = 24 << 10;

/// People whose words count although they may not write to the repository: logins, with commas between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedAuthors(Vec<String>);

/// Why a text is no list of logins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected logins of GitHub, with commas between them")]
pub struct LoginsError;

impl FromStr for TrustedAuthors {
    type Err = LoginsError;

    fn from_str(text: &str) -> Result<Self, LoginsError> {
        let logins = text.split(',').map(str::trim);
        let read = |login: &str| {
            if is_login(login) { Ok(login.to_owned()) } else { Err(LoginsError) }
        };
        Ok(Self(logins.map(read).collect::<Result<_, _>>()?))
    }
}

impl TrustedAuthors {
    fn have(&self, login: &str) -> bool {
        self.0.iter().any(|trusted| trusted.eq_ignore_ascii_case(login))
    }
}

/// Who says that an issue of a stranger's is to be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// The user has named it.
    ByUser,
    /// Nobody: it was found by its labels.
    ByNobody,
}

/// A specification in an issue.
pub struct IssueHome {
    gh: Gh,
    number: u64,
    trusted: TrustedAuthors,
    vouched: Vouched,
    labels: Vec<String>,
    comments: Vec<Comment>,
    /// The body as it was read or written last.
    body: Option<String>,
    /// The author's comments as they were read last.
    said: Vec<String>,
    /// Who may write to the repository, as far as it was asked.
    writers: HashMap<String, bool>,
    /// Comments that do not count.
    ignored: usize,
}

impl IssueHome {
    /// Returns an issue, which is not read yet.
    #[must_use]
    pub fn new(gh: Gh, number: u64, trusted: TrustedAuthors, vouched: Vouched) -> Self {
        let (labels, comments, said) = (Vec::new(), Vec::new(), Vec::new());
        let (body, writers) = (None, HashMap::new());
        Self { gh, number, trusted, vouched, labels, comments, body, said, writers, ignored: 0 }
    }

    /// Returns how many comments do not count.
    #[must_use]
    pub fn ignored(&self) -> usize {
        self.ignored
    }

    /// Returns whether the issue has the label of specifications.
    #[must_use]
    pub fn is_labelled(&self) -> bool {
        self.labels.iter().any(|label| label == SPEC)
    }

    /// Takes an issue as it was read.
    fn take(
        &mut self,
        viewed: Viewed,
        by: &Authorship,
        may_write: &dyn Fn(&str) -> Result<bool, Refusal>,
    ) -> Result<Document, Refusal> {
        let (number, author) = (self.number, plain(&by.user.login));
        if viewed.state != "OPEN" {
            return Err(Refusal::new(format!(
                "issue {number} is {}",
                plain(&viewed.state.to_lowercase())
            )));
        }
        let mut counts = |login: &str, association: &str| -> Result<bool, Refusal> {
            if association == OWNER || self.trusted.have(login) {
                return Ok(true);
            }
            if !MEMBERS.contains(&association) {
                return Ok(false);
            }
            if let Some(known) = self.writers.get(login) {
                return Ok(*known);
            }
            let found = may_write(login)?;
            self.writers.insert(login.to_owned(), found);
            Ok(found)
        };
        let is_trusted = counts(&by.user.login, &by.author_association)?;
        if !is_trusted && self.vouched == Vouched::ByNobody {
            let what =
                format!("issue {number} is by {author}, who may not write to the repository");
            let hint = format!("look at it and say --issue {number}, or --trust-authors {author}");
            return Err(Refusal::new(what).with_hint(hint));
        }
        let is_authors = |comment: &&ViewedComment| {
            comment.author.login.eq_ignore_ascii_case(&viewed.author.login)
        };
        let said: Vec<String> =
            viewed.comments.iter().filter(is_authors).map(|comment| comment.body.clone()).collect();
        // The user has looked at another text, and at other comments of its author.
        let is_other = |body: &String| *body != viewed.body || self.said != said;
        if self.body.as_ref().is_some_and(is_other) && !is_trusted {
            let what = format!(
                "issue {number} was edited since it was read, or its author commented on it; {author} may not write to \
                 the repository"
            );
            let hint = format!("look at it and begin again, or say --trust-authors {author}");
            return Err(Refusal::new(what).with_hint(hint));
        }
        let name = format!("issue-{number}.md");
        let read = Document::read(Path::new(&name), viewed.body.as_bytes())?;
        read.refuse_words_of_host("the issue")?;
        refuse_words_of_maintainers(&read.spec().task, is_trusted)?;
        let mut heard = Vec::new();
        for comment in &viewed.comments {
            if is_authors(&comment) || counts(&comment.author.login, &comment.author_association)? {
                heard.push(comment);
            }
        }
        (self.body, self.said) = (Some(viewed.body.clone()), said);
        self.ignored = viewed.comments.len() - heard.len();
        self.comments = recent(heard.into_iter().map(|comment| Comment {
            author: plain(&comment.author.login),
            body: readable(&comment.body),
        }));
        self.labels = viewed.labels.into_iter().map(|label| label.name).collect();
        // Ralph's `[branch] Title`.
        let title = plain(&viewed.title);
        let branch = title
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
            .filter(|_| is_trusted)
            .map(|(branch, _)| branch.to_owned());
        let title = if title.is_empty() { name } else { title };
        Ok(read.titled(&title, branch.as_deref()))
    }
}

impl Home for IssueHome {
    fn name(&self) -> String {
        format!("issue {} of {}", self.number, self.gh.repository())
    }

    fn most(&self) -> usize {
        LONGEST
    }

    fn read(&mut self) -> Result<Document, Refusal> {
        let viewed = self.gh.view(self.number)?;
        let authorship = self.gh.authorship(self.number)?;
        let gh = self.gh.clone();
        self.take(viewed, &authorship, &|login| gh.may_write(login))
    }

    fn write(&mut self, known: &Document, new: &Document) -> Result<bool, Refusal> {
        if self.read()?.text() != known.text() {
            return Ok(false);
        }
        self.gh.set_body(self.number, new.text())?;
        self.body = Some(new.text().to_owned());
        Ok(true)
    }

    fn status(&self, _: &Document) -> Option<SpecStatus> {
        self.labels.iter().find_map(|label| status_of(label))
    }

    fn set_status(&mut self, known: &Document, status: SpecStatus) -> Result<Document, Refusal> {
        let label = format!("{STATUS}{status}");
        let others = other_statuses(&self.labels, status);
        if !others.is_empty() || !self.labels.contains(&label) {
            self.gh.set_label(self.number, &label, &others)?;
            self.labels.retain(|it| status_of(it).is_none());
            self.labels.push(label);
        }
        Ok(known.clone())
    }

    fn comments(&self) -> &[Comment] {
        &self.comments
    }

    fn unmet(&self, depends: &[String]) -> Result<Vec<String>, Refusal> {
        let done = format!("{STATUS}{}", SpecStatus::Done);
        let mut unmet = Vec::new();
        for name in depends {
            let number = name.trim_start_matches('#').parse().map_err(|_| {
                Refusal::new(format!("depends: {} is no number of an issue", plain(name)))
            })?;
            let other = self.gh.view(number)?;
            if !other.labels.iter().any(|label| label.name == done) {
                unmet.push(format!("#{number}"));
            }
        }
        Ok(unmet)
    }
}

/// Returns the status that a label stands for.
fn status_of(label: &str) -> Option<SpecStatus> {
    label.strip_prefix(STATUS)?.parse().ok()
}

/// Returns the labels of other statuses. Any other label is somebody's own, and may hold a comma, at which gh
/// would divide it.
fn other_statuses(labels: &[String], status: SpecStatus) -> Vec<&str> {
    let is_other = |label: &&str| status_of(label).is_some_and(|it| it != status);
    labels.iter().map(String::as_str).filter(is_other).collect()
}

/// Refuses what only people decide who may write to the repository.
fn refuse_words_of_maintainers(task: &TaskSpec, is_trusted: bool) -> Result<(), Refusal> {
    let plain = TaskSpec::new("", "");
    let of_maintainers = [
        // The result could go to any branch.
        ("branch", task.branch.is_some()),
        ("agent", task.agent.is_some()),
        ("provider", task.provider.is_some()),
        ("model", task.model.is_some()),
        ("policy", task.policy.is_some()),
        ("limits", task.limits != plain.limits),
        ("budget", task.budget != plain.budget),
        ("verify", !task.verify.is_empty()),
        ("restore", !task.restore.is_empty()),
        ("iterations", task.iterations != plain.iterations),
        ("timeouts", task.timeouts != plain.timeouts),
        ("priority", task.priority != plain.priority),
        ("attempts", task.attempts != plain.attempts),
        ("touches", !task.touches.is_empty()),
    ];
    match of_maintainers.iter().find(|(_, is_set)| *is_set && !is_trusted) {
        None => Ok(()),
        Some((key, _)) => {
            let what =
                format!("the issue sets `{key}`, and its author may not write to the repository");
            let hint = "name the author with --trust-authors, or say it with options".to_owned();
            Err(Refusal::new(what).with_hint(hint))
        }
    }
}

/// Returns the latest comments that fit, the oldest first.
fn recent(all: impl DoubleEndedIterator<Item = Comment>) -> Vec<Comment> {
    let mut left = MOST_COMMENTS;
    let fits = |comment: &Comment| {
        let length = comment.author.len() + comment.body.len();
        let fits = length <= left;
        left = left.saturating_sub(length);
        fits
    };
    let mut recent: Vec<Comment> = all.rev().take_while(fits).collect();
    recent.reverse();
    recent
}

/// Returns text without what is not shown as it is.
fn readable(text: &str) -> String {
    let shows = |letter: &char| !letter.is_control() || matches!(letter, '\n' | '\t');
    text.chars().filter(shows).collect()
}

#[cfg(test)]
mod tests;
