//! The authority's value, and what boundaries read from it.

use std::collections::{BTreeSet, HashSet};

use super::build::AuthorityBuilder;
use super::grant::{Effect, Grant, Restriction, Root, RootId};
use super::subject::{RootKind, Subject};
use crate::access::Access;
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

/// A grant mounted over a place that another grant shows.
pub(super) struct MountPoint<'a> {
    /// What lies beneath it on the host.
    pub(super) host: HostPath,
    pub(super) grant: &'a Grant,
    over: &'a Grant,
}

impl Authority {
    /// Starts an authority that grants nothing.
    #[must_use]
    pub fn builder(subject: Subject) -> AuthorityBuilder {
        AuthorityBuilder::new(subject)
    }

    /// Returns whose authority this is.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns the grants, parents first by inside path.
    pub fn grants(&self) -> impl ExactSizeIterator<Item = &Grant> {
        self.grants.iter()
    }

    /// Returns where on the host the sandbox may change something, be it after a question. What is changed in its system lands
    /// elsewhere.
    pub fn writable(&self) -> impl Iterator<Item = &HostPath> {
        let changes = |grant: &&Grant| {
            grant.root.kind != RootKind::System
                && grant.access.union(grant.ask).intersects(Access::CHANGING)
        };
        self.grants.iter().filter(changes).map(|grant| &grant.root.host)
    }

    /// Returns the grant of a root by its id.
    #[must_use]
    pub fn grant(&self, id: &RootId) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.root.id == *id)
    }

    /// Returns the restrictions, outer first by host path.
    pub fn restrictions(&self) -> impl ExactSizeIterator<Item = &Restriction> {
        self.restrictions.iter()
    }

    /// Returns the grant that governs a path in the sandbox: the longest prefix by component.
    #[must_use]
    pub fn governing(&self, inside: &InsidePath) -> Option<&Grant> {
        self.governing_index(inside).and_then(|index| self.grants.get(index))
    }

    pub(super) fn governing_index(&self, inside: &InsidePath) -> Option<usize> {
        self.grants.iter().rposition(|grant| inside.starts_with(&grant.root.inside))
    }

    /// Returns each restriction at each place inside where it can be reached, outer first. What lies in
    /// something hidden cannot be reached.
    #[must_use]
    pub fn placements(&self) -> Vec<Placement<'_>> {
        let mut placements = Vec::with_capacity(self.restrictions.len());
        let hidden: HashSet<_> = self
            .restrictions
            .iter()
            .filter(|found| found.effect == Effect::Hide)
            .map(|found| &found.host)
            .collect();
        for restriction in &self.restrictions {
            if restriction.host.ancestors().skip(1).any(|above| hidden.contains(&above)) {
                continue;
            }
            for (index, grant) in self.grants.iter().enumerate() {
                let Some(inside) = grant.inside_of(&restriction.host) else { continue };
                if self.governing_index(&inside) == Some(index) {
                    placements.push(Placement { inside, grant, restriction });
                }
            }
        }
        placements
    }

    /// Returns the directories between a writable root and what must stay in its place in it: what is
    /// read-only or private, and grants of less access. Parents come first. A boundary makes each a
    /// mount of itself, which rename(2) refuses with `EBUSY`. Most hidden paths need none, since a mask
    /// moves with its directory. Pinfold's own do, because it would read what is made in their place,
    /// and so do those that could be moved to where another grant shows them.
    #[must_use]
    pub fn pins(&self) -> Vec<Pin> {
        let kept: Vec<HostPath> = self.kept().collect();
        let mut pins = BTreeSet::new();
        for (index, grant) in self.grants.iter().enumerate() {
            if !grant.access.union(grant.ask).intersects(Access::CHANGING) {
                continue;
            }
            let within =
                |host: &HostPath| *host != grant.root.host && host.starts_with(&grant.root.host);
            let mut seen = HashSet::new();
            for host in &kept {
                for above in host.ancestors().skip(1).take_while(within) {
                    if !seen.insert(above.clone()) {
                        // So were those above it.
                        break;
                    }
                    let Some(inside) = grant.inside_of(&above) else { continue };
                    if self.governing_index(&inside) == Some(index) {
                        pins.insert(Pin { inside, host: above });
                    }
                }
            }
        }
        pins.into_iter().collect()
    }

    /// Returns the host paths that must keep their names wherever the sandbox could change them.
    fn kept(&self) -> impl Iterator<Item = HostPath> + '_ {
        let stays = |found: &&Restriction| {
            found.effect != Effect::Hide
                || found.reason.why.keeps_the_name()
                || self.can_be_moved_into_view(&found.host)
        };
        let restricted = self.restrictions.iter().filter(stays);
        let narrower = self.mount_points().filter(|point| {
            let allows = |grant: &Grant| grant.access.union(grant.ask) & Access::CHANGING;
            !allows(point.grant).contains(allows(point.over))
        });
        restricted.map(|found| found.host.clone()).chain(narrower.map(|point| point.host))
    }

    /// Returns whether the directory of a hidden path could be moved to where another grant shows it. A
    /// mask belongs to one mount, so it would not be there.
    fn can_be_moved_into_view(&self, hidden: &HostPath) -> bool {
        let outer = self.grants.iter().filter(|outer| hidden.starts_with(&outer.root.host));
        let shows = |outer: &Grant, Root { host, inside, .. }: &Root| {
            let is_elsewhere = || outer.inside_of(host).as_ref() != Some(inside);
            host.starts_with(&outer.root.host) && !hidden.starts_with(host) && is_elsewhere()
        };
        { outer }.any(|outer| self.grants.iter().any(|grant| shows(outer, &grant.root)))
    }

    /// Returns where grants lie within other grants.
    pub(super) fn mount_points(&self) -> impl Iterator<Item = MountPoint<'_>> {
        self.grants.iter().filter_map(|grant| {
            let over = self.governing(&grant.root.inside.parent()?)?;
            Some(MountPoint { host: over.host_of(&grant.root.inside)?, grant, over })
        })
    }

    /// Returns what holds a name in its place, if anything does: it is a mount (rename(2), unlink(2):
    /// `EBUSY`, also through another mount of the same directory), or it leads to what must stay.
    pub(super) fn holds(&self, inside: &InsidePath, host: &HostPath) -> Option<HostPath> {
        let is_root = self.grants.iter().find(|grant| grant.root.inside == *inside);
        if let Some(grant) = is_root {
            return Some(grant.root.host.clone());
        }
        if let Some(point) = self.mount_points().find(|point| point.host == *host) {
            return Some(point.grant.root.host.clone());
        }
        if self.restrictions.iter().any(|found| found.host == *host) {
            return Some(host.clone());
        }
        self.kept().find(|kept| kept.starts_with(host))
    }

    /// Returns the restriction that holds for a host path: a hiding one if there is any above or at it,
    /// otherwise the innermost.
    #[must_use]
    pub fn restriction_of(&self, host: &HostPath) -> Option<&Restriction> {
        let covers = |restriction: &&Restriction| host.starts_with(&restriction.host);
        let covering = || self.restrictions.iter().filter(covers);
        covering().find(|found| found.effect == Effect::Hide).or_else(|| covering().next_back())
    }
}
