//! GitHub by the host's own `gh`, with its user's login.
//!
//! No word goes through a shell, and gh stands in `/`, so no repository's settings speak to it. What it says was written
//! by strangers: its length and the time that it takes are bounded.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pinfold_host::Refusal;
use pinfold_host::launcher::{Bounds, HostProgram, Launcher};
use pinfold_policy::network::Repository;
use pinfold_policy::path::is_plain;
use serde::Deserialize;

/// How long gh may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most that it may say, in bytes: an issue with some hundred long comments.
const MOST: usize = 16 << 20;
/// Variables of the user's that gh finds its login, its authorities and its proxy by (gh-help-environment(7)).
const KEPT: [&str; 9] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_CONFIG_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
];
/// Variables that keep gh from asking, and from starting other programs.
const CLOSED: [(&str, &str); 5] = [
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("GH_PAGER", "cat"),
    ("GH_BROWSER", "false"),
    ("NO_COLOR", "1"),
];
/// What an issue is asked for.
const FIELDS: &str = "number,title,body,author,labels,state,updatedAt,url,comments";

/// gh, for one repository on GitHub.
#[derive(Debug, Clone)]
pub struct Gh {
    program: HostProgram,
    /// `OWNER/NAME`.
    repository: String,
}

/// An issue as `gh issue view` shows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Viewed {
    pub(crate) number: u64,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) author: Author,
    pub(crate) labels: Vec<Label>,
    pub(crate) state: String,
    pub(crate) url: String,
    pub(crate) comments: Vec<ViewedComment>,
}

/// Who wrote something.
#[derive(Debug, Deserialize)]
pub(crate) struct Author {
    pub(crate) login: String,
}

/// A label.
#[derive(Debug, Deserialize)]
pub(crate) struct Label {
    pub(crate) name: String,
}

/// A comment.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ViewedComment {
    pub(crate) author: Author,
    pub(crate) author_association: String,
    pub(crate) body: String,
}

/// Who wrote an issue. `gh issue view` does not show the association, and calls applications by other names.
#[derive(Debug, Deserialize)]
pub(crate) struct Authorship {
    pub(crate) author_association: String,
    pub(crate) user: Author,
}

/// What somebody may do with the repository.
#[derive(Debug, Deserialize)]
struct Permission {
    permission: String,
}

/// An issue in a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listed {
    pub number: u64,
}

impl Gh {
    /// Finds gh, outside of these directories, for the repository that is at the URL of `origin`.
    ///
    /// # Errors
    /// Returns a refusal if there is no gh, or if the repository is not on GitHub.
    pub fn find(origin: &str, not_in: &[PathBuf], launcher: &Launcher) -> Result<Self, Refusal> {
        let repository = Repository::of_url(origin).ok_or_else(|| {
            Refusal::new("origin is no repository on github.com")
                .with_hint("issues are read from there with gh".to_owned())
        })?;
        let program = launcher.find("gh", not_in).map_err(|missing| {
            Refusal::new("no gh can be used").because(missing).with_hint(
                "install it (cli.github.com), and log in with `gh auth login`".to_owned(),
            )
        })?;
        Ok(Self { program, repository: repository.full_name() })
    }

    /// Returns gh for a repository, without a look at the host.
    #[cfg(test)]
    pub(crate) fn at(repository: &str, program: HostProgram) -> Self {
        Self { program, repository: repository.to_owned() }
    }

    /// Returns the repository as `OWNER/NAME`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Reads an issue.
    ///
    /// # Errors
    /// Returns a refusal if gh fails, or for an issue of another repository.
    pub(crate) fn view(&self, number: u64) -> Result<Viewed, Refusal> {
        let given = number.to_string();
        let said = self.issue(&["view", &given, "--json", FIELDS], None)?;
        let viewed: Viewed = self.understood(&said)?;
        // An issue can be moved, and a repository renamed: gh follows.
        let expected = format!("https://github.com/{}/issues/{number}", self.repository());
        if viewed.number != number || !viewed.url.eq_ignore_ascii_case(&expected) {
            let url = plain(&viewed.url);
            return Err(Refusal::new(format!(
                "issue {number} of {} is at {url}",
                self.repository()
            )));
        }
        Ok(viewed)
    }

    /// Returns who the author of an issue is, and what that is to the repository (`author_association` of GitHub's REST
    /// API).
    ///
    /// # Errors
    /// Returns a refusal if gh fails.
    pub(crate) fn authorship(&self, number: u64) -> Result<Authorship, Refusal> {
        let path = format!("repos/{}/issues/{number}", self.repository());
        let said = self.run(&["api", "--hostname", "github.com", &path], None)?;
        self.understood(&said)
    }

