//! The authority's value, and what boundaries read from it.

use std::collections::BTreeSet;

use super::build::AuthorityBuilder;
use super::grant::{Effect, Grant, Restriction, RootId};
use super::subject::Subject;
use crate::path::{HostPath, InsidePath};

/// What one subject may do, everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    pub(super) subject: Subject,
    /// Parents first, so that mounts can be made in this order.
    pub(super) grants: Vec<Grant>,
    /// Outer first.
    pub(super) restrictions: Vec<Restriction>,
}

/// Where a restriction appears inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement<'a> {
    /// The path inside.
    pub inside: InsidePath,
    /// The grant through which it appears.
    pub grant: &'a Grant,
    /// The restriction.
    pub restriction: &'a Restriction,
}

/// A directory that may not be moved, because a program on the host finds something protected
/// through it: were it moved, another could be put in its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pin {
    /// The path inside.
    pub inside: InsidePath,
    /// The same directory on the host.
    pub host: HostPath,
}

impl Authority {
    /// Starts an authority that grants nothing.
    #[must_use]
    pub fn builder(subject: Subject) -> AuthorityBuilder {
        AuthorityBuilder::new(subject)
    }

    /// Whose authority this is.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The grants, parents first by inside path.
    pub fn grants(&self) -> impl ExactSizeIterator<Item = &Grant> {
        self.grants.iter()
    }

    /// The grant of a root by its id.
    #[must_use]
    pub fn grant(&self, id: &RootId) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.root.id == *id)
    }

    /// The restrictions, outer first by host path.
    pub fn restrictions(&self) -> impl ExactSizeIterator<Item = &Restriction> {
        self.restrictions.iter()
    }

    /// The grant that governs an inside path: the longest prefix by component.
    #[must_use]
    pub fn governing(&self, inside: &InsidePath) -> Option<&Grant> {
        self.governing_index(inside).and_then(|index| self.grants.get(index))
    }

    pub(super) fn governing_index(&self, inside: &InsidePath) -> Option<usize> {
        self.grants.iter().rposition(|grant| inside.starts_with(&grant.root.inside))
    }

    /// Each restriction at each place inside where it can be reached, outer first.
    #[must_use]
    pub fn placements(&self) -> Vec<Placement<'_>> {
        let mut placements = Vec::with_capacity(self.restrictions.len());
        for restriction in &self.restrictions {
            for (index, grant) in self.grants.iter().enumerate() {
                let Some(inside) = grant.inside_of(&restriction.host) else { continue };
                if self.governing_index(&inside) == Some(index) {
                    placements.push(Placement { inside, grant, restriction });
                }
            }
        }
        placements
    }

    /// The directories between a granted root and what is read-only or private in it, parents
    /// first. A boundary makes each a mount of itself, which rename(2) refuses with `EBUSY`;
    /// hidden paths need none, since a mask moves with its directory.
    #[must_use]
    pub fn pins(&self) -> Vec<Pin> {
        let mut pins = BTreeSet::new();
        for Placement { inside, grant, restriction } in self.placements() {
            if restriction.effect == Effect::Hide {
                continue;
            }
            for ancestor in inside.ancestors().skip(1) {
                if ancestor == grant.root.inside || !ancestor.starts_with(&grant.root.inside) {
                    break;
                }
                if let Some(host) = grant.host_of(&ancestor) {
                    pins.insert(Pin { inside: ancestor, host });
                }
            }
        }
        pins.into_iter().collect()
    }

    /// The restriction that holds for a host path: a hiding one if there is any above or at it,
    /// otherwise the innermost.
    #[must_use]
    pub fn restriction_of(&self, host: &HostPath) -> Option<&Restriction> {
        let covers = |restriction: &&Restriction| host.starts_with(&restriction.host);
        let covering = || self.restrictions.iter().filter(covers);
        covering().find(|found| found.effect == Effect::Hide).or_else(|| covering().next_back())
    }
}
