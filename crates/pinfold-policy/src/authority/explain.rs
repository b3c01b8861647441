//! A decision in words, for `pinfold check`.

use std::fmt;
use std::path::Path;

use super::decide::Decision;
use super::resolve::{Place, Resolved};
use super::tree::Tree;
use super::value::Authority;
use crate::access::Access;
use crate::origin::Origin;
use crate::path::{Escaped, HostPath, InsidePath, PathError};

/// The decision in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Granted.
    Allow,
    /// Refused.
    Deny,
    /// A user decides.
    Ask,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allowed",
            Self::Deny => "denied",
            Self::Ask => "asks",
        })
    }
}

/// Why a path may or may not be used, step by step. Serialised for `--json`; `Display` is the
/// text for people, several lines without a final newline.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Explanation {
    /// Who would act.
    pub subject: String,
    /// What was asked.
    pub access: Access,
    /// The path as asked, escaped.
    pub asked: String,
    pub verdict: Verdict,
    /// Why it is refused, or the question.
    pub reason: Option<String>,
    /// What a user can do.
    pub hint: Option<String>,
    /// Links that were followed, as `link -> target`.
    pub links: Vec<String>,
    /// Where the path ends inside.
    pub inside: InsidePath,
    /// Where that is on the host.
    pub host: Option<HostPath>,
    /// Whether something is there; also true of what is hidden, which is not examined.
    pub exists: bool,
    /// The governing root, its access, and who granted it.
    pub grant: Option<GrantLine>,
    /// The restriction that holds, and who said so.
    pub restriction: Option<RestrictionLine>,
    /// What the caller adds: why a rule by name does not hold here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The governing grant, in an explanation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GrantLine {
    /// The root's id.
    pub root: String,
    /// The root's kind.
    pub kind: &'static str,
    /// What it grants.
    pub access: Access,
    /// Who granted it.
    pub source: Origin,
}

/// The restriction that holds, in an explanation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RestrictionLine {
    /// The restricted path on the host.
    pub host: HostPath,
    /// `hidden`, `read-only` or `private copy`.
    pub effect: String,
    pub reason: String,
    /// Who said so.
    pub source: Origin,
}

impl Authority {
    /// Decides an access to a path in the sandbox and says why.
    ///
    /// # Errors
    /// Returns an error when the path is relative or contains a NUL byte.
    pub fn explain(
        &self,
        tree: &dyn Tree,
        access: Access,
        path: impl AsRef<Path>,
    ) -> Result<Explanation, PathError> {
        let path = path.as_ref();
        let (resolved, decision) = self.decide_path(tree, access, path)?;
        let (verdict, reason, hint) = match &decision {
            Decision::Allow(_) => (Verdict::Allow, None, None),
            Decision::Deny(reason) => (Verdict::Deny, Some(reason.to_string()), reason.hint()),
            Decision::Ask { prompt, .. } => (Verdict::Ask, Some(prompt.clone()), None),
        };
        let links = |hop: &super::resolve::Hop| format!("{} -> {}", hop.link, Escaped(&hop.target));
        let (inside, host, exists) = end_of(&resolved);
        Ok(Explanation {
            subject: self.subject.to_string(),
            access,
            asked: Escaped(path).to_string(),
            verdict,
            reason,
            hint,
            links: resolved.hops().iter().map(links).collect(),
            grant: self.grant_line(&inside),
            restriction: host.as_ref().and_then(|host| self.restriction_line(host)),
            inside,
            host,
            exists,
            note: None,
        })
    }

    fn grant_line(&self, inside: &InsidePath) -> Option<GrantLine> {
        self.governing(inside).map(|grant| GrantLine {
            root: grant.root.id.to_string(),
            kind: grant.root.kind.word(),
            access: grant.access,
            source: grant.source.clone(),
        })
    }

    fn restriction_line(&self, host: &HostPath) -> Option<RestrictionLine> {
        self.restriction_of(host).map(|found| RestrictionLine {
            host: found.host.clone(),
            effect: found.effect.to_string(),
            reason: found.reason.to_string(),
            source: found.source.clone(),
        })
    }
}

/// Returns where a walk ended inside and on the host, and whether something is or may be there.
fn end_of(resolved: &Resolved) -> (InsidePath, Option<HostPath>, bool) {
    match resolved.place() {
        Place::Granted(located) => {
            (located.inside.clone(), Some(located.host.clone()), located.entry.is_some())
        }
        Place::Synthetic(inside) => (inside.clone(), None, true),
        Place::Hidden { inside, host } => (inside.clone(), Some(host.clone()), true),
        Place::Absent(inside) | Place::Blocked { at: inside, .. } => (inside.clone(), None, false),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {} for {}", self.access, self.asked, self.verdict, self.subject)?;
        if let Some(reason) = &self.reason {
            write!(f, "\n  because   {reason}")?;
        }
        for link in &self.links {
            write!(f, "\n  link      {link}")?;
        }
        write!(f, "\n  inside    {}", self.inside)?;
        if let Some(host) = &self.host {
            let note = if self.exists { "" } else { " (not there yet)" };
            write!(f, "\n  host      {host}{note}")?;
        }
        if let Some(GrantLine { root, kind, access, source }) = &self.grant {
            write!(f, "\n  grant     root {root} ({kind}): {access}; by {source}")?;
        }
        if let Some(RestrictionLine { host, effect, reason, source }) = &self.restriction {
            write!(f, "\n  restrict  {host} is {effect}: {reason}; by {source}")?;
        }
        if let Some(note) = &self.note {
            write!(f, "\n  note      {note}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint      {hint}")?;
        }
        Ok(())
    }
}