    /// Returns whether somebody may write to the repository. A member of an organization, or a collaborator, may be one who
    /// only reads. GitHub counts the role `maintain` as `write`, and `triage` as `read`.
    ///
    /// # Errors
    /// Returns a refusal if gh fails.
    pub(crate) fn may_write(&self, login: &str) -> Result<bool, Refusal> {
        // What is no login is an application's name.
        if !is_login(login) {
            return Ok(false);
        }
        let path = format!("repos/{}/collaborators/{login}/permission", self.repository());
        match self.run(&["api", "--hostname", "github.com", &path], None) {
            Ok(said) => {
                let Permission { permission } = self.understood(&said)?;
                Ok(["admin", "write"].contains(&permission.as_str()))
            }
            // Nobody that it knows, or the user may not ask.
            Err(refusal) => {
                let said = refusal.to_string();
                let is_no = ["(HTTP 404)", "(HTTP 403)"].iter().any(|status| said.contains(status));
                if is_no { Ok(false) } else { Err(refusal) }
            }
        }
    }

    /// Returns the open issues that have all of these labels, the oldest first.
    ///
    /// # Errors
    /// Returns a refusal if gh fails.
    pub fn list(&self, labels: &[&str]) -> Result<Vec<Listed>, Refusal> {
        let mut arguments = vec!["list", "--state", "open", "--limit", "200", "--json", "number"];
        labels.iter().for_each(|label| arguments.extend(["--label", label]));
        let mut listed: Vec<Listed> = self.understood(&self.issue(&arguments, None)?)?;
        listed.sort_by_key(|issue| issue.number);
        Ok(listed)
    }

    /// Gives an issue another body.
    ///
    /// # Errors
    /// Returns a refusal if gh fails.
    pub(crate) fn set_body(&self, number: u64, body: &str) -> Result<(), Refusal> {
        let number = number.to_string();
        self.issue(&["edit", &number, "--body-file", "-"], Some(body.as_bytes())).map(drop)
    }

    /// Adds a label to an issue and removes others. A label that the repository does not have is made.
    ///
    /// # Errors
    /// Returns a refusal if gh fails.
    pub(crate) fn set_label(&self, number: u64, add: &str, remove: &[&str]) -> Result<(), Refusal> {
        let number = number.to_string();
        let mut arguments = vec!["edit", number.as_str(), "--add-label", add];
        remove.iter().for_each(|label| arguments.extend(["--remove-label", label]));
        let Err(refusal) = self.issue(&arguments, None) else { return Ok(()) };
        if !refusal.to_string().contains("not found") {
            return Err(refusal);
        }
        let repository = self.place();
        self.run(&["label", "create", add, "--repo", &repository], None).map_err(|_| refusal)?;
        self.issue(&arguments, None).map(drop)
    }

    fn place(&self) -> String {
        format!("github.com/{}", self.repository())
    }

    fn issue(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, Refusal> {
        let place = self.place();
        let all: Vec<&str> =
            ["issue"].iter().chain(arguments).chain(&["--repo", place.as_str()]).copied().collect();
        self.run(&all, input)
    }

    fn run(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, Refusal> {
        let command: Vec<&str> = arguments.iter().take(2).copied().collect();
        let failed = || Refusal::new(format!("gh {} failed", command.join(" ")));
        let mut argv = vec![OsString::from(self.program.path())];
        argv.extend(arguments.iter().map(OsString::from));
        let bounds = Bounds { patience: PATIENCE, most: MOST };
        let launcher = self.program.launcher();
        let output = launcher
            .run_bounded(argv, &CLOSED, &KEPT, input, bounds)
            .map_err(|error| failed().because(error))?;
        if output.code == Some(0) {
            return Ok(output.stdout.to_vec());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        let hint = said.contains("auth login").then(|| "log in with `gh auth login`".to_owned());
        Err(failed().because(plain(said)).with_hint(hint))
    }

    fn understood<T: for<'de> Deserialize<'de>>(&self, said: &[u8]) -> Result<T, Refusal> {
        let wrong = |error| Refusal::new("gh said something else than expected").because(error);
        serde_json::from_slice(said).map_err(|error: serde_json::Error| wrong(error.to_string()))
    }
}

/// Returns whether a text can be the login of a user of GitHub.
pub(crate) fn is_login(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns text of others on one line that drives no terminal.
pub(crate) fn plain(text: &str) -> String {
    let plain = text.chars().map(|letter| if is_plain(letter) { letter } else { ' ' });
    plain.take(300).collect::<String>().trim().to_owned()
}
